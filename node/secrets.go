package node

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/carillon-run/carillon"
)

// secrets are the same on all nodes that share a store.
type secrets struct {
	token string // of the API
	runs  []byte // signs the tokens of attempts
	node  string // the token that nodes show each other
}

// secretKey is the key of the guard that keeps the secrets.
const secretKey = "secrets"

type sharedSecrets struct {
	Token string `json:"token"`
	Root  []byte `json:"root"`
}

// share reads the secrets from the store, or makes them if this is the first node ever. Nodes that share a
// store all use its token. Each keeps a copy in its data directory, for the people on that machine.
func (n *Node) share(ctx context.Context) (secrets, error) {
	for range 10 {
		guards, err := n.backend.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: carillon.SystemNamespace, Keys: []string{secretKey},
		})
		if err != nil {
			return secrets{}, fmt.Errorf("read the cluster's secrets: %w", err)
		}
		if len(guards) > 0 {
			return n.keep(guards[0])
		}
		made, err := n.makeSecrets()
		if err != nil {
			return secrets{}, err
		}
		if _, err := n.backend.Store.Commit(ctx, []carillon.Change{
			{Guards: []carillon.Guard{made}},
		}); err != nil {
			return secrets{}, fmt.Errorf("keep the cluster's secrets: %w", err)
		}
	}
	return secrets{}, errors.New("could not read the cluster's secrets back after they were written")
}

// makeSecrets starts from the token in the data directory, if there is one.
func (n *Node) makeSecrets() (carillon.Guard, error) {
	own, err := token(n.cfg.Data)
	if err != nil {
		return carillon.Guard{}, err
	}
	root := make([]byte, 32)
	rand.Read(root)
	value, err := json.Marshal(sharedSecrets{Token: own, Root: root})
	return carillon.Guard{Namespace: carillon.SystemNamespace, Key: secretKey, Value: value}, err
}

func (n *Node) keep(g carillon.Guard) (secrets, error) {
	var s sharedSecrets
	if err := json.Unmarshal(g.Value, &s); err != nil || len(s.Token) < 16 || len(s.Root) < 32 {
		return secrets{}, fmt.Errorf(
			"the cluster's secrets in the store (guard %s/%s) cannot be read: %w", g.Namespace, g.Key, err,
		)
	}
	if !n.backend.Shared { // the token file counts: a user who replaces it wants the new token
		own, err := token(n.cfg.Data)
		if err != nil {
			return secrets{}, err
		}
		s.Token = own
	} else if err := writeFile(filepath.Join(n.cfg.Data, tokenFile), s.Token+"\n", 0o600); err != nil {
		return secrets{}, err
	}
	return secrets{
		token: s.Token, runs: derive(s.Root, "runs"),
		node: "node_" + hex.EncodeToString(derive(s.Root, "nodes")),
	}, nil
}

// derive makes a key for one purpose from the root secret.
func derive(root []byte, purpose string) []byte {
	h := hmac.New(sha256.New, root)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}
