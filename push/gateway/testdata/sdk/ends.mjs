// How the node ends subscriptions and connections, and what the client makes of it.
import { assert, assertIncreasing, range } from "./harness.mjs";

// idOf is the client's own identity of its newest connection.
function idOf(client) {
  return client.events.items.findLast((e) => e.event === "connected").client;
}

export async function reconnectsWhenAsked(test) {
  const node = await test.start();
  const client = await node.connect();
  const follower = client.follow("news");
  await follower.is("subscribed");
  let times = 1;
  for (const code of [3000, 3499, 4000]) {
    const before = client.events.items.length;
    await node.api("disconnect", { client: idOf(client), code, reason: "go elsewhere" });
    assert.deepEqual(await client.is("connecting", before), { event: "connecting", code, reason: "go elsewhere" });
    await node.publish("news", code);
    assert.equal((await follower.is("subscribed", ++times)).recovered, true);
    await follower.got(code);
  }
  assert.deepEqual(follower.data, [3000, 3499, 4000]);
}

export async function staysAwayWhenTold(test) {
  const node = await test.start();
  const bystander = await node.connect();
  for (const [request, code] of [[{ code: 3500 }, 3500], [{ code: 4500 }, 4500], [{}, 3503]]) {
    const client = await node.connect();
    const follower = client.follow("news");
    await follower.is("subscribed");
    await node.api("disconnect", { client: idOf(client), ...request });
    assert.equal((await client.is("disconnected")).code, code);
    assert.equal(client.sdk.state, "disconnected");
    assert.equal(client.sockets, 1);
    assert.equal(follower.sdk.state, "subscribing", "until the application connects again");
    client.sdk.connect();
    await follower.is("subscribed", 2);
  }
  assert.equal(bystander.sdk.state, "connected");
  assert.equal(bystander.sockets, 1);
}

export async function staysUnsubscribedWhenTold(test) {
  const node = await test.start();
  const client = await node.connect();
  const news = client.follow("news");
  const weather = client.follow("weather");
  await news.is("subscribed");
  await weather.is("subscribed");
  await node.api("unsubscribe", { channel: "news", client: idOf(client) });
  assert.equal((await news.is("unsubscribed")).code, 2000);
  await node.publish("news", 1);
  await node.publish("weather", "fair");
  await weather.got("fair");
  assert.deepEqual(news.data, []);
  assert.equal(news.sdk.state, "unsubscribed");
  assert.deepEqual(await client.sdk.presenceStats("weather"), { numClients: 1, numUsers: 1 });

  news.sdk.subscribe();
  assert.equal((await news.is("subscribed", 2)).recovered, true);
  await news.got(1);
}

// A client that reads too slowly for what its channel keeps is told by an unsubscribe push, subscribes again by itself, and learns
// that it was not told everything. Its other channels and other clients are not disturbed.
export async function resubscribesAfterALoss(test) {
  await losesAndResubscribes(test, "short:news", 2500);
}

// Where the policy of a namespace is to unsubscribe, it is the same with another code, which the SDK does not know.
export async function resubscribesWhenTooSlow(test) {
  await losesAndResubscribes(test, "strict:news", 2510);
}

async function losesAndResubscribes(test, channel, want) {
  const node = await test.start();
  const [publisher, reader, other] = [await node.connect(), await node.connect(), await node.connect()];
  const [slow, calm, quick] = [reader.follow(channel), reader.follow("news"), other.follow(channel)];
  for (const follower of [slow, calm, quick]) await follower.is("subscribed");
  const all = range(1, 2000).map((i) => `${i} ${"x".repeat(60_000)}`); // more than sockets and the node hold together
  reader.pause();
  await publisher.publishAll(channel, all, 1);
  await node.publish("news", 1);
  await quick.got(all.at(-1));
  assert.deepEqual(quick.data, all);
  reader.resume();

  const { code } = await slow.events.until((events) => events.filter((e) => e.event === "subscribing")[1], "subscribing again");
  assert.equal(code, want);
  const ctx = await slow.is("subscribed", 2);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, false]);
  const before = slow.data.length;
  assert.deepEqual(slow.data, all.slice(0, before), "up to the loss nothing is left out");
  assert(before < all.length);
  await publisher.publishAll(channel, ["live"]);
  await slow.got("live");
  assert.equal(slow.data.length, before + 1);
  assertIncreasing(slow.offsets);
  await calm.got(1);
  assert.equal(reader.sockets, 1);
}

// A client that asks for it is told what it lost instead, by a tag that the SDK hands to the application, and goes on.
export async function goesOnAfterALoss(test) {
  const node = await test.start();
  const [publisher, reader] = [await node.connect(), await node.connect()];
  const slow = reader.follow("short:news", { data: { sluice: { lost: true } } });
  assert.deepEqual((await slow.is("subscribed")).data, { sluice: { lost: true } });
  const all = range(1, 2000).map((i) => `${i} ${"x".repeat(60_000)}`); // more than sockets and the node hold together
  reader.pause();
  await publisher.publishAll("short:news", all, 1);
  reader.resume();
  await slow.got(all.at(-1));
  await publisher.publishAll("short:news", ["live"]);
  await slow.got("live");

  let [due, told] = [0, 0];
  for (const { data, tags } of slow.publications.items.slice(0, -1)) {
    if (tags?.["sluice.lost"] !== undefined) {
      due += Number(tags["sluice.lost"]);
      told++;
    }
    assert(data === all[due], `${data.slice(0, 5)} came when ${due + 1} was due`);
    due++;
  }
  assert.equal(due, all.length, "every publication came, or was told to be lost");
  assert(told > 0, "something was lost");
  assertIncreasing(slow.offsets);
  assert.equal(slow.events.items.filter((e) => e.event === "subscribed").length, 1);
  assert.equal(reader.sockets, 1);
}

export async function reconnectsAfterNoPong(test) {
  const node = await test.start({ config: "pings.yaml" });
  const client = await node.connect();
  const before = client.events.items.length;
  client.silent = true;
  assert.equal((await client.is("connecting", before)).code, 3012);
  client.silent = false;
  await client.is("connected", before);
}

export async function goesElsewhereAtShutdown(test) {
  const node = await test.start();
  const clients = await Promise.all(range(1, 20).map(() => node.connect()));
  const followers = clients.map((client) => client.follow("news"));
  for (const follower of followers) await follower.is("subscribed");
  assert.equal(await node.terminate(), 0);
  for (const client of clients) {
    assert.deepEqual(await client.is("connecting", 2), { event: "connecting", code: 3001, reason: "shutdown" });
  }
  await node.start();
  for (const follower of followers) assert.equal((await follower.is("subscribed", 2)).recovered, false);
}
