// What the official client makes of limits: it comes again when it is refused for now, by itself, and stays away when it is refused for good.
import { overEach } from "./carrier.mjs";
import { assert, range } from "./harness.mjs";
import { token } from "./token.mjs";

// storm has many clients connect at once, and returns when all are connected. Some of them have to be refused before.
async function storm(node, carrier) {
  const clients = range(1, 12).map(() => carrier.client(node));
  await Promise.all(clients.map((c) => c.connect()));
  for (const c of clients) assert.deepEqual(c.events.items.map((e) => e.event), ["connecting", "connected"]);
}

// exceeded returns how often clients have exceeded a limit of a node.
const exceeded = (node, limit) => node.metric(`sluice_limits_exceeded_total{enforced="true",limit="${limit}"}`);

async function comesBackThroughTheRamp(test, carrier) {
  const node = await test.start({ config: "ramp.yaml" });
  await storm(node, carrier);
  assert((await exceeded(node, "connects")) > 0);
}

async function comesBackAfterATemporaryError(test, carrier) {
  const node = await test.start({ config: "busy.yaml" });
  await storm(node, carrier);
  assert((await exceeded(node, "commands_per_address")) > 0);
}

async function staysAwayWhenItsUserHasTooMany(test, carrier) {
  const node = await test.start({ config: "users.yaml", secure: true });
  const first = carrier.client(node, { token: token({ sub: "ann" }) });
  await first.connect();
  const second = carrier.client(node, { token: token({ sub: "ann" }) });
  second.sdk.connect();
  assert.equal((await second.is("disconnected")).code, 3504);
  const other = carrier.client(node, { token: token({ sub: "bob" }) });
  await other.connect();
  first.sdk.disconnect();
  const before = second.events.items.length;
  while ((await node.metric("sluice_sessions")) === 2); // the first one is still there
  second.sdk.connect();
  await second.is("connected", before);
}

export const scenarios = {
  ...overEach("comesBackThroughTheRamp", comesBackThroughTheRamp),
  ...overEach("comesBackAfterATemporaryError", comesBackAfterATemporaryError),
  ...overEach("staysAwayWhenItsUserHasTooMany", staysAwayWhenItsUserHasTooMany),
};
