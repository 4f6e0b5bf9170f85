// What the scenarios stand on: a node to talk to, clients that can be cut off, and waiting that ends.
//
// The scenarios run in a process of cmd/sluice/sdk_test.go, which owns the nodes. A scenario asks for one with a line of JSON on
// standard output, {"do": "start", "args": […]}, and is answered with one on standard input. What else is printed is only logged.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { Centrifuge } from "centrifuge";
import { WebSocket } from "ws";

// patience is how long anything may take, in milliseconds; waiting for more than that has failed. It is only reached by failures.
const patience = 30_000;

// nobody is an address at which nobody listens.
const nobody = "ws://127.0.0.1:1/";

// Test is the scenario as the Go test sees it.
export class Test {
  #answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

  // start starts a node as config says, a file beside this one, with more arguments of sluice serve. There is one at a time. A secure one has
  // clients and callers say who they are.
  async start({ config = "node.yaml", args = [], secure = false } = {}) {
    const path = fileURLToPath(new URL(config, import.meta.url));
    const node = new Node(this, [...(secure ? [] : ["--insecure"]), "--config", path, ...args]);
    await node.start();
    return node;
  }

  // startPair starts two nodes with one broker, as node.yaml says, behind a proxy that sends each request to one of them in turn. It returns the
  // proxy as if that were a node.
  async startPair() {
    const path = fileURLToPath(new URL("node.yaml", import.meta.url));
    const proxy = new Node(this, []);
    ({ address: proxy.address } = await this.ask({ do: "startPair", args: [path] }));
    return proxy;
  }

  // startMoving starts a cluster as tokens.yaml says, with two gateways and a place for each user, behind such a proxy. There is no such cluster where
  // nodes are no gateways.
  async startMoving() {
    const path = fileURLToPath(new URL("tokens.yaml", import.meta.url));
    const proxy = new Node(this, []);
    ({ address: proxy.address } = await this.ask({ do: "startMoving", args: [path] }));
    return proxy;
  }

  // ask has the Go test do something and returns what it answers.
  async ask(request) {
    console.log(JSON.stringify(request));
    const { value, done } = await this.#answers.next();
    assert(!done, "the test went away");
    return JSON.parse(value);
  }
}

// Node is a running sluice serve.
class Node {
  #test;
  #args;

  constructor(test, args) {
    this.#test = test;
    this.#args = args;
  }

  // start starts the process, on ports of its own.
  async start() {
    ({ address: this.address, internal: this.internal } = await this.#test.ask({ do: "start", args: this.#args }));
  }

  // restart kills the process and starts another, elsewhere: clients that connect again find it, as behind a load balancer.
  async restart() {
    await this.#test.ask({ do: "kill" });
    await this.start();
  }

  // terminate sends SIGTERM and returns the exit code.
  async terminate() {
    const { code } = await this.#test.ask({ do: "terminate" });
    return code;
  }

  get websocket() {
    return `ws://${this.address}/connection/websocket`;
  }

  // sse is the URL for a one-way client with these subscriptions.
  sse(subs) {
    return `http://${this.address}/connection/uni_sse?cf_connect=${encodeURIComponent(JSON.stringify({ subs }))}`;
  }

  // api calls a method of the HTTP API and returns its result.
  async api(method, request) {
    const response = await fetch(`http://${this.address}/api/${method}`, {
      method: "POST",
      headers: { "X-API-Key": "key" },
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(patience),
    });
    const { result, error } = await response.json();
    assert.equal(error, undefined, `${method}: ${inspect(error)}`);
    return result;
  }

  // metric returns the value of a metric, whose name has its labels.
  async metric(name) {
    const response = await fetch(`http://${this.internal}/metrics`, { signal: AbortSignal.timeout(patience) });
    const line = (await response.text()).split("\n").find((l) => l.startsWith(name + " "));
    assert(line, `there is no metric ${name}`);
    return Number(line.slice(name.length));
  }

  publish(channel, data, more) {
    return this.api("publish", { channel, data, ...more });
  }

  // client returns a client that has not been told to connect yet.
  client(options) {
    return new Client(this, options);
  }

  // connect returns a client that is connected.
  async connect(options) {
    const client = this.client(options);
    client.sdk.connect();
    await client.is("connected");
    return client;
  }
}

// Record is a list that grows while somebody waits for it to.
export class Record {
  items = [];
  #checks = new Set();
  #readers = [];

  // each has reader called with each item from now on, before those who wait.
  each(reader) {
    this.#readers.push(reader);
  }

  add(item) {
    this.items.push(item);
    for (const reader of this.#readers) reader(item);
    for (const check of [...this.#checks]) check();
  }

  // until waits until test holds for the items and returns what it returned. what says in the error what was waited for.
  until(test, what) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#checks.delete(check);
        const last = inspect(this.items.slice(-5));
        reject(new Error(`waited in vain for ${what}; there were ${this.items.length}, ending with ${last}`));
      }, patience);
      const check = () => {
        const found = test(this.items);
        if (!found) return;
        clearTimeout(late);
        this.#checks.delete(check);
        resolve(found);
      };
      this.#checks.add(check);
      check();
    });
  }

  // atLeast waits for n items and returns all there are.
  atLeast(n, what = "items") {
    return this.until((items) => items.length >= n && items, `${n} ${what}`);
  }
}

// Client is the official client, as an application has it, and the sockets it made.
class Client {
  events = new Record(); // connecting, connected and disconnected, with what the SDK says of them
  sent = new Record(); // frames
  received = new Record(); // frames
  sockets = 0;
  silent = false; // leaves out the pongs
  #node;
  #socket;
  #offline = false;
  #nextRaw = 1_000_000;

  constructor(node, options) {
    this.#node = node;
    this.sdk = new Centrifuge(node.websocket, {
      websocket: this.#socketClass(),
      minReconnectDelay: 20,
      maxReconnectDelay: 100,
      timeout: patience,
      ...options,
    });
    for (const event of ["connecting", "connected", "disconnected"]) {
      this.sdk.on(event, (ctx) => this.events.add({ event, ...ctx }));
    }
  }

  // #socketClass is ws, with somebody who listens.
  #socketClass() {
    const client = this;
    return class extends WebSocket {
      constructor(url, protocols) {
        super(client.#offline ? nobody : client.#node.websocket, protocols);
        client.#socket = this;
        client.sockets++;
        this.on("message", (frame) => client.received.add(frame.toString()));
      }

      send(frame) {
        if (client.silent && frame === "{}") return;
        client.sent.add(frame);
        super.send(frame);
      }
    };
  }

  // is waits until the client is in a state, after that many others, and returns what the SDK said when it came there.
  is(state, after = 0) {
    return this.events.until((all) => all.slice(after).find((e) => e.event === state), state);
  }

  // cut breaks the connection, without a close frame, and keeps the client from making another until mend.
  async cut() {
    const before = this.events.items.length;
    this.#offline = true;
    this.#socket.terminate();
    await this.is("connecting", before);
  }

  // mend lets the client connect again.
  mend() {
    this.#offline = false;
  }

  // interrupt breaks the connection; the client makes another at once.
  interrupt() {
    this.#socket.terminate();
  }

  // pause stops reading what the node sends, resume goes on.
  pause() {
    this.#socket.pause();
  }

  resume() {
    this.#socket.resume();
  }

  // deliver hands the SDK a message that the node has not sent.
  deliver(message) {
    this.#socket.emit("message", Buffer.from(JSON.stringify(message)), false);
  }

  // raw sends commands that the SDK would not, in one frame, and returns the replies. They are given numbers that the SDK does
  // not come to.
  async raw(...commands) {
    const first = this.#nextRaw;
    this.#nextRaw += commands.length;
    const from = this.received.items.length;
    this.#socket.send(commands.map((command, i) => JSON.stringify({ id: first + i, ...command })).join("\n"));
    return this.received.until((frames) => {
      if (!frames.at(-1)?.includes(`"id":${this.#nextRaw - 1},`)) return null;
      return frames.slice(from).flatMap((frame) => frame.split("\n")).map(JSON.parse).filter((reply) => reply.id >= first);
    }, `the replies to ${inspect(commands)}`);
  }

  // publishRows publishes rows of a table, many in a frame. The SDK has no way to give a key.
  async publishRows(channel, rows) {
    for (let i = 0; i < rows.length; i += 100) {
      const commands = rows.slice(i, i + 100).map((data) => ({ publish: { channel, key: data.key, data } }));
      for (const reply of await this.raw(...commands)) assert.deepEqual(reply.error, undefined);
    }
  }

  // follow makes a subscription and begins it.
  follow(channel, options) {
    return new Follower(this.sdk.newSubscription(channel, options));
  }

  // publishAll publishes in order, many in a frame, and returns when all are acknowledged.
  async publishAll(channel, all, batch = 200) {
    for (let i = 0; i < all.length; i += batch) {
      this.sdk.startBatching();
      const answers = all.slice(i, i + batch).map((data) => this.sdk.publish(channel, data));
      this.sdk.stopBatching();
      await Promise.all(answers);
    }
  }
}

// Follower is a subscription with all that it got.
class Follower {
  events = new Record(); // subscribing, subscribed and unsubscribed, with what the SDK says of them
  publications = new Record();

  constructor(sdk) {
    this.sdk = sdk;
    for (const event of ["subscribing", "subscribed", "unsubscribed"]) {
      sdk.on(event, (ctx) => this.events.add({ event, ...ctx }));
    }
    sdk.on("publication", (ctx) => this.publications.add(ctx));
    sdk.subscribe();
  }

  get data() {
    return this.publications.items.map((p) => p.data);
  }

  get offsets() {
    return this.publications.items.map((p) => p.offset);
  }

  // is waits until the subscription is in a state, for the nth time, and returns what the SDK said when it came there.
  is(state, nth = 1) {
    return this.events.until((all) => all.filter((e) => e.event === state)[nth - 1], `${state} (${nth})`);
  }

  // got waits for a publication with this data.
  got(data) {
    return this.publications.until((all) => all.findLast((p) => p.data === data), `publication ${inspect(data)}`);
  }
}

// range is [from, …, to].
export function range(from, to) {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

// assertIncreasing fails unless each number is greater than the one before.
export function assertIncreasing(numbers) {
  numbers.forEach((n, i) => assert(i === 0 || n > numbers[i - 1], `${n} comes after ${numbers[i - 1]}`));
}

export { assert };
