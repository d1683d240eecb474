// graphile-worker on PostgreSQL, tuned as the performance page of its documentation says; and with a local
// queue of 4000 instead of 500, with which the server spends about half the time on a job.

import { readFileSync } from "node:fs";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { Cannot, dayAhead, dueAt, inBatches, payload } from "./protocol.js";

const concurrentJobs = 24;
const pollInterval = 500; // milliseconds, for jobs that become due; for new jobs it gets a notification
const batch = 5000;
const callers = 4;

// Warnings and errors only: otherwise it logs a line for each job.
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(level, message);
});

/** Copies a template row, so that the rows are as graphile-worker itself writes them. */
const copyAhead = `
INSERT INTO graphile_worker._private_jobs (task_id, payload, priority, run_at, max_attempts)
SELECT j.task_id, j.payload, j.priority, now() + interval '1 day' + i * interval '1 microsecond', j.max_attempts
FROM (SELECT * FROM graphile_worker._private_jobs WHERE id = $1) j, generate_series(1, $2::int) i`;

/** A job that has ended is gone: every due job in the table is waiting or held by a worker. */
const anyDue = `SELECT count(*)::int AS left FROM (SELECT 1 FROM graphile_worker._private_jobs WHERE run_at <= now() LIMIT 1) j`;

class GraphileWorker {
  #pool = new pg.Pool({ connectionString: process.env.POSTGRES, max: concurrentJobs + 1 });
  #opened;
  #name;
  #queueSize;

  constructor(name, queueSize) {
    this.#name = name;
    this.#queueSize = queueSize;
    // graphile-worker asks for both handlers: a connection that breaks must not end the process.
    this.#pool.on("error", (err) => console.error(err.message));
    this.#pool.on("connect", (client) => client.on("error", (err) => console.error(err.message)));
  }

  hello() {
    const { version } = JSON.parse(readFileSync(new URL("node_modules/graphile-worker/package.json", import.meta.url)));
    return {
      name: this.#name,
      version,
      engine: "postgres",
      settings:
        `as on its performance page: concurrentJobs ${concurrentJobs}, maxPoolSize ${concurrentJobs + 1}, completeJobBatchDelay 0, ` +
        `failJobBatchDelay 0, localQueue.size ${this.#queueSize}${this.#queueSize === 500 ? "" : " (500 there)"}; pollInterval ${pollInterval} ms (default 2000); ` +
        `bulk by addJobs, ${batch} at a time, ${callers} callers; jobs of a killed worker are locked for 4 h (fixed); node ${process.version}`,
      durable: "on disk (synchronous commit)",
      history: "nothing: the row of a job that has ended is deleted",
    };
  }

  /** #utils opens the utils once, on first use: hello comes before there is a server to connect to. */
  #utils() {
    this.#opened ??= makeWorkerUtils({ pgPool: this.#pool, logger });
    return this.#opened;
  }

  async prepare() {
    await (await this.#utils()).migrate();
  }

  async submit() {
    await (await this.#utils()).addJob("bench", payload(), { runAt: dayAhead() });
  }

  async now() {
    await (await this.#utils()).addJob("bench", payload());
  }

  async fill(jobs, job) {
    const utils = await this.#utils();
    const spec = { identifier: "bench", payload: payload(job), runAt: dueAt(job) };
    await inBatches(jobs, batch, callers, (n) => utils.addJobs(Array(n).fill(spec)));
  }

  async stuff(jobs, ended) {
    if (ended) throw new Cannot("keeps nothing of a job that has ended");
    const utils = await this.#utils();
    const { id } = await utils.addJob("bench", payload(), { runAt: dayAhead() });
    await inBatches(jobs - 1, 100_000, 1, (n) => this.#pool.query(copyAhead, [id, n]));
    await this.#pool.query("ANALYZE graphile_worker._private_jobs"); // autovacuum would do it a minute later
  }

  async work(started) {
    await run({
      pgPool: this.#pool,
      logger,
      noHandleSignals: true,
      taskList: { bench: (job) => started.start(job) },
      preset: {
        worker: {
          concurrentJobs,
          maxPoolSize: concurrentJobs + 1,
          pollInterval,
          localQueue: { size: this.#queueSize },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
  }

  async recur() {
    throw new Cannot("its crontab counts in whole minutes");
  }

  async unfinished() {
    return (await this.#pool.query(anyDue)).rows[0].left;
  }
}

export const open = (name) => new GraphileWorker(name, name === "graphile-worker" ? 500 : 4000);
