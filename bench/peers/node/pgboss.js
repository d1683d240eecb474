// pg-boss on PostgreSQL. Version 12.38.0 needs rrule-temporal 2.2.8, which not every registry has, so
// package.json overrides it with the previous release. Only recurrence rules use it, and no scenario has any.

import { readFileSync } from "node:fs";
import pg from "pg";
import { PgBoss } from "pg-boss";
import { Cannot, dayAhead, dueAt, inBatches, payload } from "./protocol.js";

const batchSize = 5000;
const workers = 2;
const connections = 20;
const bulk = 1000;
const callers = 4;
const queue = "bench";

/** Asks by state, as the index does: jobs that have ended stay in the same table. */
const anyDue = `
SELECT (EXISTS (SELECT 1 FROM pgboss.job WHERE name = '${queue}' AND state = 'active')
     OR EXISTS (SELECT 1 FROM pgboss.job WHERE name = '${queue}' AND state IN ('created', 'retry') AND start_after <= now()))::int AS left`;

class Boss {
  // For queries that pg-boss has no call for.
  #pool = new pg.Pool({ connectionString: process.env.POSTGRES, max: 4 });
  #started;

  hello() {
    const { version } = JSON.parse(readFileSync(new URL("node_modules/pg-boss/package.json", import.meta.url)));
    return {
      name: "pg-boss",
      version,
      engine: "postgres",
      settings:
        `the queue in a table of its own (partition), batchSize ${batchSize}, localConcurrency ${workers}, burstWhenBatchFull, LISTEN/NOTIFY, ` +
        `polling every 0.5 s (the least it allows), ${connections} connections; ` +
        `bulk by insert, ${bulk} at a time, ${callers} callers; expiry 15 min and no heartbeat (defaults); node ${process.version}`,
      durable: "on disk (synchronous commit)",
      history: "the row of a job that has ended stays, 7 days by default",
    };
  }

  /** #boss starts pg-boss once, on first use: that also makes the schema if there is none. */
  #boss() {
    this.#started ??= (async () => {
      const boss = new PgBoss({ connectionString: process.env.POSTGRES, max: connections, useListenNotify: true });
      boss.on("error", (err) => console.error(err.message));
      await boss.start();
      return boss;
    })();
    return this.#started;
  }

  async prepare() {
    await (await this.#boss()).createQueue(queue, { partition: true, notify: true });
  }

  async submit() {
    await (await this.#boss()).send(queue, payload(), { startAfter: dayAhead() });
  }

  async now() {
    await (await this.#boss()).send(queue, payload());
  }

  async fill(jobs, job) {
    const boss = await this.#boss();
    const one = { data: payload(job), startAfter: dueAt(job)?.toISOString() };
    await inBatches(jobs, bulk, callers, (n) => boss.insert(queue, Array(n).fill(one)));
  }

  /** stuff copies the row of a job that pg-boss itself has written and, for ended, completed. */
  async stuff(jobs, ended) {
    const boss = await this.#boss();
    const id = await boss.send(queue, payload(), ended ? {} : { startAfter: dayAhead() });
    if (ended) {
      const [job] = await boss.fetch(queue);
      if (job?.id !== id) throw new Error("jobs that are due are in the store already");
      await boss.complete(queue, id);
    }
    const { rows } = await this.#pool.query(
      `SELECT string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns
       WHERE table_schema = 'pgboss' AND table_name = 'job' AND column_name <> 'id'`,
    );
    const columns = rows[0].columns;
    const copy = `INSERT INTO pgboss.job (${columns}) SELECT ${columns}
      FROM (SELECT * FROM pgboss.job WHERE name = '${queue}' AND id = $1) j, generate_series(1, $2::int)`;
    await inBatches(jobs - 1, 50_000, 2, (n) => this.#pool.query(copy, [id, n]));
    await this.#pool.query("ANALYZE pgboss.job"); // autovacuum would do it a minute later
  }

  async work(started) {
    const boss = await this.#boss();
    const options = {
      batchSize,
      localConcurrency: workers,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5, // there is no notification for a job that becomes due
    };
    await boss.work(queue, options, async (jobs) => {
      const left = [];
      for (const { data } of jobs) {
        const end = started.start(data);
        if (end) left.push(end);
      }
      await Promise.all(left);
    });
  }

  async recur() {
    throw new Cannot("its schedules send at most one job a minute");
  }

  async unfinished() {
    return (await this.#pool.query(anyDue)).rows[0].left;
  }
}

export const open = () => new Boss();
