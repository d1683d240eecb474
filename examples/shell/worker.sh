#!/bin/sh
# A worker for Carillon with curl, sed and setsid: one run at a time. It follows the rules of
# docs/worker-protocol.md.
#
#   CARILLON_SERVER=http://a:8420,http://b:8420 CARILLON_TOKEN=... ./worker.sh QUEUE PROGRAM [ARGUMENT...]
#
# The program gets the task as JSON on its standard input. Its output is the log. Exit code 0 is success,
# 100 is fatal, any other is retried by the job's policy. If the server orders a stop, the program gets
# SIGTERM, and SIGKILL a second later; if the lease is over, or this script is gone, it gets SIGKILL at once.
# The script does not enforce time limits of jobs: put timeout(1) before the program.
set -u
if [ $# -lt 2 ] || [ -z "${CARILLON_SERVER:-}" ] || [ -z "${CARILLON_TOKEN:-}" ]; then
	echo "usage: CARILLON_SERVER=URL[,URL...] CARILLON_TOKEN=TOKEN $0 QUEUE PROGRAM [ARGUMENT...]" >&2
	exit 2
fi
queue=$1
shift
umask 077
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT # the directory has the token
servers=$(echo "$CARILLON_SERVER" | tr , ' ')
# A file, so that the token is not in the list of processes.
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$CARILLON_TOKEN" >"$work/headers"

# now prints whole seconds, by a clock that goes on while the machine sleeps and that cannot be set. Without
# /proc/uptime it uses the wall clock.
now() { cut -d. -f1 /proc/uptime 2>/dev/null || date +%s; }

# put NAME TEXT writes a file that the other loop of this script may be reading. It writes the whole text
# to another file and then renames that file, so the reader finds the old text or the new one, and never an
# empty file. $loop keeps the two writers apart.
loop=main
put() {
	printf '%s\n' "$2" >"$work/$1.$loop"
	mv "$work/$1.$loop" "$work/$1"
}

# stamp prints the present time: with milliseconds if date supports them (GNU), else with seconds.
stamp() {
	time=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
	case $time in *N*) time=$(date -u +%Y-%m-%dT%H:%M:%SZ) ;; esac
	echo "$time"
}

# post METHOD PATH BODY-FILE SECONDS NAME asks one server after another. The status is in $status, the answer
# in $work/NAME.
post() {
	for server in $servers; do
		status=$(curl -s -X "$1" -m "$4" -o "$work/$5" -w '%{http_code}' -H @"$work/headers" \
			--data-binary @"$3" "$server/v1/workers$2")
		case $status in [24]??) return ;; esac
	done
}

# field NAME FILE prints the first text of that name. A task begins with run_id, fence, attempt and token;
# texts that users wrote come later.
field() { tr , '\n' <"$2" | sed -n 's/^{*"'"$1"'":"\([^"]*\)".*/\1/p' | head -n 1; }

register() {
	wants="\"queues\":[\"$queue\"],\"kinds\":[\"handler\"]"
	echo "{\"name\":\"shell:$$\",\"host\":\"$(uname -n)\",\"slots\":1,$wants}" >"$work/name"
	sent=$(now)
	post POST "" "$work/name" 5 registered
	case $status in
	201) put worker "$(field worker_id "$work/registered")" && put lease "$sent" && rm -f "$work/over" ;;
	401) echo "the server does not accept CARILLON_TOKEN" >&2 && exit 1 ;;
	4??) cat "$work/registered" >&2 && exit 1 ;;
	*) sleep 1 ;;
	esac
}

# tend tells the server every second which run this worker holds, and stops the run when the server says so or
# the lease is over. Whole seconds may be off by one, so only four of them are left of a lease of five.
tend() {
	trap - EXIT # the directory belongs to the main loop
	loop=tend
	heard=0
	while sleep 1; do
		sent=$(now)
		sed "s/^{/{\"number\":$sent,\"heard\":$heard,/" "$work/holds" >"$work/beat"
		post POST "/$(cat "$work/worker")/beat" "$work/beat" 1.5 orders
		case $status in
		200) put lease "$sent" && heard=$sent ;;
		410) touch "$work/over" && heard=0 ;;
		esac
		if [ -e "$work/over" ] || [ $(($(now) - $(cat "$work/lease"))) -ge 4 ] ||
			! kill -0 $$ 2>/dev/null; then
			halt lost KILL
		elif [ "$status" = 200 ] && grep -q '"stop":\[{' "$work/orders"; then
			if [ -e "$work/halted" ]; then halt stopped KILL; else halt stopped TERM; fi
		fi
		kill -0 $$ 2>/dev/null || exit
	done
}

halt() {
	[ -e "$work/pid" ] || return
	[ -e "$work/halted" ] || put halted "$1"
	kill "-$2" "-$(cat "$work/pid")" 2>/dev/null
}

# lines makes a JSON list of the program's output: the last thousand lines, without control characters.
lines() {
	tail -n 1000 "$1" | tr '\t' ' ' | LC_ALL=C tr -d '\000-\011\013-\037\177' |
		sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/{"text":"&"}/' | paste -sd, - | sed 's/.*/"lines":[&],/'
}

# perform runs the program for the task in $work/task, and reports the end until there is a receipt.
perform() {
	held="{\"run_id\":\"$(field run_id "$work/task")\",\"fence\":\"$(field fence "$work/task")\""
	rm -f "$work/halted"
	put holds "{\"holds\":[$held}]}"
	began=$(stamp)
	setsid "$@" <"$work/task" >"$work/printed" 2>&1 & # its own process group, to kill all of it
	put pid $!
	token="\"token\":\"$(field token "$work/task")\""
	echo "{\"reports\":[$held,$token,\"begun_at\":\"$began\"}]}" >"$work/report"
	# If this report is lost, the run is only shown as claimed.
	post POST "/$(cat "$work/worker")/report" "$work/report" 3 receipt
	wait $!
	code=$?
	while kill -0 $! 2>/dev/null; do # a signal to this script has ended the wait early
		wait $!
		code=$?
	done
	rm -f "$work/pid"
	case $code in
	0) end='"success"' ;;
	100) end='"fatal","reason":"exit code 100"' ;;
	*) end="\"retriable\",\"reason\":\"exit code $code\"" ;;
	esac
	[ "$code" = 0 ] || [ ! -e "$work/halted" ] || end="\"$(cat "$work/halted")\""
	end="$end,\"started_at\":\"$began\""
	held="$held,$token,"
	# Not echo, which may undo escapes.
	printf '%s\n' "{\"reports\":[$held$(lines "$work/printed")\"end\":{\"outcome\":$end}}]}" >"$work/report"
	while post POST "/$(cat "$work/worker")/report" "$work/report" 10 receipt && [ "$status" != 200 ]; do
		# After 4?? the lines are at fault: report without them.
		case $status in 4??) echo "{\"reports\":[$held\"end\":{\"outcome\":$end}}]}" >"$work/report" ;; esac
		sleep 1
	done
	put holds '{"holds":[]}'
}

touch "$work/over" "$work/empty"
put holds '{"holds":[]}'
echo "{\"queues\":[\"$queue\"],\"kinds\":[\"handler\"],\"max\":1}" >"$work/pull"
done=
trap 'done=1' TERM INT
while [ -e "$work/over" ] && [ -z "$done" ]; do register; done
tend &
tending=$!
while [ -z "$done" ]; do
	[ ! -e "$work/over" ] || register
	sent=$(now)
	post POST "/$(cat "$work/worker")/pull" "$work/pull" 3 pulled
	# An answer that is late, or came when the lease was over, begins nothing: another worker may have the
	# run by now.
	if [ "$status" = 200 ] && [ $(($(now) - sent)) -le 2 ] &&
		[ $(($(now) - $(cat "$work/lease"))) -lt 4 ]; then
		grep -q '"tasks":\[{' "$work/pulled" || continue
		sed 's/^{"tasks":\[//; s/\]}$//' "$work/pulled" >"$work/task"
		perform "$@"
	else
		sleep 1
	fi
done
kill "$tending" 2>/dev/null
[ ! -e "$work/worker" ] || post DELETE "/$(cat "$work/worker")" "$work/empty" 2 left
