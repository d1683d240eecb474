package mem

// room says whether a lane takes one more run. A lane holds up to maxPerLane runs. But there can be a lane
// for each type of handler in each namespace, so once all lanes together hold ten times as many, a lane holds
// only a hundredth: enough for its workers until it is refilled. Lanes that differ only in their share count
// as one then: a namespace can have any number of shares, and must not take the room of others by them.
type room struct {
	lane, shares, all int // runs of the lane, of it and all its shares, of all lanes
	maxPerLane        int
}

func (r room) left() bool {
	return r.lane < r.maxPerLane && (r.all < 10*r.maxPerLane || r.shares < max(r.maxPerLane/100, 1))
}
