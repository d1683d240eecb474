package mem

// hasRoom says whether a lane takes one more run. A lane holds up to maxPerLane runs. But there can be a lane
// for each type of handler in each namespace, and for each share, so once all lanes together hold ten times
// as many, a lane holds only a hundredth: enough for its workers until it is refilled. Above twelve times as
// many only an empty lane takes a run, and above fifteen times none does.
func hasRoom(lane, all, maxPerLane int) bool {
	switch {
	case all >= 15*maxPerLane:
		return false
	case all >= 12*maxPerLane:
		return lane == 0
	case all >= 10*maxPerLane:
		return lane < max(maxPerLane/100, 1)
	}
	return lane < maxPerLane
}
