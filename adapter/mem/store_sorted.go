package mem

import (
	"iter"
	"slices"
)

// sorted is an ordered set. It is cut into blocks so that adding and removing stay cheap with many items.
type sorted[T any] struct {
	compare func(a, b T) int
	blocks  [][]T // none is empty
}

const blockSize = 512

// block returns the index of the block that holds x, or would hold it.
func (s *sorted[T]) block(x T) int {
	i, _ := slices.BinarySearchFunc(s.blocks, x, func(b []T, x T) int { return s.compare(b[len(b)-1], x) })
	return i
}

func (s *sorted[T]) add(x T) {
	if len(s.blocks) == 0 {
		s.blocks = [][]T{{x}}
		return
	}
	i := min(s.block(x), len(s.blocks)-1)
	at, found := slices.BinarySearchFunc(s.blocks[i], x, s.compare)
	if found {
		return
	}
	b := slices.Insert(s.blocks[i], at, x)
	s.blocks[i] = b
	if len(b) > blockSize {
		half := len(b) / 2
		if at == len(b)-1 { // it grows at its end: leave full blocks behind
			half = len(b) - 1
		}
		s.blocks = slices.Insert(s.blocks, i+1, slices.Clone(b[half:]))
		s.blocks[i] = b[:half:half]
	}
}

func (s *sorted[T]) remove(x T) {
	i := s.block(x)
	if i == len(s.blocks) {
		return
	}
	at, found := slices.BinarySearchFunc(s.blocks[i], x, s.compare)
	if !found {
		return
	}
	s.blocks[i] = slices.Delete(s.blocks[i], at, at+1)
	if len(s.blocks[i]) == 0 {
		s.blocks = slices.Delete(s.blocks, i, i+1)
	}
}

// after yields the items greater than x, ascending.
func (s *sorted[T]) after(x T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := s.block(x); i < len(s.blocks); i++ {
			at, found := slices.BinarySearchFunc(s.blocks[i], x, s.compare)
			if found {
				at++
			}
			for _, item := range s.blocks[i][at:] {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// before yields the items less than x, descending.
func (s *sorted[T]) before(x T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := min(s.block(x), len(s.blocks)-1); i >= 0; i-- {
			at, _ := slices.BinarySearchFunc(s.blocks[i], x, s.compare)
			for at--; at >= 0; at-- {
				if !yield(s.blocks[i][at]) {
					return
				}
			}
		}
	}
}

// last returns the greatest item, or the zero value if there is none.
func (s *sorted[T]) last() (x T) {
	if n := len(s.blocks); n > 0 {
		return s.blocks[n-1][len(s.blocks[n-1])-1]
	}
	return x
}
