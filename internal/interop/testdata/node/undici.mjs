// The peer undici: reads scenarios, a line each, and answers each with a line that says what happened.

import { createInterface } from 'node:readline';
import { WebSocket } from 'undici';
import { play } from './standard.mjs';

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await play(WebSocket, JSON.parse(line))));
}
