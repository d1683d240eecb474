package executor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
)

// sign adds the headers of Standard Webhooks (standardwebhooks.com). The id is the same for all attempts of a
// run, so that the receiver can tell that it has seen the message before; the time is that of the attempt.
func sign(header http.Header, with *carillon.Sign, id string, body []byte, now time.Time) error {
	key, valid := with.Key()
	if !valid {
		return errors.New("sign: the secret is not valid")
	}
	at := strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", "v1,"+signature(key, id, at, body))
	return nil
}

func signature(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
