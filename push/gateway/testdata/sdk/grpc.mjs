// Stock gRPC for Node, with the published description of the service and nothing else.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { assert, range, Record } from "./harness.mjs";

const path = fileURLToPath(new URL("../../../protocol/protobuf/clientv1/client.proto", import.meta.url));
const { Client } = grpc.loadPackageDefinition(loadSync(path, { keepCase: true, longs: Number, bytes: Buffer })).sluice.client.v1;

// Call is a call with all replies; pings are answered.
class Call {
  replies = new Record();
  ended = new Record();

  constructor(call) {
    this.call = call;
    call.on("data", (reply) => this.replies.add(reply));
    call.on("error", (e) => this.ended.add(e));
    call.on("end", () => this.ended.add("end"));
  }

  // reply waits for the reply to a command.
  reply(id) {
    return this.replies.until((all) => all.find((r) => r.id === id), `the reply to ${id}`);
  }

  // values waits for n publications, and returns their data.
  async values(n) {
    const all = await this.replies.until((all) => {
      const pubs = all.filter((r) => r.push?.pub);
      return pubs.length >= n && pubs;
    }, `${n} publications`);
    return all.map((r) => JSON.parse(r.push.pub.data));
  }
}

function client(node) {
  return new Client(node.address, grpc.credentials.createInsecure());
}

export async function speaksGRPCBothWays(test) {
  const node = await test.start();
  const session = new Call(client(node).connect());
  const send = (command) => session.call.write(command);
  send({ id: 1, connect: {} });
  assert.match((await session.reply(1)).connect.client, /^[0-9a-f-]{36}$/);
  send({ id: 2, subscribe: { channel: "news", positioned: true, recoverable: true } });
  const { epoch } = (await session.reply(2)).subscribe;
  for (const n of range(1, 20)) {
    await node.publish("news", { n });
    send({ id: 100 + n, publish: { channel: "news", data: Buffer.from(JSON.stringify({ n: -n })) } });
    await session.reply(100 + n);
  }
  assert.deepEqual(await session.values(40), range(1, 20).flatMap((n) => [{ n }, { n: -n }]));
  send({ id: 3, publish: { channel: "nowhere:a", data: Buffer.from("1") } });
  assert.equal((await session.reply(3)).error.code, 102);
  const { client: id } = (await session.reply(1)).connect;
  await node.api("disconnect", { client: id, code: 3500, reason: "go away" });
  const bye = await session.replies.until((all) => all.find((r) => r.push?.disconnect), "the goodbye");
  assert.equal(bye.push.disconnect.code, 3500);
  await session.ended.atLeast(1);

  const again = new Call(client(node).connect()); // goes on where it was
  again.call.write({ id: 1, connect: {} });
  again.call.write({ id: 2, subscribe: { channel: "news", recover: true, epoch, offset: 38 } });
  const { recovered, publications } = (await again.reply(2)).subscribe;
  assert.deepEqual([recovered, publications.length], [true, 2]);
}

export async function sendsCommandsBesideAStream(test) {
  const node = await test.start();
  const stub = client(node);
  const session = new Call(stub.consume({ id: 1, connect: {} }));
  const { session: secret, node: id } = (await session.reply(1)).connect;
  const send = (request) => new Promise((resolve, reject) => stub.send(request, (e, answer) => (e ? reject(e) : resolve(answer))));
  await send({ session: secret, node: id, commands: [{ id: 2, subscribe: { channel: "news" } }] });
  await session.reply(2);
  await node.publish("news", "hello");
  assert.deepEqual(await session.values(1), ["hello"]);
  await assert.rejects(send({ session: "guessed", node: id, commands: [{}] }), { code: grpc.status.NOT_FOUND });
}
