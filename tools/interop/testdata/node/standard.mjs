// The part of a peer with the WebSocket interface of browsers (https://websockets.spec.whatwg.org): Chromium itself, and undici. It can neither
// send fragments or pings, nor choose how messages are compressed.

import { digest, payload } from './payload.mjs';

// play runs a scenario and reports the result.
export function play(WebSocket, scenario) {
  return new Promise((resolve) => {
    const socket = new WebSocket(scenario.url);
    socket.binaryType = 'arraybuffer';
    const received = [];
    const errors = [];
    // The peer that starts the closing handshake does so when it has received everything that it waits for.
    const closeWhenDone = () => {
      if (!scenario.close || received.length !== scenario.receive) return;
      const { code, reason } = scenario.close;
      if (code === 0) socket.close();
      else socket.close(code, reason);
    };
    socket.onopen = () => {
      for (const message of scenario.send) {
        const data = payload(message);
        socket.send(message.kind === 'binary' ? data : new TextDecoder().decode(data));
      }
      closeWhenDone();
    };
    socket.onmessage = ({ data }) => {
      received.push(digest(typeof data === 'string', data));
      closeWhenDone();
    };
    socket.onerror = () => errors.push('error event');
    socket.onclose = async ({ code, reason, wasClean }) => {
      resolve({
        agreed: socket.extensions,
        received: await Promise.all(received),
        code,
        reason,
        clean: wasClean,
        errors,
      });
    };
  });
}
