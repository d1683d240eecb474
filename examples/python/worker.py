#!/usr/bin/env python3
"""A worker for Carillon with Python's standard library alone.

    CARILLON_SERVER=http://a:8420,http://b:8420 CARILLON_TOKEN=... python3 worker.py QUEUE...

The first part has the handlers: replace them with your own. The second part asks Carillon for runs, calls
the handlers and reports how the runs ended. It follows the rules of docs/worker-protocol.md; the comments
name them.
"""

import http.client
import json
import math
import os
import re
import signal
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from datetime import datetime, timezone

SLOTS = 4  # how many runs this worker performs at the same time


# ------------------------------------------------------------------------------------------------- handlers


class Fatal(Exception):
    """A handler raises it when no further attempt can help.

    After any other exception the job's retry policy decides.
    """


def echo(task):
    """Returns its payload as the result of the run.

    The worker sets task.stop when the run was canceled, has timed out or is lost. Nothing can end a Python
    thread by force, so a long handler must check task.stop.
    """
    wish = task.payload or {}
    task.print(f"attempt {task.attempt} of echo")
    if task.stop.wait(wish.get("sleep", 0)):
        raise InterruptedError("stopped while asleep")
    if wish.get("refuse"):
        raise Fatal("not ever")
    if wish.get("fail", 0) >= task.attempt:
        raise RuntimeError("not this time")
    return {"echo": wish, "attempt": task.attempt}


def count(task):
    """Counts, and saves a checkpoint after each step.

    An attempt after a crash goes on from the last checkpoint.
    """
    begin = task.checkpoint or 0
    task.print(f"counting from {begin}")
    for number in range(begin + 1, task.payload["to"] + 1):
        task.save(number)
        if task.stop.wait(task.payload.get("pause", 0)):
            raise InterruptedError(f"stopped at {number}")
        if number == task.payload.get("fail_at") and task.attempt == 1:
            raise RuntimeError(f"failed at {number}")
    return {"from": begin, "to": task.payload["to"]}


HANDLERS = {"echo": echo, "count": count}  # by the type of the job


# --------------------------------------------------------------------------------------------- the protocol

BEAT_EVERY, LEASE, PULL_LATE = 1, 5, 3  # seconds, as the server says when a worker registers
TELL_EVERY = 0.2  # seconds between two checks for something to report
SHORT = 0.1  # seconds: shorter runs need not be shown as running


class SessionOver(Exception):
    """The server does not know this worker any more: rule 6."""


class Unauthorized(Exception):
    """The server does not accept the token. Asking again would not help."""


class Refused(Exception):
    """The server does not understand a message. It would refuse the same message again."""


def clock():
    """Seconds by a clock that goes on while the machine sleeps and that cannot be set: rule 4."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def timestamp():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(duration):
    """The seconds of a duration such as 1m30s."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smhd])", duration))


class Task:
    """One attempt of a run: what a handler needs, and what the worker must report of it."""

    def __init__(self, given):
        self.name = {"run_id": given["run_id"], "fence": given["fence"]}
        self.token = given["token"]
        self.type, self.attempt, self.payload = given["type"], given["attempt"], given["payload"]
        self.checkpoint = given.get("checkpoint")  # what an earlier attempt has saved
        self.stop = threading.Event()
        self.halted = None  # the outcome to report if the handler fails after it was told to stop

        self.began, self.began_at = clock(), timestamp()
        self.deadline = self.began + seconds(given["timeout"]) if "timeout" in given else math.inf  # rule 8
        self.sending = threading.Lock()  # one report of an attempt at a time
        self.changing = threading.Lock()  # guards the fields below
        self.shown = False  # as running
        self.lines, self.sent_lines = [], 0
        self.unsaved = None  # a checkpoint

    def print(self, text, stream="stdout"):
        """Writes to the run's log."""
        with self.changing:
            for line in str(text).splitlines():
                self.lines.append({"stream": stream, "text": line, "at": timestamp()})

    def save(self, checkpoint):
        """Saves how far the attempt has come.

        If the attempt fails or is lost, the next one finds this in task.checkpoint.
        """
        with self.changing:
            self.unsaved = {"checkpoint": checkpoint}

    def halt(self, outcome, reason):
        """Asks the handler to end. The first reason counts."""
        self.halted = self.halted or {"outcome": outcome, "reason": reason}
        self.stop.set()

    def news(self):
        """Returns what was not reported yet: fields of a report, and how many lines are among them."""
        with self.changing:
            news, count = {}, len(self.lines)
            if not self.shown and clock() - self.began >= SHORT:
                news["begun_at"] = self.began_at
            if self.lines:
                first = dict(self.lines[0], offset=self.sent_lines)  # the server keeps a repeated line once
                news["lines"] = [first] + self.lines[1:]
            if self.unsaved:
                news.update(self.unsaved)
            return news, count

    def told(self, news, lines):
        """Notes that the server has recorded the news, and so many of the lines."""
        with self.changing:
            self.shown = self.shown or "begun_at" in news
            self.lines, self.sent_lines = self.lines[lines:], self.sent_lines + lines
            if self.unsaved and self.unsaved.get("checkpoint") == news.get("checkpoint"):
                self.unsaved = None


class Worker:
    def __init__(self, servers, token, queues):
        self.servers, self.token = servers, token
        self.wants = {"queues": queues, "kinds": ["handler"], "types": list(HANDLERS)}  # it gets nothing else
        self.session = ""  # "": none
        self.heard = 0  # number of the session's latest beat that was answered
        self.lease = 0  # until when this worker can work for the session: rule 2
        self.held = {}  # tasks whose end has no receipt yet, by run and fence
        self.stopping = threading.Event()

    def run(self):
        """Works until it is told to stop, then finishes the runs that it holds."""
        tending = threading.Thread(target=self.tend, daemon=True)
        tending.start()
        threading.Thread(target=self.tell_all, daemon=True).start()
        while not self.stopping.is_set():
            if not self.pull():
                time.sleep(0.1)
        tending.join()

    def pull(self):
        """Asks for as many runs as there are free slots and begins them. False: it got no usable answer."""
        session, sent, free = self.session, clock(), SLOTS - len(self.held)
        if not session or not free:
            return False
        try:
            answer = self.call("POST", f"/{session}/pull", dict(self.wants, max=free), timeout=PULL_LATE)
        except (ConnectionError, SessionOver):
            return False
        if session != self.session or clock() > min(sent + PULL_LATE, self.lease):
            return False  # rule 3: another worker may have these runs by now
        for given in answer["tasks"]:
            task = Task(given)
            self.held[given["run_id"], given["fence"]] = task
            threading.Thread(target=self.perform, args=[task], daemon=True).start()
        return True

    def perform(self, task):
        """Calls the handler of a task, then reports the end until there is a receipt: rule 5."""
        end = {"started_at": task.began_at}
        try:
            end.update(outcome="success", result=HANDLERS[task.type](task))
        except Exception as e:
            task.print(traceback.format_exc(), "stderr")
            kind = "fatal" if isinstance(e, Fatal) else "retriable"
            end.update(task.halted or {"outcome": kind, "reason": f"{type(e).__name__}: {e}"})
        while not self.tell(task, end):
            time.sleep(1)
        del self.held[task.name["run_id"], task.name["fence"]]

    def tell(self, task, end=None):
        """Reports the news of a task. False: not all of it was recorded, and the caller must try again."""
        with task.sending:
            news, lines = task.news()
            if not news and not end:
                return True
            report = {**task.name, "token": task.token, **news, **({"end": end} if end else {})}
            try:
                path = f"/{self.session or 'none'}/report"
                answer = self.call("POST", path, {"reports": [report]}, timeout=10)
            except ConnectionError:
                return False
            except Refused as e:
                task.told(news, lines)  # refused news must not hold up the end
                if end:
                    end.clear()
                    end.update(outcome="fatal", reason=f"the server refused what the worker reported: {e}")
                return False
            receipt = answer["receipts"][0]
            if receipt == "refused":
                task.halt("lost", "it does not hold its run any more")
            if receipt == "again" and not end:  # the server did not keep the lines
                lines = 0
            task.told(news, lines)
            return True

    def tell_all(self):
        """Reports all tasks: that they run, what they printed and how far they have come."""
        while True:
            for task in list(self.held.values()):
                self.tell(task)
            time.sleep(TELL_EVERY)

    def tend(self):
        """Tells the server every second which tasks it holds, rule 1, and stops those that must not go on."""
        while self.held or not self.stopping.is_set():
            sent, orders = clock(), {}
            try:
                if not self.session:
                    self.register()
                orders = self.beat()
            except SessionOver:
                self.session, self.lease = "", 0
            except ConnectionError as e:
                print(e, file=sys.stderr)
            for name, task in list(self.held.items()):
                if name in orders:
                    task.halt("stopped", orders[name])  # rule 7
                elif clock() > self.lease:
                    task.halt("lost", "the lease of its worker was over")
                elif clock() > task.deadline:
                    task.halt("retriable", "its time was over")
            time.sleep(max(0, sent + BEAT_EVERY - clock()))
        if self.session:
            try:
                self.call("DELETE", f"/{self.session}", None, timeout=1.5)  # rule 9
            except (ConnectionError, SessionOver):
                pass  # the lease ends by itself

    def register(self):
        """Opens a session. The fields of the message are for people: `carillon members` shows them."""
        sent = clock()
        about = dict(self.wants, name=f"python:{os.getpid()}", host=os.uname().nodename, slots=SLOTS)
        self.session = self.call("POST", "", about, timeout=5)["worker_id"]
        self.heard = 0
        self.lease = sent + LEASE

    def beat(self):
        """Extends the lease, counted from before the beat was sent.

        Returns the reasons to stop, by run and fence.
        """
        sent = clock()
        holds = [task.name for task in list(self.held.values())]
        number = int(sent * 1000)
        beat = {"number": number, "heard": self.heard, "holds": holds, "stopping": self.stopping.is_set()}
        answer = self.call("POST", f"/{self.session}/beat", beat, timeout=1.5)
        self.heard = number
        self.lease = sent + LEASE
        return {(order["run_id"], order["fence"]): order["reason"] for order in answer["stop"]}

    def call(self, method, path, body, timeout):
        """Asks one server after another until one answers."""
        for server in list(self.servers):
            request = urllib.request.Request(server + "/v1/workers" + path, method=method)
            request.add_header("Authorization", "Bearer " + self.token)
            if body is not None:
                request.add_header("Content-Type", "application/json")
                request.data = json.dumps(body).encode()
            try:
                with urllib.request.urlopen(request, timeout=timeout) as answer:
                    found = json.loads(answer.read() or "{}")
                self.servers += [node for node in found.get("nodes", []) if node not in self.servers]
                return found
            except urllib.error.HTTPError as e:
                if e.code == 410:
                    raise SessionOver from e
                if e.code == 401:
                    raise Unauthorized("the server does not accept CARILLON_TOKEN") from e
                if e.code < 500:
                    raise Refused(e.read().decode()) from e
            except (OSError, http.client.HTTPException):
                pass
            # From now on this server is asked last.
            self.servers = [other for other in self.servers if other != server] + [server]
        raise ConnectionError("no server answers: " + ", ".join(self.servers))


def die(failure):
    """Ends the process, because a worker without the failed thread would do only half of its work."""
    if issubclass(failure.exc_type, Unauthorized):
        print(failure.exc_value, file=sys.stderr, flush=True)
    else:
        traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


def main():
    server, token, queues = os.environ.get("CARILLON_SERVER"), os.environ.get("CARILLON_TOKEN"), sys.argv[1:]
    if not server or not token or not queues:
        usage = f"CARILLON_SERVER=URL[,URL...] CARILLON_TOKEN=TOKEN python3 {sys.argv[0]} QUEUE..."
        print("usage:", usage, file=sys.stderr)
        sys.exit(2)
    worker = Worker(server.split(","), token, queues)
    threading.excepthook = die
    for sig in signal.SIGTERM, signal.SIGINT:
        signal.signal(sig, lambda *_: worker.stopping.set())
    worker.run()


if __name__ == "__main__":
    main()
