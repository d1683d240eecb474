// Package disk keeps what runs print as plain files, made for people with grep and tail:
//
//	<dir>/<namespace>/<class>/<day the run was due, UTC>/<run id>.log
//
// A class is how long its files are kept: "default", by the server's rule, or for instance "keep-2d", by the job's.
// A line of a file is one line of output: attempt, offset, time in Unix milliseconds, stream and text.
//
//	1 0 1794718800000 stdout hello
//
// Files are only ever appended to. After a crash the last line may be torn; the next append marks it, so that it does
// not read as something the run has printed. Whoever sent it has had no answer and sends it again. Nothing is synced:
// a power cut may cost the last seconds of output, never a run.
package disk
