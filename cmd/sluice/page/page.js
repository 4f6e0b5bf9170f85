"use strict";

// One row for each symbol of the table channel quotes:all. The SDK delivers the rows there are, then every change; after a cut it
// resumes by itself, and where it could not (recovered is false) the rows come anew.
const state = document.getElementById("state");
const body = document.getElementById("rows");
const rows = new Map();

function rowOf(symbol) {
  let row = rows.get(symbol);
  if (!row) {
    row = document.createElement("tr");
    for (let i = 0; i < 4; i++) row.append(document.createElement("td"));
    row.cells[0].textContent = symbol;
    rows.set(symbol, row);
    const next = [...rows.keys()].sort().indexOf(symbol);
    body.insertBefore(row, body.rows[next] || null);
  }
  return row;
}

function show(tick) {
  const { cells } = rowOf(tick.symbol);
  cells[1].textContent = tick.price.toFixed(2);
  cells[2].textContent = (tick.change > 0 ? "+" : "") + tick.change.toFixed(2);
  cells[2].className = tick.change > 0 ? "up" : tick.change < 0 ? "down" : "";
  cells[3].textContent = tick.volume;
}

const scheme = location.protocol === "https:" ? "wss://" : "ws://";
const client = new Centrifuge(scheme + location.host + "/connection/websocket");
client.on("connecting", () => { state.textContent = "connecting"; state.className = ""; });
client.on("connected", () => { state.textContent = "live"; state.className = "connected"; });
client.on("disconnected", (ctx) => { state.textContent = "disconnected: " + ctx.reason; state.className = ""; });

const quotes = client.newSubscription("quotes:all");
quotes.on("subscribed", (ctx) => { if (!ctx.recovered) { rows.clear(); body.replaceChildren(); } });
quotes.on("publication", (ctx) => { if (ctx.data) show(ctx.data); });
quotes.subscribe();
client.connect();
