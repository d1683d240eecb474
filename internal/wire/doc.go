// Package wire has the messages that a server and its clients exchange: each has one type, one writer and one
// reader. The description of the API is made from these types. A type's json tags are the truth; most
// messages are written and read by encoding/json. Tasks and reports pass by the ten thousand in a second, so
// they have a writer by hand and a quick reader beside the type. Tests hold all three together, so that a new
// field can neither be forgotten nor slow the messages down unnoticed.
//
// A reader of the server is strict (see jobjson.Decode): it refuses what it does not understand, and names
// the field. A reader of the client ignores unknown fields, because a newer server may add some.
package wire
