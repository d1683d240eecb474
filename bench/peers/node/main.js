// node main.js <peer>: a scheduler from npm that bench/peers drives over standard input and output.

import { serve } from "./protocol.js";

const peers = {
  "graphile-worker": () => import("./graphile.js"),
  "graphile-worker-4000": () => import("./graphile.js"),
  "pg-boss": () => import("./pgboss.js"),
  bullmq: () => import("./bullmq.js"),
};

const load = peers[process.argv[2]];
if (!load) {
  console.error(`usage: node main.js ${Object.keys(peers).join(" | ")}`);
  process.exit(2);
}
const { open } = await load();
await serve(open(process.argv[2]));
