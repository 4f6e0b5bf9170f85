// The connection of the page: one client of the official SDK, with the table of all symbols and the stream of the symbol in the chart.
//
// The table is one subscription for all rows. It sends each row's newest price. That is enough for a table, and a slow client skips older
// prices. Lines need every price. The streams ticks:SYMBOL keep them for ten minutes. The page subscribes to the stream of the chart's symbol,
// so that the SDK resumes it and the server sends missed prices. It requests the history of the other symbols when a row first becomes visible,
// and after a disconnection. So every price is sent once, and those of the chart twice.
//
// After a disconnection there are two cases. If recovered is true, all missed prices follow, and the page just continues. If recovered is false,
// the server has dropped them, or it is another server. The page then requests the available history. If that does not reach back to the last
// known price, the page leaves a visible gap.
import { Centrifuge, State as Link, type PublicationContext, type SubscribedContext, type Subscription } from "centrifuge";
import { Line, type Point } from "./line";
import { isTick, type Tick } from "./tick";

const table = "quotes:all";
const streamOf = (symbol: string): string => "ticks:" + symbol;

export type State = "connecting" | "live" | "reconnecting" | "offline" | "ended";

// The result of a resumption for the chart.
export interface Resumption {
  recovered: boolean; // all missed points were filled in
  missed: number; // number of missed points
}

export interface Listener {
  // state is called on every change.
  state(state: State, reason: string): void;
  // begin is called before the rows of the table arrive. If resumed is true, only the rows that have changed meanwhile follow.
  begin(resumed: boolean): void;
  // row is called for each row. live is true for a new publication, and false for a row of the initial state.
  row(tick: Tick, live: boolean): void;
  // filled is called when all rows have arrived after a begin that did not resume.
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

  // follow loads the last ticks of a symbol and updates the line until it is stopped.
  follow(symbol: string, reach: number, listener: FollowListener): Follower {
    return new Follower(this.client, symbol, reach, listener);
  }

  // history returns the ticks of a symbol since a time in Unix milliseconds, the oldest first.
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
    // Missed publications are delivered before the browser runs the callback.
    if (ctx.recovered) setTimeout(() => (this.catchingUp = false));
  }

  private row(ctx: PublicationContext): void {
    // Rows of the initial state have no offset, except for the last. Its offset is the position of the table at that time.
    const live = !this.catchingUp;
    if (isTick(ctx.data)) this.listener.row(ctx.data, live);
    if (!live && ctx.offset) {
      this.catchingUp = false;
      this.listener.filled();
    }
  }
}

export interface History {
  points: Point[]; // the oldest first
  epoch: string;
}

// historyOf reads the history backwards, page by page, until enough returns true for a point, or until the history ends.
async function historyOf(client: Centrifuge, symbol: string, enough: (p: Point, epoch: string) => boolean, page: number): Promise<History> {
  const points: Point[] = []; // the newest first
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
  // changed is called when the line has changed.
  changed(): void;
  // resumed is called after a disconnection.
  resumed(r: Resumption): void;
}

// Follower updates the line of the chart.
export class Follower {
  readonly line = new Line();
  private readonly subscription: Subscription;
  private waiting: Point[] | null = []; // points that arrive while history is being loaded
  private stopped = false;
  private begun = false;
  private count = 0;

  constructor(
    private readonly client: Centrifuge,
    readonly symbol: string,
    private readonly reach: number, // length of the line, in milliseconds
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
      // Missed publications are delivered before the browser runs the callback.
      setTimeout(() => this.listener.resumed({ recovered: true, missed: this.count - before }));
      return;
    }
    this.waiting = []; // the new history contains the points that waited for the previous one
    void this.load(this.waiting);
  }

  // load requests the history back to the newest point of the line, and merges both. waiting collects the points that arrive meanwhile; each
  // load has its own array.
  private async load(waiting: Point[]): Promise<void> {
    const start = Date.now() - this.reach;
    const { last, epoch: knownEpoch } = this.line;
    const known = (p: Point, epoch: string): boolean => epoch === knownEpoch && p.offset <= last;
    let found: History = { points: [], epoch: "" };
    try {
      found = await historyOf(this.client, this.symbol, (p, epoch) => p.time < start || known(p, epoch), 1000);
    } catch {
      // Without a connection, the next one loads anew. With a connection, the server refuses the history; the line then only gets new points.
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
