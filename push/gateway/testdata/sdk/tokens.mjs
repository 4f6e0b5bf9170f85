// How the official client gets tokens, presents them, and gets others when they end.
import { UnauthorizedError } from "centrifuge";
import { assert, range, Record } from "./harness.mjs";
import { token } from "./token.mjs";

const start = (test) => test.start({ config: "tokens.yaml", secure: true });

// source returns a getToken function that gives these tokens one after the other, the last one again and again, and counts.
function source(...makers) {
  const calls = new Record();
  const getToken = async (ctx) => {
    calls.add(ctx);
    return makers[Math.min(calls.items.length, makers.length) - 1]();
  };
  return { getToken, calls };
}

export async function refreshesItsConnection(test) {
  const node = await start(test);
  const { getToken, calls } = source(() => token({ sub: "ann" }, 2));
  const client = await node.connect({ getToken });
  await calls.atLeast(3, "tokens");
  assert.equal(client.sockets, 1);
  assert.deepEqual(client.events.items.map((e) => e.event), ["connecting", "connected"]);
}

export async function asksForAnotherWhenItsTokenHasEnded(test) {
  const node = await start(test);
  const { getToken, calls } = source(() => token({ sub: "ann" }));
  await node.connect({ token: token({ sub: "ann" }, -100), getToken });
  assert.equal(calls.items.length, 1);
}

export async function connectsAgainWhenItsNewTokenHasEnded(test) {
  const node = await start(test);
  const ann = { sub: "ann" };
  const { getToken, calls } = source(() => token(ann, 2), () => token(ann, -100), () => token(ann));
  const client = await node.connect({ getToken });
  assert.equal((await client.is("connecting", 2)).code, 3005);
  await client.is("connected", 3);
  assert.equal(calls.items.length, 3);
}

export async function stopsWhenItsNewTokenIsOfAnotherUser(test) {
  const node = await start(test);
  const { getToken } = source(() => token({ sub: "ann" }, 2), () => token({ sub: "bob" }));
  const client = await node.connect({ getToken });
  assert.equal((await client.is("disconnected")).code, 3500);
  assert.equal(client.sockets, 1);
}

export async function stopsWithoutAnotherTokenWhenItsHasEnded(test) {
  const node = await start(test);
  const client = node.client({ token: token({ sub: "ann" }, -100) });
  client.sdk.connect();
  assert.equal((await client.is("disconnected")).code, 1); // the SDK's own
}

export async function stopsWithAnInvalidToken(test) {
  const node = await start(test);
  for (const bad of [token({ sub: "ann" }, 600, "another secret, which the node does not know"), "bogus", ""]) {
    const client = node.client({ token: bad });
    client.sdk.connect();
    assert.equal((await client.is("disconnected")).code, 3500);
    assert.equal(client.sockets, 1);
  }
}

export async function stopsWhenItIsUnauthorized(test) {
  const node = await start(test);
  const client = node.client({
    getToken: async () => {
      throw new UnauthorizedError();
    },
  });
  client.sdk.connect();
  assert.equal((await client.is("disconnected")).code, 1); // the SDK's own
  assert.equal(client.received.items.length, 0);
}

export async function subscribesWithATokenAndRefreshesIt(test) {
  const node = await start(test);
  const client = await node.connect({ token: token({ sub: "ann" }) });
  const { getToken, calls } = source(() => token({ sub: "ann", channel: "secret:a" }, 2));
  const seen = new Record();
  const sub = client.sdk.newSubscription("secret:a", { getToken });
  for (const event of ["subscribed", "unsubscribed", "publication"]) sub.on(event, (ctx) => seen.add({ event, ...ctx }));
  sub.subscribe();
  await calls.atLeast(3, "tokens");
  assert.equal(calls.items[0].channel, "secret:a");
  await node.publish("secret:a", 1);
  await seen.until((all) => all.some((e) => e.data === 1), "the publication");
  assert.deepEqual(seen.items.map((e) => e.event), ["subscribed", "publication"]);
}

export async function asksForAnotherWhenItsSubscriptionTokenHasEnded(test) {
  const node = await start(test);
  const client = await node.connect({ token: token({ sub: "ann" }) });
  const claims = { sub: "ann", channel: "secret:a" };
  const { getToken, calls } = source(() => token(claims));
  const follower = client.follow("secret:a", { token: token(claims, -100), getToken });
  await follower.is("subscribed");
  assert.equal(calls.items.length, 1);
}

export async function doesNotSubscribeWhenItIsUnauthorized(test) {
  const node = await start(test);
  const client = await node.connect({ token: token({ sub: "ann" }) });
  const follower = client.follow("secret:a", {
    getToken: async () => {
      throw new UnauthorizedError();
    },
  });
  assert.equal((await follower.is("unsubscribed")).code, 1); // the SDK's own
  assert.equal(client.sockets, 1);
}

export async function isKeptOutOfAPrivateChannel(test) {
  const node = await start(test);
  const client = await node.connect({ token: token({ sub: "ann" }) });
  const refusals = {
    "none": () => undefined,
    "of another user": () => token({ sub: "bob", channel: "secret:a" }),
    "for another channel": () => token({ sub: "ann", channel: "secret:b" }),
    "of a connection": () => token({ sub: "ann" }),
  };
  for (const [name, make] of Object.entries(refusals)) {
    const given = make();
    const sub = client.sdk.newSubscription("secret:a", given === undefined ? {} : { token: given });
    const ended = new Promise((resolve) => sub.on("unsubscribed", resolve));
    sub.subscribe();
    assert.equal((await ended).code, 103, name);
    client.sdk.removeSubscription(sub);
  }
  assert.equal(client.sockets, 1);
}

export async function hasServerSideSubscriptions(test) {
  const node = await start(test);
  const client = node.client({ token: token({ sub: "ann", channels: ["news"], subs: { weather: { data: { place: "here" } } } }) });
  const seen = new Record();
  for (const event of ["subscribed", "publication", "unsubscribed"]) client.sdk.on(event, (ctx) => seen.add({ event, ...ctx }));
  client.sdk.connect();
  await client.is("connected");
  await seen.atLeast(3, "subscriptions");
  assert.deepEqual(seen.items.map((e) => e.channel).sort(), ["#ann", "news", "weather"]);
  assert.deepEqual(seen.items.find((e) => e.channel === "weather").data, { place: "here" });
  await node.publish("#ann", 1);
  await seen.until((all) => all.some((e) => e.event === "publication" && e.data === 1), "a publication in the personal channel");
  await client.cut();
  for (const i of [2, 3]) await node.publish("news", i);
  client.mend();
  await seen.until((all) => all.some((e) => e.data === 3), "what was published meanwhile");
  const news = seen.items.filter((e) => e.channel === "news");
  assert.deepEqual(news.filter((e) => e.event === "publication").map((e) => e.data), [2, 3]);
  assert.equal(news.findLast((e) => e.event === "subscribed").recovered, true);
}

export async function startsAfreshWhenAServerSidePositionIsLost(test) {
  const node = await start(test);
  const client = node.client({ token: token({ sub: "ann", channels: ["news"] }) });
  const seen = new Record();
  for (const event of ["subscribed", "publication"]) client.sdk.on(event, (ctx) => seen.add({ event, ...ctx }));
  client.sdk.connect();
  await seen.until((all) => all.some((e) => e.channel === "news"), "the subscription");
  await client.cut();
  await Promise.all(range(0, 500).map((i) => node.publish("news", i))); // more than the node remembers
  client.mend();
  const again = await seen.until((all) => all.filter((e) => e.event === "subscribed" && e.channel === "news")[1], "the second subscription");
  assert.equal(again.wasRecovering, true);
  assert.equal(again.recovered, false);
  await node.publish("news", "new");
  await seen.until((all) => all.some((e) => e.data === "new"), "what is published afterwards");
}

export async function isEndedWhenItsTokenIsRevoked(test) {
  const node = await start(test);
  const client = await node.connect({ token: token({ sub: "ann", jti: "1" }) });
  await node.api("revoke_token", { uid: "1" });
  assert.equal((await client.is("disconnected")).code, 3500);
  client.sdk.connect();
  const before = client.events.items.length;
  assert.equal((await client.is("disconnected", before)).code, 3500);
}
