// The payloads, the same in every language: see scenario_test.go.

const line = new TextEncoder().encode('Grüße, 世界 🎉 ');

// payload generates the data of a message: repetitive text, digits that do not repeat, or bytes.
export function payload({ kind, size }) {
  const data = new Uint8Array(size);
  if (kind === 'text') {
    const whole = size - (size % line.length);
    for (let i = 0; i < size; i++) data[i] = i < whole ? line[i % line.length] : 0x2e;
    return data;
  }
  let x = 1;
  for (let i = 0; i < size; i++) {
    x = (x * 75 + 74) % 65537;
    data[i] = kind === 'digits' ? '0123456789abcdef'.charCodeAt((x >> 4) & 15) : x & 255;
  }
  return data;
}

// digest describes a received message.
export async function digest(text, data) {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(data);
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-1', bytes));
  return {
    kind: text ? 'text' : 'binary',
    size: bytes.length,
    sha1: Array.from(sum, (b) => b.toString(16).padStart(2, '0')).join(''),
  };
}
