package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/owned"
)

const (
	defaultServer = "http://127.0.0.1:8420"
	defaultData   = "./carillon-data"
)

// Files that serve writes to its data directory for the command line to find.
const (
	tokenFile   = "token"   // for as long as the data lives
	addressFile = "address" // while it serves
)

// place is a server's URL, and where the command line found it: if the server cannot be reached, the error
// says so.
type place struct {
	url, from string
	found     bool // in the data directory: the user did not name it
}

// fromDefault marks the default address: the command line knows nothing about a server there, and any process
// of the machine can listen on it.
const fromDefault = "the default"

// locate looks for the server in this order: the flag, the environment, the address file of the local server,
// the default.
func (a *app) locate() (place, error) {
	switch {
	case a.server != "":
		return place{url: withScheme(a.server), from: "--server"}, nil
	case a.env("CARILLON_SERVER") != "":
		return place{url: withScheme(a.env("CARILLON_SERVER")), from: "CARILLON_SERVER"}, nil
	}
	text, err := a.local(addressFile, owned.Users.Read)
	if err != nil {
		return place{}, fmt.Errorf(
			"find the local server: %w; or name a server with --server or CARILLON_SERVER", err,
		)
	}
	if text == "" {
		return place{url: defaultServer, from: fromDefault}, nil
	}
	to := place{withScheme(text), filepath.Join(a.data, addressFile), true}
	if !onThisMachine(to.url) {
		return place{},
			fmt.Errorf("%s names %s, which is not an address of this machine; if you trust that server, "+
				"name the server with --server or CARILLON_SERVER",
				to.from, to.url)
	}
	return to, nil
}

// local reads a file that a server wrote to the data directory; it returns "" if there is none. A directory
// that came with a repository, or that another user made, must not decide which server gets this user's jobs
// and runs commands on its workers. If the user named the directory, local trusts its owner as well: root
// looks after servers that run as other users.
func (a *app) local(file string, read func(owned.Users, string) ([]byte, error)) (string, error) {
	path, users := filepath.Join(a.data, file), owned.Me()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if a.data != defaultData {
		if uid, err := owned.Owner(a.data); err == nil {
			users = append(users, uid)
		}
	}
	if err := users.Directory(a.data); err != nil {
		return "", err
	}
	text, err := read(users, path)
	return strings.TrimSpace(string(text)), err
}

// onThisMachine says that a URL has an address of this machine. Host names do not count: a server writes an
// IP address.
func onThisMachine(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return ip != nil
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip)
	})
}

// withScheme lets people write localhost:8420.
func withScheme(server string) string {
	if strings.Contains(server, "://") {
		return server
	}
	return "http://" + server
}

// credential is the token to send. A token that the user named goes to a server that the user named, or to
// the default address; a server whose address is from a file gets the token beside that file. The local token
// in turn is only for the server of its directory: credential does not send it to a host on the network that
// --server or the environment names, nor to the default address.
func (a *app) credential(to place) (string, error) {
	named, from, err := a.namedToken()
	if err != nil || named != "" && !to.found {
		return named, err
	}
	if !a.trusts(to) {
		return "", nil
	}
	beside, err := a.local(tokenFile, owned.Users.ReadSecret)
	if err != nil {
		return "", fmt.Errorf("read the local token: %w", err)
	}
	if to.found && beside == "" {
		return "",
			fmt.Errorf("%s names a server, but there is no token beside it; if you trust that server, name "+
				"the server with --server or CARILLON_SERVER",
				to.from)
	}
	if named != "" && named != beside {
		return "",
			usage("the token from %s is not sent to %s, because that address comes from the file %s and "+
				"not from you; name the server with --server or CARILLON_SERVER, or leave the token out",
				from, to.url, to.from)
	}
	return beside, nil // if empty, the server says whether it needs one
}

// namedToken is the token from --token, from the file of --token-file, or from the environment.
func (a *app) namedToken() (token, from string, err error) {
	switch {
	case a.token != "":
		return a.token, "--token", nil
	case a.tokenFile != "":
		text, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return "", "", usage("token-file: %s", err)
		}
		return strings.TrimSpace(string(text)), "--token-file", nil
	}
	return a.env("CARILLON_TOKEN"), "CARILLON_TOKEN", nil
}

// trusts says that the local token can be sent to a place: the data directory names the place, or the user
// named a loopback address. If neither names a place, no server of the directory is running: a server keeps
// its address file while it serves.
func (a *app) trusts(to place) bool {
	if to.found || to.from == fromDefault {
		return to.found
	}
	u, err := url.Parse(to.url)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// connect makes the client. It sends nothing yet.
func (a *app) connect() (*client.Client, error) {
	to, err := a.locate()
	if err != nil {
		return nil, err
	}
	token, err := a.credential(to)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{
		URL: to.url, Token: token, HTTP: a.http, Warn: a.warn, Retrying: a.retrying,
	})
	if err != nil {
		return nil, usage("%s: %v", to.from, err)
	}
	return c, nil
}

// describeUnreachable says which address was tried, and how to get a server.
func (a *app) describeUnreachable(away *client.Unreachable) string {
	to, _ := a.locate()
	return fmt.Sprintf("%v (address from %s); start a server with \"carillon serve\", or name one with "+
		"--server or CARILLON_SERVER",
		away, to.from)
}

// describeRefused says which token the server refused, or where the command line looked for one.
func (a *app) describeRefused() string {
	to, _ := a.locate()
	file := filepath.Join(a.data, tokenFile)
	token, _ := a.credential(to)
	_, none := os.Stat(file)
	var found string
	switch {
	case a.token != "":
		found = "does not accept the token from --token"
	case a.env("CARILLON_TOKEN") != "":
		found = "does not accept the token from CARILLON_TOKEN"
	case token != "":
		found = "does not accept the token from " + file +
			": is that its data directory? Name another with --data"
	case to.from == fromDefault && none == nil:
		found = "needs a token. The token in " + file + " is not sent there, because no server runs on " +
			"that directory. Name the data directory of the server with --data, the server with --server " +
			"or CARILLON_SERVER, or a token with --token or CARILLON_TOKEN"
	case to.from != fromDefault && !a.trusts(to):
		found = "needs a token, and the local token is not sent to another machine; give a token with " +
			"--token or CARILLON_TOKEN"
	default:
		found = "needs a token, and there is no file " + file +
			"; name the data directory of the server with --data, or a token with --token or CARILLON_TOKEN"
	}
	return to.url + " " + found
}
