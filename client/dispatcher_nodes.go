package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// node is a server of the API.
type node struct {
	base   *url.URL
	given  bool      // by the operator of the worker: never dropped
	former bool      // it was in an earlier list, but is not in the last one: tried after all others
	failed time.Time // when it last did not answer
}

// remembered is how long a node that did not answer is asked only after all others: nodes can list addresses
// that this machine cannot reach, and each try of such an address costs a second.
const remembered = 10 * time.Second

// Former nodes are kept for a worker whose given servers and listed nodes are all gone. A call tries few of
// them, those with the oldest failure first: each can cost a second, and meanwhile a given server may be
// back.
const (
	maxFormer  = 16
	formerOnce = 2
)

// call asks one node after the other, each for up to limit, until one answers. That is harmless: a caller can
// repeat every call to a dispatcher.
func (d *Dispatcher) call(ctx context.Context, limit time.Duration, r request, out any) (err error) {
	nodes := d.order()
	for _, n := range nodes {
		if err = d.try(ctx, n, limit, r, out); !elsewhere(err) || ctx.Err() != nil {
			return err
		}
	}
	if len(nodes) > 1 {
		err = fmt.Errorf("none of the servers %s answers; the last one: %w", names(nodes), err)
	}
	return err
}

// try asks one node. A node that answers becomes the current one. A node that does not is marked as failed,
// so that the next call asks another node first.
func (d *Dispatcher) try(ctx context.Context, n *node, limit time.Duration, r request, out any) error {
	c := &Client{base: n.base, token: d.token, http: d.http, timeout: limit}
	err := c.call(ctx, r, out)
	failed := elsewhere(err)
	if failed && ctx.Err() != nil { // the caller gave up, which says nothing about the node
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if failed {
		n.failed = time.Now()
	} else {
		n.failed, n.former = time.Time{}, false
		d.prefer(n)
	}
	return err
}

// elsewhere says that another node might do better: this one, or a proxy in front of it, gave no answer.
func elsewhere(err error) bool {
	var problem *Problem
	if errors.As(err, &problem) {
		return slices.Contains(
			[]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
			problem.Status,
		)
	}
	return err != nil
}

// order lists nodes in the order in which to ask them: the current one, unless it failed lately; then nodes
// that have not failed lately; then the others; then a few former ones. Within a group the given nodes come
// first, because they are certain to be meant for this machine.
func (d *Dispatcher) order() []*node {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	rank := func(n *node) int {
		switch failing := now.Sub(n.failed) < remembered; {
		case n.former:
			return 4
		case failing && !n.given:
			return 3
		case failing:
			return 2
		case !n.given && n != d.nodes[0]:
			return 1
		}
		return 0
	}
	nodes := slices.Clone(d.nodes)
	slices.SortStableFunc(nodes, func(a, b *node) int {
		if a.former && b.former {
			return a.failed.Compare(b.failed)
		}
		return rank(a) - rank(b)
	})
	if first := slices.IndexFunc(nodes, func(n *node) bool { return n.former }); first >= 0 {
		nodes = nodes[:min(len(nodes), first+formerOnce)]
	}
	return nodes
}

// prefer makes a node the current one. The caller holds mu.
func (d *Dispatcher) prefer(n *node) {
	if i := slices.Index(d.nodes, n); i > 0 {
		d.nodes = slices.Insert(slices.Delete(d.nodes, i, i+1), 0, n)
	}
}

// learn takes over the list of nodes, in its order: nodes list first the nodes that are most likely alive.
// Recent failures stay known. Nodes that are no longer listed become former nodes, of which the latest are
// kept.
func (d *Dispatcher) learn(addresses []string) {
	if len(addresses) == 0 {
		return // more likely a node that does not know yet than a cluster without nodes
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := make(map[string]*node, len(d.nodes))
	for _, n := range d.nodes {
		known[n.key()] = n
	}
	var listed []*node
	for _, address := range addresses {
		base, err := parseServer(address)
		if err != nil {
			continue
		}
		n := &node{base: base}
		if was := known[n.key()]; was != nil {
			n = was
		}
		n.former = false
		if !slices.Contains(listed, n) {
			listed = append(listed, n)
		}
	}
	d.nodes = arrange(d.nodes, listed)
}

// arrange puts the current node first, then the listed nodes, then the given ones, then the former ones that
// are kept. Among the former ones, those of the previous list come first. A current node that answers stays
// current, listed or not.
func arrange(nodes, listed []*node) []*node {
	current := nodes[0]
	var given, former []*node
	for _, n := range nodes {
		switch {
		case slices.Contains(listed, n):
		case n.given || n == current && n.failed.IsZero():
			given = append(given, n)
		case len(former) < maxFormer:
			n.former = true
			former = append(former, n)
		}
	}
	all := slices.Concat(listed, given, former)
	if i := slices.Index(all, current); i > 0 && !current.former {
		all = slices.Insert(slices.Delete(all, i, i+1), 0, current)
	}
	return all
}

func (n *node) key() string { return strings.TrimSuffix(n.base.String(), "/") }

// shuffle makes workers with the same servers begin with different ones.
func (d *Dispatcher) shuffle() {
	rand.Shuffle(len(d.nodes), func(i, j int) { d.nodes[i], d.nodes[j] = d.nodes[j], d.nodes[i] })
}

func names(nodes []*node) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.base.String()
	}
	return strings.Join(all, ", ")
}
