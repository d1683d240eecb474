package client

import (
	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// maxLineBytes bounds the lines of one report; in JSON they are up to six times as long.
const maxLineBytes = 1 << 20

// cut splits reports whose lines do not fit into one message; of says which report each piece belongs to. The
// last piece has the parts that come after the lines.
func cut(reports []protocol.Report) (pieces []protocol.Report, of []int) {
	pieces, of = make([]protocol.Report, 0, len(reports)), make([]int, 0, len(reports))
	for i, r := range reports {
		for n := fitting(r.Lines); n < len(r.Lines); n = fitting(r.Lines) {
			pieces, of = append(pieces, protocol.Report{
				Held: r.Held, Token: r.Token, Begun: r.Begun, Lines: r.Lines[:n],
			}), append(of, i)
			r.Begun, r.Lines = 0, r.Lines[n:]
		}
		pieces, of = append(pieces, r), append(of, i)
	}
	return pieces, of
}

// fitting is how many of the lines, at least one, go into one report: consecutive lines, up to a size.
func fitting(lines []carillon.Line) (n int) {
	for size := 0; n < len(lines); n++ {
		if n > 0 && (size+len(lines[n].Text) > maxLineBytes || lines[n].Offset != lines[n-1].Offset+1) {
			break
		}
		size += len(lines[n].Text) + 80 // for the JSON around it
	}
	return n
}
