package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-run/carillon"
)

// trees are commands that try everything to survive. holds is how many of their processes hold the lifeline.
var trees = []struct {
	name, script string
	holds        int
}{
	{"a plain process", holdOn + `exec sleep 1000`, 1},
	{"children", holdOn + `sleep 1000 & sleep 1000 & sleep 1000`, 1},
	{
		"one that ignores every signal it can",
		`trap '' TERM INT HUP QUIT USR1; ` + holdOn + `sleep 1000; sleep 1000`, 1,
	},
	{
		"a daemon: forked twice, in a session of its own",
		holdOn + `(setsid sh -c '` + holdOn +
			`trap "" TERM HUP; cd /; sleep 1000' </dev/null >/dev/null 2>&1 &) ; sleep 1000`, 2,
	},
	{
		"a daemon whose parent has ended",
		`(setsid sh -c '` + holdOn + `sleep 1000' </dev/null >/dev/null 2>&1 &) ; ` + holdOn + `sleep 1000`,
		2,
	},
	{
		"sessions inside sessions",
		holdOn + `setsid sh -c '` + holdOn +
			`setsid sh -c "exec 9>\"\$LIFELINE\"; echo ready >&9; sleep 1000" & sleep 1000' & sleep 1000`, 3,
	},
	{"a stopped process", holdOn + `sh -c 'echo ready >&9; kill -STOP $$; sleep 1000' & sleep 1000`, 2},
	{
		"some that fork all the time",
		holdOn + `i=0; while [ $i -lt 5 ]; do (while :; do (:) ; done) & i=$((i+1)); done; sleep 1000`, 1,
	},
	{
		"one that runs away: each fork leaves its session and its parent",
		holdOn +
			`f() { setsid sh -c "$1" sh "$1" </dev/null & }; f 'setsid sh -c "$1" sh "$1" &'; sleep 1000`, 1,
	},
}

func TestATreeDoesNotOutliveItsWorker(t *testing.T) {
	t.Parallel()
	for _, c := range trees {
		t.Run("killed: "+c.name, func(t *testing.T) {
			t.Parallel()
			life, w := newLifeline(t), worker{
				Shell: c.script, Temp: t.TempDir(), Leash: t.TempDir() + "/leash",
			}
			w.Env = life.env()
			cmd, _ := w.start(t)
			life.ready(t, c.holds)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			life.gone(t)
			holdLeashOf(t, w.Leash) // the supervisor has gone too, and has tidied up
			if left, _ := os.ReadDir(w.Temp); len(left) > 0 {
				t.Errorf("left in the temporary directory: %v", left)
			}
		})
	}
}

func TestATreeDoesNotOutliveTheLeaseOfAFrozenWorker(t *testing.T) {
	t.Parallel()
	for _, c := range trees[2:5] { // the same code kills them all
		t.Run("frozen: "+c.name, func(t *testing.T) {
			t.Parallel()
			life, w := newLifeline(t), worker{
				Shell: c.script, Temp: t.TempDir(), Leash: t.TempDir() + "/leash", Lease: 2 * time.Second,
			}
			w.Env = life.env()
			cmd, out := w.start(t)
			life.ready(t, c.holds)
			if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			frozen := Boottime()
			life.gone(t)
			// A busy machine can be late, but not as late as the grace would make it: a lease that is over
			// has no grace.
			if took := Boottime() - frozen; took > w.Lease+4*time.Second {
				t.Errorf("the tree was there %s after the freeze, its lease was %s", took, w.Lease)
			}
			_ = cmd.Process.Signal(unix.SIGCONT)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if got, want := out.String(), fmt.Sprintf(
				"%d %s\n", carillon.OutcomeLost, ErrLeaseOver,
			); got != want {
				t.Errorf("the worker says %q, want %q", got, want)
			}
		})
	}
}

func TestATreeThatIsStopped(t *testing.T) {
	t.Parallel()
	const polite = `trap 'echo bye; exit 0' TERM; ` + holdOn + `echo started; while :; do sleep 0.01; done`
	const inner = `sh -c 'trap "sleep 0.1; echo bye; exit 0" TERM; ` + holdOn +
		`echo started; while :; do sleep 0.01; done'; true`
	const deaf = `trap '' TERM; ` + holdOn + `echo started; while :; do sleep 1000; done`
	const daemon = `(setsid sh -c 'trap "" TERM; ` + holdOn + `sleep 1000' &); ` + holdOn +
		`echo started; sleep 1000`
	for _, c := range []struct {
		name, script string
		holds        int
		cause        error
		grace        time.Duration
		want         carillon.Outcome
		output       string
	}{
		{
			"by a person, and obeys", polite, 1, fmt.Errorf("%w by ann", ErrStopped), time.Hour,
			carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: "stopped on request by ann"},
			"stdout: started\nstdout: bye",
		},
		{
			"by a person, with a shell that ends at once and a program that uses its grace", inner, 1,
			ErrStopped, time.Hour,
			carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: "stopped on request"},
			"stdout: started\nstdout: bye",
		},
		{
			"by a person, and does not listen", deaf, 1, ErrStopped, 100 * time.Millisecond,
			carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: "stopped on request"},
			"stdout: started",
		},
		{
			"by its timeout, and obeys", polite, 1, ErrTimeout, time.Hour, retriable("timed out after 5s"),
			"stdout: started\nstdout: bye",
		},
		{
			"by its timeout, with a daemon that does not listen", daemon, 2, ErrTimeout, time.Hour,
			retriable("timed out after 5s"), "stdout: started",
		},
		{
			"by a deadline of the context", deaf, 1, context.DeadlineExceeded, time.Millisecond,
			retriable("context deadline exceeded"), "stdout: started",
		},
		{
			"by a shutdown", polite, 1, ErrShutdown, time.Hour,
			carillon.Outcome{Kind: carillon.OutcomeLost, Reason: ErrShutdown.Error()},
			"stdout: started\nstdout: bye",
		},
		{
			"by the end of the lease, which has no grace", deaf, 1, ErrLeaseOver, time.Hour,
			carillon.Outcome{Kind: carillon.OutcomeLost, Reason: ErrLeaseOver.Error()},
			"stdout: started",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			life := newLifeline(t)
			task, r := newTask(carillon.Target{Command: &carillon.Command{Shell: c.script, Env: life.env()}})
			task.Job.Timeout = carillon.Duration(5 * time.Second)
			ctx, cancel := context.WithCancelCause(context.Background())
			done := make(chan carillon.Outcome, 1)
			go func() {
				done <- NewCommand(CommandConfig{Grace: c.grace, TempDir: t.TempDir()}).Execute(ctx, task)
			}()
			life.ready(t, c.holds)
			r.until(t, "stdout: started")
			cancel(c.cause)
			same(t, within(t, func() carillon.Outcome { return <-done }), c.want)
			life.write.Close()
			if n, err := life.read.Read(make([]byte, 1)); n > 0 || err == nil || err.Error() != "EOF" {
				t.Errorf("something of the tree was left when Execute returned: %v", err)
			}
			// The shell prints this line.
			r.lines = slices.DeleteFunc(r.lines, func(line string) bool {
				return line == "stderr: Terminated"
			})
			if r.output() != c.output {
				t.Error(r.output())
			}
		})
	}
}

func TestAnAttemptThatMustNotBeginDoesNot(t *testing.T) {
	t.Parallel()
	task, r := newTask(shell("echo started"))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrShutdown)
	same(t, NewCommand(CommandConfig{}).Execute(ctx, task), carillon.Outcome{
		Kind: carillon.OutcomeLost, Reason: ErrShutdown.Error(),
	})
	task.Lease = &Lease{} // over
	same(t, run(t, CommandConfig{}, task), carillon.Outcome{
		Kind: carillon.OutcomeLost, Reason: ErrLeaseOver.Error(),
	})
	if r.output() != "" {
		t.Error(r.output())
	}
}

func TestASupervisorWhoseWorkerDiedFirstStartsNothingAndTidiesUp(t *testing.T) {
	t.Parallel()
	task, _ := newTask(shell("touch " + t.TempDir() + "/started"))
	parent := t.TempDir()
	s, err := newScratch(parent, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	spec, err := NewCommand(CommandConfig{}).spec(task, s)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = ours.Write(frame(frameSpec, spec.encode()))
	ours.Close() // as the kernel does for a worker that dies
	a := &attempt{}
	if err := a.launch([]*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}, task); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	_, _ = a.process.Wait()
	started, _ := os.ReadDir(filepath.Dir(strings.TrimPrefix(task.Job.Target.Command.Shell, "touch ")))
	if left, _ := os.ReadDir(parent); len(left) > 0 || len(started) > 0 {
		t.Errorf("left: %v, started: %v", left, started)
	}
}

func TestWhatACommandLeavesBehindIsKilledWhenItEnds(t *testing.T) {
	t.Parallel()
	life := newLifeline(t)
	// The command ends only after its daemon is there: the daemon writes to a second pipe that the command
	// reads.
	task, _ := newTask(shell(
		`setsid sh -c 'trap "" TERM; ` + holdOn +
			`echo >"$LIFELINE.2"; sleep 1000' & read x <"$LIFELINE.2"; exit 3`,
	))
	if err := unix.Mkfifo(life.path+".2", 0o600); err != nil {
		t.Fatal(err)
	}
	task.Job.Target.Command.Env = life.env()
	same(t, run(t, CommandConfig{}, task), exitCode(retriable, 3))
	life.write.Close()
	buf := make([]byte, 100)
	if n, _ := life.read.Read(buf); string(buf[:n]) != "ready\n" {
		t.Errorf("the daemon said %q", buf[:n])
	}
	if _, err := life.read.Read(buf); err == nil || err.Error() != "EOF" {
		t.Errorf("the daemon was left: %v", err)
	}
}

func TestWhenTheSupervisorItselfIsKilledNothingIsLeft(t *testing.T) {
	t.Parallel()
	life := newLifeline(t)
	task, r := newTask(shell(
		`setsid sh -c '` + holdOn + `sleep 1000' & ` + holdOn + `echo $PPID; sleep 1000`,
	))
	task.Run.ID.Due++ // strays are found by run and attempt: no other test may have these
	task.Job.Target.Command.Env = life.env()
	done := make(chan carillon.Outcome, 1)
	go func() {
		done <- NewCommand(CommandConfig{TempDir: t.TempDir()}).Execute(context.Background(), task)
	}()
	life.ready(t, 2)
	supervisor, err := strconv.Atoi(strings.TrimPrefix(<-r.said, "stdout: "))
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(supervisor, unix.SIGKILL)
	same(
		t, within(t, func() carillon.Outcome { return <-done }),
		retriable("the command's supervisor died: signal: killed"),
	)
	life.gone(t)
}

func TestASupervisorDoesNotHeedSignalsMeantForAll(t *testing.T) {
	t.Parallel()
	task, r := newTask(shell(
		`kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; trap; grep SigIgn /proc/self/status`,
	))
	same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
	var ignored uint64
	if _, err := fmt.Sscanf(r.output(), "stdout: SigIgn:\t%x", &ignored); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTERM} {
		if ignored&(1<<(sig-1)) != 0 { // the process that runs this test may ignore others
			t.Errorf("the command ignores %s", sig)
		}
	}
}

func TestACommandThatIsSignaledWithItsWholeServiceIsLost(t *testing.T) {
	t.Parallel()
	lost := carillon.Outcome{
		Kind:   carillon.OutcomeLost,
		Reason: "the worker was shutting down: the command was sent a signal with it",
	}
	for script, want := range map[string]carillon.Outcome{
		`kill -TERM $PPID; kill -TERM $$`: lost,
		// What the command left behind is killed first.
		`(sleep 0.05; kill -TERM $PPID) & kill -TERM $$`:   retriable("killed by signal: terminated"),
		`trap 'exit 7' INT; kill -INT $PPID; kill -INT $$`: lost,
		`kill -TERM $PPID; exit 0`:                         {Kind: carillon.OutcomeSuccess},
		`kill -TERM $$`:                                    retriable("killed by signal: terminated"),
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			task, _ := newTask(shell(script))
			same(t, run(t, CommandConfig{}, task), want)
		})
	}
}

func TestTheNextWorkerFindsWhatIsLeftWhenSupervisorsAreKilledToo(t *testing.T) {
	t.Parallel()
	life := newLifeline(t)
	w := worker{
		Shell: `setsid sh -c '` + holdOn + `sleep 1000' & echo $PPID >"$LIFELINE"; sleep 1000`,
		Env:   life.env(), Temp: t.TempDir(), Leash: t.TempDir() + "/leash",
	}
	cmd, _ := w.start(t)
	said := life.ready(t, 1)
	for !regexp.MustCompile(`(?m)^\d+$`).MatchString(said) {
		said += life.ready(t, 0)
	}
	supervisor, _ := strconv.Atoi(regexp.MustCompile(`(?m)^\d+$`).FindString(said))
	_ = cmd.Process.Signal(unix.SIGSTOP) // otherwise it would tidy up first
	_ = unix.Kill(supervisor, unix.SIGKILL)
	_ = cmd.Process.Kill()
	holdLeashOf(t, w.Leash)
	life.gone(t)
}

func TestALeaseThatIsExtendedGoesOn(t *testing.T) {
	t.Parallel()
	life, end := newLifeline(t), newLifeline(t)
	// The lease is so long because a busy machine must not miss it.
	w := worker{
		Shell: holdOn + `read x <"$END"`, Env: life.env(), Temp: t.TempDir(), Leash: t.TempDir() + "/leash",
		Lease: 4 * time.Second,
	}
	w.Env["END"] = end.path
	cmd, out := w.start(t)
	life.ready(t, 1)
	life.write.Close()
	_ = life.read.SetReadDeadline(time.Now().Add(w.Lease * 3 / 2)) // there is no event for "nothing happened"
	if _, err := life.read.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Fatalf("it ended: %v", err)
	}
	if _, err := end.write.WriteString("end\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != fmt.Sprintf("%d \n", carillon.OutcomeSuccess) {
		t.Errorf("%v %q", err, out.String())
	}
}

func TestChildrenAreFoundWithoutHelpFromTheKernelToo(t *testing.T) {
	t.Parallel()
	w := worker{Shell: "true", Temp: t.TempDir(), Leash: t.TempDir() + "/leash"}
	cmd, _ := w.start(t)
	found := false
	for _, pid := range childrenByScan() {
		found = found || pid == cmd.Process.Pid
	}
	if !found {
		t.Errorf("%d is not among %v", cmd.Process.Pid, childrenByScan())
	}
}
