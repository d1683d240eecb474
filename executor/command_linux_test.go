package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
)

func shell(line string) carillon.Target {
	return carillon.Target{Command: &carillon.Command{Shell: line}}
}

// run performs one attempt and checks that its temporary directory is gone.
func run(t *testing.T, config CommandConfig, task Task) carillon.Outcome {
	t.Helper()
	config.TempDir = t.TempDir()
	o := within(t, func() carillon.Outcome { return NewCommand(config).Execute(context.Background(), task) })
	if left, _ := os.ReadDir(config.TempDir); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
	return o
}

func TestExitClasses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		command carillon.Command
		want    carillon.Outcome
	}{
		{"0 is success", carillon.Command{Shell: "exit 0"}, carillon.Outcome{Kind: carillon.OutcomeSuccess}},
		{"others are retriable", carillon.Command{Shell: "exit 3"}, exitCode(retriable, 3)},
		{
			"some are fatal",
			carillon.Command{Shell: "exit 3", FatalExitCodes: []int{2, 3}},
			exitCode(fatal, 3),
		},
		{
			"death by signal is retriable",
			carillon.Command{Shell: "kill -SEGV $$"},
			retriable("killed by signal: segmentation fault"),
		},
		{
			"argv is not a shell line",
			carillon.Command{Argv: []string{"test", "$HOME", "=", "$HOME"}},
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
		{
			"a program that is not there is fatal",
			carillon.Command{Argv: []string{"/no/such/program"}},
			fatal(`program "/no/such/program" does not exist on this worker`),
		},
		{
			"a program that is not in PATH is fatal",
			carillon.Command{Argv: []string{"no-such-program"}, Env: map[string]string{"PATH": "/bin:."}},
			fatal(`program "no-such-program" is not found in PATH (/bin:.) on this worker`),
		},
		{
			"a file that is no program is fatal",
			carillon.Command{Argv: []string{file}},
			fatal("start %q: exec format error", file),
		},
		{
			"a directory that is not there is fatal",
			carillon.Command{Shell: "true", Dir: "/no/such/dir"},
			fatal(`directory "/no/such/dir" does not exist on this worker`),
		},
		{
			"a relative program is found in the command's directory",
			carillon.Command{Argv: []string{"./true"}, Dir: "/bin"},
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
		{
			"too long an argument list is fatal",
			carillon.Command{Argv: []string{"true", strings.Repeat("x", 200_000)}},
			fatal(`start "true": argument list too long`),
		},
		{"a NUL byte is fatal", carillon.Command{Argv: []string{"true", "a\x00b"}}, fatal("%w", errNUL)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			task, _ := newTask(carillon.Target{Command: &c.command})
			same(t, run(t, CommandConfig{}, task), c.want)
		})
	}
}

func TestWhatACommandIsGiven(t *testing.T) {
	t.Setenv("SERVER_SECRET", "hunter2")
	t.Setenv("TZ", "Europe/Vienna")

	t.Run("the payload on its standard input, of any size", func(t *testing.T) {
		task, r := newTask(shell(`wc -c; cat /proc/self/fdinfo/1 | grep flags`))
		task.Job.Payload = []byte(`"` + strings.Repeat("x", carillon.MaxPayload-2) + `"`)
		same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if got := r.output(); got != "stdout: 262144\nstdout: flags:\t01" { // 01: for writing, and blocking
			t.Error(got)
		}
	})
	t.Run("nothing on it without a payload", func(t *testing.T) {
		task, r := newTask(shell(`wc -c`))
		same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if got := r.output(); got != "stdout: 0" {
			t.Error(got)
		}
	})
	t.Run("a clean environment", func(t *testing.T) {
		task, r := newTask(carillon.Target{
			Command: &carillon.Command{
				Argv: []string{"/usr/bin/env"}, Env: map[string]string{"MINE": "1", "TZ": "UTC"},
			},
		})
		same(
			t, run(t, CommandConfig{Env: []string{"PATH", "TZ"}}, task),
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		)
		var got []string
		for _, line := range r.lines {
			name, value, _ := strings.Cut(strings.TrimPrefix(line, "stdout: "), "=")
			if strings.HasSuffix(name, "_FILE") {
				value = filepath.Base(value)
			}
			got = append(got, name+"="+value)
		}
		want := []string{
			"CARILLON_ATTEMPT=3", "CARILLON_CHECKPOINT_FILE=checkpoint",
			"CARILLON_COVERS_AT=2026-03-20T09:46:40.000Z",
			"CARILLON_DUE_AT=2026-03-20T09:46:40.000Z",
			"CARILLON_FENCE=" + strconv.FormatInt(task.Run.Fence(), 10),
			"CARILLON_JOB_ID=" + task.Job.ID.String(), "CARILLON_JOB_NAME=a name", "CARILLON_JOB_TYPE=a.type",
			"CARILLON_NAMESPACE=default", "CARILLON_RESULT_FILE=result",
			"CARILLON_RUN_ID=" + task.Run.ID.String(),
			"MINE=1", "PATH=" + os.Getenv("PATH"), "TZ=UTC",
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Run("no secret in what others can see of the supervisor", func(t *testing.T) {
		task, r := newTask(shell(
			`cat /proc/$PPID/environ 2>/dev/null | tr '\0' ' '; tr '\0' ' ' </proc/$PPID/cmdline; cat /proc/$PPID/comm`,
		))
		task.Job.Target.Command.Env = map[string]string{"TOKEN": "hunter2"}
		same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		want := "carillon-supervise " + task.Run.ID.String() + " supervise"
		if os.Geteuid() == 0 { // other users cannot read its environment at all
			want = strings.Join(supervisorEnv, " ") + " " + want
		}
		want = "stdout: " + want
		if got := r.output(); got != want {
			t.Error(got)
		}
	})
	t.Run("three files and no more", func(t *testing.T) {
		leaky, _, err := pipe() // as from socket activation: not close-on-exec in the worker
		if err != nil {
			t.Fatal(err)
		}
		defer leaky.Close()
		leash := holdLeashOf(t, t.TempDir()+"/leash")
		unsetCloseOnExec(t, leaky)
		task, r := newTask(shell(
			`for f in /proc/self/fd/*; do echo ${f##*/}; done; ls /proc/$PPID/fd 2>/dev/null | wc -l`,
		))
		same(t, run(t, CommandConfig{Leash: leash}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		// Descriptor 3 belongs to the shell, for the directory that it lists. Whether it shows depends on the
		// shell.
		if got := strings.ReplaceAll(r.output(), "stdout: 3\n", ""); !strings.HasPrefix(
			got, "stdout: 0\nstdout: 1\nstdout: 2\nstdout: ",
		) ||
			strings.Count(got, "\n") != 3 {
			t.Error(got)
		}
	})
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	t.Run("the last one is there at the start and a new one is saved at the end", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(
			`cat $CARILLON_CHECKPOINT_FILE; printf 'step 2' > $CARILLON_CHECKPOINT_FILE; exit 1`,
		))
		task.Checkpoint = []byte("step 1\n")
		same(t, run(t, CommandConfig{}, task), exitCode(retriable, 1))
		if r.output() != "stdout: step 1" || !slices.Equal(r.saved, []string{"step 2"}) {
			t.Errorf("%q, saved %q", r.output(), r.saved)
		}
	})
	t.Run("one that was not touched is not saved", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(`cat $CARILLON_CHECKPOINT_FILE >/dev/null`))
		task.Checkpoint = []byte("step 1")
		run(t, CommandConfig{}, task)
		if len(r.saved) > 0 {
			t.Errorf("saved %q", r.saved)
		}
	})
	t.Run("new ones are saved while the command goes on, written or replaced", func(t *testing.T) {
		t.Parallel()
		fifo := newLifeline(t)
		task, r := newTask(shell(
			`f=$CARILLON_CHECKPOINT_FILE; printf 1 > $f; read x <"$LIFELINE"; printf 2 > $f.new; mv $f.new $f; read x <"$LIFELINE"`,
		))
		task.Job.Target.Command.Env = fifo.env()
		done := make(chan carillon.Outcome, 1)
		go func() {
			done <- NewCommand(CommandConfig{TempDir: t.TempDir()}).Execute(context.Background(), task)
		}()
		for _, want := range []string{"1", "2"} {
			receive(t, r.saves, want)
			if _, err := fifo.write.WriteString("go on\n"); err != nil {
				t.Fatal(err)
			}
		}
		same(t, <-done, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if !slices.Equal(r.saved, []string{"1", "2"}) {
			t.Errorf("saved %q", r.saved)
		}
	})
	t.Run("the store's refusal is said and tried again", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(`printf 1 > $CARILLON_CHECKPOINT_FILE`))
		task.Save = func(context.Context, []byte) error { return errors.New("fence is old") }
		same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if r.output() != "carillon: the checkpoint is not saved: fence is old" {
			t.Error(r.output())
		}
	})
	for name, c := range map[string]struct{ script, want string }{
		"too large": {
			`head -c 65537 /dev/zero > $CARILLON_CHECKPOINT_FILE`,
			"carillon: the checkpoint is not saved: a checkpoint of 65537 bytes is too large: at most 65536",
		},
		"a link": {
			`ln -s /etc/passwd $CARILLON_CHECKPOINT_FILE`,
			"carillon: the checkpoint is not saved: CARILLON_CHECKPOINT_FILE is not a regular file",
		},
		"a named pipe": {
			`mkfifo $CARILLON_CHECKPOINT_FILE`,
			"carillon: the checkpoint is not saved: CARILLON_CHECKPOINT_FILE is not a regular file",
		},
		"a directory": {
			`mkdir $CARILLON_CHECKPOINT_FILE`,
			"carillon: the checkpoint is not saved: CARILLON_CHECKPOINT_FILE is not a regular file",
		},
		"empty": {`: > $CARILLON_CHECKPOINT_FILE`, ""},
		"in a directory that was replaced": {
			`d=$(dirname $CARILLON_CHECKPOINT_FILE); rmdir $d; ln -s /etc $d`, "",
		},
	} {
		t.Run("one is not saved that is "+name, func(t *testing.T) {
			t.Parallel()
			task, r := newTask(shell(c.script))
			same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
			if r.output() != c.want || len(r.saved) > 0 {
				t.Errorf("%q, saved %q", r.output(), r.saved)
			}
		})
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, line string
		want         carillon.Outcome
	}{
		"what is in the file is the result": {
			`printf '{"n":1}' > $CARILLON_RESULT_FILE`, "",
			carillon.Outcome{
				Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte(`{"n":1}`)},
			},
		},
		"a failed attempt may have one": {
			`printf no > $CARILLON_RESULT_FILE; exit 1`, "",
			carillon.Outcome{
				Kind: carillon.OutcomeRetriable, Reason: "exit code 1", Exit: 1,
				Output: &carillon.Output{Result: []byte("no")},
			},
		},
		"one that is too large is cut": {
			`head -c 70000 /dev/zero | tr '\0' x > $CARILLON_RESULT_FILE`,
			"carillon: the result is cut after 65536 bytes",
			carillon.Outcome{
				Kind:   carillon.OutcomeSuccess,
				Output: &carillon.Output{Result: []byte(strings.Repeat("x", 65536))},
			},
		},
		"links are not followed": {
			`ln -s /etc/passwd $CARILLON_RESULT_FILE`,
			"carillon: there is no result: CARILLON_RESULT_FILE is not a regular file",
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
		"a directory that cannot be read is removed all the same": {
			`mkdir -p $(dirname $CARILLON_RESULT_FILE)/a/b; chmod 0 $(dirname $CARILLON_RESULT_FILE)/a`, "",
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task, r := newTask(shell(c.script))
			same(t, run(t, CommandConfig{}, task), c.want)
			if r.output() != c.line {
				t.Error(r.output())
			}
		})
	}
}

func TestAProgramThatDoesNotCallSuperviseIsNotRunAsOne(t *testing.T) {
	t.Parallel()
	if got, want := forgetfulSays(
		t,
	),
		"3 this program does not call executor.Supervise() first in main, so it cannot run commands\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManyCommandsAtOnceEachHaveTheirOwnEnd(t *testing.T) {
	t.Parallel()
	c := NewCommand(CommandConfig{TempDir: t.TempDir()})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 8 {
				code := (i + j) % 3
				argv := []string{"sh", "-c", "echo $0; exit $1", fmt.Sprint(i, "/", j), strconv.Itoa(code)}
				task, r := newTask(carillon.Target{Command: &carillon.Command{Argv: argv}})
				o := c.Execute(context.Background(), task)
				want := carillon.Outcome{Kind: carillon.OutcomeSuccess}
				if code > 0 {
					want = exitCode(retriable, code)
				}
				if o != want || r.output() != fmt.Sprint("stdout: ", i, "/", j) {
					t.Errorf("%+v %q", o, r.output())
				}
			}
		})
	}
	all.Wait()
}

func TestHoldLeash(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/leash"
	first := holdLeashOf(t, path)
	want := fmt.Sprintf("%s is in use by carillon process %d", path, os.Getpid())
	said := 0
	if _, err := holdLeash(context.Background(), path, func(pid int) {
		said = pid
	}); said != os.Getpid() || err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("held twice, by %d: %v, want %q", said, err, want)
	}
	// As left by a process that is gone: HoldLeash waits for its commands.
	if err := first.Truncate(0); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		second, err := holdLeash(context.Background(), path, func(int) { close(waiting) })
		if err == nil {
			err = second.Close()
		}
		done <- err
	}()
	<-waiting // called at once, and only once
	first.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	third := holdLeashOf(t, path)
	_ = third.Truncate(0)
	if _, err := holdLeash(ctx, path, func(int) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is given up: %v", err)
	}
	if _, err := HoldLeash(context.Background(), "/no/such/dir/leash"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no error for a path that cannot be opened: %v", err)
	}
}

func TestOutputOfACommand(t *testing.T) {
	t.Parallel()
	t.Run("both streams are kept, to the end", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(`echo out; echo err >&2; printf 'no end'`))
		same(t, run(t, CommandConfig{}, task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if slices.Sort(r.lines); !slices.Equal(r.lines, []string{
			"stderr: err", "stdout: no end", "stdout: out",
		}) {
			t.Errorf("%q", r.lines)
		}
	})
	t.Run("a command that says too much goes on, unheard", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(
			`yes | head -c 5000000; yes | head -c 5000000 >&2; echo done > $CARILLON_RESULT_FILE`,
		))
		same(t, run(t, CommandConfig{MaxOutput: 1000}, task),
			carillon.Outcome{
				Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte("done\n")},
			})
		want := append(
			slices.Repeat([]string{"stdout: y"}, 1000/(len("y")+lineCost)),
			"carillon: the output is cut here: more than 1000 bytes",
		)
		if !slices.Equal(r.lines, want) {
			t.Errorf("%d lines, the last %q", len(r.lines), r.lines[len(r.lines)-1])
		}
	})
	t.Run("output that another process got hold of is not waited for", func(t *testing.T) {
		t.Parallel()
		task, r := newTask(shell(`echo out; echo $$; read x <"$LIFELINE"`))
		life := newLifeline(t)
		task.Job.Target.Command.Env = life.env()
		done := make(chan carillon.Outcome, 1)
		go func() {
			done <- NewCommand(CommandConfig{TempDir: t.TempDir()}).Execute(context.Background(), task)
		}()
		r.until(t, "stdout: out")
		held, err := os.OpenFile("/proc/"+strings.TrimPrefix(<-r.said, "stdout: ")+"/fd/1", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if _, err := life.write.WriteString("end\n"); err != nil {
			t.Fatal(err)
		}
		same(t, within(t, func() carillon.Outcome { return <-done }), carillon.Outcome{
			Kind: carillon.OutcomeSuccess,
		})
		r.until(t, "carillon: stdout is not read to its end: a process outside this run holds it open")
	})
}
