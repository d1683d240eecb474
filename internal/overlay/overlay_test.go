package overlay

import (
	"strings"
	"testing"
)

func TestEditsAreReadAndApplied(t *testing.T) {
	edits, err := Read(`# About the list.

--- a/a.go
 	one
-	two
+	three
--- a/a.go
-	four
# The other file.
--- b.go
+	five
 	six
`)
	if err != nil || len(edits) != 3 {
		t.Fatalf("%+v, %v", edits, err)
	}
	files, err := Apply(edits[:2], func(string) ([]byte, error) {
		return []byte("\tone\n\ttwo\n\tfour\n"), nil
	})
	if err != nil || files["a/a.go"] != "\tone\n\tthree\n" {
		t.Errorf("%q, %v", files, err)
	}
	for _, text := range []string{"\tsix\n\tsix\n", "\tseven\n"} {
		_, err := Apply(edits[2:], func(string) ([]byte, error) { return []byte(text), nil })
		if err == nil || !strings.Contains(err.Error(), "want once") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, list := range []string{"--- a.go\n?\n", "+\tno file\n"} {
		if _, err := Read(list); err == nil {
			t.Errorf("%q was accepted", list)
		}
	}
}
