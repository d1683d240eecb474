package carillon

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// plainNode is a WorkflowNode without its methods.
type plainNode WorkflowNode

// usualNode has the values that the JSON of a node leaves out. They are written out here and not taken from
// the defaults: if a default changes one day, stored workflows must not change with it.
func usualNode() WorkflowNode {
	n := WorkflowNode{Join: JoinAll, admitted: true}
	n.Definition = Definition{
		Owner: "default", Queue: "default", Priority: 5, FairWeight: 1, Overlap: OverlapSkip,
		Labels: map[string]string{},
		Retry: Retry{
			MaxAttempts: 3, Backoff: BackoffExponential, Delay: Duration(1e9), MaxDelay: Duration(600e9),
			Jitter: 0.2, MaxCrashes: 5,
		},
		Misfire: Misfire{Policy: MisfireOnce, Max: 100, Window: Duration(24 * 3600e9)},
	}
	return n
}

// MarshalJSON leaves out what is usual: a workflow can have thousands of nodes. A node that was not admitted
// has zeros in place of its defaults, and leaves those out.
func (n WorkflowNode) MarshalJSON() ([]byte, error) {
	usual := WorkflowNode{}
	if n.admitted {
		usual = usualNode()
	}
	b := bytes.NewBufferString(`{`)
	value, left := reflect.ValueOf(&n).Elem(), reflect.ValueOf(&usual).Elem()
	for _, i := range []int{0, -1} { // the definition, then what is only of a node
		of, not := value, left
		if i == 0 {
			of, not = value.Field(0), left.Field(0)
		}
		if err := appendFields(b, of, not, n.admitted); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// appendFields writes the fields of a struct that differ from those of another one.
func appendFields(b *bytes.Buffer, of, from reflect.Value, admitted bool) error {
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		field := of.Field(i).Interface()
		if reflect.DeepEqual(field, from.Field(i).Interface()) {
			continue
		}
		if !admitted {
			field = givenOnly(field)
		}
		text, err := json.Marshal(field)
		if err != nil {
			return err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		b.Write(text)
	}
	return nil
}

// givenOnly is a field of a node that was not admitted as a caller gives it: Zero is written as 0, and fields
// of retry that are zero are left out.
func givenOnly(field any) any {
	number := func(n float64) float64 {
		if n == Zero {
			return 0
		}
		return n
	}
	switch v := field.(type) {
	case int:
		return int(number(float64(v)))
	case int32:
		return int32(number(float64(v)))
	case Duration:
		if v == Zero {
			return Duration(0)
		}
	case Retry:
		all := map[string]any{}
		of := reflect.ValueOf(v)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
			if !of.Field(i).IsZero() && name != "" && name != "-" {
				all[name] = givenOnly(of.Field(i).Interface())
			}
		}
		return all
	case float64:
		return number(v)
	}
	return field
}

// UnmarshalJSON reads a node that was admitted. The strict decoder reads what callers give.
func (n *WorkflowNode) UnmarshalJSON(b []byte) error {
	*n = usualNode()
	if err := json.Unmarshal(b, (*plainNode)(n)); err != nil {
		return err
	}
	for i := range n.After {
		if n.After[i].On == "" {
			n.After[i].On = OnSuccess
		}
	}
	return nil
}
