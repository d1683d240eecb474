package chaos

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
)

// before is the program of the commit before the present one. It is an error if the history is not there.
var before = sync.OnceValues(func() (string, error) {
	usual, err := binary()
	if err != nil {
		return "", err
	}
	archive := exec.Command("git", "archive", "HEAD~1")
	archive.Dir = ".."
	var files, words bytes.Buffer
	archive.Stdout, archive.Stderr = &files, &words
	if err := archive.Run(); err != nil {
		return "", fmt.Errorf("git archive HEAD~1: %w: %s", err, words.String())
	}
	source := filepath.Join(filepath.Dir(usual), "before")
	unpack := exec.Command("sh", "-c", `mkdir "$0" && tar -x -C "$0"`, source)
	unpack.Stdin = &files
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the commit before: %w: %s", err, out)
	}
	// Without the race detector, which watches the program of this commit.
	return goBuild("before", source, []string{"GOFLAGS=", "CGO_ENABLED=0"})
})

// migrates says that the present commit changes the schema: then the program of the commit before cannot
// come back.
func migrates() bool {
	diff := exec.Command("git", "diff", "--quiet", "HEAD~1", "--", "postgres/migration", "mysql/migration")
	diff.Dir = "../adapter"
	return diff.Run() != nil
}

// roll restarts nodes one after the other with another build, under load.
func (c *cluster) roll(build string, nodes ...string) {
	c.t.Helper()
	for _, name := range nodes {
		if err := c.nodes[name].Stop(); err != nil {
			c.t.Errorf("stop %s: %v", name, err)
		}
		c.use(name, build)
		c.launch(name)
		c.ready(name)
	}
}

func TestNodesAreRestartedOneByOneWithTheBuildOfTheCommitBeforeAndBack(t *testing.T) {
	t.Parallel()
	shallow, _ := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	if string(shallow) != "false\n" {
		t.Skip("!!! SKIPPED: this is no clone with history, and so there is no commit before")
	}
	old, err := before()
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		nodes := []string{"node-1", "node-2"}
		for _, name := range nodes {
			c.use(name, old)
		}
		c.start(nodes...)
		c.handlers("worker-1", "default")
		c.handlers("worker-2", "default")
		recurring := handledJob("default", Work{For: carillon.Duration(50 * time.Millisecond)})
		recurring.Schedule.Every, recurring.Schedule.MaxRuns = carillon.Duration(time.Second), 8
		accepted := c.submit(repeat(recurring, 20)...)
		load := c.trickle(50*time.Millisecond, handledJob("default", Work{For: carillon.Duration(500 * time.Millisecond)}))
		c.roll(c.binary, nodes...)
		if !migrates() {
			c.roll(old, nodes...)
			c.roll(c.binary, nodes...)
		}
		accepted = append(accepted, load()...)

		runs := c.all()
		c.alive()
		c.complete(accepted, runs)
		t.Logf("%d runs; witnesses: %s", len(runs), check.Summary(c.truthful(runs)))
	})
}
