package node

import "testing"

func TestAPasswordIsNotShown(t *testing.T) {
	for store, want := range map[string]string{
		"postgres://u:secret@h/db":                               "postgres://u:xxxxx@h/db",
		"postgres://h/db?user=u&password=secret&sslmode=require": "postgres://h/db?user=u&password=xxxxx&sslmode=require",
		"postgres://h/db?sslkey=k&sslpassword=secret":            "postgres://h/db?sslkey=k&sslpassword=xxxxx",
		"postgres://u:secret@h/db?PASSWORD=se%20cret":            "postgres://u:xxxxx@h/db?PASSWORD=xxxxx",
		"host=h user=u password=secret dbname=db":                "host=h%20user=u%20password=xxxxx",
		"u:secret@tcp(h:3306)/db":                                "u:xxxxx@tcp(h:3306)/db",
		"mysql://u:secret@h/db?tls=true":                         "mysql://u:xxxxx@h/db?tls=true",
		"postgres://u:sec ret@h/db":                              "(not a URL)",
		"sqlite:/var/lib/carillon.db":                            "sqlite:/var/lib/carillon.db",
		"mem:":                                                   "mem:",
	} {
		if got := Redact(store); got != want {
			t.Errorf("%s becomes %s, want %s", store, got, want)
		}
	}
}
