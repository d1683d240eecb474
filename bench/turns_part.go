package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"
)

// part is a running bench/part.
type part struct {
	at    place
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// turnLimit ends a program that does not answer: a version that loses a run would wait for it for ever.
const turnLimit = 5 * time.Minute

func startPart(ctx context.Context, path string, at place) (*part, error) {
	p := &part{at: at, cmd: exec.CommandContext(ctx, path, at.data, at.store)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	if !p.lines.Scan() {
		return nil, fmt.Errorf("start %s: %w", path, errors.Join(errChildEnded, p.cmd.Wait()))
	}
	return p, nil
}

// turn lets the program do a step and returns the figure.
func (p *part) turn(figure string, jobs int) (float64, error) {
	if _, err := fmt.Fprintln(p.in, figure, jobs); err != nil {
		return 0, err
	}
	var late atomic.Bool
	timer := time.AfterFunc(turnLimit, func() {
		late.Store(true)
		p.cmd.Process.Kill()
	})
	defer timer.Stop()
	switch {
	case p.lines.Scan():
		return strconv.ParseFloat(p.lines.Text(), 64)
	case late.Load():
		return 0, fmt.Errorf("no answer within %s: was a run lost?", turnLimit)
	}
	return 0, errChildEnded
}

// end lets the program stop its node, and waits for it.
func (p *part) end() error {
	p.in.Close()
	return p.cmd.Wait()
}
