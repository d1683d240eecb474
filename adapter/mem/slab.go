package mem

// slab keeps values in pages, each under a small number that stays valid until the value is taken. A run
// takes some 200 bytes: with a slab, a heap or a list moves four bytes instead, there is one allocation per
// page instead of one per run, and a page without values goes back to the garbage collector.
type slab[T any] struct {
	pages []*page[T] // nil: the page has no values now
	room  []int32    // the numbers of the pages that have room; the last is filled first
	// spare has a few empty pages: a queue that fills and drains all the time should not allocate.
	spare []*page[T]
}

const (
	pageBits = 7
	pageSize = 1 << pageBits
	maxSpare = 16 // some 400 KB of runs
)

type page[T any] struct {
	values [pageSize]T
	free   [pageSize]uint8 // a stack: the first n are free
	n      int
}

func (s *slab[T]) at(i int32) *T { return &s.pages[i>>pageBits].values[i&(pageSize-1)] }

func (s *slab[T]) put(v T) int32 {
	if len(s.room) == 0 {
		s.room = append(s.room, int32(len(s.pages)))
		s.pages = append(s.pages, nil)
	}
	number := s.room[len(s.room)-1]
	p := s.pages[number]
	if p == nil {
		p = s.newPage()
		s.pages[number] = p
	}
	p.n--
	i := p.free[p.n]
	p.values[i] = v
	if p.n == 0 {
		s.room = s.room[:len(s.room)-1]
	}
	return number<<pageBits | int32(i)
}

func (s *slab[T]) newPage() *page[T] {
	var p *page[T]
	if last := len(s.spare) - 1; last >= 0 {
		p, s.spare = s.spare[last], s.spare[:last]
	} else {
		p = new(page[T])
	}
	for i := range p.free {
		p.free[i] = uint8(pageSize - 1 - i) // so that a fresh page fills in order
	}
	p.n = pageSize
	return p
}

// take removes and returns a value. It clears the place: a stale copy would keep the value's strings alive.
func (s *slab[T]) take(i int32) T {
	number := i >> pageBits
	p, at := s.pages[number], i&(pageSize-1)
	v := p.values[at]
	clear(p.values[at : at+1])
	if p.n == 0 {
		s.room = append(s.room, number)
	}
	p.free[p.n] = uint8(at)
	p.n++
	if p.n == pageSize {
		s.pages[number] = nil
		if len(s.spare) < maxSpare {
			s.spare = append(s.spare, p)
		}
	}
	return v
}

// reset frees the memory that an empty slab still holds after a burst.
func (s *slab[T]) reset() {
	if len(s.pages) > 32 {
		*s = slab[T]{spare: s.spare}
	}
}
