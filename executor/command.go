package executor

import (
	"cmp"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
)

// CommandConfig is how commands run. The zero value works.
type CommandConfig struct {
	// TempDir is where each attempt gets a private directory for its checkpoint and result. Default
	// os.TempDir().
	TempDir string
	// Env names the variables of this process that commands see; no others reach them, because a server's
	// environment holds its secrets. Default PATH, HOME, USER, LANG, TZ, TMPDIR.
	Env []string
	// MaxOutput is how many bytes of output of one attempt are kept. Default 16 MiB.
	MaxOutput int64
	// Grace is how long a command has between SIGTERM and SIGKILL when it times out or is asked to stop.
	// Default 5s.
	Grace time.Duration
	// AllowSetuid lets commands gain privileges through programs that change their user (sudo, su) or carry
	// capabilities. Unless this process is root, it cannot kill a process of another user: timeouts, cancels
	// and leases then do not end that process, and its run can start a second time beside it. Default:
	// commands have no_new_privs.
	AllowSetuid bool
	// MaxProcesses is how many processes a command can have at once, with all that it started. If it has
	// more, the attempt fails and all of them are killed: a fork bomb must not take the machine from its
	// neighbors. Default 1000; negative: any number.
	MaxProcesses int
	// Logger receives reports of processes that cannot be killed. Default slog.Default().
	Logger *slog.Logger
	// Leash, if set, is inherited by every supervisor and by no command: see HoldLeash.
	Leash *os.File
}

// DefaultMaxProcesses is far above what programs need, and far below what a machine can bear.
const DefaultMaxProcesses = 1000

func (c CommandConfig) withDefaults() CommandConfig {
	c.TempDir = cmp.Or(c.TempDir, os.TempDir())
	c.MaxOutput = cmp.Or(c.MaxOutput, 16<<20)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.MaxProcesses = max(cmp.Or(c.MaxProcesses, DefaultMaxProcesses), 0)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Env == nil {
		c.Env = []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"}
	}
	return c
}

// supervisorName is argv[0] of a supervisor. By it a program that is started again knows that it is a
// supervisor.
const supervisorName = "carillon-supervise"

// defaultPath is for a worker that was started without any PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environ is the complete environment of a task's command, by name.
func (c CommandConfig) environ(task Task, lookup func(string) (string, bool)) map[string]string {
	env := map[string]string{"PATH": defaultPath}
	for _, name := range c.Env {
		if value, ok := lookup(name); ok {
			env[name] = value
		}
	}
	maps.Copy(env, task.Job.Target.Command.Env)
	for _, f := range facts(task) { // last, so that nothing can pose as them
		env["CARILLON_"+f.env] = f.value
	}
	return env
}

// fact is a value about an attempt that its target receives.
type fact struct{ env, header, value string }

func facts(task Task) []fact {
	run, job := &task.Run, task.Job
	facts := []fact{
		{"RUN_ID", "Run-Id", run.ID.String()},
		{"JOB_ID", "Job-Id", run.ID.Job.String()},
		{"JOB_NAME", "", job.Name},
		{"JOB_TYPE", "", job.Type},
		{"NAMESPACE", "Namespace", cmp.Or(run.Namespace, carillon.DefaultNamespace)},
		{"ATTEMPT", "Attempt", strconv.Itoa(int(run.Attempt))},
		{"FENCE", "Fence", strconv.FormatInt(run.Fence(), 10)},
		{"DUE_AT", "Due-At", run.ID.Due.String()},
	}
	if run.Covers != 0 {
		facts = append(facts, fact{"COVERS_AT", "Covers-At", run.Covers.String()})
	}
	return facts
}

// pairs is an environment as execve takes it, sorted so that the same attempt always looks the same.
func pairs(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
