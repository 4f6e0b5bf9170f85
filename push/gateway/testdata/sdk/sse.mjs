// One-way clients: an EventSource, as browsers have it.
import { EventSource } from "eventsource";
import { assert, assertIncreasing, range, Record } from "./harness.mjs";

// Stream is an EventSource with all that it got.
class Stream {
  events = new Record(); // what came in each event, in the order of coming, pings left out
  errors = new Record();
  requests = new Record(); // the Last-Event-ID of each, undefined for none

  // url returns where to connect; it is asked each time.
  constructor(url) {
    const observed = (_, init) => {
      this.requests.add(init.headers["Last-Event-ID"]);
      return fetch(url(), init);
    };
    this.source = new EventSource(url(), { fetch: observed });
    this.source.onmessage = ({ data }) => {
      if (data !== "{}") this.events.add(JSON.parse(data));
    };
    this.source.onerror = (error) => this.errors.add(error);
  }

  // opened waits for the nth connect push and returns what it says.
  opened(nth = 1) {
    return this.events.until((all) => all.filter((e) => e.connect)[nth - 1]?.connect, `connect push (${nth})`);
  }

  // publications of a channel, from replies and pushes alike.
  publications(channel) {
    return this.events.items.flatMap((e) => {
      if (e.connect) return e.connect.subs?.[channel]?.publications ?? [];
      return e.channel === channel && e.pub ? [e.pub] : [];
    });
  }

  got(channel, data) {
    return this.events.until(() => this.publications(channel).some((p) => p.data === data), `${data} in ${channel}`);
  }

  ended() {
    return this.events.until((all) => all.findLast((e) => e.disconnect)?.disconnect, "disconnect push");
  }
}

export async function streamResumesByItself(test) {
  const node = await test.start();
  const publisher = await node.connect();
  await publisher.publishAll("news", ["before"]);
  const stream = new Stream(() => node.sse({ "long:news": {}, news: {} }));
  const first = await stream.opened();
  assert.deepEqual(Object.keys(first.subs), ["long:news", "news"]);
  assert.notEqual(first.client, undefined);
  await publisher.publishAll("long:news", range(1, 5));
  await publisher.publishAll("news", ["one"]);
  await stream.got("long:news", 5);
  await stream.got("news", "one");

  await node.api("disconnect", { client: first.client, code: 3000, reason: "go elsewhere" });
  assert.deepEqual(await stream.ended(), { code: 3000, reason: "go elsewhere", reconnect: true });
  await publisher.publishAll("long:news", range(6, 3000)); // more than a reply holds
  await publisher.publishAll("news", ["two"]);
  const second = await stream.opened(2);
  assert.notEqual(stream.requests.items[1], undefined);
  for (const name of ["long:news", "news"]) {
    assert.deepEqual([second.subs[name].was_recovering, second.subs[name].recovered], [true, true]);
  }
  await publisher.publishAll("long:news", ["end"]);
  await stream.got("long:news", "end");
  assert.deepEqual(stream.publications("long:news").map((p) => p.data), [...range(1, 3000), "end"]);
  assertIncreasing(stream.publications("long:news").map((p) => p.offset));
  await stream.got("news", "two");
  assert.deepEqual(stream.publications("news").map((p) => p.data), ["one", "two"]);
}

export async function streamStartsFreshInAnotherEpoch(test) {
  const node = await test.start();
  const stream = new Stream(() => node.sse({ news: {} }));
  await stream.opened();
  await node.publish("news", 1);
  await stream.got("news", 1);
  await node.restart();
  const { subs } = await stream.opened(2);
  assert.deepEqual([subs.news.was_recovering, subs.news.recovered], [true, undefined]);
  await node.publish("news", 2);
  await stream.got("news", 2);
  assert.deepEqual(stream.publications("news").map((p) => p.data), [1, 2]);
}

export async function streamIsRefused(test) {
  const node = await test.start();
  const stream = new Stream(() => node.sse({ "nowhere:news": {} }));
  const [error] = await stream.errors.atLeast(1, "errors");
  assert.equal(error.code, 400);
  assert.equal(stream.source.readyState, EventSource.CLOSED);
}

export async function streamIsToldOfShutdown(test) {
  const node = await test.start();
  const stream = new Stream(() => node.sse({ news: {} }));
  await stream.opened();
  assert.equal(await node.terminate(), 0);
  assert.deepEqual(await stream.ended(), { code: 3001, reason: "shutdown", reconnect: true });
}
