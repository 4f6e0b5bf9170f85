// What a client sees of a table, namespace quotes of the demo. The SDK does not show keys: a row carries its own.
import { assert, assertIncreasing, range } from "./harness.mjs";

const channel = "quotes:mine";

function rows(from, to, value) {
  return range(from, to).map((i) => ({ key: `row ${i}`, value, filler: "x".repeat(60) }));
}

// Table is what an application makes of the subscription: the newest of each row, begun anew after a fresh start.
class Table {
  rows = new Map();

  constructor(follower) {
    this.follower = follower;
    follower.sdk.on("subscribed", (ctx) => {
      if (!ctx.recovered) this.rows.clear();
    });
    follower.publications.each(({ data, tags }) => {
      if (data === null) this.rows.delete(tags.key);
      else this.rows.set(data.key, data.value);
    });
  }

  // is waits until the table is as wanted.
  is(want) {
    const same = () => this.rows.size === want.size && [...want].every(([key, value]) => this.rows.get(key) === value);
    return this.follower.publications.until(same, "the table to be complete");
  }
}

function tableOf(list) {
  return new Map(list.map((row) => [row.key, row.value]));
}

export async function getsTheDemo(test) {
  const node = await test.start({ args: ["--demo"] });
  const client = await node.connect();
  const follower = client.follow("quotes:all");
  await follower.publications.until((all) => new Set(all.map((p) => p.data.symbol)).size === 50, "50 symbols");
  await follower.publications.atLeast(follower.publications.items.length + 20, "quotes");
  for (const { data } of follower.publications.items) {
    assert.deepEqual(Object.keys(data), ["symbol", "price", "change", "volume", "time"]);
  }
}

export async function getsRowsThenChanges(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, [...rows(1, 20, "old"), ...rows(1, 10, "new")]);
  const reader = await node.connect();
  const follower = reader.follow(channel);
  const table = new Table(follower);
  const { recovered, wasRecovering } = await follower.is("subscribed");
  assert.deepEqual([recovered, wasRecovering], [false, false]);
  const want = tableOf([...rows(1, 10, "new"), ...rows(11, 20, "old")]);
  await table.is(want);
  assert.equal(follower.data.length, 20, "each row once");

  await publisher.publishRows(channel, [{ key: "row 3", value: 1 }, { key: "row 21", value: 2 }]);
  await node.api("publish", { channel, key: "row 5", removed: true, tags: { key: "row 5" } });
  const live = (await follower.publications.atLeast(23)).slice(20);
  assert.deepEqual(live.map((p) => p.data), [{ key: "row 3", value: 1 }, { key: "row 21", value: 2 }, null]);
  assertIncreasing(live.map((p) => p.offset));
  want.delete("row 5");
  await table.is(want.set("row 3", 1).set("row 21", 2));
}

export async function recoversOnlyWhatChanged(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 2000, "old"));
  const reader = await node.connect();
  const follower = reader.follow(channel);
  await new Table(follower).is(tableOf(rows(1, 2000, "old"))); // more than a reply holds
  assert.equal(follower.data.length, 2000, "each row once");

  await reader.cut();
  for (const value of [1, 2, 3]) await publisher.publishRows(channel, [...rows(7, 9, value), ...rows(2001, 2001, value)]);
  await node.api("publish", { channel, key: "row 8", removed: true, tags: { key: "row 8" } });
  reader.mend();
  const ctx = await follower.is("subscribed", 2);
  assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true]);
  await publisher.publishRows(channel, rows(1, 1, "live"));
  const changes = (await follower.publications.atLeast(2005)).slice(2000);
  assert.deepEqual(
    changes.map(({ data }) => data && [data.key, data.value]),
    [["row 7", 3], ["row 9", 3], ["row 2001", 3], null, ["row 1", "live"]],
  );
  assertIncreasing(changes.map((p) => p.offset));
}

// The connection breaks again and again while the rows are sent over, and rows change and go meanwhile and during the next attempt;
// in the end the application has the table.
export async function survivesCutsWhileItIsFilled(test) {
  const node = await test.start({ args: ["--demo"] });
  const publisher = await node.connect();
  await publisher.publishRows(channel, rows(1, 3000, "old"));
  const want = tableOf(rows(1, 3000, "old"));
  const reader = await node.connect();
  const follower = reader.follow(channel);
  const table = new Table(follower);
  let publishing = Promise.resolve();
  for (const cut of range(1, 5)) {
    await follower.publications.atLeast(follower.data.length + 300, "rows");
    await reader.cut();
    await publishing;
    const key = `row ${600 * cut - 1}`;
    await node.api("publish", { channel, key, removed: true, tags: { key } });
    want.delete(key);
    const [away, back] = [rows(50 * cut, 50 * cut + 30, `away ${cut}`), rows(50 * cut + 20, 50 * cut + 100, `back ${cut}`)];
    for (const row of [...away, ...back]) want.set(row.key, row.value);
    await publisher.publishRows(channel, away);
    publishing = publisher.publishRows(channel, back);
    reader.mend();
    await follower.is("subscribed", cut + 1);
  }
  await publishing;
  await table.is(want);
}
