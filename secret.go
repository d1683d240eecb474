package carillon

import (
	"encoding/base64"
	"strings"
)

// Sign lets the receiver of a request check who sent it, as Standard Webhooks says: the request has a
// signature over its id, its time and its body.
type Sign struct {
	// Secret is what sender and receiver share: 24 to 64 bytes, as base64 behind "whsec_", or as text.
	Secret string `json:"secret"`
}

// SecretMask stands for a secret in answers of the API. An edit that gives it keeps the secret.
const SecretMask = "********"

const (
	secretPrefix         = "whsec_"
	minSecret, maxSecret = 24, 64
)

// Key is the key of the signature; false: the secret is not valid.
func (s *Sign) Key() ([]byte, bool) {
	key := []byte(s.Secret)
	if text, is := strings.CutPrefix(s.Secret, secretPrefix); is {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, false
		}
	}
	return key, len(key) >= minSecret && len(key) <= maxSecret
}

// admitSecret checks a secret. The error does not show it.
func admitSecret(secret string) *FieldError {
	if _, valid := (&Sign{Secret: secret}).Key(); valid {
		return nil
	}
	err := invalid("secret", "", "whsec_ and 24 to 64 bytes in base64, or a text of 24 to 64 bytes")
	switch secret {
	case "":
		return err
	case SecretMask:
		return err.because("%s stands for a secret that the job has, and there is none", SecretMask)
	}
	return err.because("it is no such secret")
}

// HasSecrets says that the definition may have a secret.
func (d *Definition) HasSecrets() bool {
	return d.hasHooks() || d.Target.HTTP != nil && d.Target.HTTP.Sign != nil ||
		d.Target.Workflow != nil && d.Target.Workflow.hasSecrets()
}

// Masked is the definition with a mask in place of each secret, for people.
func (d *Definition) Masked() Definition {
	masked := *d
	masked.eachSecret(nil, func(secret, _ *string) {
		if *secret != "" {
			*secret = SecretMask
		}
	})
	return masked
}

// keepSecrets puts the secrets of the definition before an edit in the place of masks.
func (d *Definition) keepSecrets(was *Definition) {
	if !d.HasSecrets() {
		return
	}
	d.eachSecret(was, func(secret, was *string) {
		if *secret == SecretMask && was != nil {
			*secret = *was
		}
	})
}

// eachSecret calls do with each secret, and with the one at the same place of another definition, or nil.
// What do changes is a copy: others have the definition too.
func (d *Definition) eachSecret(was *Definition, do func(secret, was *string)) {
	if was == nil {
		was = &Definition{}
	}
	d.Target.HTTP = d.Target.HTTP.eachSecret(was.Target.HTTP, do)
	d.Target.Workflow = d.Target.Workflow.eachSecret(was.Target.Workflow, do)
	if !d.hasHooks() {
		return
	}
	before := was.hooks()
	for i, h := range d.hooks() {
		*h.hook = (*h.hook).eachSecret(*before[i].hook, do)
	}
}

func (h *HTTP) eachSecret(was *HTTP, do func(secret, was *string)) *HTTP {
	if h == nil || h.Sign == nil {
		return h
	}
	request, sign := *h, *h.Sign
	var before *string
	if was != nil && was.Sign != nil {
		before = &was.Sign.Secret
	}
	do(&sign.Secret, before)
	request.Sign = &sign
	return &request
}

func (h *Hook) eachSecret(was *Hook, do func(secret, was *string)) *Hook {
	if h == nil {
		return nil
	}
	if was == nil {
		was = &Hook{}
	}
	hook := *h
	if h.Webhook != nil {
		webhook := *h.Webhook
		var before *string
		if was.Webhook != nil {
			before = &was.Webhook.Secret
		}
		do(&webhook.Secret, before)
		hook.Webhook = &webhook
	}
	if h.Job != nil {
		job := *h.Job
		var before *HTTP
		if was.Job != nil {
			before = was.Job.Target.HTTP
		}
		job.Target.HTTP = job.Target.HTTP.eachSecret(before, do)
		hook.Job = &job
	}
	return &hook
}

// eachSecret finds the nodes before an edit by their names.
func (w *Workflow) eachSecret(was *Workflow, do func(secret, was *string)) *Workflow {
	if w == nil || !w.hasSecrets() {
		return w
	}
	before := map[string]*Definition{}
	if was != nil {
		for i := range was.Nodes {
			before[was.Nodes[i].Name] = &was.Nodes[i].Definition
		}
	}
	w = w.clone()
	for i := range w.Nodes {
		w.Nodes[i].Definition.eachSecret(before[w.Nodes[i].Name], do)
	}
	return w
}

func (w *Workflow) hasSecrets() bool {
	for i := range w.Nodes { // by index: a node is large
		if w.Nodes[i].HasSecrets() {
			return true
		}
	}
	return false
}
