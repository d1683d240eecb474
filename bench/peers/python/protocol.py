"""How bench/peers drives a scheduler, in Python; package peer (../peer) does the same in Go.

Commands come as JSON lines on standard input, and each gets one line as its answer on standard output. A
peer is an object with the methods of Go's peer.Peer, in small letters. Each method raises Cannot if the
scheduler does not have the feature.
"""

import json
import os
import sys
import threading
import time


class Cannot(Exception):
    """The answer of a scheduler that does not have the feature, with the reason."""


def payload(job=None):
    """The payload that all peers send: the keys and their order are those of Go's Job.Payload."""
    job = job or {}
    return {
        **({"due": job["due"]} if job.get("due") else {}),
        **({"sleep": job["sleep"]} if job.get("sleep") else {}),
        "customer": "c-1029384756",
        "subject": "Your order has been shipped",
        "template": "order-shipped-v3",
        "locale": "en-GB",
        "items": [4711, 4712, 4713],
        "note": "two hundred bytes is what people usually send",
    }


class Recorder:
    """Is told of every start, by one thread."""

    def __init__(self):
        self.ran = 0
        self._late = []
        self._lock = threading.Lock()
        self._next = None

    def start(self, at, due):
        """A job has started at `at` (unix seconds); it was due at `due` (unix microseconds, 0: not known)."""
        with self._lock:
            self.ran += 1
            if due:
                self._late.append(at - due / 1e6)
            waiting, self._next = self._next, None
        if waiting:
            waiting.at = at
            waiting.set()

    def next(self):
        """An event that is set when the next job has started; its field `at` is the time of the start."""
        with self._lock:
            self._next = threading.Event()
            return self._next

    def late(self):
        """Returns how late the jobs that have started were, and forgets them."""
        with self._lock:
            late, self._late = self._late, []
        return times_of(late)


def times_of(waits):
    """Percentiles in milliseconds of waits in seconds."""
    if not waits:
        return None
    waits = sorted(waits)

    def at(q):
        return int(waits[min(int(q * len(waits)), len(waits) - 1)] * 1e6) / 1000

    return {"n": len(waits), "p50": at(0.5), "p99": at(0.99), "max": at(1)}


def serve(peer):
    """Answers commands until there are no more. Jobs that still run end with the process, as with a kill."""
    answer({"hello": peer.hello()})
    started = Recorder()
    for line in sys.stdin:
        try:
            command = json.loads(line)
        except ValueError as err:
            print("not a command:", line, err, file=sys.stderr)
            os._exit(1)
        try:
            answer(perform(peer, started, command))
        except Cannot as err:
            answer({"cannot": str(err)})
        except Exception as err:  # any error: the driver must get it as the answer
            answer({"error": f"{command.get('do')}: {str(err) or repr(err)}"})
    os._exit(0)


def answer(a):
    """Leaves out empty values, as Go does."""

    def full(v):
        return {k: full(w) for k, w in v.items() if w} if isinstance(v, dict) else v

    print(json.dumps(full(a)), flush=True)


def perform(peer, started, c):
    begin = time.monotonic()
    match c.get("do"):
        case "prepare":
            peer.prepare()
        case "submit":
            return submit(peer, c)
        case "fill":
            peer.fill(c.get("jobs", 0), c.get("job", {}))
        case "stuff":
            peer.stuff(c.get("jobs", 0), c.get("ended", False))
        case "work":
            peer.work(started)
        case "count":
            return {"jobs": started.ran}
        case "await":
            return await_end(peer, started, c)
        case "pickup":
            return pickup(peer, started, c)
        case "recur":
            peer.recur(c.get("jobs", 0), c.get("every", 0))
        case _:
            raise ValueError("no such command")
    return {"jobs": c.get("jobs", 0), "seconds": time.monotonic() - begin}


def submit(peer, c):
    """That many clients, each submitting one job after the other."""
    begin, jobs, errors = time.monotonic(), [], []

    def client():
        n = 0
        try:
            while time.monotonic() - begin < c["seconds"]:
                peer.submit()
                n += 1
        except Exception as err:
            errors.append(err)
        jobs.append(n)

    clients = [threading.Thread(target=client) for _ in range(c["clients"])]
    for t in clients:
        t.start()
    for t in clients:
        t.join()
    if errors:
        raise errors[0]
    return {"jobs": sum(jobs), "seconds": time.monotonic() - begin}


def await_end(peer, started, c):
    """Waits until that many jobs have started here and no due job is left in the store.

    It does not ask the store before.
    """
    begin = time.monotonic()
    while True:
        # If the store has none left when it answers, the end was before the question: asking takes time.
        left, at = 1, time.time()
        if c.get("store") or started.ran >= c.get("jobs", 0):
            left = peer.unfinished()
        seconds = time.monotonic() - begin
        if left == 0 or seconds > c.get("seconds", 0):
            return {"jobs": started.ran, "seconds": seconds, "at": int(at * 1e6), "over": left > 0, "late": started.late()}
        time.sleep(0.005)


def pickup(peer, started, c):
    """From the call that submits a job to its start, one job at a time."""
    waits = []
    for _ in range(c.get("jobs", 0)):
        waiting = started.next()
        begin = time.time()
        peer.now()
        if not waiting.wait(30):
            raise TimeoutError("a job that was handed in did not start for 30 s")
        waits.append(waiting.at - begin)
        time.sleep(c.get("gap", 0) / 1000)
    return {"jobs": len(waits), "late": times_of(waits)}
