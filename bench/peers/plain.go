package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/carillon-run/carillon/bench/peers/result"
)

// plain: what the engines can do without a scheduler. The program of `make bench` measures it; it starts its
// own server with the same settings.
func plain(ctx context.Context, b *bench, round int) error {
	program := filepath.Join(b.bin, "bench")
	if _, err := os.Stat(program); err != nil {
		if err := command(ctx, root, "go", "build", "-o", program, "./bench"); err != nil {
			return err
		}
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		if !b.uses(engine) {
			continue
		}
		cmd := exec.Command(
			program, "--only", "plain", "--store", engine, "--scale", fmt.Sprint(b.scale), "--dir", b.dir,
		)
		var out bytes.Buffer
		cmd.Stdout = &out
		p, err := launch(cmd)
		if err != nil {
			return err
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			p.kill()
			return ctx.Err()
		}
		rate, ok := plainRate(out.String())
		if !ok {
			return fmt.Errorf("bench said nothing of plain_cycle on %s", engine)
		}
		b.note(result.Figure{
			Scenario: "plain", Peer: "plain-" + engine, Name: "rate", Unit: "jobs/s", Round: round,
			Value: rate,
		})
	}
	return nil
}

// plainRate finds the figure in the output of the program.
func plainRate(out string) (rate float64, ok bool) {
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "bench: plain_cycle %f jobs/s", &rate); n == 1 {
			return rate, true
		}
	}
	return 0, false
}
