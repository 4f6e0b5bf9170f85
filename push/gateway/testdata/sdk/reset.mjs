// What a client does that is told that what it has is not valid any more, and one whose position has an epoch and no offset.
import { EventSource } from "eventsource";
import { WebSocket } from "ws";
import { overEach } from "./carrier.mjs";
import { assert, range, Record } from "./harness.mjs";

// idOf is the client's own identity of its newest connection.
function idOf(client) {
  return client.events.items.findLast((e) => e.event === "connected").client;
}

// The server invalidates the state of a client: of its connection, by disconnect 3014, or of one subscription, by unsubscribe 2502.
const ways = {
  async 3014(node, client, channels, round) {
    const before = client.events.items.length;
    await node.api("disconnect", { client: idOf(client), code: 3014, reason: `reset ${round}` });
    assert.deepEqual(await client.is("connecting", before), { event: "connecting", code: 3014, reason: `reset ${round}` });
    await client.is("connected", before);
  },
  async 2502(node, client, channels, round) {
    const before = client.events.items.length;
    for (const channel of channels) {
      await node.api("unsubscribe", { channel, client: idOf(client), code: 2502, reason: `reset ${round}` });
    }
    return () => assert.equal(client.events.items.length, before, "the connection goes on");
  },
};

// begun waits until a subscription has begun for the nth time after a reset, and fails unless the client knows that it has lost its place.
async function begun(follower, nth, head, epoch) {
  const ctx = await follower.is("subscribed", nth);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered, ctx.recoverable, ctx.positioned], [true, false, true, true]);
  assert.deepEqual(ctx.streamPosition, { offset: head, epoch }, "the node's own position takes the place of the forgotten one");
}

// forgets resets a client over and over: it begins anew, misses nothing from then on, and recovers from its new position.
async function forgets(test, carrier) {
  const node = await test.start();
  const client = carrier.client(node);
  await client.connect();
  const [news, fossil] = [client.follow("long:news"), client.follow("deltas:a", { delta: "fossil" })];
  const followers = [news, fossil];
  const table = watch(client, carrier);
  const epochs = new Map();
  for (const f of followers) epochs.set(f, (await f.is("subscribed")).streamPosition.epoch);
  await table.syncs.atLeast(1);
  let n = 0;
  const value = (i) => ({ i, pad: "the same in all of them ".repeat(10) });
  const publish = async () => {
    n++;
    for (const f of followers) await node.publish(f.sdk.channel, value(n));
    await node.publish("deltatable:a", { key: "row", n }, { key: "row" });
  };
  let times = 1;
  for (const round of range(1, 3)) {
    for (const reset of Object.values(ways)) {
      await publish();
      for (const f of followers) await f.values.atLeast(n);
      await table.updates.until(() => table.rows.get("row") === n, `row ${n}`);
      const synced = table.syncs.items.length;
      const goesOn = await reset(node, client, [...followers.map((f) => f.sdk.channel), "deltatable:a"], round);
      times++;
      for (const f of followers) await begun(f, times, n, epochs.get(f));
      assert.equal((await table.syncs.atLeast(synced + 1)).at(-1).get("row"), n, "a map begins anew with all rows");
      await publish(); // a difference to what the client has forgotten would not decode
      for (const f of followers) await f.values.atLeast(n);
      goesOn?.();

      await client.cut(); // from its new position it recovers
      await publish();
      client.mend();
      times++;
      for (const f of followers) {
        const ctx = await f.is("subscribed", times);
        assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true]);
        await f.values.atLeast(n);
      }
      await table.updates.until(() => table.rows.get("row") === n, `row ${n}`);
    }
  }
  for (const f of followers) {
    assert.deepEqual(f.values.items, range(1, n).map(value));
    assert.deepEqual(f.offsets, range(1, n));
  }
  assert.deepEqual(news.events.items.filter((e) => e.code === 3014 || e.code === 2502).length, 3, "subscriptions are told of 2502");
}

// watch subscribes to a table as a map.
function watch(client, carrier) {
  const sdk = client.sdk.newMapSubscription("deltatable:a", { minResubscribeDelay: 10, maxResubscribeDelay: 50 });
  const table = { rows: new Map(), syncs: new Record(), updates: new Record() };
  sdk.on("sync", ({ entries }) => {
    table.rows = new Map(entries.map(({ key, data }) => [key, carrier.decode(data).n]));
    table.syncs.add(table.rows);
    table.updates.add("sync");
  });
  sdk.on("update", ({ key, data }) => {
    table.rows.set(key, carrier.decode(data).n);
    table.updates.add(key);
  });
  sdk.subscribe();
  return table;
}

// recoversFromNothing: a client that has subscribed to a channel without publications has an epoch and no offset. It recovers from the first
// publication on, by itself and from a position that an application gives, and not in another epoch.
async function recoversFromNothing(test, carrier) {
  const node = await test.start();
  const client = carrier.client(node);
  await client.connect();
  const follower = client.follow("long:new");
  const { streamPosition } = await follower.is("subscribed");
  assert.equal(streamPosition.offset, 0);
  assert.notEqual(streamPosition.epoch, "");
  await client.cut(); // and once more without any publication
  client.mend();
  const still = await follower.is("subscribed", 2);
  assert.deepEqual([still.wasRecovering, still.recovered, still.streamPosition], [true, true, streamPosition]);
  await client.cut();
  for (const i of range(1, 3)) await node.publish("long:new", i);
  client.mend();
  const ctx = await follower.is("subscribed", 3);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered, ctx.hasRecoveredPublications], [true, true, true]);
  await follower.values.atLeast(3);
  follower.sdk.unsubscribe();
  await node.publish("long:new", 4);
  follower.sdk.subscribe();
  await follower.values.atLeast(4);
  assert.deepEqual([follower.values.items, follower.offsets], [range(1, 4), range(1, 4)]);

  const given = carrier.client(node);
  await given.connect();
  const since = given.follow("long:new", { since: streamPosition });
  assert.equal((await since.is("subscribed")).recovered, true);
  await since.values.atLeast(4);
  assert.deepEqual(since.values.items, range(1, 4));
  given.sdk.removeSubscription(since.sdk);
  const oldest = given.follow("long:new", { since: { offset: 0, epoch: "" } }); // neither is a position: all that there is
  assert.equal((await oldest.is("subscribed")).recovered, true);
  await oldest.values.atLeast(4);
  assert.deepEqual(oldest.values.items, range(1, 4));
  given.sdk.removeSubscription(oldest.sdk);
  const unknown = given.follow("long:new", { since: { offset: 3, epoch: "" } }); // an offset of an epoch that nobody knows
  const known = await unknown.is("subscribed");
  assert.deepEqual([known.recovered, known.streamPosition], [false, { offset: 4, epoch: streamPosition.epoch }]);

  const empty = client.follow("long:empty");
  await empty.is("subscribed");
  await node.restart();
  const fresh = await empty.is("subscribed", 2);
  assert.deepEqual([fresh.wasRecovering, fresh.recovered, fresh.streamPosition.offset], [true, false, 0]);
  assert.notEqual(fresh.streamPosition.epoch, streamPosition.epoch);
  await node.publish("long:empty", 1); // the same number as in the epoch that is over
  await empty.values.atLeast(1);
  await client.cut();
  await node.publish("long:empty", 2);
  client.mend();
  assert.equal((await empty.is("subscribed", 3)).recovered, true);
  await empty.values.atLeast(2);
  assert.deepEqual([empty.values.items, empty.offsets], [[1, 2], [1, 2]]);
}

// A client that another server has subscribed comes with the positions of these subscriptions. This node has none for it: it takes the connect
// command, whatever the positions are, and the client gives them up.
async function givesUpOthersSubscriptions(test) {
  const node = await test.start();
  const client = await node.connect();
  const follower = client.follow("news");
  await follower.is("subscribed");
  const server = new Record();
  for (const event of ["subscribed", "unsubscribed", "publication"]) client.sdk.on(event, ({ channel }) => server.add(`${event} ${channel}`));
  const cases = [
    [3000, { recover: true, offset: 7, epoch: "theirs" }, true],
    [3014, { recover: true, epoch: "_" }, false], // as the client says that a position is not valid any more
  ];
  for (const [i, [code, want, recovered]] of cases.entries()) {
    client.deliver({ push: { channel: "theirs", subscribe: { recoverable: true, positioned: true, epoch: "theirs", offset: 7 } } });
    await server.atLeast(2 * i + 1);
    const before = client.events.items.length;
    await node.api("disconnect", { client: idOf(client), code, reason: "go elsewhere" });
    await client.is("connected", before);
    const frame = client.sent.items.findLast((sent) => sent.includes('"connect":'));
    assert.deepEqual(JSON.parse(frame.split("\n")[0]).connect.subs, { theirs: want });
    await server.atLeast(2 * i + 2);
    assert.equal((await follower.is("subscribed", i + 2)).recovered, recovered);
  }
  await node.publish("theirs", 1);
  await node.publish("news", 2);
  await follower.got(2);
  assert.deepEqual(server.items, ["subscribed theirs", "unsubscribed theirs", "subscribed theirs", "unsubscribed theirs"]);
}

// listeners connect one-way clients, whose subscriptions are the server's. Each returns the pushes, and ends with the scenario.
const listeners = {
  uni_websocket(node, request) {
    const pushes = new Record();
    const socket = new WebSocket(`ws://${node.address}/connection/uni_websocket`);
    socket.on("open", () => socket.send(JSON.stringify(request)));
    socket.on("message", (frame) => add(pushes, frame.toString()));
    socket.on("close", (code) => pushes.add({ disconnect: { code } }));
    return pushes;
  },
  uni_http_stream(node, request) {
    const pushes = new Record();
    const read = async () => {
      const { body } = await fetch(`http://${node.address}/connection/uni_http_stream`, { method: "POST", body: JSON.stringify(request) });
      let text = "";
      for await (const piece of body.pipeThrough(new TextDecoderStream())) {
        const lines = (text + piece).split("\n");
        text = lines.pop();
        for (const line of lines) add(pushes, line);
      }
    };
    read();
    return pushes;
  },
  uni_sse(node, request) {
    const pushes = new Record();
    const source = new EventSource(node.sse(request.subs));
    source.onmessage = ({ data }) => add(pushes, data);
    source.onerror = () => source.close(); // or it would come again by itself
    return pushes;
  },
};

// add records pushes, one in a line, and leaves pings out.
function add(pushes, lines) {
  for (const line of lines.split("\n")) {
    if (line !== "" && line !== "{}") pushes.add(JSON.parse(line));
  }
}

// The positions of a one-way client's subscriptions: one with an epoch and no offset is recovered from the first publication on. One of another
// epoch, or without any, or the one that stands for a reset, is not, and the client is told the new one.
async function goesOnOneWay(test, listen) {
  const node = await test.start();
  const epoch = (await node.publish("long:a", 1)).epoch;
  await node.publish("long:a", 2);
  const connected = async (position) => {
    const pushes = listen(node, { subs: { "long:a": position } });
    const { connect } = await pushes.until((all) => all.find((p) => p.connect), "connect push");
    return { pushes, client: connect.client, sub: connect.subs["long:a"] };
  };
  const { sub } = await connected({ recover: true, epoch });
  assert.deepEqual([sub.was_recovering, sub.recovered, sub.epoch, sub.publications?.map((p) => p.data)], [true, true, epoch, [1, 2]]);
  for (const position of [{ recover: true, epoch: "_" }, { recover: true, epoch: "another", offset: 1 }, { recover: true, offset: 1 }]) {
    const { sub } = await connected(position);
    assert.deepEqual([sub.was_recovering, sub.recovered, sub.epoch, sub.offset, sub.publications], [true, undefined, epoch, 2, undefined]);
  }
  const plain = await connected({});
  assert.deepEqual([plain.sub.was_recovering, plain.sub.recovered, plain.sub.epoch, plain.sub.offset], [undefined, undefined, epoch, 2]);
  await node.publish("long:a", 3);
  const { pub } = await plain.pushes.until((all) => all.find((p) => p.pub), "a publication");
  assert.deepEqual([pub.data, pub.offset, pub.epoch], [3, 3, undefined], "the epoch is that of the connect push");

  // The client cannot subscribe again by itself, so both ways end its connection.
  await node.api("unsubscribe", { channel: "long:a", client: plain.client, code: 2502, reason: "reset" });
  const bye = await plain.pushes.until((all) => all.find((p) => p.disconnect), "disconnect push");
  assert.equal(bye.disconnect.code, 3014);
}

export const scenarios = {
  ...overEach("forgets", forgets),
  ...overEach("recoversFromNothing", recoversFromNothing),
  givesUpOthersSubscriptions,
  ...Object.fromEntries(Object.entries(listeners).map(([over, listen]) => [`goesOnOneWay ${over}`, (test) => goesOnOneWay(test, listen)])),
};
