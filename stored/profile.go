package stored

import (
	"encoding/json"

	"github.com/carillon-run/carillon"
)

// PackProfile writes what a member tells about itself as JSON; nothing told is nothing written.
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

// UnpackProfile undoes PackProfile. A profile is for people: one that this program cannot read must not hide that its
// member is alive, so it reads as nothing told.
func UnpackProfile(text string) (p carillon.Profile) {
	if text != "" && json.Unmarshal([]byte(text), &p) != nil {
		return carillon.Profile{}
	}
	return p
}
