package sqlcommon

import (
	"encoding/binary"
	"errors"

	"github.com/carillon-run/carillon"
)

// PackHolds writes each attempt as its differences to the one before. Beats carry holds every second, and
// runs that are held together were mostly due together and claimed soon after. So an attempt takes about half
// of its 24 bytes.
func PackHolds(holds []carillon.Held) []byte {
	b := make([]byte, 0, 12*len(holds))
	var last carillon.Held
	for _, h := range holds {
		b = binary.AppendVarint(b, int64(h.Run.Due-last.Run.Due))
		b = binary.AppendVarint(b, int64(h.Run.Job-last.Run.Job))
		b = binary.AppendVarint(b, int64(h.Claimed()-h.Run.Due))
		b = binary.AppendVarint(b, int64(h.Attempt()))
		last = h
	}
	return b
}

var errHolds = errors.New("what a session holds is written in a way that this program does not know")

// UnpackHolds undoes PackHolds.
func UnpackHolds(b []byte) (holds []carillon.Held, err error) {
	var h carillon.Held
	for len(b) > 0 {
		var fields [4]int64
		for i := range fields {
			n := 0
			if fields[i], n = binary.Varint(b); n <= 0 {
				return nil, errHolds
			}
			b = b[n:]
		}
		h.Run.Due += carillon.Time(fields[0])
		h.Run.Job += carillon.JobID(fields[1])
		run := carillon.Run{Claimed: h.Run.Due + carillon.Time(fields[2]), Attempt: int32(fields[3])}
		h.Fence = run.Fence()
		holds = append(holds, h)
	}
	return holds, nil
}
