// BullMQ on Redis.

import { readFileSync } from "node:fs";
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";
import { dayAhead, dueAt, inBatches, payload } from "./protocol.js";

const concurrency = 100; // 50 to 300 are alike, 1000 is slower; several Workers in one process gain nothing
const bulk = 1000;
const callers = 4;
const queueName = "bench";
const prefix = `bull:${queueName}:`;

/**
 * Copies a job that BullMQ itself has written.
 * KEYS[1] -> the job, KEYS[2] -> the set for the copies, KEYS[3] -> the counter of ids
 * ARGV[1] -> how many, ARGV[2] -> prefix of the keys of jobs
 * ARGV[3] -> the score of the first copy, ARGV[4] -> what to add for each copy
 */
const copy = `
local job = redis.call('HGETALL', KEYS[1])
local id = redis.call('INCRBY', KEYS[3], ARGV[1]) - ARGV[1]
for i = 1, ARGV[1] do
  redis.call('HSET', ARGV[2] .. (id + i), unpack(job))
  redis.call('ZADD', KEYS[2], ARGV[3] + i * ARGV[4], id + i)
end`;

class BullMQ {
  #redis = new Redis(process.env.REDIS, { maxRetriesPerRequest: null, lazyConnect: true });
  #queue;

  async hello() {
    const { version } = JSON.parse(readFileSync(new URL("node_modules/bullmq/package.json", import.meta.url)));
    return {
      name: "bullmq",
      version,
      engine: "redis",
      settings:
        `concurrency ${concurrency}, one Worker, jobs that have ended are kept (default); ` +
        `bulk by addBulk, ${bulk} at a time, ${callers} callers; lockDuration and stalledInterval 30 s (defaults); ioredis, node ${process.version}`,
      durable: "in the server's memory, on disk as often as its settings say",
      history: "every job that has ended, until it is removed",
    };
  }

  /** queue opens the queue on first use: hello comes before there is a server to connect to. */
  get queue() {
    this.#queue ??= new Queue(queueName, { connection: this.#redis });
    return this.#queue;
  }

  async prepare() {
    await this.queue.waitUntilReady();
  }

  async submit() {
    await this.queue.add("job", payload(), { delay: dayAhead() - Date.now() });
  }

  async now() {
    await this.queue.add("job", payload());
  }

  async fill(jobs, job) {
    const due = dueAt(job);
    await inBatches(jobs, bulk, callers, (n) => {
      const opts = due ? { delay: Math.max(0, due - Date.now()) } : {};
      return this.queue.addBulk(Array(n).fill({ name: "job", data: payload(job), opts }));
    });
  }

  async stuff(jobs, ended) {
    const model = ended ? await this.#ended() : await this.queue.add("job", payload(), { delay: dayAhead() - Date.now() });
    const set = prefix + (ended ? "completed" : "delayed");
    // The score is a time; for delayed jobs it has twelve more bits, which order the jobs of one millisecond.
    const [score, step] = ended ? [Date.now(), 0] : [dayAhead() * 0x1000, 1];
    let copied = 0;
    await inBatches(jobs - 1, 10_000, 1, async (n) => {
      await this.#redis.eval(copy, 3, model.key ?? prefix + model.id, set, prefix + "id", n, prefix, score + copied * step, step);
      copied += n;
    });
  }

  /** #ended runs a job to its end in a separate queue, so that no other job runs now. */
  async #ended() {
    const name = queueName + "-model";
    const queue = new Queue(name, { connection: this.#redis });
    const { id } = await queue.add("job", payload());
    const worker = new Worker(name, async () => {}, { connection: this.#redis });
    await new Promise((done) => worker.on("completed", done));
    await worker.close();
    return { key: `bull:${name}:${id}` };
  }

  async work(started) {
    const run = async (job) => {
      // A job of a scheduler has no due time in its payload, which is the same for all jobs. Its id ends with
      // the due time.
      if (job.repeatJobKey) return started.start({ due: 1000 * job.id.slice(job.id.lastIndexOf(":") + 1) });
      return started.start(job.data);
    };
    const worker = new Worker(queueName, run, { connection: this.#redis, concurrency });
    worker.on("error", (err) => console.error(err.message));
    await worker.waitUntilReady();
  }

  async recur(jobs, every) {
    let next = 0;
    await inBatches(jobs, 1, 100, () => {
      return this.queue.upsertJobScheduler(`bench-${next++}`, { every: every * 1000 }, { name: "job", data: payload() });
    });
  }

  async unfinished() {
    const { waiting, active } = await this.queue.getJobCounts("waiting", "active");
    if (waiting + active > 0) return waiting + active;
    return this.#redis.zcount(prefix + "delayed", 0, (Date.now() + 1) * 0x1000 - 1);
  }
}

export const open = () => new BullMQ();
