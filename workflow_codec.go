package carillon

import (
	"encoding/binary"
	"errors"
	"slices"
)

var errProgress = errors.New("the guard holds no progress of a workflow")

// ProgressOf reads the value of a guard. The progress shares nothing with the guard.
func ProgressOf(value []byte) (*Progress, error) {
	if len(value) < 2 || value[0] != progressFormat {
		return nil, errProgress
	}
	r := numbers{value[1:], true}
	p := &Progress{
		Stop: Stop(r.next()), Payload: r.next() == 1, Version: int32(r.next()),
		Start: Time(r.next()), Open: int(r.next()),
	}
	for range min(r.next(), maxGenerations) {
		p.Bases = append(p.Bases, JobID(r.next()))
	}
	for range min(r.next(), MaxWorkflowNodes) {
		p.Maps = append(p.Maps, MapProgress{
			Node: int(r.next()), Base: JobID(r.next()), Due: Time(r.next()), Items: int(r.next()),
			Open: int(r.next()), Bad: int(r.next()),
		})
	}
	n := int(r.next())
	if !r.ok || len(p.Bases) == 0 || n != len(r.rest) {
		return nil, errProgress
	}
	p.nodes = slices.Clone(r.rest)
	return p, nil
}

// Value is the value of the guard.
func (p *Progress) Value() []byte {
	b := make([]byte, 0, len(p.nodes)+64+40*len(p.Maps))
	b = append(b, progressFormat)
	payload := uint64(0)
	if p.Payload {
		payload = 1
	}
	for _, n := range []uint64{
		uint64(p.Stop), payload, uint64(p.Version), uint64(p.Start), uint64(p.Open), uint64(len(p.Bases)),
	} {
		b = binary.AppendUvarint(b, n)
	}
	for _, base := range p.Bases {
		b = binary.AppendUvarint(b, uint64(base))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Maps)))
	for _, m := range p.Maps {
		for _, n := range []uint64{
			uint64(m.Node), uint64(m.Base), uint64(m.Due), uint64(m.Items), uint64(m.Open), uint64(m.Bad),
		} {
			b = binary.AppendUvarint(b, n)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(p.nodes)))
	return append(b, p.nodes...)
}

// numbers reads numbers one after the other.
type numbers struct {
	rest []byte
	ok   bool
}

func (r *numbers) next() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.ok = nil, false
		return 0
	}
	r.rest = r.rest[size:]
	return n
}
