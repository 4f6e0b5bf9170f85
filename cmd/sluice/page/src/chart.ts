import uPlot from "uplot";
import type { Line } from "./line";
import { formatPrice } from "./tick";

const paintEvery = 100; // milliseconds

// shortest is the smallest width of the chart in seconds. If the line is shorter than the chosen time, the chart shows all of it.
const shortest = 20;

// priceSteps are the distances between two grid lines. None needs a third decimal.
const priceSteps = [0.01, 0.1, 1, 10, 100, 1000].flatMap((v) => [v, 2 * v, 5 * v]);

// Chart draws one line over the chosen time. It is painted at most ten times a second, and not while the page is hidden.
export class Chart {
  span = 300; // seconds
  private plot: uPlot | null = null;
  private line: Line | null = null;
  private timer = 0;
  private newest = 0; // Unix seconds

  constructor(
    private readonly place: HTMLElement,
    private readonly painted: (range: { low: number; high: number; count: number }, cursor: string) => void,
  ) {
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
    document.addEventListener("visibilitychange", () => this.changed());
  }

  show(line: Line): void {
    this.line = line;
    this.changed();
  }

  // until sets the end of the time axis, in Unix milliseconds. A line without new ticks is extended to it.
  until(newest: number): void {
    this.newest = Math.max(this.newest, newest / 1000);
    this.changed();
  }

  changed(): void {
    if (document.hidden) return;
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.paint();
    }, paintEvery) as unknown as number;
  }

  private paint(): void {
    if (!this.line) return;
    this.plot ??= this.build();
    const end = Math.max(this.newest, this.line.times.at(-1) ?? 0);
    const start = Math.max(end - this.span, Math.min(this.line.times[0] ?? end, end - shortest));
    this.plot.setData(this.data(end), false);
    this.plot.setScale("x", { min: start, max: end });
    const at = this.plot.cursor.idx;
    const price = at == null ? null : this.plot.data[1]?.[at];
    const time = at == null ? null : this.plot.data[0][at];
    const cursor = price == null || time == null ? "" : `${clock(time, true)}  ${formatPrice(price)}`;
    this.painted(this.line.range(end - this.span), cursor);
  }

  // data returns the line, with its last price repeated at the present time.
  private data(end: number): uPlot.AlignedData {
    const { times, prices, interrupted } = this.line!;
    const last = prices.at(-1);
    if (last == null || interrupted || times.at(-1)! >= end) return [times, prices];
    return [[...times, end], [...prices, last]];
  }

  private size(): { width: number; height: number } {
    return { width: this.place.clientWidth, height: this.place.clientHeight };
  }

  private rebuild(): void {
    this.plot?.destroy();
    this.plot = null;
    this.changed();
  }

  private build(): uPlot {
    const style = getComputedStyle(this.place);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--muted"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: color("--grid"), width: 1 };
    const fill = (u: uPlot) => {
      const gradient = u.ctx.createLinearGradient(0, u.bbox.top, 0, u.bbox.top + u.bbox.height);
      gradient.addColorStop(0, color("--area"));
      gradient.addColorStop(1, color("--area-end"));
      return gradient;
    };
    return new uPlot(
      {
        ...this.size(),
        padding: [10, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 8, width: 2 } },
        scales: { x: { time: true, auto: false }, y: { range: (_u, low, high) => padded(low, high) } },
        axes: [
          { ...axis, grid: { show: false }, size: 28, space: 66, values: timeLabels },
          { ...axis, grid, side: 1, size: 60, space: 40, incrs: priceSteps, values: (_u, at) => at.map(formatPrice) },
        ],
        series: [{}, { stroke: color("--accent"), width: 1.5, fill, points: { show: false }, spanGaps: false }],
        hooks: { drawAxes: [(u) => drawGaps(u, color("--gap"))] },
      },
      this.data(this.newest),
      this.place,
    );
  }
}

// timeLabels omits a label that would be cut off on the left.
function timeLabels(u: uPlot, at: number[]): string[] {
  const precise = at.length > 1 && at[1]! - at[0]! < 60;
  return at.map((t) => (u.valToPos(t, "x") < 28 ? "" : clock(t, precise)));
}

// drawGaps shades the times without data, so that a break does not look like a quiet market.
function drawGaps(u: uPlot, color: string): void {
  const [times, prices] = u.data;
  if (!prices) return;
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  u.ctx.fillStyle = color;
  for (let i = 1; i < prices.length - 1; i++) {
    if (prices[i] != null) continue;
    const [from, to] = [u.valToPos(times[i - 1]!, "x", true), u.valToPos(times[i + 1]!, "x", true)];
    u.ctx.fillRect(from, top, Math.max(1, to - from), height);
  }
  u.ctx.restore();
}

// padded leaves some space above and below the line, and centres a price that does not move.
function padded(low: number | null, high: number | null): [number, number] {
  if (low == null || high == null) return [0, 1];
  const room = Math.max((high - low) * 0.08, high * 0.0002, 0.01);
  return [low - room, high + room];
}

function clock(seconds: number, precise: boolean): string {
  const d = new Date(seconds * 1000);
  const parts = [d.getHours(), d.getMinutes(), ...(precise ? [d.getSeconds()] : [])];
  return parts.map((n) => String(n).padStart(2, "0")).join(":");
}
