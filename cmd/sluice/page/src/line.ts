// Line holds the ticks of one symbol for the chart. It has a break wherever ticks are missing or may be missing. It is stored as the columns
// that uPlot draws.

export interface Point {
  time: number; // Unix milliseconds
  price: number;
  offset: number; // offset in the channel
}

export class Line {
  readonly times: number[] = []; // Unix seconds
  readonly prices: (number | null)[] = []; // null at a break
  private readonly offsets: number[] = []; // 0 at a break
  private broken = false; // there is a break before the next point

  // epoch is the epoch of the channel that the offsets belong to.
  constructor(public epoch = "") {}

  // last is the offset of the newest point, 0 if there is none.
  get last(): number {
    return this.offsets.at(-1) ?? 0;
  }

  // interrupted reports whether ticks after the newest point may be missing.
  get interrupted(): boolean {
    return this.broken;
  }

  // append adds a point unless the line has it already.
  append(p: Point): void {
    if (!this.broken && p.offset <= this.last) return;
    const x = p.time / 1000;
    const before = this.times.at(-1);
    if (this.broken && before !== undefined) this.push((before + x) / 2, null, 0);
    this.broken = false;
    this.push(before === undefined ? x : Math.max(x, before), p.price, p.offset);
  }

  // interrupt records that ticks between the newest point and the next one may be missing.
  interrupt(): void {
    this.broken = true;
  }

  // trim drops the points before a time in Unix seconds.
  trim(oldest: number): void {
    let n = 0;
    while (n < this.times.length && this.times[n]! < oldest) n++;
    while (n < this.times.length && this.prices[n] === null) n++; // a line must not begin with a break
    for (const column of [this.times, this.prices, this.offsets]) column.splice(0, n);
  }

  // range returns the lowest and the highest price since a time in Unix seconds, and the number of points.
  range(since: number): { low: number; high: number; count: number } {
    let [low, high, count] = [Infinity, -Infinity, 0];
    for (let i = this.times.length - 1; i >= 0 && this.times[i]! >= since; i--) {
      const price = this.prices[i];
      if (price == null) continue;
      low = Math.min(low, price);
      high = Math.max(high, price);
      count++;
    }
    return { low, high, count };
  }

  // points returns a copy for tests; null is a break.
  points(): (Point | null)[] {
    return this.times.map((x, i) => {
      const price = this.prices[i] ?? null;
      return price === null ? null : { time: Math.round(x * 1000), price, offset: this.offsets[i]! };
    });
  }

  private push(time: number, price: number | null, offset: number): void {
    this.times.push(time);
    this.prices.push(price);
    this.offsets.push(offset);
  }
}
