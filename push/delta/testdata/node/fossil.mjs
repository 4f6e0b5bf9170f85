// Reads questions as lines of JSON, bytes in base 64: {from, to, delta}. Answers each with a line: what delta makes of from, and the
// delta that fossil-delta makes itself.
import { createInterface } from 'node:readline';
import { applyDelta, createDelta } from 'fossil-delta';

const bytes = (text) => new Uint8Array(Buffer.from(text ?? '', 'base64'));
const text = (bytes) => Buffer.from(bytes).toString('base64');

for await (const line of createInterface({ input: process.stdin })) {
  const { from, to, delta } = JSON.parse(line);
  const answer = {};
  try {
    answer.created = text(createDelta(bytes(from), bytes(to)));
    answer.applied = text(applyDelta(bytes(from), bytes(delta)));
  } catch (error) {
    answer.error = String(error);
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
