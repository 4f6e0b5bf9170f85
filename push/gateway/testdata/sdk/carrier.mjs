// The official client over each of its transports and forms.
import { Centrifuge } from "centrifuge";
import { Centrifuge as CentrifugeProtobuf } from "centrifuge/build/protobuf";
import { EventSource } from "eventsource";
import { WebSocket } from "ws";
import { Record } from "./harness.mjs";

// Carrier is how a client's bytes travel: the SDK's name of the transport, and the form of the protocol.
export class Carrier {
  constructor(transport, form) {
    this.transport = transport;
    this.form = form;
  }

  // client returns a client of the official SDK that is not connected yet.
  client(node, options) {
    return new Client(this, node, options);
  }

  // encode is what an application gives the SDK for a value, and decode the way back.
  encode(value) {
    return this.form === "protobuf" ? new TextEncoder().encode(JSON.stringify(value)) : value;
  }

  decode(data) {
    return this.form === "protobuf" ? JSON.parse(new TextDecoder().decode(data)) : data;
  }
}

// Client is the official client with a connection that can be cut.
class Client {
  events = new Record(); // connecting, connected and disconnected
  #carrier;
  #node;
  #connections = new Set(); // functions that cut one
  #offline = false;

  constructor(carrier, node, options) {
    this.#carrier = carrier;
    this.#node = node;
    const client = this;
    const endpoint = `${carrier.transport === "websocket" ? "ws" : "http"}://${node.address}/connection/${carrier.transport}`;
    const SDK = carrier.form === "protobuf" ? CentrifugeProtobuf : Centrifuge;
    this.sdk = new SDK([{ transport: carrier.transport, endpoint }], {
      emulationEndpoint: `http://${node.address}/emulation`,
      websocket: class extends WebSocket {
        constructor(url, protocols) {
          super(client.#redirect(url), protocols);
          client.#connections.add(() => this.terminate());
        }
      },
      fetch: (url, init) => client.#fetch(url, init),
      eventsource: class extends EventSource {
        constructor(url) {
          super(url, { fetch: (to, init) => client.#fetch(to, init) });
        }
      },
      readableStream: ReadableStream,
      minReconnectDelay: 20,
      maxReconnectDelay: 100,
      timeout: 30_000,
      ...options,
    });
    for (const event of ["connecting", "connected", "disconnected"]) {
      this.sdk.on(event, (ctx) => this.events.add({ event, ...ctx }));
    }
  }

  // #redirect is where the node is now, or where there is none.
  #redirect(url) {
    const to = new URL(url);
    to.host = this.#offline ? "127.0.0.1:1" : this.#node.address;
    return to.href;
  }

  // #fetch is fetch with a body that breaks when the client is cut off.
  async #fetch(url, init) {
    const response = await fetch(this.#redirect(url), init);
    if (!response.body) return response;
    const reader = response.body.getReader();
    const body = new ReadableStream({
      start: (controller) => {
        this.#connections.add(() => {
          controller.error(new Error("cut"));
          reader.cancel().catch(() => {}); // the node may have ended it before
        });
      },
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => reader.cancel(),
    });
    const { status, headers } = response;
    const broken = new Response(body, { status, headers });
    Object.defineProperty(broken, "url", { value: response.url });
    return broken;
  }

  async connect() {
    this.sdk.connect();
    return this.is("connected");
  }

  is(state, after = 0) {
    return this.events.until((all) => all.slice(after).find((e) => e.event === state), state);
  }

  // cut breaks all connections and keeps the client from making others until mend.
  async cut() {
    const before = this.events.items.length;
    this.#offline = true;
    for (const cut of this.#connections) cut();
    this.#connections.clear();
    await this.is("connecting", before);
  }

  mend() {
    this.#offline = false;
  }

  // follow subscribes, with the values of publications decoded.
  follow(channel, options) {
    const sub = this.sdk.newSubscription(channel, options);
    const follower = { sdk: sub, events: new Record(), values: new Record(), offsets: [] };
    for (const event of ["subscribing", "subscribed", "unsubscribed", "error"]) {
      sub.on(event, (ctx) => follower.events.add({ event, ...ctx }));
    }
    sub.on("publication", (ctx) => {
      follower.offsets.push(ctx.offset);
      follower.values.add(this.#carrier.decode(ctx.data));
    });
    follower.is = (state, nth = 1) => follower.events.until((all) => all.filter((e) => e.event === state)[nth - 1], `${state} (${nth})`);
    sub.subscribe();
    return follower;
  }
}

// carriers are all transports and forms, by the names that scenarios end with.
export const carriers = {
  WebSocketJSON: new Carrier("websocket", "json"),
  WebSocketProtobuf: new Carrier("websocket", "protobuf"),
  HTTPStreamJSON: new Carrier("http_stream", "json"),
  HTTPStreamProtobuf: new Carrier("http_stream", "protobuf"),
  SSE: new Carrier("sse", "json"),
};

// overEach returns a scenario over each carrier, by name. scenario is called with the test and the carrier.
export function overEach(name, scenario) {
  return Object.fromEntries(Object.entries(carriers).map(([over, carrier]) => [name + over, (test) => scenario(test, carrier)]));
}
