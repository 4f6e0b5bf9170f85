// Runs one scenario: node run.mjs NAME. Without a name it prints the names of all, as a JSON array.
//
// A scenario is an exported function of one of the modules below. It is given the test, see harness.mjs, and fails by throwing.
import { Test } from "./harness.mjs";
import * as commands from "./commands.mjs";
import * as delta from "./delta.mjs";
import * as ends from "./ends.mjs";
import * as map from "./map.mjs";
import * as recovery from "./recovery.mjs";
import * as sse from "./sse.mjs";
import * as table from "./table.mjs";

const scenarios = { ...commands, ...recovery, ...table, ...map, ...delta, ...ends, ...sse };

const [name] = process.argv.slice(2);
if (name === undefined) {
  console.log(JSON.stringify(Object.keys(scenarios)));
} else {
  await scenarios[name](new Test());
  process.exit(0); // clients that are still connected do not hold it up
}
