// The limit that WebSocket servers are compared with.
//
//   websocket echo|broadcast     answers each message with itself, or sends it to every connection
//   websocket push 1|2           publishes to subscribers, with so many threads; see topics.h
//
// It does what the measurement needs of RFC 6455 and ends when a client does anything else: fragments are not put together.
#define _GNU_SOURCE
#include "loop.h"
#include "sha1.h"
#include "topics.h"

#define MAX_HEAD 4096
#define MASK_SIZE 4
#define FIN_PING 0x89
#define FIN_PONG 0x8A
#define KEY_FIELD "sec-websocket-key:"
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static unsigned char out[MAX_FRAME + IN_SIZE + MAX_HEAD + 1]; // a byte more for the end of a text
static size_t out_len;
static int broadcasts, pushes;

// header_size returns the length of a frame's header, mask included.
static size_t header_size(const unsigned char *p) {
	int code = p[1] & 0x7F;
	return 2 + (code == 126 ? 2 : code == 127 ? 8 : 0) + MASK_SIZE;
}

// head_need is frame_need before the upgrade, when the frame is the request.
static size_t head_need(const unsigned char *p, size_t n) {
	const unsigned char *end = memmem(p, smaller(n, MAX_HEAD), "\r\n\r\n", 4);
	if (end) return end + 4 - p;
	if (n >= MAX_HEAD) errno = EPROTO, die("request");
	return n + 1;
}

static size_t frame_need(struct conn *c, const unsigned char *p, size_t n) {
	if (!c->upgraded) return head_need(p, n);
	if (n < 2) return 2;
	if (!(p[0] & 0x80) || !(p[1] & 0x80)) errno = EPROTO, die("frame");
	size_t header = header_size(p);
	if (n < header) return header;
	uint64_t length = p[1] & 0x7F;
	if (length == 126) length = p[2] << 8 | p[3];
	else if (length == 127) length = get64(p + 2);
	if (length > MAX_FRAME - header) errno = EPROTO, die("length");
	return header + length;
}

static void base64(char *dst, const unsigned char *p, size_t n) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = p[i] << 16 | (i + 1 < n ? p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
		*dst++ = digits[v >> 18];
		*dst++ = digits[v >> 12 & 63];
		*dst++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*dst++ = i + 2 < n ? digits[v & 63] : '=';
	}
	*dst = 0;
}

// upgrade appends the response to a request (RFC 6455 §4.2.2).
static void upgrade(unsigned char *request, size_t size) {
	request[size - 1] = 0; // the last line feed: the head ends here
	char *field = strcasestr((char *)request, "\r\n" KEY_FIELD);
	if (field == NULL) errno = EPROTO, die("key");
	field += 2 + strlen(KEY_FIELD);
	field += strspn(field, " \t");
	size_t length = strcspn(field, " \t\r");
	unsigned char text[MAX_HEAD + sizeof GUID], digest[SHA1_SIZE];
	memcpy(text, field, length);
	memcpy(text + length, GUID, sizeof GUID - 1);
	sha1(digest, text, length + sizeof GUID - 1);
	char accept[32];
	base64(accept, digest, sizeof digest);
	out_len += sprintf((char *)out + out_len, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Accept: %s\r\n\r\n", accept);
}

// unmask copies n bytes and unmasks them, eight at a time.
static void unmask(unsigned char *restrict dst, const unsigned char *restrict src, size_t n, const unsigned char *mask) {
	uint32_t key;
	memcpy(&key, mask, sizeof key);
	uint64_t wide = (uint64_t)key << 32 | key, v;
	size_t i = 0;
	for (; i + sizeof v <= n; i += sizeof v) {
		memcpy(&v, src + i, sizeof v);
		v ^= wide;
		memcpy(dst + i, &v, sizeof v);
	}
	for (; i < n; i++) dst[i] = src[i] ^ mask[i & 3];
}

// to_all sends one frame to every connection. One that does not keep up misses it.
static void to_all(unsigned char *frame, size_t size) {
	struct iovec v = {.iov_base = frame, .iov_len = size};
	for (int fd = 0; fd <= highest_fd; fd++) {
		if (conns[fd].upgraded && !conns[fd].rest) answer(fd, &v, 1);
	}
}

// take appends the answer to a frame: the same header without a mask, and what was behind the mask. A ping becomes a pong, and a close
// frame is answered with itself; the connection ends when the client closes it.
static void take(struct conn *c, unsigned char *frame, size_t size) {
	if (!c->upgraded) {
		upgrade(frame, size);
		c->upgraded = 1;
		return;
	}
	size_t header = header_size(frame);
	unsigned char *dst = out + out_len;
	memcpy(dst, frame, header - MASK_SIZE);
	if (dst[0] == FIN_PING) dst[0] = FIN_PONG;
	dst[1] &= 0x7F;
	unmask(dst + header - MASK_SIZE, frame + header, size - header, frame + header - MASK_SIZE);
	if (pushes) out_len += handle(c - conns, dst + header - MASK_SIZE, size - header, dst);
	else if (broadcasts && !(dst[0] & 0x08)) to_all(dst, size - MASK_SIZE);
	else out_len += size - MASK_SIZE;
}

static void finish(int fd, unsigned char *first, size_t first_size, size_t begin, size_t end) {
	(void)first, (void)first_size, (void)begin, (void)end;
	send_batch();
	if (out_len == 0) return;
	struct iovec v = {.iov_base = out, .iov_len = out_len};
	out_len = 0;
	answer(fd, &v, 1);
}

static void dropped(int fd) {
	if (pushes) unsubscribe(fd);
}

int main(int argc, char **argv) {
	if (argc < 2) errno = EINVAL, die("usage: websocket echo|broadcast|push 1|2");
	broadcasts = strcmp(argv[1], "broadcast") == 0;
	pushes = strcmp(argv[1], "push") == 0;
	if (pushes && argc > 2) start_threads(atoi(argv[2]));
	serve();
}
