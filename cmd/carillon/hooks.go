package main

import "github.com/carillon-run/carillon"

// hookText says in a line what a hook does; "" if there is none.
func hookText(hook *carillon.Hook) string {
	if hook == nil {
		return ""
	}
	text := ""
	if hook.After != 0 {
		text = "after " + hook.After.String() + ": "
	}
	if hook.Webhook != nil {
		return text + "POST " + hook.Webhook.URL + ", signed"
	}
	text += targetLines(&hook.Job.Target)[0]
	if hook.Job.Type != "" {
		text += ", type " + hook.Job.Type
	}
	return shorten(text, 200)
}
