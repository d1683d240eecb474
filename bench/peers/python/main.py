"""python main.py: Celery on Redis; bench/peers drives it over standard input and output."""

import datetime
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import celery
import redis

from protocol import Cannot, payload, serve
from tasks import DAY, QUEUE, START, STARTED, app, bench, die_with_parent

HERE = os.path.dirname(os.path.abspath(__file__))
CONCURRENCY = 10  # 2 is as fast: their parent process is the bottleneck
CALLERS = os.cpu_count() or 1

# Copies a message; each copy has its own id and delivery tag.
# KEYS[1] -> the queue. ARGV[1] -> how many, ARGV[2] -> the number of the first copy, ARGV[3] -> the id in the
# message, ARGV[4] -> the delivery tag in it, ARGV[5] -> the message
COPY = """
for i = 1, ARGV[1] do
  local id = string.format('%s%012x', string.sub(ARGV[3], 1, 24), ARGV[2] + i)
  local tag = string.format('%s%012x', string.sub(ARGV[4], 1, 24), ARGV[2] + i)
  local message = string.gsub(ARGV[5], ARGV[3]:gsub('-', '%%-'), id)
  redis.call('LPUSH', KEYS[1], (string.gsub(message, ARGV[4]:gsub('-', '%%-'), tag)))
end"""


def day_ahead():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=DAY)


def hand_in(jobs, job):
    args = (payload(job),)
    eta = datetime.datetime.fromtimestamp(job["due"] / 1e6, datetime.timezone.utc) if job.get("due") else None
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(jobs):
            bench.apply_async(args, eta=eta, producer=producer)


class Peer:
    def __init__(self):
        self.redis = redis.Redis.from_url(os.environ["REDIS"])
        self.children = []

    def hello(self):
        return {
            "name": "celery",
            "version": celery.__version__,
            "engine": "redis",
            "settings": f"one worker, prefork pool of {CONCURRENCY}, worker_prefetch_multiplier {app.conf.worker_prefetch_multiplier}, acks_late, no result backend, "
            f"no gossip, mingle or heartbeat; visibility_timeout 2 days, as tasks a day ahead need; no bulk call: apply_async by {CALLERS} processes; "
            f"Python {sys.version.split()[0]}",
            "durable": "in the server's memory, on disk as often as its settings say",
            "history": "nothing",
        }

    def prepare(self):
        self.redis.ping()

    def submit(self):
        bench.apply_async((payload(),), eta=day_ahead())

    def now(self):
        bench.apply_async((payload(),))

    def fill(self, jobs, job):
        """Sends from several processes: a single one is busy with Python long before Redis is.

        For few jobs that is not worth it.
        """
        if jobs < 1000:
            hand_in(jobs, job)
            return
        shares = [jobs * (i + 1) // CALLERS - jobs * i // CALLERS for i in range(CALLERS)]
        with ProcessPoolExecutor(CALLERS, multiprocessing.get_context("spawn"), die_with_parent) as callers:
            list(callers.map(hand_in, shares, [job] * CALLERS))

    def stuff(self, jobs, ended):
        """Copies a message that Celery itself has written."""
        if ended:
            raise Cannot("keeps nothing of a task that has ended")
        bench.apply_async((payload(),), eta=day_ahead())
        message = self.redis.lindex(QUEUE, 0)  # the newest
        told = json.loads(message)
        copy = self.redis.register_script(COPY)
        for first in range(0, jobs - 1, 10_000):
            n = min(10_000, jobs - 1 - first)
            copy([QUEUE], [n, first, told["headers"]["id"], told["properties"]["delivery_tag"], message])

    def work(self, started):
        os.mkfifo(STARTED)
        # Open for writing too: the pipe does not end when a worker ends, and opening does not wait for one.
        pipe = os.open(STARTED, os.O_RDWR)
        ready = threading.Event()

        def read():
            while True:
                for at, due in START.iter_unpack(os.read(pipe, START.size * 1024)):
                    if at:
                        started.start(at, due)
                    else:
                        ready.set()

        threading.Thread(target=read, daemon=True).start()
        flags = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
        self.celery("worker", "--pool=prefork", f"--concurrency={CONCURRENCY}", *flags)
        if not ready.wait(60):
            raise TimeoutError("the worker was not ready for 60 s")

    def recur(self, jobs, every):
        schedule = os.path.join(os.environ["DIR"], f"beat-{os.getpid()}")
        self.celery("beat", "--loglevel=ERROR", f"--schedule={schedule}", "--pidfile=", EVERY=str(every), JOBS=str(jobs))

    def celery(self, *args, **env):
        """Starts one of Celery's programs; it ends with this process."""
        argv = [sys.executable, "-W", "ignore", "-m", "celery", "--quiet", "--app", "tasks", *args]
        out = {"stdin": subprocess.DEVNULL, "stdout": sys.stderr}
        self.children.append(subprocess.Popen(argv, cwd=HERE, env={**os.environ, **env}, preexec_fn=die_with_parent, **out))

    def unfinished(self):
        """Searches until it finds a due task: the store also has tasks that a worker holds for later."""
        now = datetime.datetime.now(datetime.timezone.utc)

        def due(message):
            eta = message["headers"].get("eta")
            return eta is None or datetime.datetime.fromisoformat(eta) <= now

        page = 1000
        for first in range(0, self.redis.llen(QUEUE), page):
            if any(due(json.loads(m)) for m in self.redis.lrange(QUEUE, first, first + page - 1)):
                return 1
        for _, m in self.redis.hscan_iter("unacked", count=page):
            if due(json.loads(m)[0]):
                return 1
        return 0


if __name__ == "__main__":
    serve(Peer())
