"""The Celery application that bench/peers measures.

main.py submits tasks; Celery's own worker imports this module to run them.
"""

import ctypes
import os
import signal
import struct
import time

from celery import Celery
from celery.signals import worker_process_init, worker_ready

DAY = 24 * 3600
QUEUE = "celery"

# A task reports its start to main.py through a named pipe: its start and its due time (unix seconds, unix
# microseconds).
STARTED = os.environ.setdefault("STARTED", os.path.join(os.environ["DIR"], f"started-{os.getpid()}"))
START = struct.Struct("<dq")
READY = START.pack(0, 0)

app = Celery("bench", broker=os.environ["REDIS"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # a task is not lost when the worker that runs it is killed
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=64,
    worker_disable_rate_limits=True,
    worker_hijack_root_logger=False,
    broker_pool_limit=32,
    broker_connection_retry_on_startup=True,
    # Celery delivers a task again if a worker has not acknowledged it for this long. A worker also holds
    # tasks that are due later, so the time must be longer than the longest delay.
    broker_transport_options={"visibility_timeout": 2 * DAY},
)
if "EVERY" in os.environ:  # for beat only
    every, jobs = float(os.environ["EVERY"]), int(os.environ["JOBS"])
    app.conf.beat_schedule = {f"bench-{i}": {"task": "bench", "schedule": every, "args": ({},)} for i in range(jobs)}

pipe = -1


@app.task(name="bench")
def bench(job):
    started = time.time()
    global pipe
    if pipe < 0:
        pipe = os.open(STARTED, os.O_WRONLY)
    os.write(pipe, START.pack(started, job.get("due", 0)))
    if job.get("sleep"):
        time.sleep(job["sleep"] / 1000)


def die_with_parent():
    """When a process is killed, the processes that it has started end too, as if one node is killed."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@worker_process_init.connect
def process_began(**_):
    die_with_parent()


@worker_ready.connect
def worker_began(**_):
    fd = os.open(STARTED, os.O_WRONLY)
    os.write(fd, READY)
    os.close(fd)
