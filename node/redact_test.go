package node

import "testing"

func TestAPasswordIsNotShown(t *testing.T) {
	for store, want := range map[string]string{
		"postgres://u:secret@h/db":                               "postgres://u:xxxxx@h/db",
		"postgres://h/db?user=u&password=secret&sslmode=require": "postgres://h/db?user=u&password=xxxxx&sslmode=require",
		"postgres://h/db?sslkey=k&sslpassword=secret":            "postgres://h/db?sslkey=k&sslpassword=xxxxx",
		"postgres://u:secret@h/db?PASSWORD=se%20cret":            "postgres://u:xxxxx@h/db?PASSWORD=xxxxx",
		"host=h user=u password=secret dbname=db":                "host=h user=u password=xxxxx dbname=db",
		"host=h password = 'se cret' user=u":                     "host=h password = xxxxx user=u",
		`host=h password='it\'s secret' user=u`:                  "host=h password=xxxxx user=u",
		`host=h password=se\ cret user=u`:                        "host=h password=xxxxx user=u",
		"host=h password='se cret":                               "host=h password=xxxxx",
		"host=h password=sec;ret user=u":                         "host=h password=xxxxx user=u",
		"host=/tmp password=sec://ret user=u":                    "host=/tmp password=xxxxx user=u",
		"host=h password=sec&ret user=u":                         "host=h password=xxxxx user=u",
		"postgres://h/db?password=sec;ret&x=1":                   "postgres://h/db?password=xxxxx&x=1",
		"postgres://h/db?password=sec#ret":                       "postgres://h/db?password=xxxxx",
		"postgres:/u:secret@h/db":                                "postgres:xxxxx@h/db",
		"postgres//u:secret@h/db":                                "postgres//u:xxxxx@h/db",
		"postgres://u:1/secret@h/db":                             "postgres://u:xxxxx@h/db",
		"postgres://u:1?secret@h/db":                             "postgres://u:xxxxx@h/db",
		"postgres://u:p@1/secret@h/db":                           "postgres://u:xxxxx@h/db",
		"postgres://u:p@ss@h/db":                                 "postgres://u:xxxxx@h/db",
		"u:secret@tcp(h:3306)/db":                                "u:xxxxx@tcp(h:3306)/db",
		"mysql://u:secret@h/db?tls=true":                         "mysql://u:xxxxx@h/db?tls=true",
		"postgres://u:sec ret@h/db":                              "(not a URL)",
		"sqlite:/var/lib/carillon.db":                            "sqlite:/var/lib/carillon.db",
		"sqlite:/var/lib/carillon@1/carillon.db":                 "sqlite:/var/lib/carillon@1/carillon.db",
		"mem:":                                                   "mem:",
	} {
		if got := Redact(store); got != want {
			t.Errorf("%s becomes %s, want %s", store, got, want)
		}
	}
}
