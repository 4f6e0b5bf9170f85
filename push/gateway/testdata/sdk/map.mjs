// Tables as map subscriptions show them, with keys and removals, in namespace quotes of the demo.
import { assert, assertIncreasing, range, Record } from "./harness.mjs";

const channel = "quotes:mine";

// quick makes waits between attempts short.
const quick = { minResubscribeDelay: 10, maxResubscribeDelay: 50 };

function rows(from, to, value) {
  return range(from, to).map((i) => ({ key: `row ${i}`, value, filler: "x".repeat(60) }));
}

// MapTable is what an application makes of a map subscription: all rows of each sync, then the updates.
class MapTable {
  rows = new Map(); // values by key
  events = new Record(); // subscribing, subscribed and unsubscribed
  syncs = new Record(); // how many rows each had
  updates = new Record();
  changes = new Record(); // one for each sync and each update

  constructor(client, options, name = channel) {
    this.client = client;
    this.sdk = client.sdk.newMapSubscription(name, { ...quick, ...options });
    for (const event of ["subscribing", "subscribed", "unsubscribed"]) {
      this.sdk.on(event, (ctx) => this.events.add({ event, ...ctx }));
    }
    this.sdk.on("sync", ({ entries }) => {
      this.rows = new Map(entries.map(({ key, data }) => [key, data.value]));
      assert.equal(this.rows.size, entries.length, "each row once");
      this.syncs.add(entries.length);
      this.changes.add("sync");
    });
    this.sdk.on("update", (ctx) => {
      if (ctx.removed) this.rows.delete(ctx.key);
      else this.rows.set(ctx.key, ctx.data.value);
      this.updates.add(ctx);
      this.changes.add(ctx.key);
    });
    this.sdk.subscribe();
  }

  // synced waits for the nth sync.
  synced(nth = 1) {
    return this.syncs.atLeast(nth, "syncs");
  }

  // is waits until the table is as wanted.
  is(want) {
    const same = () => this.rows.size === want.size && [...want].every(([key, value]) => this.rows.get(key) === value);
    return this.changes.until(same, "the table to be complete");
  }

  // subscribed waits until it is, for the nth time, and returns what the SDK said.
  subscribed(nth = 1) {
    return this.events.until((all) => all.filter((e) => e.event === "subscribed")[nth - 1], `subscribed (${nth})`);
  }

  // asked returns the steps that the client sent, of one phase.
  asked(phase) {
    const sent = this.client.sent.items.flatMap((frame) => frame.split("\n")).map(JSON.parse);
    return sent.filter(({ subscribe }) => subscribe?.phase === phase);
  }
}

function tableOf(list) {
  return new Map(list.map((row) => [row.key, row.value]));
}

async function remove(node, key) {
  await node.api("publish", { channel, key, removed: true });
}

export async function mapHasAllRowsAtOnce(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, [...rows(1, 20, "old"), ...rows(1, 10, "new")]);
  const table = new MapTable(await node.connect());
  const { recovered, wasRecovering, recoverable } = await table.subscribed();
  assert.deepEqual([recovered, wasRecovering, recoverable], [false, false, true]);
  assert.deepEqual(await table.synced(), [20]);
  assert.deepEqual(table.rows, tableOf([...rows(1, 10, "new"), ...rows(11, 20, "old")]));
  assert.deepEqual([table.asked(2).length, table.asked(1).length], [1, 0], "one step is enough for one page");
  assert.equal(table.updates.items.length, 0);
}

// More than two thousand rows in pages of a hundred, which change, come and go while they are read.
export async function mapIsWholeWhateverChangesMeanwhile(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 3000, "old"));
  const want = tableOf(rows(1, 3000, "old"));
  const readers = await Promise.all(range(1, 4).map(() => node.connect()));
  const tables = readers.map((reader, i) => new MapTable(reader, { pageSize: 100 + i }));
  for (const i of range(1, 15)) {
    const some = [...rows(150 * i, 150 * i + 40, `round ${i}`), ...rows(2990 + 10 * i, 3005 + 10 * i, `new ${i}`)];
    for (const row of some) want.set(row.key, row.value);
    await publisher.publishRows(channel, some);
    for (const n of [7 * i, 3000 - 11 * i]) {
      await remove(node, `row ${n}`);
      want.delete(`row ${n}`);
    }
  }
  for (const table of tables) {
    await table.is(want);
    assert((await table.synced())[0] > 2500);
    assert(table.asked(2).length >= 28, `${table.asked(2).length} pages`);
    assertIncreasing(table.updates.items.map((u) => u.offset));
  }
}

export async function mapSeesUpdatesAndRemovals(test) {
  const node = await test.start({ args: ["--demo"] });
  const [one, other] = [await node.connect(), await node.connect()];
  const [mine, theirs] = [new MapTable(one), new MapTable(other)];
  await Promise.all([mine.synced(), theirs.synced()]);
  assert.deepEqual([mine.syncs.items, theirs.syncs.items], [[0], [0]]);
  await mine.sdk.publish("a", { value: 1 });
  await mine.sdk.publish("b", { value: 2 });
  await mine.sdk.publish("a", { value: 3 });
  await theirs.is(tableOf([{ key: "a", value: 3 }, { key: "b", value: 2 }]));
  await theirs.sdk.remove("a");
  for (const table of [mine, theirs]) {
    await table.is(tableOf([{ key: "b", value: 2 }]));
    const last = table.updates.items.at(-1);
    assert.deepEqual([last.key, last.removed], ["a", true]);
    assertIncreasing(table.updates.items.map((u) => u.offset));
    assert.equal(table.syncs.items.length, 1);
  }
  await one.sdk.mapPublish(channel, "c", { value: 4 });
  await theirs.is(tableOf([{ key: "b", value: 2 }, { key: "c", value: 4 }]));
}

export async function mapRecoversOnlyWhatChanged(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 2000, "old"));
  const reader = await node.connect();
  const table = new MapTable(reader);
  await table.is(tableOf(rows(1, 2000, "old")));
  const pages = table.asked(2).length;
  await reader.cut();
  for (const value of [1, 2, 3]) await publisher.publishRows(channel, [...rows(7, 9, value), ...rows(2001, 2001, value)]);
  await remove(node, "row 8");
  reader.mend();
  const ctx = await table.subscribed(2);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true]);
  await publisher.publishRows(channel, rows(1, 1, "live"));
  const changes = await table.updates.atLeast(5);
  assert.deepEqual(
    changes.map(({ key, removed, data }) => [key, removed ? "removed" : data.value]),
    [["row 7", 3], ["row 9", 3], ["row 2001", 3], ["row 8", "removed"], ["row 1", "live"]],
  );
  assertIncreasing(changes.map((u) => u.offset));
  assert.equal(table.syncs.items.length, 1, "the application has its rows: no other sync");
  assert.deepEqual([table.asked(2).length, table.asked(1).length], [pages, 1]);
}

// The connection breaks again and again, while the rows are read and after that; in the end the application has the table.
export async function mapSurvivesCuts(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 3000, "old"));
  const want = tableOf(rows(1, 3000, "old"));
  const reader = await node.connect();
  const table = new MapTable(reader, { pageSize: 50 });
  for (const cut of range(1, 8)) {
    if (cut < 5) await reader.received.atLeast(reader.received.items.length + 10, "pages");
    await reader.cut();
    const some = rows(300 * cut, 300 * cut + 30, `cut ${cut}`);
    for (const row of some) want.set(row.key, row.value);
    await publisher.publishRows(channel, some);
    await remove(node, `row ${300 * cut + 100}`);
    want.delete(`row ${300 * cut + 100}`);
    reader.mend();
    if (cut >= 4) await table.is(want);
  }
  await table.is(want);
}

// While a client is away more removals happen than the namespace remembers: it is answered 112, and begins from scratch by itself.
export async function mapBeginsFromScratch(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 1300, "old"));
  const reader = await node.connect();
  const table = new MapTable(reader);
  await table.is(tableOf(rows(1, 1300, "old")));
  await reader.cut();
  for (const i of range(1, 13)) {
    const commands = range(100 * i - 99, 100 * i).map((n) => ({ publish: { channel, key: `row ${n}`, removed: true } }));
    for (const reply of await publisher.raw(...commands)) assert.deepEqual(reply.error, undefined);
  }
  await publisher.publishRows(channel, rows(5000, 5002, "new"));
  reader.mend();
  await table.synced(2);
  assert.deepEqual(table.rows, tableOf(rows(5000, 5002, "new")));
  assert(reader.received.items.some((frame) => frame.includes('"code":112')), "it was answered 112");
  const { recovered } = await table.subscribed(2);
  assert.equal(recovered, false);
}

// Another life of the channel, as after data was lost, is another table.
export async function mapNoticesAnotherLife(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 100, "old"));
  const reader = await node.connect();
  const table = new MapTable(reader);
  await table.is(tableOf(rows(1, 100, "old")));
  await node.restart();
  await table.synced(2);
  assert.equal(table.rows.size, 0);
  await reader.is("connected", 1);
  await table.sdk.publish("a", { value: 1 });
  await table.is(new Map([["a", 1]]));
}

// An interval that was asked for with the first page holds when the last one makes the subscription live.
export async function mapKeepsItsInterval(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 300, "old"));
  const table = new MapTable(await node.connect(), { pageSize: 100, data: { sluice: { interval: 250 } } });
  const ctx = await table.subscribed();
  assert.deepEqual(ctx.data, { sluice: { interval: 250 } });
  assert(table.asked(2).length > 2);
  await table.is(tableOf(rows(1, 300, "old")));
}

// With differences the application has the same, through pages, updates, removals and cuts: what each row builds on is the row itself.
export async function mapGetsTheSameAsDeltas(test) {
  const node = await test.start();
  const name = "deltatable:mine";
  const publisher = await node.connect();
  await publisher.publishRows(name, rows(1, 1000, "old"));
  const want = tableOf(rows(1, 1000, "old"));
  const reader = await node.connect();
  const table = new MapTable(reader, { delta: "fossil", pageSize: 100 }, name);
  for (const round of range(1, 12)) {
    const some = [...rows(1, 60, `often ${round}`), ...rows(80 * round, 80 * round + 30, `once ${round}`)];
    if (round % 4 === 0) await reader.cut();
    for (const row of some) want.set(row.key, row.value);
    await publisher.publishRows(name, some);
    await node.api("publish", { channel: name, key: `row ${round}`, removed: true });
    want.delete(`row ${round}`);
    if (round % 4 === 0) reader.mend();
  }
  await table.is(want);
  const { numDeltaPayloads, bytesReceived, bytesDecoded } = table.sdk.deltaStats();
  assert(numDeltaPayloads > 100 && bytesReceived < bytesDecoded, `${numDeltaPayloads} differences: ${bytesReceived} bytes for ${bytesDecoded}`);
}

// A channel that is no table refuses for good, and says why.
export async function mapOfAStreamIsRefused(test) {
  const node = await test.start();
  const client = await node.connect();
  const sub = client.sdk.newMapSubscription("news", quick);
  const ended = new Record();
  sub.on("unsubscribed", (ctx) => ended.add(ctx));
  sub.subscribe();
  const [{ code, reason }] = await ended.atLeast(1);
  assert.equal(code, 107);
  assert.match(reason, /has mode stream, not table/);
}
