"""A worker for Carillon with Python's standard library alone; docs/worker-protocol.md has the rules that it keeps.
CARILLON_SERVER=http://a:8420,http://b:8420 CARILLON_TOKEN=... python3 worker.py QUEUE..."""
import http.client, json, os, re, signal, sys, threading, time, traceback, urllib.request

class Fatal(Exception): """Raised by a handler: no further attempt can help. Any other exception is retried."""

def echo(task, stop):
    """A handler: what it returns is the result. stop is set when it should end early; nothing can end it by force."""
    wish = task["payload"]
    if stop.wait(wish.get("sleep", 0)): raise InterruptedError("stopped while asleep")
    if wish.get("refuse"): raise Fatal("not ever")
    if wish.get("fail", 0) >= task["attempt"]: raise RuntimeError("not this time")
    return {"echo": wish, "attempt": task["attempt"]}

HANDLERS, SLOTS, queues, servers = {"echo": echo}, 4, sys.argv[1:], os.environ["CARILLON_SERVER"].split(",")
ABOUT, me = {"host": os.uname().nodename, "queues": queues, "slots": SLOTS}, {"worker": "", "lease": 0}  # the session, and until when what was begun under it may go on; 0: it is over
held, done = {}, threading.Event()  # held: tasks whose end has no receipt yet, by run and fence
clock = lambda: time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # goes on while the machine sleeps
units = {"ms": .001, "s": 1, "m": 60, "h": 3600, "d": 86400}
seconds = lambda text: sum(float(n) * units[unit] for n, unit in re.findall(r"([\d.]+)(ms|[smhd])", text))

def call(path, body, timeout, method="POST"):
    """Asks one server after the other. None: the session is over. ValueError: the same would be refused again."""
    for server in list(servers):
        head = {"Authorization": "Bearer " + os.environ["CARILLON_TOKEN"], "Content-Type": "application/json"}
        request = urllib.request.Request(server + "/v1/workers" + path, body and json.dumps(body).encode(), head, method=method)
        try:
            answer = json.loads(urllib.request.urlopen(request, timeout=timeout).read() or "{}")
            servers[:] = servers + [node for node in answer.get("nodes", []) if node not in servers]
            return answer
        except (OSError, http.client.HTTPException) as e:
            if getattr(e, "code", 503) == 410: return None
            if getattr(e, "code", 503) < 500: raise ValueError(e.read().decode())
            servers[:] = [other for other in servers if other != server] + [server]  # the last to be asked from now on
    raise ConnectionError("no server answers")

def perform(task, key):
    """Runs the handler, then hands in the end until there is a receipt. Whatever that says, nothing is left to do."""
    report, start = {"run": key[0], "fence": key[1], "token": task["token"]}, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try: report["end"] = {"outcome": "success", "started_at": start, "result": HANDLERS[task["type"]](task, task["stop"])}
    except Exception as e:
        failed = {"outcome": "fatal" if isinstance(e, Fatal) else "retriable", "reason": "%s: %s" % (type(e).__name__, e)}
        report["end"] = {"started_at": start, **task.get("halted", failed)}
        report["lines"] = [{"stream": "stderr", "text": line} for line in traceback.format_exc().splitlines()]
    while key in held:
        try: call("/%s/report" % me["worker"], {"reports": [report]}, 10) and held.pop(key)
        except ValueError as e: report.update(lines=[], end={"outcome": "fatal", "reason": str(e)})
        except OSError: time.sleep(1)

def tend():
    """Says every second what is held, and stops what it is told to, what timed out, and all when the lease is over."""
    while held or not done.is_set():
        sent, mine, orders = clock(), dict(held), {}
        try:
            if not me["lease"]: me["worker"] = call("", {"name": "python:%d" % os.getpid(), **ABOUT}, 5)["worker"]
            holds = [{"run": run, "fence": fence} for run, fence in mine]
            answer = call("/%s/heartbeat" % me["worker"], {"number": int(sent * 1000), "holds": holds}, 1.5)
            me["lease"] = sent + 5 if answer else 0  # from the send on: whoever answered knows of no later sign of life
            orders = {(o["run"], o["fence"]): o["reason"] for o in answer["stop"]} if answer else {}
        except OSError as e: print(e, file=sys.stderr)
        for key, task in mine.items():
            why = "stopped" if key in orders else "lost" if clock() > me["lease"] else "retriable" if clock() > task["deadline"] else ""
            if why: task.setdefault("halted", {"outcome": why, "reason": orders.get(key, "its time was over")}); task["stop"].set()
        time.sleep(max(0, sent + 1 - clock()))
    call("/" + me["worker"], None, 1.5, "DELETE")

signal.signal(signal.SIGTERM, lambda *_: done.set())
threading.excepthook = lambda failure: (traceback.print_exception(failure.exc_value), os._exit(1))
tending = threading.Thread(target=tend, daemon=True)
tending.start()
while not done.is_set():
    sent, free, answer = clock(), SLOTS - len(held), None
    try: answer = free and me["lease"] and call("/%s/pull" % me["worker"], {"queues": queues, "max": free}, 3)
    except OSError: pass
    for task in answer["tasks"] if answer and clock() < min(sent + 3, me["lease"]) else []:  # later it may be somebody else's
        key = task["run"], task["fence"]
        held[key] = {**task, "stop": threading.Event(), "deadline": clock() + seconds(task.get("timeout", "9999d"))}
        threading.Thread(target=perform, args=(held[key], key), daemon=True).start()
    if not answer: time.sleep(0.2)
tending.join()
