package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon-run/carillon/client"
)

const (
	defaultServer = "http://127.0.0.1:8420"
	defaultData   = "./carillon-data"
)

// What serve leaves in its data directory for the command line to find.
const (
	tokenFile   = "token"   // for as long as the data lives
	addressFile = "address" // while it serves
)

// place is a server's URL, and where it was learned: an error that cannot reach it says so.
type place struct{ url, from string }

// locate looks for the server: what was typed, the environment, the local server's own word, the default.
func (a *app) locate() place {
	address := filepath.Join(a.data, addressFile)
	switch {
	case a.server != "":
		return place{withScheme(a.server), "--server"}
	case a.env("CARILLON_SERVER") != "":
		return place{withScheme(a.env("CARILLON_SERVER")), "CARILLON_SERVER"}
	}
	if text, err := os.ReadFile(address); err == nil && len(strings.TrimSpace(string(text))) > 0 {
		return place{withScheme(strings.TrimSpace(string(text))), address}
	}
	return place{defaultServer, "the default"}
}

// withScheme lets people write localhost:8420.
func withScheme(server string) string {
	if strings.Contains(server, "://") {
		return server
	}
	return "http://" + server
}

// credential is the token to send. The local one opens this machine's server and nobody else's: it is not sent to a
// place on the network that --server or the environment named.
func (a *app) credential(to place) (string, error) {
	if token := cmp.Or(a.token, a.env("CARILLON_TOKEN")); token != "" {
		return token, nil
	}
	if !a.trusts(to) {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(a.data, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // the server says whether it needs one
	}
	if err != nil {
		return "", fmt.Errorf("read the local token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// trusts says that the place is on this machine, by its address or because the data directory names it.
func (a *app) trusts(to place) bool {
	if to.from != "--server" && to.from != "CARILLON_SERVER" {
		return true
	}
	u, err := url.Parse(to.url)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// connect makes the client. Nothing is sent yet.
func (a *app) connect() (*client.Client, error) {
	to := a.locate()
	token, err := a.credential(to)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: to.url, Token: token, HTTP: a.http})
	if err != nil {
		return nil, usage("%s: %v", to.from, err)
	}
	return c, nil
}

// describeUnreachable says what was tried, and how to get a server.
func (a *app) describeUnreachable(away *client.Unreachable) string {
	to := a.locate()
	return fmt.Sprintf("%v (address from %s); start a server with \"carillon serve\", or name one with --server or CARILLON_SERVER",
		away, to.from)
}

// describeRefused says which token was refused, or where one was looked for.
func (a *app) describeRefused() string {
	to := a.locate()
	file := filepath.Join(a.data, tokenFile)
	token, _ := a.credential(to)
	var found string
	switch {
	case a.token != "":
		found = "does not accept the token from --token"
	case a.env("CARILLON_TOKEN") != "":
		found = "does not accept the token from CARILLON_TOKEN"
	case token != "":
		found = "does not accept the token from " + file + ": is that its data directory? Name another with --data"
	case !a.trusts(to):
		found = "wants a token, and the local one is not sent to another machine: give one with --token or CARILLON_TOKEN"
	default:
		found = "wants a token, and there is none in " + file + ": name its data directory with --data, or a token with --token or CARILLON_TOKEN"
	}
	return to.url + " " + found
}
