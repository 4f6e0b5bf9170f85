/*! This page contains the npm packages
 * centrifuge, Copyright (c) 2023 Centrifugal Labs LTD,
 * events, Copyright Joyent, Inc. and other Node contributors, and
 * uPlot, Copyright (c) 2022 Leon Sorokin,
 * all under the MIT License, whose text is the same for the three of them:
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
 * (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge,
 * publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do
 * so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
 * MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
 * FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
 * CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 *
 * The rest is Sluice's, under the Apache License 2.0. */

// The page of the demo: feed.ts is the connection and documents the data flow, table.ts and chart.ts are the display.
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Chart } from "./chart";
import { Feed, type Follower, type Resumption, type State } from "./feed";
import type { Point } from "./line";
import { formatMilliseconds, Meters } from "./meters";
import { Table } from "./table";
import { direction, formatChange, formatPrice, formatVolume } from "./tick";
import { trailSeconds } from "./trail";

// chartReach is the longest time that the chart can show, in milliseconds: the server keeps ticks as long.
const chartReach = 10 * 60 * 1000;

// window.sluice lets tests and curious users read the state of the page. It cannot change the page.
declare global {
  interface Window {
    sluice: {
      state(): State;
      symbol(): string;
      rows(): number;
      gaps(): number; // number of visible sparklines that are incomplete
      points(): (Point | null)[]; // of the chart's line; null is a gap
      resumptions(): Resumption[]; // the results for the chart after each disconnection
      meters(): { latency: number | null; roundTrip: number | null; rate: number };
    };
  }
}

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const setText = (element: HTMLElement, text: string): void => {
  if (element.textContent !== text) element.textContent = text;
};

const meters = new Meters();
const resumptions: Resumption[] = [];
let state: State = "connecting";
let stateSince = Date.now();
let endedBecause = "";
let following: Follower | null = null;
let loading = 0; // number of history requests in progress
let noticeTimer = 0;

const chart = new Chart(byId("plot"), (range, cursor) => {
  setText(byId("low"), range.count ? formatPrice(range.low) : "\u2013");
  setText(byId("high"), range.count ? formatPrice(range.high) : "\u2013");
  setText(byId("count"), formatVolume(range.count));
  setText(byId("cursor"), cursor);
  showQuote();
});

const table = new Table(byId("rows") as HTMLTableSectionElement, {
  select: choose,
  painted: (age) => meters.shown(age),
  needTrails: () => void loadTrails(),
});

const feed = new Feed({
  state: changeState,
  begin(resumed) {
    meters.restart();
    table.begin(resumed, table.latest);
  },
  row(tick, live) {
    if (live) meters.received();
    table.update(tick, live);
    chart.until(tick.time);
  },
  filled() {
    table.filled();
    if (!following) chooseFromAddress();
  },
});

// chooseFromAddress chooses the symbol at the end of the address, so that the page can be reloaded and linked to. Otherwise it chooses the first
// symbol.
function chooseFromAddress(): void {
  const named = location.hash.slice(1);
  const symbol = table.tick(named) ? named : table.first;
  if (symbol) choose(symbol);
}

function choose(symbol: string): void {
  if (following?.symbol === symbol) return;
  following?.stop();
  const followed = feed.follow(symbol, chartReach, {
    changed: () => chart.changed(),
    resumed: (r) => {
      resumptions.push(r);
      announce(followed.symbol, r);
    },
  });
  following = followed;
  table.select(symbol);
  chart.show(followed.line);
  history.replaceState(null, "", "#" + symbol);
  showQuote();
}

function showQuote(): void {
  if (!following) return;
  setText(byId("symbol"), following.symbol);
  const tick = table.tick(following.symbol);
  if (!tick) return;
  setText(byId("price"), formatPrice(tick.price));
  setText(byId("change"), formatChange(tick.change));
  byId("change").className = direction(tick.change);
  setText(byId("volume"), formatVolume(tick.volume));
}

// loadTrails requests the history of visible rows that lack it, two at a time, because the busiest symbol has some thousands of ticks.
async function loadTrails(): Promise<void> {
  if (state !== "live" || loading >= 2) return;
  const next = table.wanting()[0];
  if (!next) return;
  next.trail.wanting = false;
  loading++;
  void loadTrails();
  try {
    const found = await feed.history(next.symbol, Date.now() - trailSeconds * 1000);
    next.trail.fill(found.points, found.epoch);
  } catch {
    // If the connection is lost, the next one requests all histories again. If the server refuses, the line shows only new prices.
  } finally {
    loading--;
  }
  table.paintTrails();
  void loadTrails();
}

function changeState(to: State, reason: string): void {
  if (to !== state) stateSince = Date.now();
  state = to;
  endedBecause = reason;
  showState();
  if (to === "live") void measure();
}

function showState(): void {
  const offline = state !== "live" && state !== "ended" && !navigator.onLine;
  const seconds = Math.floor((Date.now() - stateSince) / 1000);
  const since = seconds > 0 ? `, ${seconds}\u202fs` : "";
  const texts: Record<State, string> = {
    connecting: "Connecting" + since,
    live: "Live",
    reconnecting: "Reconnecting" + since,
    offline: "No network" + since,
    ended: "Ended: " + endedBecause,
  };
  const shown = offline ? "offline" : state;
  document.documentElement.dataset.state = shown;
  setText(byId("state-text"), texts[shown]);
  byId("again").hidden = state !== "ended";
}

// announce shows for a while how the chart was resumed after a disconnection.
function announce(symbol: string, r: Resumption): void {
  const prices = r.missed === 1 ? "1 price" : `${formatVolume(r.missed)} prices`;
  const text = r.recovered
    ? `Connected again. ${r.missed ? prices + " missed meanwhile, now filled in." : "Nothing was missed."}`
    : `Connected again. The server no longer has all that was missed: the line of ${symbol} has a gap.`;
  const notice = byId("notice");
  setText(notice, text);
  notice.className = r.recovered ? "good" : "bad";
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => setText(notice, ""), 12_000) as unknown as number;
}

async function measure(): Promise<void> {
  if (state !== "live" || document.hidden) return;
  try {
    meters.answered(await feed.roundTrip());
  } catch {
    // Without an answer, the connection state will tell why.
  }
}

function showMeters(): void {
  showState();
  const { latency, roundTrip, rate } = meters.read();
  const live = state === "live";
  setText(byId("latency"), formatMilliseconds(live ? latency : null));
  setText(byId("round-trip"), formatMilliseconds(live ? roundTrip : null));
  setText(byId("rate"), live ? `${Math.round(rate)}/s` : "\u2013");
}

for (const button of document.querySelectorAll<HTMLButtonElement>("#spans button")) {
  button.addEventListener("click", () => {
    for (const b of document.querySelectorAll("#spans button")) b.setAttribute("aria-pressed", String(b === button));
    chart.span = Number(button.value);
    chart.changed();
  });
}
byId("again").addEventListener("click", () => feed.connect());
addEventListener("hashchange", chooseFromAddress);
addEventListener("online", showState);
addEventListener("offline", showState);
document.addEventListener("visibilitychange", () => meters.restart());
setInterval(showMeters, 500);
setInterval(() => void measure(), 1000);
// Lines are kept for longer than the chart shows, so that they are not trimmed for each tick.
setInterval(() => following?.line.trim((table.latest - 1.1 * chartReach) / 1000), 30_000);

window.sluice = {
  state: () => state,
  symbol: () => following?.symbol ?? "",
  rows: () => table.size,
  gaps: () => table.gaps,
  points: () => following?.line.points() ?? [],
  resumptions: () => [...resumptions],
  meters: () => meters.read(),
};

feed.connect();
