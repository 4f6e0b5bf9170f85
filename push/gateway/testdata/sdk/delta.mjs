// Differences: a client that takes Fossil deltas gets what one without gets, byte for byte.
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { assert, range } from "./harness.mjs";

// wanted is how many real updates are sent, where there are as many: make proof-delta asks for more.
const wanted = Number(process.env.SLUICE_UPDATES ?? 10_000);

// recordings returns updates of recorded exchanges, each with the kind of stream it was in: from the cut in the repository, or from the full
// recordings where SLUICE_DATA says that there are some.
function recordings() {
  const folder = `${process.env.SLUICE_DATA ?? fileURLToPath(new URL("../../../../testdata", import.meta.url))}/binance-2024-08-08`;
  const out = [];
  for (const file of readdirSync(folder).sort()) {
    if (out.length >= wanted || !file.endsWith(".gz")) continue;
    for (const line of gunzipSync(readFileSync(`${folder}/${file}`)).toString().split("\n")) {
      const frame = line && JSON.parse(line.slice(line.indexOf(" ")));
      if (frame.stream) out.push({ kind: frame.stream.split("@")[1], data: frame.data });
    }
  }
  return out.slice(0, wanted);
}

const kinds = ["bookTicker", "trade", "depth"];

// follow makes a client that follows all kinds.
async function follow(node, options) {
  const client = await node.connect();
  const subs = Object.fromEntries(kinds.map((kind) => [kind, client.follow(`deltas:${kind}`, options)]));
  for (const kind of kinds) await subs[kind].is("subscribed");
  return { client, subs };
}

export async function getsTheSameAsDeltas(test) {
  const node = await test.start();
  const updates = recordings();
  const [plain, fossil] = [await follow(node), await follow(node, { delta: "fossil" })];
  for (const kind of kinds) {
    fossil.subs[kind].publications.each((ctx) => {
      const held = fossil.subs[kind].sdk._prevValueMap.get(""); // the text, before it was parsed
      assert.equal(new TextDecoder().decode(held), JSON.stringify(ctx.data));
    });
  }
  const publisher = await node.connect();
  const [parts, sent] = [10, Object.fromEntries(kinds.map((kind) => [kind, []]))];
  for (const part of range(0, parts - 1)) {
    const [from, to] = [part, part + 1].map((n) => Math.floor((n * updates.length) / parts));
    const cut = [fossil.client, plain.client][part % 3];
    if (cut) await cut.cut();
    for (const kind of kinds) {
      const some = updates.slice(from, to).filter((u) => u.kind.startsWith(kind)).map((u) => u.data);
      sent[kind].push(...some);
      const half = some.length / 2;
      await publisher.publishAll(`deltas:${kind}`, some.slice(0, half), 500);
      if (cut) cut.mend();
      await publisher.publishAll(`deltas:${kind}`, some.slice(half), 500);
    }
  }
  let [received, decoded, differences] = [0, 0, 0];
  for (const kind of kinds) {
    const want = sent[kind].map((data) => JSON.stringify(data));
    for (const { subs } of [plain, fossil]) {
      await subs[kind].publications.atLeast(want.length, kind);
      assert.deepEqual(subs[kind].data.map((data) => JSON.stringify(data)), want);
    }
    const stats = fossil.subs[kind].sdk.deltaStats();
    received += stats.bytesReceived;
    decoded += stats.bytesDecoded;
    differences += stats.numDeltaPayloads;
    assert.equal(plain.subs[kind].sdk.deltaStats().numDeltaPayloads, 0);
  }
  console.log(`${updates.length} updates, ${differences} as differences: ${received} bytes instead of ${decoded}`);
  assert(differences > updates.length / 2 && received < decoded);
}

export async function getsValuesAsDeltas(test) {
  const node = await test.start();
  const filler = "x".repeat(200);
  const publisher = await node.connect();
  await publisher.publishAll("deltavalue:a", [{ n: 0, filler }]);
  const reader = await node.connect();
  const follower = reader.follow("deltavalue:a", { delta: "fossil" });
  await follower.publications.atLeast(1);
  for (const n of range(1, 5)) {
    await publisher.publishAll("deltavalue:a", [{ n, filler }]);
    await follower.publications.atLeast(n + 1);
  }
  await node.api("publish", { channel: "deltavalue:a", removed: true });
  await publisher.publishAll("deltavalue:a", [{ n: 6, filler }]);
  await follower.publications.atLeast(8);
  assert.deepEqual(follower.data.map((d) => d?.n), [0, 1, 2, 3, 4, 5, undefined, 6]);
  assert.equal(follower.sdk.deltaStats().numDeltaPayloads, 5, "what is new after a removal goes in full");
  await reader.cut();
  await publisher.publishAll("deltavalue:a", [{ n: 7, filler }]);
  reader.mend();
  await follower.publications.atLeast(9);
  await publisher.publishAll("deltavalue:a", [{ n: 8, filler }]);
  await follower.publications.atLeast(10);
  assert.deepEqual(follower.data.slice(8).map((d) => d.n), [7, 8]);
  assert.equal(follower.sdk.deltaStats().numDeltaPayloads, 6, "nothing builds on what a client had before it came back");
}

// The SDK keeps one base for a plain subscription, where a table needs one for each row; and a namespace may have none at all.
export async function isRefusedDeltas(test) {
  const node = await test.start();
  const publisher = await node.connect();
  for (const channel of ["deltatable:a", "long:a"]) {
    const follower = publisher.follow(channel, { delta: "fossil" });
    await follower.is("subscribed");
    await publisher.publishRows(channel, range(1, 4).map((value) => ({ key: "row", value, filler: "x".repeat(100) })));
    await follower.publications.until((all) => all.at(-1)?.data.value === 4, "the last of them");
    assert.equal(follower.sdk.deltaStats().numPublications, 0);
  }
}
