package jobjson

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/carillon-run/carillon"
)

// raw keeps a value byte for byte. It still refuses ambiguous input inside the value, unless the value is too
// big. Such a value is refused later anyway, and remembering its names could take far more memory than the
// value itself.
func (d *decoder) raw(into *json.RawMessage) error {
	d.json.next()
	start, depth := d.json.at, d.depth
	d.large = start + carillon.MaxPayload
	err := d.inside()
	if err == nil && d.json.at <= d.large {
		*into = bytes.Clone(d.json.body[start:d.json.at])
		return nil
	}
	d.json.at, d.depth = start, depth
	value, notJSON := d.json.whole()
	if notJSON != nil {
		return notJSON
	}
	if *into = value; len(value) > carillon.MaxPayload {
		return nil
	}
	return err
}

// errLarge is for raw alone.
var errLarge = errors.New("too large")

// inside goes past a value that is not decoded any further.
func (d *decoder) inside() error {
	switch d.json.next() {
	case '{':
		d.json.at++
		return d.members(len(d.json.body), func(name []byte) error {
			if d.json.at > d.large {
				return errLarge
			}
			if err := d.inside(); err != nil {
				return under(field(name), err)
			}
			return nil
		})
	case '[':
		d.json.at++
		return d.items(len(d.json.body), d.inside)
	}
	_, err := d.json.plain()
	return err
}

// names are the names of an object's fields so far. Most objects have few, and comparing these takes no
// memory.
type names struct {
	few   [16][]byte
	many  map[string]bool
	count int
}

// add says whether the name is a new one.
func (n *names) add(name []byte) bool {
	if n.count < len(n.few) {
		for _, other := range n.few[:n.count] {
			if bytes.Equal(name, other) {
				return false
			}
		}
		n.few[n.count] = name
		n.count++
		return true
	}
	if n.many == nil {
		n.many = make(map[string]bool, 4*len(n.few))
		for _, other := range n.few {
			n.many[string(other)] = true
		}
	}
	if n.many[string(name)] {
		return false
	}
	n.many[string(name)] = true
	n.count++
	return true
}
