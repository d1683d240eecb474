// Package failpoint names the places in the code at which tests kill the process: before and after each
// commit and each answer that a promise rests on. Only programs that are built with the tag failpoints have
// them. Such a program reads the environment variable FAILPOINTS: names of points, each with the chance that
// the process ends there, for example
//
//	FAILPOINTS=claim.before=1/200,end.after=1/500
//
// If FAILPOINTS_WHILE names a file, points have an effect only while that file is there.
package failpoint

import "strings"

// Points are the names of all points.
var Points = []string{
	"submit.before",         // a node is about to commit new jobs
	"submit.after",          // it has committed them, and has not answered yet
	"plan.before",           // the scheduler is about to commit a decision without a claim: a skip, or a turn
	"plan.after",            // it has committed it
	"claim.before",          // a node is about to commit claims; they plan the next run of a recurring job
	"claim.after",           // it has committed them
	"pull.before",           // it is about to answer a pull with the claimed runs
	"pull.after",            // a worker has got that answer, and has begun nothing
	"end.before",            // a node is about to commit ends that a worker reported
	"end.after",             // it has committed them
	"receipt.before",        // it is about to answer with the receipts
	"receipt.after",         // a worker has got the receipts, and still holds the runs
	"takeback.before",       // a node is about to take back runs that no worker holds
	"takeback.after",        // it has committed that
	"workflow.start.before", // the conductor is about to commit starts of unattended runs
	"workflow.start.after",  // it has committed them
	"workflow.end.before",   // it is about to commit the end of an unattended run
	"workflow.end.after",    // it has committed it
}

// Everywhere is a value of FAILPOINTS: every point, with the same chance.
func Everywhere(chance string) string {
	return strings.Join(Points, "="+chance+",") + "=" + chance
}
