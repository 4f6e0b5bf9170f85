import type { Point } from "./line";

// trailSeconds is the length of the sparklines in the table.
export const trailSeconds = 120;

interface Mark {
  second: number;
  time: number;
  price: number;
}

// Trail is the sparkline of one symbol: the last price of each second of the last two minutes. The table feeds it. The table may omit prices
// that were replaced at once, but the sparkline needs only the last price of a second. Times without data, because the page was disconnected and
// the server's history does not reach back, are gaps.
export class Trail {
  private marks: Mark[] = []; // by time, at most one for each second
  private gaps: { from: number; to: number }[] = []; // Unix milliseconds
  private epoch = "";
  wanting = true; // the history has not been requested yet

  add(time: number, price: number): void {
    const second = Math.floor(time / 1000);
    const last = this.marks.at(-1);
    if (last && second < last.second) return; // older than the newest mark
    if (last && second === last.second) Object.assign(last, { time, price });
    else this.marks.push({ second, time, price });
    if (this.marks.length > 2 * trailSeconds) this.marks = this.marks.slice(-trailSeconds - 1);
  }

  // lost records that prices between two times may be missing. History may fill them in.
  lost(from: number, to: number): void {
    const oldest = to - 2 * trailSeconds * 1000;
    this.gaps = this.gaps.filter((g) => g.to > oldest);
    if (this.marks.length > 0) this.gaps.push({ from, to });
    this.wanting = true;
  }

  // fill merges the history, the oldest point first. Gaps are closed as far back as the history reaches.
  fill(points: Point[], epoch: string): void {
    this.wanting = false;
    const bySecond = new Map<number, Mark>();
    const put = (m: Mark) => {
      const there = bySecond.get(m.second);
      if (!there || m.time >= there.time) bySecond.set(m.second, m);
    };
    for (const p of points) put({ second: Math.floor(p.time / 1000), time: p.time, price: p.price });
    this.marks.forEach(put);
    this.marks = [...bySecond.values()].sort((a, b) => a.second - b.second).slice(-trailSeconds - 1);
    // In the same epoch, the history is complete for longer than this line. In a new epoch, it starts with its first point.
    const known = epoch === this.epoch ? -Infinity : (points[0]?.time ?? Infinity);
    this.gaps = this.gaps
      .map((g) => ({ from: g.from, to: Math.min(g.to, known) }))
      .filter((g) => g.to > g.from);
    this.epoch = epoch;
  }

  get whole(): boolean {
    return this.gaps.length === 0 && this.epoch !== "";
  }

  // oldest is the time of the first price, in Unix milliseconds.
  get oldest(): number {
    return this.marks[0]?.time ?? Infinity;
  }

  // runs returns the lines to draw, with times in Unix milliseconds. A price holds until the next one, or until a gap.
  runs(start: number, now: number): { time: number; price: number }[][] {
    const gapBetween = (from: number, to: number) => this.gaps.find((g) => g.from < to && g.to > from);
    const runs: { time: number; price: number }[][] = [];
    let run: { time: number; price: number }[] = [];
    let before: Mark | undefined;
    for (const m of this.marks) {
      const gap = before && gapBetween(before.time, m.time);
      if (gap && run.length > 0) {
        run.push({ time: Math.max(start, Math.min(gap.from, m.time)), price: before!.price });
        runs.push(run);
        run = [];
      }
      if (m.time >= start) {
        if (run.length === 0 && before && !gap) run.push({ time: start, price: before.price });
        run.push(m);
      }
      before = m;
    }
    if (before) {
      const end = Math.min(now, gapBetween(before.time, now)?.from ?? now);
      if (run.length === 0 && end > start) run.push({ time: start, price: before.price });
      if (end > start) run.push({ time: end, price: before.price });
    }
    if (run.length > 0) runs.push(run);
    return runs;
  }
}
