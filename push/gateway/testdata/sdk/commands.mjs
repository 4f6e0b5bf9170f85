// What a client that stays connected does.
import { assert, assertIncreasing, range } from "./harness.mjs";

export async function connectsAndDisconnects(test) {
  const node = await test.start();
  const client = await node.connect({ name: "shop", version: "1.2", data: { device: "till" }, token: "" });
  const connected = await client.is("connected");
  assert.match(connected.client, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.equal(connected.transport, "websocket");
  client.sdk.disconnect();
  assert.equal((await client.is("disconnected")).code, 0);

  client.sdk.connect();
  const again = await client.is("connected", 3);
  assert.notEqual(again.client, connected.client);
}

export async function subscribesToAHundredChannels(test) {
  const node = await test.start();
  const channels = range(1, 100).map((i) => `long:${i}`);
  const early = node.client(); // knows its subscriptions before it connects
  const late = await node.connect();
  const followers = channels.map((channel) => early.follow(channel));
  early.sdk.connect();
  late.sdk.startBatching();
  followers.push(...channels.map((channel) => late.follow(channel)));
  late.sdk.stopBatching();
  for (const follower of followers) {
    const ctx = await follower.is("subscribed");
    assert.deepEqual([ctx.recoverable, ctx.positioned, ctx.wasRecovering, ctx.recovered], [true, true, false, false]);
  }
  const frames = (client) => client.sent.items.filter((frame) => frame !== "{}").map((frame) => frame.split("\n").length);
  assert.deepEqual(frames(early), [101], "a frame with connect and all subscriptions");
  assert.deepEqual(frames(late), [1, 100], "a frame with connect, one with all subscriptions");

  const { client: publisher } = await early.is("connected");
  const offsets = new Map(channels.map((channel) => [channel, []]));
  for (const n of range(1, 5)) {
    early.sdk.startBatching();
    const answers = channels.map((channel) => early.sdk.publish(channel, `client ${n}`));
    early.sdk.stopBatching();
    await Promise.all(answers);
    const { responses } = await node.api("broadcast", { channels, data: `api ${n}`, tags: { round: String(n) } });
    responses.forEach(({ result }, i) => offsets.get(channels[i]).push(result.offset));
  }
  for (const follower of followers) {
    await follower.got("api 5");
    assert.deepEqual(follower.data, range(1, 5).flatMap((n) => [`client ${n}`, `api ${n}`]));
    assertIncreasing(follower.offsets);
    const fromAPI = follower.publications.items.filter((p) => p.info === undefined);
    assert.deepEqual(fromAPI.map((p) => p.offset), offsets.get(follower.sdk.channel));
    assert.deepEqual(fromAPI.map((p) => p.tags.round), ["1", "2", "3", "4", "5"]);
    const fromClient = follower.publications.items.filter((p) => p.info !== undefined);
    assert.deepEqual(fromClient.map((p) => p.info.client), Array(5).fill(publisher));
  }
}

// What a client asks for that this node does not do is passed over, not answered with something else.
export async function passesOverUnknownWishes(test) {
  const node = await test.start();
  const client = await node.connect({ token: "of another server" });
  const wishes = { delta: "fossil", joinLeave: true, positioned: true, recoverable: true, data: { room: 5 } };
  const follower = client.follow("news", wishes);
  await follower.is("subscribed");
  const all = [{ bid: 1 }, "a string", [null], 4.5, { bid: 2 }];
  await client.publishAll("news", [...all, "end"]);
  await follower.got("end");
  assert.deepEqual(follower.data, [...all, "end"]);
}

export async function answersPings(test) {
  const node = await test.start({ config: "pings.yaml" });
  const client = await node.connect();
  const pings = (frames) => frames.filter((frame) => frame === "{}").length >= 3;
  await client.received.until(pings, "pings");
  await client.sent.until(pings, "pongs");
  assert.deepEqual(client.events.items.map((e) => e.event), ["connecting", "connected"]);
}

export async function unsubscribes(test) {
  const node = await test.start();
  const client = await node.connect();
  const left = client.follow("news");
  const kept = client.follow("weather");
  await left.is("subscribed");
  await kept.is("subscribed");
  await node.publish("news", 1);
  await left.got(1);

  left.sdk.unsubscribe();
  assert.equal((await left.is("unsubscribed")).code, 0);
  await client.sdk.publish("news", 2); // comes after the unsubscribe command, on the same connection
  await client.sdk.publish("weather", "fair");
  await kept.got("fair");
  assert.deepEqual(left.data, [1]);

  left.sdk.subscribe(); // the SDK has kept its position
  const again = await left.is("subscribed", 2);
  assert.deepEqual([again.wasRecovering, again.recovered], [true, true]);
  await left.got(2);
  assert.deepEqual(left.data, [1, 2]);
}

export async function readsHistory(test) {
  const node = await test.start();
  const client = await node.connect();
  const { sdk } = client.follow("news");
  await client.publishAll("news", range(1, 10));
  const read = async (options) => {
    const { publications, ...position } = await sdk.history(options);
    return { data: publications.map((p) => p.data), publications, position };
  };

  const all = await read({ limit: -1 });
  assert.deepEqual(all.data, range(1, 10));
  assertIncreasing(all.publications.map((p) => p.offset));
  assert.equal(all.position.offset, all.publications[9].offset);
  const { epoch } = all.position;
  const at = (n) => ({ offset: all.publications[n - 1].offset, epoch });

  const head = await read();
  assert.deepEqual([head.data, head.position], [[], all.position]);
  for (const [options, want] of [
    [{ limit: 3 }, [1, 2, 3]],
    [{ limit: 3, reverse: true }, [10, 9, 8]],
    [{ limit: 2, since: at(4) }, [5, 6]],
    [{ limit: 100, since: at(9) }, [10]],
    [{ limit: 100, since: at(10) }, []],
    [{ limit: 3, since: at(4), reverse: true }, [3, 2, 1]],
  ]) {
    assert.deepEqual((await read(options)).data, want, JSON.stringify(options));
  }
  await assert.rejects(read({ limit: 1, since: { ...at(4), epoch: "another" } }), { code: 112 });
  assert.deepEqual((await client.sdk.history("news", { limit: 1 })).publications[0].data, 1, "without a subscription");

  await client.publishAll("short:news", range(1, 20));
  const { publications } = await client.sdk.history("short:news", { limit: -1 });
  assert.deepEqual(publications.map((p) => p.data), range(11, 20), "no more than the namespace keeps");
}

export async function tellsWhoIsPresent(test) {
  const node = await test.start();
  const clients = [await node.connect(), await node.connect()];
  const followers = clients.map((client) => client.follow("room"));
  for (const follower of followers) await follower.is("subscribed");

  const ids = clients.map((client) => client.events.items.at(-1).client);
  const { clients: present } = await followers[0].sdk.presence();
  assert.deepEqual(present, Object.fromEntries(ids.map((id) => [id, { client: id, user: "" }])));
  assert.deepEqual(await followers[0].sdk.presenceStats(), { numClients: 2, numUsers: 1 });
  assert.deepEqual(await node.api("presence_stats", { channel: "room" }), { num_clients: 2, num_users: 1 });

  followers[0].sdk.unsubscribe();
  const { clients: rest } = await clients[0].sdk.presence("room");
  assert.deepEqual(Object.keys(rest), [ids[1]]);
  assert.deepEqual(await clients[0].sdk.presenceStats("room"), { numClients: 1, numUsers: 1 });
}

export async function refuses(test) {
  const node = await test.start();
  const client = await node.connect();
  await assert.rejects(client.sdk.rpc("sum", [1, 2]), { code: 108 });
  await assert.rejects(client.sdk.publish("nowhere:news", 1), { code: 102 });
  await assert.rejects(client.sdk.history("nowhere:news", { limit: 1 }), { code: 102 });
  await assert.rejects(client.sdk.presence("nowhere:news"), { code: 102 });
  const nowhere = client.follow("nowhere:news");
  assert.equal((await nowhere.is("unsubscribed")).code, 102);

  await client.follow("news").is("subscribed");
  assert.throws(() => client.sdk.newSubscription("news"), /already exists/);
  const [twice] = await client.raw({ subscribe: { channel: "news" } });
  assert.equal(twice.error.code, 105);

  const many = range(1, 127).map((i) => client.follow(`long:${i}`)); // with news, as many as are allowed
  for (const follower of many) await follower.is("subscribed");
  assert.equal((await client.follow("long:128").is("unsubscribed")).code, 106);
  assert.deepEqual(client.events.items.map((e) => e.event), ["connecting", "connected"], "none of this ends the connection");

  await client.sdk.send({ nobody: "listens" });
  assert.equal((await client.is("disconnected")).code, 3508);
}
