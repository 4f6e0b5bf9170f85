// What a client learns that was cut off.
import { assert, assertIncreasing, range } from "./harness.mjs";

// expectResumed fails unless the subscription was resumed when it was subscribed for the nth time.
async function expectResumed(follower, resumed, nth = 2) {
  const ctx = await follower.is("subscribed", nth);
  assert.deepEqual({ wasRecovering: ctx.wasRecovering, recovered: ctx.recovered }, { wasRecovering: true, recovered: resumed });
  return ctx;
}

// begin returns a publisher and a follower of the channel that has got the publications 1 to 5.
async function begin(node, channel) {
  const publisher = await node.connect();
  const reader = await node.connect();
  const follower = reader.follow(channel);
  await follower.is("subscribed");
  await publisher.publishAll(channel, range(1, 5));
  await follower.got(5);
  return { publisher, reader, follower };
}

export async function recoversWhatItMissed(test) {
  const node = await test.start();
  const { publisher, reader, follower } = await begin(node, "news");
  await reader.cut();
  await publisher.publishAll("news", range(6, 25));
  reader.mend();
  const ctx = await expectResumed(follower, true);
  assert.equal(ctx.hasRecoveredPublications, true);
  await publisher.publishAll("news", [26]);
  await follower.got(26);
  assert.deepEqual(follower.data, range(1, 26));
  assertIncreasing(follower.offsets);

  await reader.cut(); // and once more, having missed nothing
  reader.mend();
  const nothing = await expectResumed(follower, true, 3);
  assert.equal(nothing.hasRecoveredPublications, false);
  await publisher.publishAll("news", [27]);
  await follower.got(27);
  assert.deepEqual(follower.data, range(1, 27));
}

// More was missed than one reply holds, by number and by size: the rest follows as pushes, nothing twice and nothing left out.
export async function recoversMoreThanAReplyHolds(test) {
  const node = await test.start();
  const { publisher, reader, follower } = await begin(node, "long:news");
  const large = range(1, 40).map((i) => `${i} ${"x".repeat(10_000)}`);
  await reader.cut();
  await publisher.publishAll("long:news", range(6, 5000));
  await publisher.publishAll("long:news", large, 4);
  reader.mend();
  await expectResumed(follower, true);
  await publisher.publishAll("long:news", ["end"]);
  await follower.got("end");
  assert.deepEqual(follower.data, [...range(1, 5000), ...large, "end"]);
  assertIncreasing(follower.offsets);
}

export async function recoversManySubscriptions(test) {
  const node = await test.start();
  const publisher = await node.connect();
  const reader = await node.connect();
  const channels = range(1, 100).map((i) => `long:${i}`);
  const followers = channels.map((channel) => reader.follow(channel));
  for (const follower of followers) await follower.is("subscribed");
  for (const round of range(1, 3)) {
    await reader.cut();
    for (const n of range(1, 10)) await node.api("broadcast", { channels, data: 10 * (round - 1) + n });
    reader.mend();
    for (const follower of followers) await expectResumed(follower, true, round + 1);
  }
  for (const follower of followers) {
    await publisher.publishAll(follower.sdk.channel, ["end"]);
    await follower.got("end");
    assert.deepEqual(follower.data, [...range(1, 30), "end"]);
  }
}

// The connection breaks while publications are under way, and again while what was missed is.
export async function recoversFromCutsUnderLoad(test) {
  const node = await test.start();
  const { publisher, reader, follower } = await begin(node, "long:news");
  const all = range(1, 10_000);
  const publishing = publisher.publishAll("long:news", all.slice(5), 50);
  for (const cut of range(1, 6)) {
    await follower.publications.atLeast(cut * 1000, "publications");
    reader.interrupt();
    await expectResumed(follower, true, cut + 1);
  }
  await publishing;
  await follower.got(all.at(-1));
  assert.deepEqual(follower.data, all);
  assertIncreasing(follower.offsets);
}

// The application leaves and comes back while publications are under way, without waiting for either.
export async function recoversFromLeavingUnderLoad(test) {
  const node = await test.start();
  const { publisher, follower } = await begin(node, "long:news");
  const all = range(1, 5000);
  const publishing = publisher.publishAll("long:news", all.slice(5), 20);
  for (const time of range(1, 40)) {
    await follower.publications.atLeast(time * 100, "publications");
    follower.sdk.unsubscribe();
    follower.sdk.subscribe();
    await expectResumed(follower, true, time + 1);
  }
  await publishing;
  await follower.got(all.at(-1));
  assert.deepEqual(follower.data, all);
}

export async function startsFreshAfterTooLongAGap(test) {
  const node = await test.start();
  const { publisher, reader, follower } = await begin(node, "short:news");
  const { epoch } = (await follower.is("subscribed")).streamPosition;
  const since = { offset: follower.offsets.at(-1), epoch };
  await reader.cut();
  await publisher.publishAll("short:news", range(6, 10_000)); // a node keeps some more than the history for a while
  reader.mend();
  const ctx = await expectResumed(follower, false);
  assert.equal(ctx.hasRecoveredPublications, false);
  await publisher.publishAll("short:news", ["live"]);
  await follower.got("live");
  assert.deepEqual(follower.data, [1, 2, 3, 4, 5, "live"]);

  await reader.cut(); // from its new position it recovers
  await publisher.publishAll("short:news", ["missed"]);
  reader.mend();
  await expectResumed(follower, true, 3);
  await follower.got("missed");

  const other = await node.connect();
  await expectResumed(other.follow("short:news", { since }), false, 1);
}

export async function startsFreshInAnotherEpoch(test) {
  const node = await test.start();
  const { reader, follower } = await begin(node, "news");
  const { epoch } = (await follower.is("subscribed")).streamPosition;
  const since = { offset: follower.offsets.at(-1), epoch };
  await node.restart();
  const publisher = await node.connect();
  const ctx = await expectResumed(follower, false);
  assert.notEqual(ctx.streamPosition.epoch, epoch);
  assert.equal(reader.sdk.state, "connected");
  await publisher.publishAll("news", range(1, 10)); // whatever the offsets are in this epoch
  await follower.got(10);
  assert.deepEqual(follower.data, [...range(1, 5), ...range(1, 10)]);

  const other = await node.connect();
  const stale = other.follow("news", { since });
  await expectResumed(stale, false, 1);
  await publisher.publishAll("news", [11]);
  await stale.got(11);
  assert.deepEqual(stale.data, [11]);
}

export async function startsFromAGivenPosition(test) {
  const node = await test.start();
  const { publisher, follower } = await begin(node, "long:news");
  const { epoch } = (await follower.is("subscribed")).streamPosition;
  await publisher.publishAll("long:news", range(6, 2000));
  await follower.got(2000);
  const at = (n) => ({ offset: follower.offsets[n - 1], epoch });
  for (const n of [1, 3, 1999, 2000]) {
    const other = await node.connect();
    const later = other.follow("long:news", { since: at(n) });
    await expectResumed(later, true, 1);
    await publisher.publishAll("long:news", [`after ${n}`]);
    await later.got(`after ${n}`);
    const missed = follower.data.slice(n, follower.data.indexOf(`after ${n}`) + 1);
    assert.deepEqual(later.data.slice(0, missed.length), missed);
  }
  const other = await node.connect();
  const ahead = { ...at(2000), offset: at(2000).offset + 1_000_000 }; // a position that this epoch has not come to
  await expectResumed(other.follow("long:news", { since: ahead }), false, 1);
}
