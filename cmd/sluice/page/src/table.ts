import { direction, formatChange, formatPrice, formatVolume, type Tick } from "./tick";
import { Trail, trailSeconds } from "./trail";

// flashEvery limits how often a row flashes.
const flashEvery = 250;

interface Row {
  tick: Tick;
  live: boolean; // the newest tick is a new publication
  dirty: boolean;
  visible: boolean;
  generation: number;
  shown: number; // the price on the screen
  flashed: number;
  flash: Animation | null;
  trail: Trail;
  element: HTMLTableRowElement;
  button: HTMLButtonElement;
  price: HTMLElement;
  change: HTMLElement;
  volume: HTMLElement;
  canvas: HTMLCanvasElement;
}

export interface TableListener {
  select(symbol: string): void;
  // painted is called with the age of each new price that has just been painted, in milliseconds.
  painted(age: number): void;
  // needTrails is called when visible rows lack the history for their sparklines.
  needTrails(): void;
}

// Table has a row for each symbol, sorted by name, so that rows keep their places. Messages only update the data; the next animation frame
// paints it.
export class Table {
  private readonly rows = new Map<string, Row>();
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly observer: IntersectionObserver;
  private generation = 0;
  private selected = "";
  private newest = 0; // time of the newest tick of all symbols
  private frame = 0;

  constructor(
    private readonly body: HTMLTableSectionElement,
    private readonly listener: TableListener,
  ) {
    this.observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "200px" });
    body.addEventListener("click", (e) => {
      const symbol = (e.target as Element).closest("tr")?.dataset.symbol;
      if (symbol) listener.select(symbol);
    });
    body.addEventListener("keydown", (e) => this.key(e));
    setInterval(() => this.paintTrails(), 1000);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paintTrails());
  }

  get size(): number {
    return this.rows.size;
  }

  // gaps returns the number of visible sparklines that are incomplete.
  get gaps(): number {
    return [...this.rows.values()].filter((r) => r.visible && !r.trail.whole).length;
  }

  // latest is the time of the newest tick of all symbols, in Unix milliseconds.
  get latest(): number {
    return this.newest;
  }

  // first is the symbol at the top.
  get first(): string {
    return this.body.rows[0]?.dataset.symbol ?? "";
  }

  tick(symbol: string): Tick | undefined {
    return this.rows.get(symbol)?.tick;
  }

  // begin prepares for the rows after a connection was made. Prices since the time from may be missing.
  begin(resumed: boolean, from: number): void {
    if (!resumed) this.generation++;
    const now = Date.now();
    for (const row of this.rows.values()) row.trail.lost(from, now);
    this.listener.needTrails();
  }

  // filled removes the rows that no longer exist.
  filled(): void {
    for (const [symbol, row] of this.rows) {
      if (row.generation === this.generation) continue;
      this.observer.unobserve(row.element);
      row.element.remove();
      this.rows.delete(symbol);
    }
  }

  update(tick: Tick, live: boolean): void {
    let row = this.rows.get(tick.symbol);
    if (!row) this.rows.set(tick.symbol, (row = this.insert(tick)));
    row.tick = tick;
    row.live = live;
    row.dirty = true;
    row.generation = this.generation;
    row.trail.add(tick.time, tick.price);
    this.newest = Math.max(this.newest, tick.time);
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  select(symbol: string): void {
    this.mark(this.selected, false);
    this.selected = symbol;
    this.mark(symbol, true);
  }

  // wanting returns the trails of visible rows that lack history.
  wanting(): { symbol: string; trail: Trail }[] {
    return [...this.rows.values()].filter((r) => r.visible && r.trail.wanting).map((r) => ({ symbol: r.tick.symbol, trail: r.trail }));
  }

  paintTrails(): void {
    if (document.hidden) return;
    const style = getComputedStyle(this.body);
    const colors = { up: style.getPropertyValue("--up"), down: style.getPropertyValue("--down"), flat: style.getPropertyValue("--muted") };
    // All lines start at the same time: two minutes ago, or later at the start of the earliest one.
    const oldest = Math.min(...[...this.rows.values()].map((r) => r.trail.oldest));
    const start = Math.max(this.newest - trailSeconds * 1000, Math.min(oldest, this.newest - 10_000));
    for (const row of this.rows.values()) {
      if (row.visible) drawTrail(row.canvas, row.trail, [start, this.newest], colors[direction(row.tick.change)]);
    }
  }

  private mark(symbol: string, on: boolean): void {
    const row = this.rows.get(symbol);
    if (!row) return;
    row.element.classList.toggle("selected", on);
    row.button.setAttribute("aria-pressed", String(on));
    row.button.tabIndex = on ? 0 : -1;
  }

  private insert(tick: Tick): Row {
    const element = document.createElement("tr");
    element.dataset.symbol = tick.symbol;
    const cell = (name: string, tag = "td") => {
      const c = document.createElement(tag);
      c.className = name;
      element.append(c);
      return c;
    };
    const head = cell("symbol", "th");
    head.setAttribute("scope", "row");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = tick.symbol;
    head.append(button);
    const price = cell("price");
    const change = cell("change");
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    cell("trail").append(canvas);
    const volume = cell("volume");
    const after = [...this.body.rows].find((r) => r.dataset.symbol! > tick.symbol);
    this.body.insertBefore(element, after ?? null);
    this.observer.observe(element);
    const row: Row = {
      tick, live: false, dirty: true, visible: false, generation: this.generation, shown: NaN, flashed: 0, flash: null,
      trail: new Trail(), element, button, price, change, volume, canvas,
    };
    this.rows.set(tick.symbol, row);
    this.mark(tick.symbol, tick.symbol === this.selected);
    return row;
  }

  private paint(): void {
    this.frame = 0;
    const now = Date.now();
    for (const row of this.rows.values()) {
      if (!row.dirty) continue;
      row.dirty = false;
      const { tick } = row;
      row.price.textContent = formatPrice(tick.price);
      row.change.textContent = formatChange(tick.change);
      row.change.className = "change " + direction(tick.change);
      row.volume.textContent = formatVolume(tick.volume);
      if (row.live) {
        this.listener.painted(now - tick.time);
        if (tick.price !== row.shown) this.flash(row, tick.price > row.shown);
      }
      row.shown = tick.price;
    }
  }

  private flash(row: Row, up: boolean): void {
    const now = performance.now();
    if (this.calm.matches || !row.visible || now - row.flashed < flashEvery) return;
    row.flashed = now;
    row.flash?.cancel();
    row.flash = row.price.animate([{ backgroundColor: up ? "var(--up-flash)" : "var(--down-flash)" }, {}], { duration: 800, easing: "ease-out" });
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    for (const e of entries) {
      const row = this.rows.get((e.target as HTMLElement).dataset.symbol ?? "");
      if (row) row.visible = e.isIntersecting;
    }
    this.paintTrails();
    this.listener.needTrails();
  }

  private key(e: KeyboardEvent): void {
    const row = (e.target as Element).closest("tr");
    const steps: Record<string, Element | null | undefined> = {
      ArrowDown: row?.nextElementSibling,
      ArrowUp: row?.previousElementSibling,
      Home: this.body.firstElementChild,
      End: this.body.lastElementChild,
    };
    const next = steps[e.key] as HTMLTableRowElement | null | undefined;
    if (!next?.dataset.symbol) return;
    e.preventDefault();
    this.listener.select(next.dataset.symbol);
    this.rows.get(next.dataset.symbol)?.button.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

// drawTrail draws a line from start to now, scaled to its own lowest and highest price.
function drawTrail(canvas: HTMLCanvasElement, trail: Trail, [start, now]: [number, number], color: string): void {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = canvas.getContext("2d");
  if (!context || width === 0) return;
  const ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const runs = trail.runs(start, now);
  const prices = runs.flat().map((p) => p.price);
  if (prices.length === 0) return;
  const [low, high] = [Math.min(...prices), Math.max(...prices)];
  const x = (time: number) => 1 + ((time - start) / (now - start)) * (width - 2);
  const y = (price: number) => (high === low ? height / 2 : 2 + (1 - (price - low) / (high - low)) * (height - 4));
  context.strokeStyle = color;
  context.lineWidth = 1.25;
  context.lineJoin = "round";
  context.beginPath();
  for (const run of runs) run.forEach((p, i) => (i === 0 ? context.moveTo(x(p.time), y(p.price)) : context.lineTo(x(p.time), y(p.price))));
  context.stroke();
}
