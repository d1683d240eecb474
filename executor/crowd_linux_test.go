package executor

import (
	"testing"

	"github.com/carillon-run/carillon"
)

// The programs stop at several hundred processes, so that a supervisor that does not limit them fails the
// test and not the machine.
func TestACommandWithTooManyProcessesIsKilledWithAllOfThem(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"all of them its children": `i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); done; wait`,
		"each in a session of its own": `i=0; while [ $i -lt 400 ]; do setsid sleep 60 & i=$((i+1)); done; ` +
			`wait`,
		"each the child of another": `f() { if [ $1 -gt 0 ]; then f $(($1-1)) & fi; sleep 60; }; f 200`,
		"orphans, and ignores what it is asked": `trap '' TERM; i=0; ` +
			`while [ $i -lt 400 ]; do (sleep 60 &); i=$((i+1)); done; sleep 60`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life := newLifeline(t)
			task, _ := newTask(shell(holdOn + script))
			task.Job.Target.Command.Env = life.env()
			same(t, run(t, CommandConfig{MaxProcesses: 100}, task), carillon.Outcome{
				Kind:   carillon.OutcomeRetriable,
				Reason: "more than 100 processes at once: all of them were killed",
			})
			life.gone(t)
		})
	}
}

func TestACommandWithFewProcessesIsLeftAlone(t *testing.T) {
	t.Parallel()
	const script = `i=0; while [ $i -lt 40 ]; do sleep 1.5 & i=$((i+1)); done; wait` // is counted at least once
	for name, most := range map[string]int{"below its limit": 100, "without a limit": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task, _ := newTask(shell(script))
			same(t, run(t, CommandConfig{MaxProcesses: most}, task),
				carillon.Outcome{Kind: carillon.OutcomeSuccess})
		})
	}
}
