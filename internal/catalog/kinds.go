package catalog

import (
	"fmt"
	"strings"

	"github.com/carillon-run/carillon"
)

// Queue is what operators set for a queue.
type Queue struct {
	// Weight is how many places the queue gets for each one of a queue with weight 1, while both have due
	// runs.
	Weight int `json:"weight"`
}

// Namespace is what operators set for a namespace. Its record belongs to that namespace, and has its name.
type Namespace struct {
	// Weight is how many places of a queue the namespace gets for each one of a namespace with weight 1,
	// while both have due runs.
	Weight int `json:"weight"`
}

// MaxWeight is the highest weight of a queue or a namespace. The lowest, and the default, is 1.
const MaxWeight = 100

// The kinds of records.
var (
	Queues = Kind[Queue]{
		name: "queue", table: func(s *Snapshot) *Table[Queue] { return &s.Queues },
	}
	Namespaces = Kind[Namespace]{
		name: "namespace", table: func(s *Snapshot) *Table[Namespace] { return &s.Namespaces },
	}
	// Limits are named by what they are for and its name, as in "queue/mail": see LimitName.
	Limits = Kind[carillon.Limit]{
		name: "limit", table: func(s *Snapshot) *Table[carillon.Limit] { return &s.Limits },
		fill: func(name string, l *carillon.Limit) error {
			of, key, ok := strings.Cut(name, "/")
			if !ok {
				return fmt.Errorf("%q does not say what the limit is for", name)
			}
			l.Of, l.Key, l.Weight = carillon.LimitOf(of), key, max(l.Weight, 1)
			return nil
		},
	}
	// Gates are named by their ids.
	Gates = Kind[carillon.Gate]{
		name: "gate", table: func(s *Snapshot) *Table[carillon.Gate] { return &s.Gates },
	}

	kinds = map[string]anyKind{
		Queues.name: Queues, Namespaces.name: Namespaces, Limits.name: Limits, Gates.name: Gates,
	}
)

// NamespaceName names the record of a namespace.
func NamespaceName(namespace string) Name { return Name{namespace, namespace} }

// LimitName is the name of the record of a limit.
func LimitName(of carillon.LimitOf, key string) string { return string(of) + "/" + key }

// Kind is a kind of records with values of type T.
type Kind[T any] struct {
	name  string // part of the key; never change it
	table func(*Snapshot) *Table[T]
	// fill completes a value that was read by what the name says. Default: it is complete.
	fill func(name string, value *T) error
}

type anyKind interface {
	read(into *Snapshot, name Name, guard *carillon.Guard) error
}
