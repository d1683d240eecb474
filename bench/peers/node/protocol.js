// How bench/peers drives a scheduler, in JavaScript; package peer (../peer) does the same in Go. Commands
// come as JSON lines on standard input, and each gets one line as its answer on standard output. A peer is an
// object with the methods of Go's peer.Peer, in small letters. Each method returns a promise, and throws
// Cannot if the scheduler does not have the feature.

import { createInterface } from "node:readline";

/** The answer of a scheduler that does not have the feature, with the reason. */
export class Cannot extends Error {}

/** now is unix milliseconds with a fraction, unlike Date.now(): a pickup takes only few milliseconds. */
const now = () => performance.timeOrigin + performance.now();

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** payload is the payload that all peers send: the keys and their order are those of Go's Job.Payload. */
export function payload(job = {}) {
  return {
    ...(job.due ? { due: job.due } : {}),
    ...(job.sleep ? { sleep: job.sleep } : {}),
    customer: "c-1029384756",
    subject: "Your order has been shipped",
    template: "order-shipped-v3",
    locale: "en-GB",
    items: [4711, 4712, 4713],
    note: "two hundred bytes is what people usually send",
  };
}

/** dayAhead is when the jobs of submit and stuff are due. */
export const dayAhead = () => new Date(Date.now() + 24 * 3600 * 1000);

/** dueAt is when a job is due; undefined: now. */
export const dueAt = (job) => (job?.due ? new Date(Math.ceil(job.due / 1000)) : undefined);

/** inBatches calls hand for all jobs, size jobs at a time, from that many callers at once. */
export async function inBatches(jobs, size, callers, hand) {
  let left = jobs;
  const caller = async () => {
    while (left > 0) {
      const n = Math.min(size, left);
      left -= n;
      await hand(n);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** Recorder is told of every start. */
export class Recorder {
  ran = 0;
  #late = [];
  #next;

  /** start is the first thing that a job does. It returns a promise if the job sleeps; most jobs do not. */
  start(job) {
    const at = now();
    this.ran++;
    if (job.due) this.#late.push(at - job.due / 1000);
    if (this.#next) {
      this.#next(at);
      this.#next = undefined;
    }
    return job.sleep > 0 ? sleep(job.sleep) : undefined;
  }

  /** next is the time of the next start. */
  next() {
    return new Promise((tell) => {
      this.#next = tell;
    });
  }

  /** late returns how late the jobs that have started were, and forgets them. */
  late() {
    const late = timesOf(this.#late);
    this.#late = [];
    return late;
  }
}

/** timesOf are percentiles of milliseconds, cut to microseconds. */
function timesOf(waits) {
  if (waits.length === 0) return undefined;
  const sorted = Float64Array.from(waits).sort();
  const at = (q) => Math.trunc(sorted[Math.min(Math.floor(q * sorted.length), sorted.length - 1)] * 1000) / 1000;
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** serve answers commands until there are no more. Jobs that still run end with the process, as in a kill. */
export async function serve(peer) {
  answer({ hello: await peer.hello() });
  const started = new Recorder();
  for await (const line of createInterface({ input: process.stdin })) {
    let command;
    try {
      command = JSON.parse(line);
    } catch (err) {
      console.error("not a command:", line, err.message);
      process.exit(1);
    }
    try {
      answer(await perform(peer, started, command));
    } catch (err) {
      if (err instanceof Cannot) answer({ cannot: err.message });
      else answer({ error: `${command.do}: ${err?.message || err}` });
    }
  }
  process.exit(0);
}

/** answer leaves out empty values, as Go does. */
function answer(a) {
  process.stdout.write(JSON.stringify(a, (_, v) => (v === 0 || v === "" || v === false ? undefined : v)) + "\n");
}

async function perform(peer, started, c) {
  const begin = now();
  switch (c.do) {
    case "prepare":
      await peer.prepare();
      break;
    case "submit":
      return submit(peer, c);
    case "fill":
      await peer.fill(c.jobs, c.job ?? {});
      break;
    case "stuff":
      await peer.stuff(c.jobs, c.ended ?? false);
      break;
    case "work":
      await peer.work(started);
      break;
    case "count":
      return { jobs: started.ran };
    case "await":
      return awaitEnd(peer, started, c);
    case "pickup":
      return pickup(peer, started, c);
    case "recur":
      await peer.recur(c.jobs, c.every, started);
      break;
    default:
      throw new Error("no such command");
  }
  return { jobs: c.jobs, seconds: (now() - begin) / 1000 };
}

/** submit: that many clients, each submitting one job after the other. */
async function submit(peer, c) {
  let jobs = 0;
  const begin = now();
  const client = async () => {
    while ((now() - begin) / 1000 < c.seconds) {
      await peer.submit();
      jobs++;
    }
  };
  await Promise.all(Array.from({ length: c.clients }, client));
  return { jobs, seconds: (now() - begin) / 1000 };
}

/**
 * awaitEnd: until that many jobs have started here and no due job is left in the store.
 * It does not ask the store before.
 */
async function awaitEnd(peer, started, c) {
  const begin = now();
  for (;;) {
    let left = 1;
    // If the store has none left when it answers, the end was before the question, because asking takes time.
    const at = now();
    if (c.store || started.ran >= (c.jobs ?? 0)) left = await peer.unfinished();
    const seconds = (now() - begin) / 1000;
    if (left === 0 || seconds > c.seconds) {
      return { jobs: started.ran, seconds, at: Math.round(at * 1000), over: left > 0, late: started.late() };
    }
    await sleep(5);
  }
}

/** pickup: from the call that submits a job to its start, one job at a time. */
async function pickup(peer, started, c) {
  const waits = [];
  for (let i = 0; i < c.jobs; i++) {
    const next = started.next();
    const begin = now();
    await peer.now();
    let timer;
    const tooLate = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("a job that was handed in did not start for 30 s")), 30_000);
    });
    waits.push((await Promise.race([next, tooLate])) - begin);
    clearTimeout(timer);
    await sleep(c.gap ?? 0);
  }
  return { jobs: waits.length, late: timesOf(waits) };
}
