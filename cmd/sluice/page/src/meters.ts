// The measurements in the header: the age of prices when they appear on the screen, the response time of the server, and the number of prices a
// second. Each covers the last five seconds.
const span = 5000;

// Window keeps recent measurements.
class Window {
  private entries: { at: number; value: number }[] = [];

  add(value: number, at = performance.now()): void {
    this.entries.push({ at, value });
  }

  // recent returns the measurements of the last span, the newest last.
  recent(now = performance.now()): number[] {
    this.entries = this.entries.filter((e) => e.at > now - span);
    return this.entries.map((e) => e.value);
  }

  clear(): void {
    this.entries = [];
  }
}

function median(values: number[]): number | null {
  const sorted = values.sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? null;
}

export class Meters {
  private readonly ages = new Window();
  private readonly trips = new Window();
  private readonly counts = new Window();
  private since = performance.now();

  // shown records the age of a price that has just been painted: the time from the tick to the screen. Both times are of the same clock if the
  // node runs on this machine, as it does in a demo.
  shown(age: number): void {
    this.ages.add(Math.max(0, age));
  }

  answered(milliseconds: number): void {
    this.trips.add(milliseconds);
  }

  received(): void {
    this.counts.add(1);
  }

  // restart drops the measurements of the previous connection.
  restart(): void {
    for (const w of [this.ages, this.trips, this.counts]) w.clear();
    this.since = performance.now();
  }

  read(): { latency: number | null; roundTrip: number | null; rate: number } {
    const now = performance.now();
    const seconds = Math.max(1000, Math.min(span, now - this.since)) / 1000;
    return {
      latency: median(this.ages.recent(now)),
      roundTrip: median(this.trips.recent(now)),
      rate: this.counts.recent(now).length / seconds,
    };
  }
}

export const formatMilliseconds = (v: number | null): string =>
  v === null ? "\u2013" : (v < 10 ? v.toFixed(1) : Math.round(v).toString()) + "\u202fms";
