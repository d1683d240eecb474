package owned

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/porttest/skip"
)

const stranger = 54321

// makeOne makes a directory or, with content, a file, with the given mode whatever the umask is. Only root
// can make one that belongs to another user.
func makeOne(t *testing.T, content string, mode os.FileMode, uid int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it")
	var err error
	if content == "" {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err == nil && uid != os.Geteuid() {
		if os.Geteuid() != 0 {
			skip.Loudly(t, skip.KindRights, "only root can give files to another user; run the tests as root")
		}
		err = os.Chown(path, uid, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADirectoryIsBelievedIfOnlyItsUserCanWriteThere(t *testing.T) {
	me := os.Geteuid()
	for name, c := range map[string]struct {
		mode os.FileMode
		uid  int
		want []string // none: it is accepted
	}{
		"private":         {0o700, me, nil},
		"others can read": {0o755, me, nil},
		"the group can write": {
			0o770, me, []string{"other users can write in PATH (mode 0770)", "chmod go-w PATH", "inside it"},
		},
		"everybody can write":    {0o777, me, []string{"chmod go-w PATH"}},
		"with the sticky bit":    {os.ModeSticky | 0o777, me, []string{"chmod go-w PATH"}},
		"it is another user's":   {0o700, stranger, []string{"PATH belongs to user 54321", "chown -R"}},
		"both, the owner counts": {0o777, stranger, []string{"belongs to user 54321"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := makeOne(t, "", c.mode, c.uid)
			check(t, path, Me().Directory(path), c.want)
		})
	}
}

func TestAFileIsReadIfOnlyItsUserCanWriteIt(t *testing.T) {
	me := os.Geteuid()
	for name, c := range map[string]struct {
		mode         os.FileMode
		uid          int
		file, secret []string
	}{
		"private": {0o600, me, nil, nil},
		"others can read": {
			0o644, me, nil, []string{"other users can read PATH (mode 0644)", "chmod 600 PATH"},
		},
		"the group can read": {0o640, me, nil, []string{"other users can read PATH (mode 0640)"}},
		"the group can write": {
			0o620, me,
			[]string{"other users can write PATH (mode 0620)"},
			[]string{"other users can write PATH"},
		},
		"another user's": {
			0o600, stranger, []string{"PATH belongs to user 54321"}, []string{"chown -R"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := makeOne(t, "content", c.mode, c.uid)
			text, err := Me().Read(path)
			check(t, path, err, c.file)
			if err == nil && string(text) != "content" {
				t.Errorf("read %q", text)
			}
			_, err = Me().ReadSecret(path)
			check(t, path, err, c.secret)
		})
	}
}

func TestAFileThatIsNotMadeYetIsTakenIfItsDirectoryIs(t *testing.T) {
	me := os.Geteuid()
	for name, c := range map[string]struct {
		dir, file       os.FileMode // file 0: there is none
		dirUID, fileUID int
		want            string
	}{
		"there is none":                   {0o755, 0, me, me, ""},
		"it is mine":                      {0o755, 0o644, me, me, ""},
		"it is a stranger's":              {0o755, 0o600, me, stranger, "belongs to user 54321"},
		"other users can write it":        {0o755, 0o660, me, me, "other users can write PATH"},
		"the directory is a stranger's":   {0o755, 0o600, stranger, me, "belongs to user 54321"},
		"other users write the directory": {0o777, 0o600, me, me, "other users can write in"},
		"the same, and there is none":     {0o777, 0, me, me, "other users can write in"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := makeOne(t, "", c.dir, c.dirUID)
			path := filepath.Join(dir, "store.db")
			if c.file != 0 {
				if err := os.Rename(makeOne(t, "content", c.file, c.fileUID), path); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			check(t, path, Me().File(path), want)
		})
	}
}

func TestALinkOfAnotherUserIsNotFollowed(t *testing.T) {
	mine := makeOne(t, "", 0o700, os.Geteuid())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	check(t, link, Me().Directory(link), nil)
	if os.Geteuid() != 0 {
		skip.Loudly(t, skip.KindRights, "only root can give files to another user; run the tests as root")
	}
	if err := os.Lchown(link, stranger, -1); err != nil {
		t.Fatal(err)
	}
	check(t, link, Me().Directory(link), []string{"PATH belongs to user 54321"})
}

func TestWhatIsNoDirectoryOrNoFileIsRefused(t *testing.T) {
	file, dir := makeOne(t, "content", 0o600, os.Geteuid()), makeOne(t, "", 0o700, os.Geteuid())
	check(t, file, Me().Directory(file), []string{"PATH is not a directory"})
	_, err := Me().Read(dir)
	check(t, dir, err, []string{"PATH is not a regular file"})
	if _, err := Me().Read(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func check(t *testing.T, path string, err error, want []string) {
	t.Helper()
	if want == nil && err != nil {
		t.Errorf("it is refused: %v", err)
	}
	for _, text := range want {
		text = strings.ReplaceAll(text, "PATH", path)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
}
