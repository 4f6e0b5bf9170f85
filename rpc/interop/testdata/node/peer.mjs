// A client and servers with Apache Thrift for Node. Each line of standard input is a task, each line of standard output its answer, both in JSON:
//
//	{"dialect": D, "port": P, "seed": S}  makes calls, with texts made from the seed:  {"calls": how many were answered, "errors": [...]}
//	{"dialect": D}                        starts a server until the program ends:      {"port": P}

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import thrift from 'thrift';
import THeaderProtocol from 'thrift/lib/nodejs/lib/thrift/header_protocol.js';
import { TApplicationException, TApplicationExceptionType } from 'thrift/lib/nodejs/lib/thrift/thrift.js';

import Echo from './echo/Echo.js';
import { Failure } from './echo/echo_types.js';
import Newer from './echo/Newer.js';

const { TBinaryProtocol, TBufferedTransport, TCompactProtocol, TFramedTransport } = thrift;
const clients = 4;
const calls = 60;
const atOnce = 15; // calls under way on a connection

// Generated clients flush the transport and not the protocol, so that headers are never written (apache/thrift, pull request 2950). This writes
// them.
const withHeaders = (transport) =>
  class extends transport {
    flush() {
      this.writeHeaders();
      super.flush();
    }
  };

// The classes of each dialect, and the protocol id of THeader where it is not 0. In THeader with the compact protocol, Node cannot read a frame whose
// first six bytes arrive in pieces ("Bad protocol identifier"), which may happen if messages follow each other. So these calls are made one by one.
const dialects = {
  'THeader binary': { transport: TBufferedTransport, protocol: THeaderProtocol },
  'THeader compact': { transport: TBufferedTransport, protocol: THeaderProtocol, id: 2, oneByOne: true },
  'THeader binary, wrapped': { transport: TFramedTransport, protocol: THeaderProtocol },
  'THeader compact, wrapped': { transport: TFramedTransport, protocol: THeaderProtocol, id: 2 },
  'framed binary': { transport: TFramedTransport, protocol: TBinaryProtocol },
  'framed compact': { transport: TFramedTransport, protocol: TCompactProtocol },
  'framed binary, as generated': { transport: TFramedTransport, protocol: THeaderProtocol, asGenerated: true },
  'unframed binary, as generated': { transport: TBufferedTransport, protocol: THeaderProtocol, asGenerated: true },
  'unframed binary': { transport: TBufferedTransport, protocol: TBinaryProtocol },
  'unframed compact': { transport: TBufferedTransport, protocol: TCompactProtocol },
};

// random returns a function that returns numbers from 0 to n-1 (the generator is xorshift32).
function random(seed) {
  let x = seed | 1;
  return (n) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % n;
  };
}

// makeText returns a text: none, 64 KiB, or something short.
function makeText(rng) {
  const kind = rng(30);
  if (kind === 0) return 'x'.repeat(64 << 10);
  if (kind < 4) return '';
  return Array.from({ length: rng(200) }, () => ['a', 'b', '\0', ' ', 'é', '漢', '😀'][rng(7)]).join('');
}

// one runs one client.
async function one(dialect, port, rng, report) {
  const { transport, protocol, id, oneByOne, asGenerated } = dialects[dialect];
  const hasHeaders = protocol === THeaderProtocol && !asGenerated;
  const connection = thrift.createConnection('127.0.0.1', port, { transport: hasHeaders ? withHeaders(transport) : transport, protocol });
  const broken = new Promise((_, reject) => {
    connection.on('error', reject);
    connection.on('close', () => reject(new Error('the connection has ended'))); // the calls under way would wait for ever
  });
  broken.catch(() => {}); // when the connection is closed below
  const client = thrift.createClient(Newer, connection);
  if (id !== undefined) client.output.setProtocolId(id);
  const check = async (what, made, compare) => {
    try {
      compare(await Promise.race([made.then((result) => ({ result }), (error) => ({ error })), broken.catch((error) => ({ broken: error }))]));
    } catch (error) {
      report.errors.push(`${what}: ${error.message.slice(0, 300)}`);
    }
    report.calls++;
  };
  const fails = (holds) => (answer) => assert(holds(answer.error), JSON.stringify(answer));
  const isFault = (code) => fails((e) => e instanceof TApplicationException && e.type === code);

  let made = [];
  for (let i = 0; i < calls; i++) {
    const text = makeText(rng);
    made.push(check(`call ${i}`, client.Echo(text), (answer) => assert.deepEqual(answer, { result: text })));
    if (oneByOne || made.length === atOnce) {
      await Promise.all(made);
      made = [];
    }
  }
  await check('Fail', client.Fail('why'), fails((e) => e instanceof Failure && e.why === 'why'));
  await check('Fail without a reason', client.Fail(''), isFault(TApplicationExceptionType.INTERNAL_ERROR));
  await check('Nothing', client.Nothing('a'), isFault(TApplicationExceptionType.UNKNOWN_METHOD));
  const news = `news ${rng(1 << 30)}`;
  for (let i = 1; i <= 3; i++) {
    await client.Tell(news);
    await check('Told', client.Told(news), (answer) => assert.deepEqual(answer, { result: i }));
  }
  if (hasHeaders) client.output.setWriteHeader('key', 'value');
  await check('Header', client.Header('key'), (answer) => assert.deepEqual(answer, { result: hasHeaders ? 'value' : '' }));
  connection.end();
}

// call runs several clients at once.
async function call({ dialect, port, seed }) {
  const report = { calls: 0, errors: [] };
  await Promise.all(Array.from({ length: clients }, (_, i) => one(dialect, port, random(seed + 2 * i), report)));
  report.errors.splice(10);
  return report;
}

// serve starts a server. Its answers in THeader have no header: Node decides that when it looks for the next call, before an asynchronous handler has
// returned. Only that a method is unknown is answered with a header.
async function serve({ dialect }) {
  const { transport, protocol } = dialects[dialect];
  const told = new Map();
  let headers = {};
  const handler = {
    Echo: (text) => text,
    Fail: (text) => Promise.reject(text ? new Failure({ why: text }) : new Error('no reason')),
    Tell: (text) => void told.set(text, (told.get(text) ?? 0) + 1),
    Told: (text) => told.get(text) ?? 0,
    Header: (key) => headers[key] ?? '',
  };
  class Processor extends Echo.Processor {
    process(input, output) {
      headers = input.trans.getReadHeaders(); // of this call once its method begins
      return super.process(input, output);
    }
  }
  const server = thrift.createServer(Processor, handler, { transport, protocol });
  server.on('error', (error) => console.error(error));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: server.address().port };
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  console.log(JSON.stringify(await (task.port ? call(task) : serve(task))));
}
process.exit(); // servers may have connections
