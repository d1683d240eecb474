// Package report writes the figures of bench/peers into docs/benchmarks.md, with plots in docs/img.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon-run/carillon/bench/peers/result"
)

const (
	begin = "<!-- peers:begin -->"
	end   = "<!-- peers:end -->"
)

// Write rewrites the part of root/docs/benchmarks.md between its two markers, and the plots in it. For every
// scenario, peer and size it takes the newest run of scale 1 that has it; ratios are always within one run.
func Write(runs []result.Run, root string) error {
	path := filepath.Join(root, "docs", "benchmarks.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b := newBook(runs)
	drawn := b.draw()
	text, err := between(string(page), b.markdown(drawn))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	img := filepath.Join(root, "docs", "img")
	if err := os.MkdirAll(img, 0o755); err != nil {
		return err
	}
	// Write removes a plot that has no figures any more, because it would be misleading.
	for _, p := range plots {
		file := filepath.Join(img, p.file)
		if svg := drawn[p.file]; svg != "" {
			err = os.WriteFile(file, []byte(svg), 0o644)
		} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// between puts a text between the markers of a page.
func between(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the markers %s and %s are not there", begin, end)
	}
	return before + begin + "\n" + strings.TrimSpace(text) + "\n" + end + after, nil
}

// draw makes the plots for which there are figures.
func (b *book) draw() map[string]string {
	drawn := map[string]string{}
	for _, p := range plots {
		if svg := p.draw(b); svg != "" {
			drawn[p.file] = svg
		}
	}
	return drawn
}
