#!/bin/sh
# A worker for Carillon with curl, sed and setsid: one run at a time. docs/worker-protocol.md has the rules that it keeps.
#
#   CARILLON_SERVER=http://a:8420,http://b:8420 CARILLON_TOKEN=... ./worker.sh QUEUE PROGRAM [ARGUMENT...]
#
# The program gets the task as JSON on its standard input. What it prints is the log. Exit code 0 is success, 100 is
# fatal, any other is retried by the job's policy. Told to stop, it gets SIGTERM, and SIGKILL a second later; when the
# lease is over, or this script is gone, SIGKILL at once. Time limits of jobs are not kept: put timeout(1) before it.
set -u
if [ $# -lt 2 ] || [ -z "${CARILLON_SERVER:-}" ] || [ -z "${CARILLON_TOKEN:-}" ]; then
	echo "usage: CARILLON_SERVER=URL[,URL...] CARILLON_TOKEN=TOKEN $0 QUEUE PROGRAM [ARGUMENT...]" >&2
	exit 2
fi
queue=$1
shift
umask 077
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT # it has the token
servers=$(echo "$CARILLON_SERVER" | tr , ' ')
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$CARILLON_TOKEN" >"$work/headers" # not in the list of processes

# now is in whole seconds, by a clock that goes on while the machine sleeps and that nobody can set.
now() { cut -d. -f1 /proc/uptime 2>/dev/null || date +%s; }

# put NAME TEXT writes a file that the other loop of this script may be reading. It is written whole beside its place and then
# moved there, so the reader finds the old text or the new one, and never an empty file. $loop keeps the two writers apart.
loop=main
put() {
	printf '%s\n' "$2" >"$work/$1.$loop"
	mv "$work/$1.$loop" "$work/$1"
}

# stamp is the present time: with milliseconds where date knows them (GNU), else with seconds.
stamp() {
	time=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
	case $time in *N*) time=$(date -u +%Y-%m-%dT%H:%M:%SZ) ;; esac
	echo "$time"
}

# post METHOD PATH BODY-FILE SECONDS NAME asks one server after the other. The status is in $status, the answer in $work/NAME.
post() {
	for server in $servers; do
		status=$(curl -s -X "$1" -m "$4" -o "$work/$5" -w '%{http_code}' -H @"$work/headers" --data-binary @"$3" "$server/v1/workers$2")
		case $status in [24]??) return ;; esac
	done
}

# field NAME FILE is the first text of that name. A task begins with run, fence, attempt and token; what people wrote comes later.
field() { tr , '\n' <"$2" | sed -n 's/^{*"'"$1"'":"\([^"]*\)".*/\1/p' | head -n 1; }

register() {
	echo "{\"name\":\"shell:$$\",\"host\":\"$(uname -n)\",\"queues\":[\"$queue\"],\"slots\":1}" >"$work/name"
	sent=$(now)
	post POST "" "$work/name" 5 registered
	case $status in
	201) put worker "$(field worker "$work/registered")" && put lease "$sent" && rm -f "$work/over" ;;
	401) echo "the server does not accept CARILLON_TOKEN" >&2 && exit 1 ;;
	4??) cat "$work/registered" >&2 && exit 1 ;;
	*) sleep 1 ;;
	esac
}

# tend says every second what is held, and stops it when it is told to or the lease is over. Whole seconds may be off by
# one, so four of them are all that is left of a lease of five.
tend() {
	trap - EXIT # the directory is the main loop's
	loop=tend
	while sleep 1; do
		sent=$(now)
		sed "s/^{/{\"number\":$sent,/" "$work/holds" >"$work/beat"
		post POST "/$(cat "$work/worker")/heartbeat" "$work/beat" 1.5 orders
		case $status in
		200) put lease "$sent" ;;
		410) touch "$work/over" ;;
		esac
		if [ -e "$work/over" ] || [ $(($(now) - $(cat "$work/lease"))) -ge 4 ] || ! kill -0 $$ 2>/dev/null; then
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

# lines makes a JSON list of what was printed: the last thousand lines, without control characters.
lines() {
	tail -n 1000 "$1" | tr '\t' ' ' | LC_ALL=C tr -d '\000-\011\013-\037\177' |
		sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/{"text":"&"}/' | paste -sd, - | sed 's/.*/"lines":[&],/'
}

# perform runs the program for the task in $work/task, and hands in the end until there is a receipt.
perform() {
	held="{\"run\":\"$(field run "$work/task")\",\"fence\":\"$(field fence "$work/task")\""
	rm -f "$work/halted"
	put holds "{\"holds\":[$held}]}"
	began=$(stamp)
	setsid "$@" <"$work/task" >"$work/printed" 2>&1 & # a process group of its own: all of it can be killed
	put pid $!
	token="\"token\":\"$(field token "$work/task")\""
	echo "{\"reports\":[$held,$token,\"begun_at\":\"$began\"}]}" >"$work/report"
	post POST "/$(cat "$work/worker")/report" "$work/report" 3 receipt # lost, the run is only shown as claimed
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
	printf '%s\n' "{\"reports\":[$held$(lines "$work/printed")\"end\":{\"outcome\":$end}}]}" >"$work/report" # echo may undo escapes
	while post POST "/$(cat "$work/worker")/report" "$work/report" 10 receipt && [ "$status" != 200 ]; do
		case $status in 4??) echo "{\"reports\":[$held\"end\":{\"outcome\":$end}}]}" >"$work/report" ;; esac # the lines are at fault
		sleep 1
	done
	put holds '{"holds":[]}'
}

touch "$work/over" "$work/empty"
put holds '{"holds":[]}'
echo "{\"queues\":[\"$queue\"],\"max\":1}" >"$work/pull"
done=
trap 'done=1' TERM INT
while [ -e "$work/over" ] && [ -z "$done" ]; do register; done
tend &
tending=$!
while [ -z "$done" ]; do
	[ ! -e "$work/over" ] || register
	sent=$(now)
	post POST "/$(cat "$work/worker")/pull" "$work/pull" 3 pulled
	# An answer that is late, or came when the lease was over, begins nothing: the run may be somebody else's by now.
	if [ "$status" = 200 ] && [ $(($(now) - sent)) -le 2 ] && [ $(($(now) - $(cat "$work/lease"))) -lt 4 ]; then
		grep -q '"tasks":\[{' "$work/pulled" || continue
		sed 's/^{"tasks":\[//; s/\]}$//' "$work/pulled" >"$work/task"
		perform "$@"
	else
		sleep 1
	fi
done
kill "$tending" 2>/dev/null
[ ! -e "$work/worker" ] || post DELETE "/$(cat "$work/worker")" "$work/empty" 2 left
