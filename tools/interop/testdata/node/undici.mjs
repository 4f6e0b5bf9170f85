// The peer undici. It reads scenarios, one a line, and answers each with a line that reports the result.

import { createInterface } from 'node:readline';
import { WebSocket } from 'undici';
import { play } from './standard.mjs';

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await play(WebSocket, JSON.parse(line))));
}
