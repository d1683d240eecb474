package cron

import "math/bits"

// set holds the values a field allows: bit n is value n. The largest value of any field is 59, so one word is
// enough, and finding the next allowed value takes one instruction, however sparse the field is.
type set uint64

// between is the set {lo, lo+1, ..., hi}.
func between(lo, hi int) set { return set(1)<<(hi+1) - set(1)<<lo }

func (s set) has(n int) bool { return s>>n&1 == 1 }

func (s set) len() int { return bits.OnesCount64(uint64(s)) }

func (s set) min() int { return bits.TrailingZeros64(uint64(s)) }

func (s set) max() int { return bits.Len64(uint64(s)) - 1 }

// from returns the smallest member that is at least n.
func (s set) from(n int) (int, bool) {
	rest := s >> n << n
	return rest.min(), rest != 0
}

// upTo returns the largest member that is at most n; n may be -1.
func (s set) upTo(n int) (int, bool) {
	rest := s & (set(1)<<(n+1) - 1)
	return rest.max(), rest != 0
}

// values lists the members in order.
func (s set) values() []int {
	list := make([]int, 0, s.len())
	for ; s != 0; s &= s - 1 {
		list = append(list, s.min())
	}
	return list
}
