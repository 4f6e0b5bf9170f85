// The peer ws, as client and server. It reads scenarios, one a line, and answers each with a line that reports the result. A scenario without a
// URL makes it a server for one connection; it then answers with its port first.

import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { WebSocket, WebSocketServer } from 'ws';
import { digest, payload } from './payload.mjs';

// compression is the offered or accepted extension.
function compression(deflate, server) {
  if (!deflate) return false;
  const options = { threshold: 0, serverNoContextTakeover: !deflate.takeover, clientNoContextTakeover: !deflate.takeover };
  if (deflate.bits) {
    options.serverMaxWindowBits = deflate.bits;
    options.clientMaxWindowBits = deflate.bits;
  } else if (!server) {
    options.clientMaxWindowBits = true;
  }
  return options;
}

// send sends a message in the given number of frames, which may split characters.
function send(socket, message) {
  const data = payload(message);
  const binary = message.kind === 'binary';
  const pieces = Math.max(message.pieces, 1);
  const size = Math.ceil(data.length / pieces);
  for (let i = 0; i < pieces; i++) {
    socket.send(data.subarray(i * size, (i + 1) * size), { binary, fin: i === pieces - 1 });
  }
}

// play runs a scenario on a connection and reports the result.
async function play(socket, scenario) {
  const received = [];
  const errors = [];
  let pong = '';
  let agreed = '';
  socket.on('upgrade', ({ headers }) => (agreed = headers['sec-websocket-extensions'] ?? ''));
  const closeWhenDone = () => {
    if (!scenario.close || received.length !== scenario.receive || pong !== scenario.ping) return;
    const { code, reason } = scenario.close;
    if (code === 0) socket.close();
    else socket.close(code, reason);
  };
  const sendAll = () => {
    if (scenario.ping) socket.ping(scenario.ping);
    for (const message of scenario.send) send(socket, message);
    closeWhenDone();
  };
  socket.on('message', (data, isBinary) => {
    received.push(digest(!isBinary, data));
    closeWhenDone();
  });
  socket.on('pong', (data) => {
    pong = data.toString();
    closeWhenDone();
  });
  socket.on('error', (err) => errors.push(err.message));
  const closed = new Promise((resolve) => socket.addEventListener('close', resolve));
  if (socket.readyState === WebSocket.OPEN) sendAll();
  else socket.on('open', sendAll);
  const { code, reason, wasClean } = await closed;
  return { agreed, received: await Promise.all(received), pong, code, reason, clean: wasClean, errors };
}

// serve plays a scenario with the first client that connects.
async function serve(scenario) {
  const server = new WebSocketServer({
    host: '127.0.0.1',
    port: 0,
    perMessageDeflate: compression(scenario.deflate, true),
    maxPayload: 1 << 24,
  });
  await once(server, 'listening');
  let agreed = '';
  server.once('headers', (lines) => {
    const name = 'Sec-WebSocket-Extensions: ';
    agreed = lines.find((field) => field.startsWith(name))?.slice(name.length) ?? '';
  });
  const report = new Promise((resolve) => server.once('connection', (socket) => resolve(play(socket, scenario))));
  console.log(JSON.stringify({ port: server.address().port }));
  const result = await report;
  server.close();
  return { ...result, agreed };
}

for await (const line of createInterface({ input: process.stdin })) {
  const scenario = JSON.parse(line);
  const report = scenario.url
    ? play(new WebSocket(scenario.url, { perMessageDeflate: compression(scenario.deflate, false) }), scenario)
    : serve(scenario);
  console.log(JSON.stringify(await report));
}
