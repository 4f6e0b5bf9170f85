// The same walk for every carrier and form of the official client: each scenario is the walk over one of them.
import { overEach } from "./carrier.mjs";
import { assert, assertIncreasing, range, Record } from "./harness.mjs";

// walk goes through what a client does, over one carrier.
async function walk(test, carrier) {
  const node = await test.start();
  const client = carrier.client(node, { data: carrier.encode({ device: "till" }) });
  const connected = await client.connect();
  assert.equal(connected.transport, carrier.transport);
  await commands(node, client, carrier);
  await seesOthers(node, client);
  await recovers(node, client);
  await takesDeltas(node, client, carrier);
  await keepsTables(node, client, carrier);
  await endsAsTold(node, client);
}

// commands are all requests of the SDK.
async function commands(node, client, carrier) {
  client.sdk.startBatching();
  const followers = range(1, 100).map((i) => client.follow(`long:${i}`));
  client.sdk.stopBatching();
  for (const f of followers) await f.is("subscribed");
  const news = client.follow("news");
  await news.is("subscribed");
  for (const i of range(1, 20)) {
    await client.sdk.publish("news", carrier.encode({ i }));
    await node.publish("news", { i: -i });
  }
  await news.values.atLeast(40);
  assert.deepEqual(news.values.items, range(1, 20).flatMap((i) => [{ i }, { i: -i }]));
  assertIncreasing(news.offsets);
  const { publications, offset } = await client.sdk.history("news", { limit: 3, reverse: true });
  assert.deepEqual(publications.map((p) => carrier.decode(p.data)), [{ i: -20 }, { i: 20 }, { i: -19 }]);
  assert.equal(offset, news.offsets.at(-1));
  const present = await client.sdk.presence("news");
  assert.equal(Object.keys(present.clients).length, 1);
  assert.deepEqual(await client.sdk.presenceStats("news"), { numClients: 1, numUsers: 1 });
  const paced = await client.sdk.rpc("sluice.pace", carrier.encode({ channel: "news", interval: 0 }));
  assert.equal(typeof carrier.decode(paced.data), "object");
  await assert.rejects(client.sdk.rpc("nothing", carrier.encode({})), (e) => e.code !== undefined);
  await assert.rejects(client.sdk.publish("nowhere:a", carrier.encode(1)), { code: 102 });
  const refused = client.follow("nowhere:a");
  assert.equal((await refused.is("unsubscribed")).code, 102);
  news.sdk.unsubscribe();
  await node.publish("news", "unseen");
  await client.sdk.publish("long:1", carrier.encode("seen"));
  await followers[0].values.atLeast(1);
  assert.equal(news.values.items.length, 40);
}

// seesOthers is told of the clients that come and go in a channel, itself among them.
async function seesOthers(node, client) {
  const room = client.follow("rooms:a", { joinLeave: true });
  const seen = new Record();
  for (const event of ["join", "leave"]) room.sdk.on(event, (ctx) => seen.add([event, ctx.channel, ctx.info.client]));
  await room.is("subscribed");
  const others = [await node.connect(), await node.connect()];
  const names = [(await client.is("connected")).client];
  for (const other of others) {
    names.push((await other.is("connected")).client);
    await other.follow("rooms:a").is("subscribed");
  }
  await seen.atLeast(3, "joins");
  assert.deepEqual(Object.keys((await client.sdk.presence("rooms:a")).clients).sort(), [...names].sort());
  others[0].sdk.disconnect();
  await seen.atLeast(4, "joins and a leave");
  others[1].sdk.getSubscription("rooms:a").unsubscribe();
  await seen.atLeast(5, "joins and leaves");
  const went = ["join", "join", "join", "leave", "leave"];
  assert.deepEqual(seen.items, went.map((event, i) => [event, "rooms:a", names[i < 3 ? i : i - 2]]));
  room.sdk.unsubscribe();
}

// recovers cuts the client off, again and again, while something is published.
async function recovers(node, client) {
  const follower = client.follow("long:cut");
  await follower.is("subscribed");
  let n = 0;
  for (const round of range(1, 3)) {
    await node.publish("long:cut", ++n);
    await follower.values.atLeast(n);
    await client.cut();
    for (const _ of range(1, 30)) await node.publish("long:cut", ++n);
    client.mend();
    const ctx = await follower.is("subscribed", round + 1);
    assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true]);
    await follower.values.atLeast(n);
  }
  assert.deepEqual(follower.values.items, range(1, n));

  const short = client.follow("short:cut");
  await short.is("subscribed");
  await client.cut();
  const publisher = await node.connect();
  await publisher.publishAll("short:cut", range(1, 10_000)); // a node keeps some more than the history for a while
  publisher.sdk.disconnect();
  client.mend();
  const ctx = await short.is("subscribed", 2);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, false]);
}

// takesDeltas compares a subscription with differences with one without.
async function takesDeltas(node, client, carrier) {
  const other = carrier.client(node);
  await other.connect();
  const [plain, fossil] = [other.follow("deltas:a"), client.follow("deltas:a", { delta: "fossil" })];
  await plain.is("subscribed");
  await fossil.is("subscribed");
  for (const i of range(1, 50)) {
    await node.publish("deltas:a", { i, pad: "the same in all of them ".repeat(10) });
    if (i === 25) {
      await client.cut();
      client.mend();
      await fossil.is("subscribed", 2);
    }
  }
  await fossil.values.atLeast(50);
  await plain.values.atLeast(50);
  assert.deepEqual(fossil.values.items, plain.values.items);
  other.sdk.disconnect();
}

// keepsTables keeps the rows of a table as a map.
async function keepsTables(node, client, carrier) {
  const keys = range(1, 300).map((i) => `row ${i}`);
  for (const key of keys) await node.publish("deltatable:a", { key, n: 0 }, { key });
  const table = client.sdk.newMapSubscription("deltatable:a", { minResubscribeDelay: 10, maxResubscribeDelay: 50 });
  const [syncs, updates, rows] = [new Record(), new Record(), new Map()];
  table.on("sync", ({ entries }) => {
    rows.clear();
    for (const { key, data } of entries) rows.set(key, carrier.decode(data));
    syncs.add(entries.length);
  });
  table.on("update", ({ key, data, removed }) => {
    if (removed) rows.delete(key);
    else rows.set(key, carrier.decode(data));
    updates.add(key);
  });
  table.subscribe();
  await syncs.atLeast(1);
  assert.deepEqual([...rows.keys()].sort(), [...keys].sort());
  await node.publish("deltatable:a", { key: "row 7", n: 1 }, { key: "row 7" });
  await client.sdk.mapRemove("deltatable:a", "row 8");
  await updates.atLeast(2);
  assert.deepEqual([rows.get("row 7").n, rows.has("row 8"), rows.size], [1, false, 299]);
}

// endsAsTold ends the connection from the server, with and without coming back.
async function endsAsTold(node, client) {
  const id = () => client.events.items.findLast((e) => e.event === "connected").client;
  const before = client.events.items.length;
  await node.api("disconnect", { client: id(), code: 3000, reason: "go elsewhere" });
  assert.deepEqual(await client.is("connecting", before), { event: "connecting", code: 3000, reason: "go elsewhere" });
  await client.is("connected", before);
  const news = client.follow("weather");
  await news.is("subscribed");
  await node.api("unsubscribe", { channel: "weather", client: id() });
  assert.equal((await news.is("unsubscribed")).code, 2000);
  await node.api("disconnect", { client: id(), code: 3500, reason: "go away" });
  assert.deepEqual(await client.is("disconnected"), { event: "disconnected", code: 3500, reason: "go away" });
}

export const scenarios = overEach("carries", walk);
