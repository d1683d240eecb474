package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
)

// seal makes and checks the tokens of attempts and the ids of workers. A token is bound to (namespace, run,
// fence) and stored nowhere: every node that has the secret can check a token that any other node made.
type seal struct{ macs sync.Pool }

// tokenBytes is how many of the 32 bytes of HMAC-SHA256 a token has: 128 bits cannot be guessed, and every
// task carries them.
const tokenBytes = 16

// newSeal generates a secret if it gets none; that works only with a single node.
func newSeal(secret []byte) *seal {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	return &seal{sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// token returns the token by which a worker proves that it was given the attempt.
func (s *seal) token(namespace string, held carillon.Held) string {
	var text [24]byte
	return string(s.append(text[:0], namespace, held))
}

// append is token for an answer with many tasks: it appends to b.
func (s *seal) append(b []byte, namespace string, held carillon.Held) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	var facts [24]byte // of fixed length and first, so that no namespace can be read as a part of them
	binary.BigEndian.PutUint64(facts[0:], uint64(held.Run.Job))
	binary.BigEndian.PutUint64(facts[8:], uint64(held.Run.Due))
	binary.BigEndian.PutUint64(facts[16:], uint64(held.Fence))
	mac.Write(facts[:])
	mac.Write([]byte(namespace))
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.AppendEncode(b, mac.Sum(sum[:0])[:tokenBytes])
}

// worker returns a new id for a worker. It is bound to the credential that registers the worker, so that any
// node can see whether another credential speaks for it, without a read. The last 4 of its 10 bytes are the
// proof: a caller cannot choose between ids, so there is nothing to guess.
func (s *seal) worker(of key) string {
	var id [idBytes]byte
	_, _ = rand.Read(id[:idBytes-proofBytes])
	copy(id[idBytes-proofBytes:], s.binds(id[:idBytes-proofBytes], of))
	return cluster.WorkerPrefix + hex.EncodeToString(id[:])
}

const (
	idBytes    = 10
	proofBytes = 4
)

// owns says whether a worker was registered by the credential.
func (s *seal) owns(of key, worker string) bool {
	id, err := hex.DecodeString(strings.TrimPrefix(worker, cluster.WorkerPrefix))
	return err == nil && len(id) == idBytes &&
		hmac.Equal(id[idBytes-proofBytes:], s.binds(id[:idBytes-proofBytes], of))
}

func (s *seal) binds(id []byte, of key) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte("worker of a credential: ")) // what tokens of attempts begin with is a job's id
	mac.Write(of.sum[:])
	mac.Write([]byte(of.Namespace))
	mac.Write([]byte{0})
	mac.Write(id)
	return mac.Sum(nil)[:proofBytes]
}

// proves says whether the token is that of the attempt. It takes the same time for every token.
func (s *seal) proves(token, namespace string, held carillon.Held) bool {
	return hmac.Equal([]byte(token), []byte(s.token(namespace, held)))
}
