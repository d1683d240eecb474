package mem

// hasRoom says whether a lane takes one more run. A lane holds up to maxPerLane runs. But there can be a lane
// for each type of handler in each namespace, so once all lanes together hold ten times as many, a lane holds
// only a hundredth: enough for its workers until it is refilled.
func hasRoom(lane, all, maxPerLane int) bool {
	return lane < maxPerLane && (all < 10*maxPerLane || lane < max(maxPerLane/100, 1))
}
