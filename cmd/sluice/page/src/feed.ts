// The connection of the page: one client of the official SDK, with the table of all symbols and the stream of the one in the chart.
//
// The table is one subscription for all rows and sends each row's newest price; that is all a table needs, and a slow client skips
// what was overtaken. Lines need every price, which the streams ticks:SYMBOL keep for ten minutes. The page subscribes to that of the
// chart's symbol, so that the SDK resumes it and the server sends what was missed, and asks for the history of the others when a row is
// first seen, and after a cut. Every price is thus sent once, and the chart's twice.
//
// After a cut there are two cases. recovered is true: everything missed follows, and the page only has to go on. recovered is false:
// the server has forgotten, or is another one; the page asks for the history there is, and leaves a visible gap where that does not
// reach back to what it knew.
import { Centrifuge, State as Link, type PublicationContext, type SubscribedContext, type Subscription } from "centrifuge";
import { Line, type Point } from "./line";
import { isTick, type Tick } from "./tick";

const table = "quotes:all";
const streamOf = (symbol: string): string => "ticks:" + symbol;

export type State = "connecting" | "live" | "reconnecting" | "offline" | "ended";

// What became of the chart after a cut.
export interface Resumption {
  recovered: boolean; // everything missed was filled in
  missed: number; // how many points that were
}

export interface Listener {
  // state is called on every change.
  state(state: State, reason: string): void;
  // begin is called before the rows of the table come; resumed when those are only what changed meanwhile.
  begin(resumed: boolean): void;
  // row is called for each row; live when it comes as it is published, not as part of what there was.
  row(tick: Tick, live: boolean): void;
  // filled is called when all rows have come after a begin that did not resume.
  filled(): void;
}

export class Feed {
  private readonly client: Centrifuge;
  private wasLive = false;
  private catchingUp = false;

  constructor(private readonly listener: Listener) {
    const url = new URL("connection/websocket", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.client = new Centrifuge(url.href, { minReconnectDelay: 200, maxReconnectDelay: 3000, name: "demo" });
    this.client.on("connecting", (ctx) => {
      listener.state(this.wasLive ? "reconnecting" : "connecting", ctx.reason);
    });
    this.client.on("connected", () => {
      this.wasLive = true;
      listener.state("live", "");
    });
    this.client.on("disconnected", (ctx) => listener.state("ended", ctx.reason));
    const subscription = this.client.newSubscription(table, { recoverable: true, positioned: true });
    subscription.on("subscribed", (ctx) => this.begin(ctx));
    subscription.on("publication", (ctx) => this.row(ctx));
    subscription.subscribe();
  }

  connect(): void {
    this.client.connect();
  }

  // follow loads the last ticks of a symbol and keeps the line up to date until it is stopped.
  follow(symbol: string, reach: number, listener: FollowListener): Follower {
    return new Follower(this.client, symbol, reach, listener);
  }

  // history returns the ticks of a symbol since a time in Unix milliseconds, oldest first.
  history(symbol: string, since: number): Promise<History> {
    return historyOf(this.client, symbol, (p) => p.time < since, 400);
  }

  // roundTrip returns how long the server takes to answer a request, in milliseconds.
  async roundTrip(): Promise<number> {
    const from = performance.now();
    await this.client.history(table, { limit: 0 });
    return performance.now() - from;
  }

  private begin(ctx: SubscribedContext): void {
    this.listener.begin(ctx.recovered);
    this.catchingUp = true;
    // What was missed is delivered before the browser does anything else.
    if (ctx.recovered) setTimeout(() => (this.catchingUp = false));
  }

  private row(ctx: PublicationContext): void {
    // The rows there are have no offset but for the last of them, which says where the table was then.
    const live = !this.catchingUp;
    if (isTick(ctx.data)) this.listener.row(ctx.data, live);
    if (!live && ctx.offset) {
      this.catchingUp = false;
      this.listener.filled();
    }
  }
}

export interface History {
  points: Point[]; // oldest first
  epoch: string;
}

// historyOf reads backwards, page by page, until enough of a point, or until there is no more.
async function historyOf(client: Centrifuge, symbol: string, enough: (p: Point, epoch: string) => boolean, page: number): Promise<History> {
  const points: Point[] = []; // newest first
  let epoch = "";
  for (;;) {
    const oldest = points.at(-1);
    const since = oldest && { since: { offset: oldest.offset, epoch } };
    const answer = await client.history(streamOf(symbol), { limit: page, reverse: true, ...since });
    epoch = answer.epoch;
    for (const p of answer.publications) {
      if (isTick(p.data)) points.push({ time: p.data.time, price: p.data.price, offset: p.offset ?? 0 });
    }
    const reached = points.at(-1);
    if (answer.publications.length === 0 || !reached || reached === oldest || enough(reached, epoch)) {
      return { points: points.reverse(), epoch };
    }
  }
}

export interface FollowListener {
  // changed is called when the line has.
  changed(): void;
  // resumed is called after a cut.
  resumed(r: Resumption): void;
}

// A follower keeps the line of the chart.
export class Follower {
  readonly line = new Line();
  private readonly subscription: Subscription;
  private waiting: Point[] | null = []; // what comes while history is being loaded
  private stopped = false;
  private begun = false;
  private count = 0;

  constructor(
    private readonly client: Centrifuge,
    readonly symbol: string,
    private readonly reach: number, // how far back the line goes, in milliseconds
    private readonly listener: FollowListener,
  ) {
    this.subscription = client.newSubscription(streamOf(symbol), { recoverable: true, positioned: true });
    this.subscription.on("subscribed", (ctx) => this.subscribed(ctx));
    this.subscription.on("publication", (ctx) => this.publication(ctx));
    this.subscription.subscribe();
  }

  stop(): void {
    this.stopped = true;
    this.subscription.unsubscribe();
    this.client.removeSubscription(this.subscription);
  }

  private subscribed(ctx: SubscribedContext): void {
    if (this.begun && ctx.recovered && !this.waiting) {
      const before = this.count;
      // What was missed is delivered before the browser does anything else.
      setTimeout(() => this.listener.resumed({ recovered: true, missed: this.count - before }));
      return;
    }
    this.waiting = []; // history has what the one before held
    void this.load(this.waiting);
  }

  // load fetches history up to what the line has and joins both. waiting is what comes meanwhile; another load has another one.
  private async load(waiting: Point[]): Promise<void> {
    const start = Date.now() - this.reach;
    const { last, epoch: knownEpoch } = this.line;
    const known = (p: Point, epoch: string): boolean => epoch === knownEpoch && p.offset <= last;
    let found: History = { points: [], epoch: "" };
    try {
      found = await historyOf(this.client, this.symbol, (p, epoch) => p.time < start || known(p, epoch), 1000);
    } catch {
      // Without a connection the next one begins anew. With one, the server does not hand out history: what is to come remains.
      if (this.client.state !== Link.Connected) return;
    }
    if (this.stopped || this.waiting !== waiting) return;
    const { points, epoch } = found;
    const oldest = points[0];
    const whole = oldest !== undefined && known(oldest, epoch);
    const before = this.count;
    if (this.begun && !whole) this.line.interrupt();
    this.line.epoch = epoch;
    const sameEpoch = epoch === knownEpoch;
    for (const p of [...points, ...waiting]) if (!sameEpoch || p.offset > last) this.add(p);
    this.waiting = null;
    if (this.begun) this.listener.resumed({ recovered: whole, missed: this.count - before });
    this.begun = true;
    this.listener.changed();
  }

  private publication(ctx: PublicationContext): void {
    if (!isTick(ctx.data)) return;
    const p = { time: ctx.data.time, price: ctx.data.price, offset: ctx.offset ?? 0 };
    if (this.waiting) {
      this.waiting.push(p);
      return;
    }
    this.add(p);
    this.listener.changed();
  }

  private add(p: Point): void {
    const last = this.line.last;
    this.line.append(p);
    if (this.line.last !== last) this.count++;
  }
}
