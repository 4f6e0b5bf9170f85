// Two gateways of a cluster that sends each user to one of them, behind a proxy that knows nothing of that: clients come to the wrong one, and are moved.
import { assert, assertIncreasing, range } from "./harness.mjs";
import { token } from "./token.mjs";

const codeOfMove = 3100;

// pause is the time between two publications in milliseconds, so that clients are moved while there are some.
const pause = 5;

// clients is how many there are. Chance puts each of them on the right gateway or not: of few, fewer than `least` may have to move.
const clients = 40;
const least = 5;

export async function comesBackWhenItIsMoved(test) {
  const node = await test.startMoving();
  const all = [];
  for (const i of range(1, clients)) {
    const client = await node.connect({ token: token({ sub: `user${i}` }) });
    const told = [];
    client.sdk.on("message", (ctx) => told.push(ctx.data));
    const follower = client.follow("moves");
    await follower.is("subscribed");
    all.push({ client, told, follower });
  }
  const moves = ({ client }) => client.events.items.filter((e) => e.code === codeOfMove).length;
  const published = [];
  while (all.reduce((sum, c) => sum + moves(c), 0) < least) {
    published.push(published.length);
    await node.publish("moves", published.at(-1));
    await new Promise((go) => setTimeout(go, pause));
  }
  for (const i of range(1, 20)) published.push(-i);
  for (const data of published.slice(-20)) await node.publish("moves", data);
  for (const one of all) {
    await one.follower.publications.atLeast(published.length);
    assert.deepEqual(one.follower.data, published);
    assertIncreasing(one.follower.offsets);
    // Meanwhile it may be moved once more, also before it has subscribed again.
    await one.follower.events.until((all) => all.at(-1).event === "subscribed", "the subscription after the last move");
    const again = one.follower.events.items.filter((e) => e.event === "subscribed").slice(1);
    assert(again.length > 0 || moves(one) === 0, "it was moved, and has not subscribed again");
    assert(again.every((e) => e.wasRecovering && e.recovered), "it has not recovered");
    assert(one.told.length >= moves(one) && one.told.every((data) => data.sluice.move.routes.length > 0), "it was not told where to go");
  }
}
