// Two nodes behind a proxy that sends each request to one of them in turn, so commands of a client that has a stream come to the other node.
import { Carrier } from "./carrier.mjs";
import { assert, assertIncreasing, range } from "./harness.mjs";

const carriers = [["websocket", "json"], ["websocket", "protobuf"], ["http_stream", "json"], ["http_stream", "protobuf"], ["sse", "json"]];

// Session is one client with what it follows and expects.
class Session {
  constructor(node, transport, form) {
    this.node = node;
    this.name = `${transport}-${form}`;
    this.carrier = new Carrier(transport, form);
    this.client = this.carrier.client(node);
    this.published = [];
  }

  async begin() {
    await this.client.connect();
    this.others = range(1, 20).map((i) => this.client.follow(`long:${this.name}-${i}`));
    this.follower = this.client.follow(`long:${this.name}`);
    for (const f of [this.follower, ...this.others]) await f.is("subscribed");
  }

  // command publishes as the client, and asks.
  async command(value) {
    this.published.push(value);
    await this.client.sdk.publish(`long:${this.name}`, this.carrier.encode(value));
    const { publications } = await this.client.sdk.history(`long:${this.name}`, { limit: 1, reverse: true });
    assert.deepEqual(publications.map((p) => this.carrier.decode(p.data)), [value]);
  }

  // publish publishes as a back end.
  async publish(value) {
    this.published.push(value);
    await this.node.publish(`long:${this.name}`, value);
  }

  // isComplete waits until the client has got all that was published, and nothing else.
  async isComplete() {
    await this.follower.values.atLeast(this.published.length, this.name);
    assert.deepEqual(this.follower.values.items, this.published, this.name);
    assertIncreasing(this.follower.offsets);
  }
}

export async function worksBehindABalancer(test) {
  const node = await test.startPair();
  const sessions = carriers.map(([transport, form]) => new Session(node, transport, form));
  for (const s of sessions) await s.begin();
  for (const i of range(1, 10)) {
    for (const s of sessions) {
      await s.command({ i });
      await s.publish({ i: -i });
    }
  }
  for (const s of sessions) await s.isComplete();
  for (const s of sessions) {
    for (const round of range(1, 2)) {
      await s.client.cut();
      for (const i of range(1, 10)) await s.publish({ round, i });
      s.client.mend();
      const ctx = await s.follower.is("subscribed", round + 1);
      assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true], s.name);
      await s.isComplete();
    }
  }
  await test.ask({ do: "killOne" });
  for (const i of range(11, 15)) {
    for (const s of sessions) await s.publish({ i });
  }
  for (const s of sessions) {
    await s.isComplete();
    for (const ctx of s.follower.events.items.filter((e) => e.event === "subscribed").slice(1)) assert(ctx.recovered, s.name);
    await s.command("after"); // on the other node, which has sent what was published last
    await s.isComplete();
  }
}
