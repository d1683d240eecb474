// Package disk keeps what runs print in plain text files, made for people with grep and tail. Many runs share a file:
//
//	<dir>/<namespace>/<class>/<time the segment began, UTC>.log
//
// A class is how long its lines are kept: "default", by the server's rule, or for instance "keep-2d", up to that long by
// the job's. A line of a file is one line of output: run, attempt, offset, time in Unix milliseconds, stream and text.
//
//	run_0000000000019000xvmcg0w 1 0 1794718800000 stdout hello
//
// A segment is only ever appended to. When it is large enough, or old enough, it is sealed: an index is written beside
// it, sorted by run, and the next segment begins. Only the index of segments that are not sealed is in memory. Trim
// removes segments as a whole.
//
// After a crash the last line of a segment may be torn. The next start cuts it off: the worker that sent it has had no
// answer and sends it again. Lines are not synced when they are appended: a power cut may cost the last seconds of output,
// never a run. A segment is synced when it is sealed, so an index never knows more than the file has.
//
// A person can remove, cut or edit segments: Trim finds that within its next turn, and what is left can be read. But lines
// that are appended to an open segment after its file was removed are lost with it.
package disk
