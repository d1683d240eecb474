package client

import (
	"bytes"
	"strconv"

	"github.com/carillon-run/carillon"
)

// quickTasks reads tasks in exactly the form in which a node of this version writes the common ones: these
// fields, in this order, without blanks or escapes. It takes a third of the time of encoding/json. For any
// other form, even a correct one, ok is false: then the caller must use encoding/json.
func quickTasks(body []byte) (all []taskJSON, ok bool) {
	s := scan{rest: body}
	s.must(`{"tasks":[`)
	all = make([]taskJSON, 0, min(bytes.Count(body, []byte(`{"run":"`)), maxPull))
	for first := true; !s.bad && (first || s.has(`,`)); first = false {
		before := &taskJSON{}
		if !first {
			before = &all[len(all)-1]
		}
		all = append(all, s.task(before))
	}
	s.must(`]}`)
	return all, !s.bad && len(bytes.TrimSpace(s.rest)) == 0
}

// task reads one task. It shares strings with the task before where they are equal.
func (s *scan) task(before *taskJSON) (t taskJSON) {
	s.must(`{"run":"`)
	id, err := carillon.ParseRunID(s.text(""))
	t.Run, s.bad = id, s.bad || err != nil
	s.must(`,"fence":"`)
	t.Fence, err = strconv.ParseInt(s.text(""), 10, 64)
	s.bad = s.bad || err != nil
	s.must(`,"attempt":`)
	t.Attempt = int32(s.number())
	s.must(`,"token":"`)
	t.Token = s.text("")
	s.must(`,"namespace":"`)
	t.Namespace = s.text(before.Namespace)
	s.must(`,"job_id":"`)
	s.text("")
	s.must(`,"name":"`)
	t.Name = s.text(before.Name)
	s.must(`,"type":"`)
	t.Type = s.text(before.Type)
	s.must(`,"queue":"`)
	t.Queue = s.text(before.Queue)
	s.must(`,"priority":`)
	t.Priority = int8(s.number())
	s.must(`,"due_at":"`)
	due := s.text("")
	if s.has(`,"covers":"`) {
		s.bad = s.text(due) != due || s.bad // equals the due time, for most runs
		t.Covers = t.Run.Due
	}
	s.must(`,"payload":`)
	t.Payload = s.value()
	s.must(`,"target":{"handler":{}}}`)
	t.Target.Handler = &carillon.Handler{}
	return t
}

// scan goes over a body. bad means that it met something other than the expected text.
type scan struct {
	rest []byte
	bad  bool
}

func (s *scan) has(literal string) bool {
	if len(s.rest) < len(literal) || string(s.rest[:len(literal)]) != literal {
		return false
	}
	s.rest = s.rest[len(literal):]
	return true
}

func (s *scan) must(literal string) { s.bad = !s.has(literal) || s.bad }

// text reads up to the closing quote. It returns like itself if the text is equal, to share the memory.
func (s *scan) text(like string) string {
	for i, c := range s.rest {
		switch {
		case c == '"':
			if text := s.rest[:i]; string(text) != like {
				like = string(text)
			}
			s.rest = s.rest[i+1:]
			return like
		case c < ' ' || c == '\\' || c > '~':
			s.bad = true
			return ""
		}
	}
	s.bad = true
	return ""
}

func (s *scan) number() (n int) {
	i := 0
	for i < len(s.rest) && i < 9 && s.rest[i] >= '0' && s.rest[i] <= '9' {
		n = 10*n + int(s.rest[i]-'0')
		i++
	}
	s.bad = s.bad || i == 0
	s.rest = s.rest[i:]
	return n
}

// value takes an object or a list as it is, and returns nil for null. The server has checked the JSON, so the
// brackets alone say where the value ends.
func (s *scan) value() []byte {
	if s.has(`null`) {
		return nil
	}
	depth, quoted := 0, false
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth == 0 {
				value := bytes.Clone(s.rest[:i+1]) // a long run must not keep the whole answer
				s.rest = s.rest[i+1:]
				return value
			}
		case depth == 0: // a text, a number or a word: rare
			s.bad = true
			return nil
		}
	}
	s.bad = true
	return nil
}
