// Runs one scenario: node run.mjs NAME. Without a name it prints the names of all, as a JSON array, with --cluster also of those that need a cluster.
//
// A scenario is an exported function of one of the modules below, or of their exported scenarios. It is given the test, see harness.mjs, and
// fails by throwing.
import { Test } from "./harness.mjs";
import * as balanced from "./balanced.mjs";
import { scenarios as carriers } from "./carriers.mjs";
import * as commands from "./commands.mjs";
import * as delta from "./delta.mjs";
import * as ends from "./ends.mjs";
import * as grpc from "./grpc.mjs";
import { scenarios as limits } from "./limits.mjs";
import * as map from "./map.mjs";
import * as moved from "./moved.mjs";
import * as recovery from "./recovery.mjs";
import { scenarios as reset } from "./reset.mjs";
import * as sse from "./sse.mjs";
import * as table from "./table.mjs";
import * as tokens from "./tokens.mjs";

const scenarios = {
  ...balanced, ...carriers, ...grpc, ...commands, ...recovery, ...table, ...map, ...delta, ...ends, ...limits, ...reset, ...sse, ...tokens,
};
const inClusters = { ...scenarios, ...moved };

// Once in many runs, Node's fetch rejects a promise of its own that nothing can catch, when it is aborted while its body ends.
process.on("unhandledRejection", (error) => {
  if (error?.name !== "AbortError") throw error;
});

const [name] = process.argv.slice(2);
if (name === undefined || name === "--cluster") {
  console.log(JSON.stringify(Object.keys(name ? inClusters : scenarios)));
} else {
  await inClusters[name](new Test());
  process.exit(0); // clients that are still connected do not hold it up
}
