//go:build failpoints

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// chance is how often a process ends at a point: so many times of so many.
type chance struct{ times, of int }

var chances = sync.OnceValue(func() map[string]chance {
	all, err := parse(os.Getenv("FAILPOINTS"))
	if err != nil {
		panic(err) // a test must not pass because of a wrong name
	}
	return all
})

// At perhaps kills the process, as FAILPOINTS says: nothing is flushed or told to any other process.
func At(point string) {
	if c := chances()[point]; c.of > 0 && rand.IntN(c.of) < c.times && awake() {
		fmt.Fprintln(os.Stderr, "failpoint:", point)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens until the signal has arrived
	}
}

// awake says whether points have an effect now.
func awake() bool {
	file := os.Getenv("FAILPOINTS_WHILE")
	if file == "" {
		return true
	}
	_, err := os.Stat(file)
	return err == nil
}

func parse(setting string) (map[string]chance, error) {
	all := map[string]chance{}
	for part := range strings.SplitSeq(setting, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		var c chance
		if _, err := fmt.Sscanf(value, "%d/%d", &c.times, &c.of); err != nil || c.of < 1 {
			return nil, fmt.Errorf("FAILPOINTS: %s: given %q, want a fraction such as 1/200", name, value)
		}
		if !slices.Contains(Points, name) {
			return nil, fmt.Errorf("FAILPOINTS: given %q, want one of %q", name, Points)
		}
		all[name] = c
	}
	return all, nil
}
