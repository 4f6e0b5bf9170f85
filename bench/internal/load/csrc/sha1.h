// SHA-1 (RFC 3174), for the opening handshake of WebSocket.
#ifndef SHA1_H
#define SHA1_H

#include "common.h"

#define SHA1_SIZE 20

static inline uint32_t rotate(uint32_t v, int by) { return v << by | v >> (32 - by); }

static inline void sha1_block(uint32_t h[5], const unsigned char *p) {
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 16; i++) w[i] = get32(p + 4 * i);
	for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20) f = (b & c) | (~b & d), k = 0x5A827999;
		else if (i < 40) f = b ^ c ^ d, k = 0x6ED9EBA1;
		else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8F1BBCDC;
		else f = b ^ c ^ d, k = 0xCA62C1D6;
		uint32_t next = rotate(a, 5) + f + e + k + w[i];
		e = d, d = c, c = rotate(b, 30), b = a, a = next;
	}
	h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

static inline void sha1(unsigned char digest[SHA1_SIZE], const unsigned char *p, size_t n) {
	uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
	unsigned char last[128] = {0};
	size_t whole = n / 64 * 64, rest = n - whole, end = rest < 56 ? 64 : 128;
	for (size_t i = 0; i < whole; i += 64) sha1_block(h, p + i);
	memcpy(last, p + whole, rest);
	last[rest] = 0x80;
	put64(last + end - 8, (uint64_t)n * 8);
	for (size_t i = 0; i < end; i += 64) sha1_block(h, last + i);
	for (int i = 0; i < 5; i++) put32(digest + 4 * i, h[i]);
}

#endif
