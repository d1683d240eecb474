package sqlcommon

// Names are the strings that a reader has seen: many rows share few namespaces, queues and workers. The zero
// value is empty.
type Names map[string]string

// maxNames bounds the strings that a reader remembers.
const maxNames = 4096

// Of returns the bytes as a string, without allocating it again.
func (n *Names) Of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, known := (*n)[string(b)]; known {
		return s
	}
	if *n == nil {
		*n = Names{}
	}
	if len(*n) >= maxNames {
		clear(*n)
	}
	s := string(b)
	(*n)[s] = s
	return s
}
