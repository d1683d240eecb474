package postgres

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/carillon-run/carillon"
)

// name is the part of an event that is sent: the run, or the job (then Due is 0).
type name struct {
	namespace string
	run       carillon.RunID
}

func nameOf(e *carillon.Event) name {
	if e.Kind == carillon.EventRun {
		return name{e.Namespace, e.Run.ID}
	}
	return name{e.Namespace, carillon.RunID{Job: e.Job}}
}

func (n name) compare(o name) int {
	return cmp.Or(
		cmp.Compare(n.namespace, o.namespace), cmp.Compare(n.run.Job, o.run.Job),
		cmp.Compare(n.run.Due, o.run.Due),
	)
}

const (
	senderSize = 12
	// maxPayload is less than the 8000 bytes that PostgreSQL accepts.
	maxPayload = 7900
	// maxNames is more than fits into a payload.
	maxNames = 4000
)

// packNames returns the payload of a notification: the sender, then the names sorted by job, each as the
// difference to the name before. ok is false if they do not fit. A payload without names says that events
// were missed.
//
//	of each namespace: uvarint length, text, uvarint number of names
//	of each name: uvarint job less the job before, varint due less the due before
func packNames(sender string, names []name) (payload string, ok bool) {
	slices.SortFunc(names, name.compare)
	var b []byte
	for len(names) > 0 {
		namespace := names[0].namespace
		end := slices.IndexFunc(names, func(n name) bool { return n.namespace != namespace })
		if end < 0 {
			end = len(names)
		}
		b = binary.AppendUvarint(b, uint64(len(namespace)))
		b = append(b, namespace...)
		b = binary.AppendUvarint(b, uint64(end))
		var last carillon.RunID
		for _, n := range names[:end] {
			b = binary.AppendUvarint(b, uint64(n.run.Job-last.Job))
			b = binary.AppendVarint(b, int64(n.run.Due-last.Due))
			last = n.run
		}
		names = names[end:]
	}
	payload = sender + base64.RawStdEncoding.EncodeToString(b)
	return payload, len(payload) <= maxPayload
}

var errPayload = errors.New("a notification that this program does not understand")

func unpackNames(payload string) (sender string, names []name, err error) {
	if len(payload) < senderSize {
		return "", nil, errPayload
	}
	sender = payload[:senderSize]
	b, err := base64.RawStdEncoding.DecodeString(payload[senderSize:])
	if err != nil {
		return sender, nil, errPayload
	}
	r := byteReader{b: b}
	for len(r.b) > 0 && !r.failed {
		n := name{namespace: string(r.take(r.uvarint()))}
		for range min(r.uvarint(), maxNames) {
			n.run.Job += carillon.JobID(r.uvarint())
			n.run.Due += carillon.Time(r.varint())
			names = append(names, n)
		}
	}
	if r.failed {
		return sender, nil, errPayload
	}
	return sender, names, nil
}

// byteReader reads numbers until one is missing.
type byteReader struct {
	b      []byte
	failed bool
}

func (r *byteReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *byteReader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *byteReader) skip(n int) {
	if n <= 0 {
		r.b, r.failed = nil, true
		return
	}
	r.b = r.b[n:]
}

func (r *byteReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.failed = nil, true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}
