package mem

// contest divides places fairly between members that have runs: the shares of a namespace, the namespaces of
// a queue, or the queues. A place costs its member some time, the less the higher its weight, and the member
// with the earliest time is next. So a member that comes with one run does not wait behind the thousands of
// another one.
type contest struct {
	// now passes as places are given: with n members of weight 1 it takes n places until it has passed by the
	// cost of one. It passes faster if workers do not take the runs of some members. A member that comes
	// begins at now: it gets nothing for the time before.
	now    int64
	weight int64     // of the members that have runs
	active int       // how many they are
	left   []*member // those that have none, and may be ahead of now
}

// member is what a contest knows of one of its members.
type member struct {
	key    string
	time   int64
	weight int64
	active bool // it has runs
}

// placeCost is what a place costs a member of weight 1.
const placeCost = 1 << 20

// maxLeft is how many members that have left are remembered, with two for each that has runs.
const maxLeft = 1024

// enter lets a member take part that has runs again. A member that left ahead of now comes back where it
// left: otherwise it would gain by having only one run at a time.
func (c *contest) enter(m *member) {
	if !m.active {
		m.active, m.time = true, max(m.time, c.now)
		c.weight, c.active = c.weight+m.weight, c.active+1
	}
}

// reweigh gives a member another weight, for the places that it gets from now on.
func (c *contest) reweigh(m *member, weight int64) {
	if m.active {
		c.weight += weight - m.weight
	}
	m.weight = weight
}

// leave notes that a member has no more runs. The owner of the members keeps it until passed returns it.
func (c *contest) leave(m *member) {
	m.active = false
	c.weight, c.active = c.weight-m.weight, c.active-1
	c.left = append(c.left, m)
	if c.weight == 0 { // no member waits for a place, so none can be at a disadvantage
		for _, m := range c.left {
			c.now = max(c.now, m.time)
		}
	}
}

// charge notes that a member got n places, one after the other. A member whose runs no worker could take for
// a while can be far behind now. It gets nothing for that time either.
func (c *contest) charge(m *member, n int) {
	cost, places := placeCost/m.weight, int64(n)
	m.time = max(m.time, c.now) + places*cost
	c.now = max(c.now+places*max(placeCost/c.weight, 1), m.time-cost)
}

// passed takes out a member that has left and is no longer ahead of now; nil: there is none. It can return a
// member twice. If very many have left, the first of them is forgotten before its time: users name shares.
func (c *contest) passed() *member {
	for len(c.left) > 0 && (c.left[0].active || c.left[0].time <= c.now || len(c.left) > maxLeft+2*c.active) {
		m := c.left[0]
		c.left[0] = nil
		if c.left = c.left[1:]; len(c.left) == 0 {
			c.left = nil
		}
		if !m.active {
			return m
		}
	}
	return nil
}

// forget drops the members of a contest that need not be remembered any longer.
func forget[T any](c *contest, all map[string]*T, of func(*T) *member) {
	for m := c.passed(); m != nil; m = c.passed() {
		if x := all[m.key]; x != nil && of(x) == m {
			delete(all, m.key)
		}
	}
}
