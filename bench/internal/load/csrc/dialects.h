// What push servers speak, seen from a client: how it greets, publishes, and understands what arrives, line by line.
//
// A program includes this behind its struct conn, and defines flush, confirmed and delivered.
#ifndef DIALECTS_H
#define DIALECTS_H

#include "dial.h"

#define FIN 0x80
#define TEXT 0x1
#define BINARY 0x2
#define CLOSE 0x8

// A dialect is what a server speaks.
struct dialect {
	const char *name, *path;
	int opcode;           // of what is sent
	int whole;            // the end of a message is the end of a line
	int answers;          // to a greeting, besides those to subscriptions
	int each;             // subscriptions are answered one by one; otherwise all at once, if greetings are not answered
	void (*greet)(struct conn *c);
	void (*publish)(struct conn *c, uint32_t channel, const unsigned char *data);
	void (*line)(struct conn *c, const unsigned char *p, size_t n);
};

static const struct dialect *dialect; // which it is
static uint32_t size, each;           // of the data of a publication; subscriptions of a connection
static unsigned char mask[MASK_SIZE];

// hex returns the number of n digits at p; UINT32_MAX if they are not all digits.
static uint32_t hex(const unsigned char *p, int n) {
	uint32_t v = 0;
	for (int i = 0; i < n; i++) {
		unsigned digit = p[i] - '0';
		if (digit > 9) digit = p[i] - 'a' + 10u;
		if (digit > 15) return UINT32_MAX;
		v = v << 4 | digit;
	}
	return v;
}

// flush sends what waits.
static void flush(struct conn *c);

// confirmed is called with each answer to what a connection greeted with.
static void confirmed(struct conn *c);

// delivered is called with the data of each publication that arrives.
static void delivered(struct conn *c, const unsigned char *data, size_t n);

// What is being put together, to be sent as one message.
static unsigned char text[1 << 20];
static size_t text_len;

static void put(const void *p, size_t n) {
	if (n > sizeof text - text_len) errno = EMSGSIZE, die("message");
	memcpy(text + text_len, p, n);
	text_len += n;
}

#define say(...) text_len += snprintf((char *)text + text_len, sizeof text - text_len, __VA_ARGS__)

// send_text makes a frame of what was put together (RFC 6455 §5.2), masked, and leaves it to flush.
static void send_text(struct conn *c) {
	c->rest = realloc(c->rest, c->len + text_len + 14);
	if (c->rest == NULL) die("realloc");
	unsigned char *p = c->rest + c->len;
	size_t n = 2;
	p[0] = FIN | dialect->opcode;
	if (text_len < 126) p[1] = 0x80 | text_len;
	else if (text_len < 1 << 16) p[1] = 0x80 | 126, p[2] = text_len >> 8, p[3] = text_len, n = 4;
	else p[1] = 0x80 | 127, put64(p + 2, text_len), n = 10;
	memcpy(p + n, mask, MASK_SIZE);
	n += MASK_SIZE;
	for (size_t i = 0; i < text_len; i++) p[n + i] = text[i] ^ mask[i % MASK_SIZE];
	c->len += n + text_len;
	text_len = 0;
}

// plain

static void plain_greet(struct conn *c) {
	if (c->subs == NULL) return;
	say("sub");
	for (uint32_t i = 0; i < each; i++) say(" %u", c->subs[i].channel);
	send_text(c);
}

static void plain_publish(struct conn *c, uint32_t channel, const unsigned char *data) {
	say("pub %u ", channel);
	put(data, size);
	send_text(c);
}

static void plain_line(struct conn *c, const unsigned char *p, size_t n) {
	if (n == 2 && memcmp(p, "ok", 2) == 0) confirmed(c);
	else delivered(c, p, n);
}

// centrifuge

static void centrifuge_greet(struct conn *c) {
	say("{\"id\":1,\"connect\":{}}");
	for (uint32_t i = 0; c->subs && i < each; i++) {
		say("\n{\"id\":%u,\"subscribe\":{\"channel\":\"ticks:%u\"", i + 2, c->subs[i].channel);
		if (c->returns) {
			struct position *at = &c->positions[i];
			say(",\"recover\":true,\"offset\":%llu,\"epoch\":\"%s\"", (unsigned long long)at->offset, at->epoch);
		}
		say("}}");
	}
	send_text(c);
}

// offset_in returns the last offset that a text names, or 0.
static uint64_t offset_in(const unsigned char *p, size_t n) {
	uint64_t found = 0;
	for (const unsigned char *q, *end = p + n; (q = memmem(p, end - p, "\"offset\":", 9)) != NULL;) {
		for (p = q + 9, found = 0; p < end && *p >= '0' && *p <= '9'; p++) found = found * 10 + *p - '0';
	}
	return found;
}

// centrifuge_positioned takes the answer to a subscription of a connection that may be cut: where it is, and what it missed.
static void centrifuge_positioned(struct conn *c, const unsigned char *p, size_t n) {
	unsigned long number = strtoul((const char *)p + 6, NULL, 10);
	if (number < 2 || number >= each + 2) return;
	struct position *at = &c->positions[number - 2];
	const unsigned char *epoch = memmem(p, n, "\"epoch\":\"", 9), *close = epoch ? memchr(epoch + 9, '"', p + n - epoch - 9) : NULL;
	if (close == NULL || (size_t)(close - epoch - 9) >= sizeof at->epoch) errno = EPROTO, die("a subscription without an epoch");
	memcpy(at->epoch, epoch + 9, close - epoch - 9);
	at->epoch[close - epoch - 9] = 0;
	at->offset = offset_in(p, n);
	if (!c->returns) return;
	if (memmem(p, n, "\"recovered\":true", 16) == NULL) errno = EPROTO, die("the server does not know what a client missed");
	for (const unsigned char *q, *end = p + n; (q = memmem(p, end - p, "{\"n\":\"", 6)) != NULL; p = q + size) delivered(c, q, smaller(size, end - q));
}

// centrifuge_moved takes note of the offset behind the data of a publication.
static void centrifuge_moved(struct conn *c, const unsigned char *data, const unsigned char *end) {
	uint32_t channel = hex(data + 15, 4);
	for (uint32_t i = 0; i < each; i++) {
		if (c->subs[i].channel == channel) c->positions[i].offset = offset_in(data + size, end - data - size);
	}
}

static void centrifuge_publish(struct conn *c, uint32_t channel, const unsigned char *data) {
	static uint32_t serial;
	say("{\"id\":%u,\"publish\":{\"channel\":\"ticks:%u\",\"data\":", ++serial + 1, channel);
	put(data, size);
	put("}}", 2);
	send_text(c);
}

// centrifuge_line takes a reply, a push or a ping, which is answered in kind.
static void centrifuge_line(struct conn *c, const unsigned char *p, size_t n) {
	static size_t likely; // where the data began the last time
	if (n == 2 && memcmp(p, "{}", 2) == 0) {
		put("{}", 2);
		send_text(c);
		flush(c);
		return;
	}
	if (n > 6 && memcmp(p, "{\"id\":", 6) == 0) {
		if (memmem(p, smaller(n, 24), "\"error\"", 7)) errno = EPROTO, die("the server refused a command");
		if (memmem(p, smaller(n, 24), "\"publish\"", 9)) return;
		if (c->positions) centrifuge_positioned(c, p, n);
		confirmed(c);
		return;
	}
	if (n < 6 + likely || memcmp(p + likely, "{\"n\":\"", 6) != 0) {
		const unsigned char *found = memmem(p, n, "{\"n\":\"", 6);
		if (found == NULL) errno = EPROTO, die("something else than a publication");
		likely = found - p;
	}
	delivered(c, p + likely, smaller(size, n - likely));
	if (c->positions) centrifuge_moved(c, p + likely, p + n);
}

// nats

static void nats_greet(struct conn *c) {
	say("CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\",\"protocol\":1}\r\n");
	for (uint32_t i = 0; c->subs && i < each; i++) say("SUB ticks.%u %u\r\n", c->subs[i].channel, i + 1);
	say("PING\r\n");
	send_text(c);
}

static void nats_publish(struct conn *c, uint32_t channel, const unsigned char *data) {
	say("PUB ticks.%u %u\r\n", channel, size);
	put(data, size);
	put("\r\n", 2);
	send_text(c);
}

// nats_line takes a line, or the data of a publication, which holds no line end.
static void nats_line(struct conn *c, const unsigned char *p, size_t n) {
	if (p[n - 1] == '\r') n--;
	if (n > 0 && p[0] == '{') {
		delivered(c, p, n);
	} else if (n == 4 && memcmp(p, "PING", 4) == 0) {
		put("PONG\r\n", 6);
		send_text(c);
		flush(c);
	} else if (n == 4 && memcmp(p, "PONG", 4) == 0) {
		confirmed(c);
	} else if (n < 4 || (memcmp(p, "MSG ", 4) != 0 && memcmp(p, "INFO", 4) != 0)) {
		errno = EPROTO, die("the server refused a command");
	}
}

static const struct dialect dialects[] = {
	{.name = "plain", .path = "/", .opcode = TEXT, .whole = 1, .greet = plain_greet, .publish = plain_publish, .line = plain_line},
	{.name = "centrifuge", .path = "/connection/websocket", .opcode = TEXT, .whole = 1, .answers = 1, .each = 1,
		.greet = centrifuge_greet, .publish = centrifuge_publish, .line = centrifuge_line},
	{.name = "nats", .path = "/", .opcode = BINARY, .answers = 1, .greet = nats_greet, .publish = nats_publish, .line = nats_line},
};

#endif
