package executor

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A worker and a supervisor exchange frames over their socket: one byte of kind, four bytes of length, and a
// body. The worker sends one spec, then leases and at most one stop. The supervisor names processes that it
// cannot kill, and sends one report, at the end.
const (
	frameSpec  = 's'
	frameLease = 'l' // until when, nanoseconds of boottime
	frameStop  = 't' // the grace in nanoseconds
	frameAlive = 'a' // text: a process that cannot be killed
	frameEnd   = 'e'

	frameHead = 5
)

func frame(kind byte, body []byte) []byte {
	b := make([]byte, frameHead, frameHead+len(body))
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(body)))
	return append(b, body...)
}

func frameTime(kind byte, d time.Duration) []byte {
	return frame(kind, binary.LittleEndian.AppendUint64(nil, uint64(d)))
}

// cutFrame takes the first whole frame off b.
func cutFrame(b []byte) (kind byte, body, rest []byte, ok bool) {
	if len(b) < frameHead {
		return 0, nil, b, false
	}
	end := frameHead + int(binary.LittleEndian.Uint32(b[1:]))
	if len(b) < end {
		return 0, nil, b, false
	}
	return b[0], b[frameHead:end], b[end:], true
}

func bodyTime(body []byte) time.Duration {
	if len(body) != 8 {
		return 0 // in the past: a lease that cannot be read is over
	}
	return time.Duration(binary.LittleEndian.Uint64(body))
}

// spec is what a supervisor must run. It travels over the socket, never as arguments or environment, which
// every user of the machine can read with ps.
type spec struct {
	program string
	argv    []string
	env     []string
	dir     string
	scratch string        // removed by the supervisor if the worker is no longer there to do it
	lease   time.Duration // boottime
	leash   bool          // whether the next file descriptor after the socket is the leash
	setuid  bool          // whether the command can gain privileges
	most    int           // how many processes its tree can have at once; 0: any number
}

// encode joins the parts with NUL bytes. No part can contain one: the kernel would end the part there.
func (s spec) encode() []byte {
	parts := []string{
		s.program, s.dir, s.scratch, strconv.FormatInt(int64(s.lease), 10), strconv.FormatBool(s.leash),
		strconv.FormatBool(s.setuid), strconv.Itoa(s.most), strconv.Itoa(len(s.argv)),
	}
	return []byte(strings.Join(append(append(parts, s.argv...), s.env...), "\x00"))
}

var errNUL = errors.New("a NUL byte in its arguments, directory or environment")

// check refuses NUL bytes: they would shift the parts of an encoded spec, or the kernel would cut a part
// short.
func (s spec) check() error {
	for _, list := range [][]string{{s.program, s.dir, s.scratch}, s.argv, s.env} {
		for _, part := range list {
			if strings.IndexByte(part, 0) >= 0 {
				return errNUL
			}
		}
	}
	return nil
}

func decodeSpec(b []byte) (s spec, ok bool) {
	parts := strings.Split(string(b), "\x00")
	if len(parts) < 9 {
		return spec{}, false
	}
	lease, err1 := strconv.ParseInt(parts[3], 10, 64)
	most, err2 := strconv.Atoi(parts[6])
	argc, err3 := strconv.Atoi(parts[7])
	if errors.Join(err1, err2, err3) != nil || argc < 1 || argc > len(parts)-8 {
		return spec{}, false
	}
	return spec{
		program: parts[0], dir: parts[1], scratch: parts[2], lease: time.Duration(lease),
		leash:  parts[4] == "true",
		setuid: parts[5] == "true", most: most, argv: parts[8 : 8+argc], env: parts[8+argc:],
	}, true
}

// ending is why a command's tree was ended.
type ending byte

const (
	byItself   ending = iota + 1 // the command ended; what it left behind was killed
	onRequest                    // it was told to stop
	withAll                      // it failed when the whole service got a signal
	leaseOver                    // the worker did not extend the lease
	orphaned                     // the worker is gone
	notStarted                   // there was no process at all
	crowded                      // its tree had more processes than it can have
)

// report is what a supervisor sends when nothing of the attempt is left.
type report struct {
	how    ending
	status syscall.WaitStatus // of the command
	errno  syscall.Errno      // why it was not started
}

func (r report) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte{byte(r.how)}, uint32(r.status))
	return frame(frameEnd, binary.LittleEndian.AppendUint32(b, uint32(r.errno)))
}

func decodeReport(body []byte) report {
	if len(body) != 9 {
		return report{}
	}
	return report{
		how: ending(body[0]), status: syscall.WaitStatus(binary.LittleEndian.Uint32(body[1:])),
		errno: syscall.Errno(binary.LittleEndian.Uint32(body[5:])),
	}
}
