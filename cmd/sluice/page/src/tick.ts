// Tick is a publication of the demo: to the table quotes:all, with a row for each symbol, and to the stream ticks:SYMBOL.
export interface Tick {
  symbol: string;
  price: number;
  change: number; // since the opening, in percent
  volume: number;
  time: number; // Unix milliseconds
}

// isTick rejects other data, because any client may publish to these channels.
export function isTick(data: unknown): data is Tick {
  if (typeof data !== "object" || data === null) return false;
  const t = data as Record<string, unknown>;
  return typeof t.symbol === "string" && ["price", "change", "volume", "time"].every((k) => Number.isFinite(t[k]));
}

const two = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const formatPrice = (v: number): string => two.format(v);
export const formatVolume = (v: number): string => whole.format(v);

// formatChange adds a sign, because colour alone is not accessible.
export const formatChange = (v: number): string => (v > 0 ? "+" : v < 0 ? "\u2212" : "") + two.format(Math.abs(v)) + "\u202f%";

// direction returns the style class of a change.
export const direction = (v: number): "up" | "down" | "flat" => (v > 0 ? "up" : v < 0 ? "down" : "flat");
