package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// program is what a process of a cluster runs: another build, or more in its environment.
type program struct {
	path string
	env  []string
}

// use sets the program for the next start of a process.
func (c *cluster) use(name, path string, env ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs == nil {
		c.programs = map[string]program{}
	}
	c.programs[name] = program{path, env}
}

// program is a command without arguments that runs the program of a process.
func (c *cluster) program(name string) *exec.Cmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, other := c.programs[name]
	if !other {
		return exec.Command(c.binary)
	}
	cmd := exec.Command(p.path)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// goBuild builds the program under test from a directory with its source, beside the usual build, with
// settings of the environment.
func goBuild(name, source string, env []string, flags ...string) (string, error) {
	usual, err := binary()
	if err != nil {
		return "", err
	}
	path := usual + "-" + name
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, "./cmd/carillon")...)
	cmd.Dir, cmd.Env = source, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build carillon %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// withFailpoints is the program under test with failpoints and clock steps.
var withFailpoints = sync.OnceValues(func() (string, error) {
	return goBuild("failpoints", "..", nil, "-tags", "failpoints")
})

// failing lets the next start of a process be killed at points: see package failpoint for the form. Other
// settings of its environment can follow.
func (c *cluster) failing(name, points string, env ...string) {
	c.t.Helper()
	path, err := withFailpoints()
	if err != nil {
		c.t.Fatal(err)
	}
	c.use(name, path, append(env, "FAILPOINTS="+points)...)
}

// failed waits for the end of a process that was to be killed at a point. It returns false if the process
// ended in another way; then the cluster reports it.
func (c *cluster) failed(p *Process) bool {
	select {
	case <-p.ended:
	case <-c.ctx.Done():
		c.t.Error("a process was not killed at its failpoint")
		return false
	}
	if killed(p.err) {
		p.told.Store(true)
	}
	return killed(p.err)
}

// killed says that a process ended by SIGKILL.
func killed(err error) bool {
	exit, ok := err.(*exec.ExitError)
	return ok && exit.String() == "signal: killed"
}
