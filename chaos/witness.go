// Package chaos runs real processes under faults. What happened is judged by package check, from what
// witnesses wrote: job bodies append lines to one file, and write to a register outside of Carillon. What the
// system under test says is compared with that, and never taken for true.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/executor"
)

// aliveEvery is how often a body writes that it is alive, unless the process is told otherwise.
const aliveEvery = 10 * time.Millisecond

// Manners of a command body: how it makes itself hard to stop.
const (
	mannerStubborn = "stubborn" // it ignores SIGTERM
	mannerForks    = "forks"    // it leaves a child in a session of its own
	mannerOtherUID = "other-uid"
	mannerOrphan   = "orphan" // it is the child that the others leave
)

// Body is a job's program: it writes that it started, that it is alive, and that it ended. A test binary that
// re-executes itself runs it as a command target. The environment says what the body does; see witnessed.
func Body(witness string) error {
	takes := os.Getenv("WITNESS_FOR")
	if os.Getenv("CARILLON_ATTEMPT") == "1" {
		takes = cmp.Or(os.Getenv("WITNESS_FIRST"), takes)
	}
	d, err := time.ParseDuration(takes)
	if err != nil {
		return err
	}
	manner := os.Getenv("WITNESS_MANNER")
	if manner == mannerStubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	v, err := commandVoice(witness)
	if err != nil && manner == mannerOrphan {
		time.Sleep(d) // another user may not write; it lives all the same
	}
	if err != nil {
		return err
	}
	defer v.to.Close()
	switch manner {
	case mannerOrphan:
		return v.alive(context.Background(), d)
	case mannerForks, mannerOtherUID:
		v.begun = func() { leaveChild(manner) } // the child speaks for the attempt too, and must not be first
	}
	return v.attempt(context.Background(), d, nil)
}

// commandVoice is the voice of a command. Its worker is the parent of its supervisor.
func commandVoice(witness string) (v *voice, err error) {
	run, err1 := carillon.ParseRunID(os.Getenv("CARILLON_RUN_ID"))
	attempt, err2 := strconv.ParseInt(os.Getenv("CARILLON_ATTEMPT"), 10, 32)
	fence, err3 := strconv.ParseInt(os.Getenv("CARILLON_FENCE"), 10, 64)
	f, err4 := open(witness)
	line := check.Line{
		Run: run, Attempt: int32(attempt), Fence: fence, Version: 1, Process: parentOf(os.Getppid()),
	}
	key := check.KeyOf(run, carillon.Overlap(os.Getenv("WITNESS_OVERLAP")))
	v = newVoice(f, newRegisterClient(os.Getenv("WITNESS_REGISTER")), key, line)
	v.echo = os.Stdout
	return v, errors.Join(err1, err2, err3, err4)
}

// parentOf is the parent of a process; 0 if it is gone.
func parentOf(pid int) int32 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ") // after the name, which can have spaces
	var state string
	var parent int32
	_, _ = fmt.Sscan(rest, &state, &parent)
	return parent
}

// leaveChild starts a copy of the body that lives for ever, outside of the body's process group or as another
// user. If the system does not let it, the body goes on alone.
func leaveChild(manner string) {
	self, err := os.Executable()
	if err != nil {
		return
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), "WITNESS_MANNER="+mannerOrphan, "WITNESS_FOR=1h", "WITNESS_FIRST=1h")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if manner == mannerOtherUID {
		child.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	_ = child.Start()
}

// voice writes the lines of an attempt's body.
type voice struct {
	to       *os.File
	echo     io.Writer // gets each line too; nil: none
	register *registerClient
	key      int64
	every    time.Duration
	line     check.Line // what all its lines have in common
	begun    func()     // called after its first line; nil: nothing is
}

func newVoice(to *os.File, register *registerClient, key int64, line check.Line) *voice {
	every, err := time.ParseDuration(os.Getenv("WITNESS_EVERY"))
	if err != nil {
		every = aliveEvery
	}
	return &voice{to: to, register: register, key: key, every: every, line: line}
}

// attempt is what a body does in one attempt. It holds the lock of its key meanwhile, and writes to the
// register at its begin and before its end. result is the failure that its payload asks for.
func (v *voice) attempt(ctx context.Context, takes time.Duration, result error) error {
	unlock, busy, err := lock(v.to.Name()+".locks", v.key)
	if err != nil {
		return err
	}
	defer unlock()
	if err := v.say(check.KindStart); err != nil {
		return err
	}
	if v.begun != nil {
		v.begun()
	}
	if busy {
		if err := v.say(check.KindBusy); err != nil {
			return err
		}
	}
	if err := v.register.write(ctx, v.key, v.line); err != nil {
		return err
	}
	if err := v.alive(ctx, takes); err != nil {
		return err
	}
	if err := v.register.write(ctx, v.key, v.line); err != nil {
		return err
	}
	if result != nil {
		return errors.Join(result, v.say(check.KindFail))
	}
	return v.say(check.KindEnd)
}

func (v *voice) say(kind check.Kind) error {
	l := v.line
	l.Kind, l.At, l.Mono = kind, carillon.Now(), executor.Boottime()
	text := l.String() + "\n"
	_, err := v.to.WriteString(text)
	if v.echo != nil && err == nil {
		_, err = io.WriteString(v.echo, text)
	}
	return err
}

// alive writes for d that the body is alive. It is silent as soon as ctx has ended.
func (v *voice) alive(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-time.After(min(v.every, time.Until(end))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := v.say(check.KindAlive); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func open(witness string) (*os.File, error) {
	return os.OpenFile(witness, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
}
