package mem

// order is the order of a heap whose items know their places in it.
type order[T any] struct {
	before func(a, b *T) bool
	place  func(*T) *int
}

func (o *order[T]) push(heap []*T, item *T) []*T {
	heap = append(heap, item)
	*o.place(item) = len(heap) - 1
	o.fix(heap, item)
	return heap
}

func (o *order[T]) remove(heap []*T, item *T) []*T {
	at, last := *o.place(item), len(heap)-1
	o.swap(heap, at, last)
	heap[last] = nil // or an item that is gone would stay in memory
	heap = heap[:last]
	*o.place(item) = none
	if at < last {
		o.fix(heap, heap[at])
	}
	return heap
}

// arrange makes a heap of items in any order.
func (o *order[T]) arrange(items []*T) {
	for i, item := range items {
		*o.place(item) = i
	}
	for i := len(items)/2 - 1; i >= 0; i-- {
		o.sink(items, i)
	}
}

// fix puts an item where it belongs now.
func (o *order[T]) fix(heap []*T, item *T) {
	if len(heap) == 1 {
		return
	}
	i := *o.place(item)
	for i > 0 && o.before(heap[i], heap[(i-1)/2]) {
		o.swap(heap, i, (i-1)/2)
		i = (i - 1) / 2
	}
	o.sink(heap, i)
}

func (o *order[T]) sink(heap []*T, i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(heap); c++ {
			if o.before(heap[c], heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		o.swap(heap, i, least)
		i = least
	}
}

func (o *order[T]) swap(heap []*T, i, k int) {
	heap[i], heap[k] = heap[k], heap[i]
	*o.place(heap[i]), *o.place(heap[k]) = i, k
}
