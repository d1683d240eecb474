package carillon

import (
	"strconv"
	"strings"
)

// maxFairWeight bounds the weight of a share.
const maxFairWeight = 100

// share is the job's share of its queue, as one text, because every run carries it: the key, and behind a
// star its weight if that is not 1. No key has a star. Without a key it is empty, whatever the weight.
func (j *Job) share() string {
	key := j.FairBy
	if key == "owner" {
		key = j.Owner
	}
	if key == "" || j.FairWeight <= 1 {
		return key
	}
	return key + "*" + strconv.Itoa(int(j.FairWeight))
}

// FairShare is the key by which the runs of the lane share their queue with others of their namespace and
// priority, and how many turns it gets where a share of weight 1 gets one.
func (l *Lane) FairShare() (key string, weight int) {
	key, text, weighted := strings.Cut(l.Share, "*")
	if n, err := strconv.Atoi(text); weighted && err == nil && n > 0 {
		return key, min(n, maxFairWeight)
	}
	return key, 1
}

// Sharer is the lane that stands for all lanes of a queue, a namespace, a share and a priority, whatever
// their runs need.
func (l Lane) Sharer() Lane {
	l.Share, _ = l.FairShare()
	l.Needs = ""
	return l
}

// WithoutShare is the lane that stands for the lane and all that differ from it only in their share.
func (l Lane) WithoutShare() Lane {
	l.Share = ""
	return l
}
