package sqlcommon

import (
	"encoding/json"

	"github.com/carillon-run/carillon"
)

// PackProfile writes a member's profile as JSON; an empty profile is an empty text.
func PackProfile(p carillon.Profile) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // text and numbers only
	}
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// UnpackProfile undoes PackProfile. A profile is for people: one that this program cannot read must not hide
// that its member is alive, so it reads as an empty profile.
func UnpackProfile(text string) (p carillon.Profile) {
	if text != "" && json.Unmarshal([]byte(text), &p) != nil {
		return carillon.Profile{}
	}
	return p
}
