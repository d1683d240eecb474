//go:build !failpoints

package node

import "context"

// stepClock does nothing: only tests set the clock of a node.
func (n *Node) stepClock(context.Context) error { return nil }
