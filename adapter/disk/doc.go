// Package disk keeps the output of runs in plain text files, made for people with grep and tail. Many runs
// share a file:
//
//	<dir>/<namespace>/<class>/<time the segment began, UTC>.log
//
// A class says how long its lines are kept: "default" by the server's rule, or for instance "keep-2d" up to
// two days by the job's rule. A line of a file is one line of output: run, attempt, offset, time in Unix
// milliseconds, stream and text.
//
//	run_0000000000019000xvmcg0w 1 0 1794718800000 stdout hello
//
// A segment is only ever appended to. When it is large enough, or old enough, it is sealed: Logs writes an
// index beside it, sorted by run, and begins the next segment. Only the index of segments that are not sealed
// is in memory. Trim removes segments as a whole.
//
// After a crash the last line of a segment can be torn. The next start cuts it off: the worker that sent it
// has had no answer and sends it again. Lines are not synced when they are appended: a power cut can cost the
// last seconds of output, never a run. A segment is synced when it is sealed, so an index never knows more
// than the file has.
//
// A person can remove, cut or edit segments. Trim finds that the next time it runs, and the lines that are
// left can be read. But lines that are appended to an open segment after its file was removed are lost with
// it.
package disk
