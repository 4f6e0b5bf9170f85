// The load: one thread that sends frames over many connections and checks every answer, byte by byte.
//
//   client PORT ack|echo SIZE         SIZE is that of the frames sent, length included
//   client PORT websocket SIZE        of the payload of the messages sent, which are binary, each one frame
//
// It answers each line of standard input with a line of JSON, and ends with it:
//
//   connect N                                  opens N connections more
//   run MS COUNT INFLIGHT RATE US EVERY        sends for MS milliseconds, or COUNT frames a connection when COUNT > 0, and waits for
//                                              what is in flight; with RATE = 0 each connection has INFLIGHT frames in flight,
//                                              otherwise RATE frames a second are sent in all, on the connections in turn.
//                                              One frame in EVERY, chosen at random, asks its handler to sleep US microseconds.
//   broadcast MS                               sends on the first connection, and again as soon as all connections were sent that, for MS
//                                              milliseconds; "others" are the times until the last one had it
//   open MS N                                  opens connections, N at a time, and resets each as soon as it is upgraded
//   close                                      closes them all
//
// With a rate each frame has its time, and its latency counts from then, whether or not it could be sent then. Otherwise it
// counts from the answer that made room for it. Frames are never kept: which bytes are sent next follows from the number of
// the frame and how much of it was sent. Those of WebSocket are masked already where they are copied from.
#define _GNU_SOURCE
#include <sys/prctl.h>

#include "dial.h"
#include "histogram.h"

#define BUFFER (256 << 10)
#define EVENTS 512
#define PATTERNS 251        // the bytes of a frame begin at its number modulo this
#define PATIENCE 30         // seconds without any answer after which something is broken
#define MAX_BATCH (64 << 10) // bytes that are sent at once, if not one frame is more
#define PACED_RING 2048     // frames a connection may be behind when paced
#define MAX_HEADER 22       // bytes of a frame before its pattern

struct conn {
	int fd, blocked;              // blocked: waits for room to send
	char *response;               // to the upgrade, as far as it is here; NULL when there was one
	uint64_t began;               // when it was opened
	uint32_t off;                 // bytes of the frame `next` that were sent
	uint32_t got;                 // bytes of the answer to `acked` that are here
	uint64_t acked, next, issued; // frames: answered ≤ sent ≤ may be sent
	unsigned char head[MAX_HEADER]; // of the answer
};

static struct conn conns[MAX_FDS];
static int conn_count, epoll_fd, port;
static enum { ACKS, ECHOES, WEBSOCKET } proto;
static uint32_t frame_size, head_size;   // of what is sent
static uint32_t answer_size, answer_head; // of what comes back
static unsigned char mask[MASK_SIZE], in[BUFFER], *out;
// What frames are filled with, and the same as it is sent, by the number of the frame modulo MASK_SIZE.
static unsigned char pattern[MAX_FRAME + PATTERNS], masked[MASK_SIZE][MAX_FRAME + PATTERNS];
static uint64_t *ring, ring_size; // when each frame in flight was due; the lowest bit says that it sleeps
static struct histogram all, others;

// The run.
static int broadcasts, reopens, opening;
static uint64_t ends, count_limit, rate, started, sent_total, answered, every, last_answer;
static uint32_t sleep_us;

// source is the number of the connection on which a frame was sent that is answered on c.
static uint64_t source(struct conn *c) { return broadcasts ? 0 : c - conns; }

static uint64_t *due(struct conn *c, uint64_t frame) { return &ring[source(c) * ring_size + (frame & (ring_size - 1))]; }

// id is what identifies a frame on the wire: connection and number.
static uint64_t id(struct conn *c, uint64_t frame) { return source(c) << 40 | frame; }

// websocket_header writes the header of a message (RFC 6455 §5.2) and returns its length.
static uint32_t websocket_header(unsigned char *p, uint32_t payload, int masks) {
	p[0] = 0x82;
	p[1] = masks ? 0x80 : 0;
	uint32_t n = 2;
	if (payload < 126) p[1] |= payload;
	else if (payload < 1 << 16) p[1] |= 126, p[2] = payload >> 8, p[3] = payload, n = 4;
	else p[1] |= 127, put64(p + 2, payload), n = 10;
	if (masks) memcpy(p + n, mask, MASK_SIZE), n += MASK_SIZE;
	return n;
}

static void interest(int op, struct conn *c) {
	struct epoll_event e = {.events = c->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
	if (epoll_ctl(epoll_fd, op, c->fd, &e) < 0) die("epoll_ctl");
}

// append puts bytes of a frame, from off to its end or as many as fit, at dst.
static size_t append(unsigned char *dst, size_t room, struct conn *c, uint64_t frame, uint32_t off) {
	unsigned char head[MAX_HEADER];
	uint32_t n = head_size;
	uint64_t number = id(c, frame);
	const unsigned char *body = proto == WEBSOCKET ? masked[number % PATTERNS % MASK_SIZE] : pattern;
	put64(head + head_size - 8, number);
	if (proto == WEBSOCKET) {
		websocket_header(head, answer_size - answer_head + 8, 1);
		for (int i = 0; i < 8; i++) head[head_size - 8 + i] ^= mask[i % MASK_SIZE];
	} else {
		put32(head, frame_size);
	}
	if (proto == ACKS) {
		head[LENGTH_SIZE] = COMMAND_REQUEST;
		if (*due(c, frame) & 1) {
			head[LENGTH_SIZE] = COMMAND_SLEEP;
			put32(head + n, sleep_us);
			n += 4;
		}
	}
	size_t done = 0;
	if (off < n) {
		done = smaller(n - off, room);
		memcpy(dst, head + off, done);
		off += done;
	}
	size_t rest = smaller(frame_size - off, room - done);
	if (off >= n) memcpy(dst + done, body + number % PATTERNS + off - n, rest), done += rest;
	return done;
}

// flush sends what may be sent and the socket takes.
static void flush(struct conn *c) {
	while (c->next < c->issued) {
		size_t n = 0, limit = frame_size > MAX_BATCH ? frame_size : MAX_BATCH;
		uint64_t frame = c->next;
		uint32_t off = c->off;
		for (; frame < c->issued && limit - n >= frame_size - off; frame++, off = 0) n += append(out + n, limit - n, c, frame, off);
		ssize_t sent = send(c->fd, out, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0) {
			if (errno != EAGAIN) die("send");
			sent = 0;
		}
		uint64_t bytes = c->off + sent;
		c->next += bytes / frame_size;
		c->off = bytes % frame_size;
		int blocked = (size_t)sent < n;
		if (blocked != c->blocked) {
			c->blocked = blocked;
			interest(EPOLL_CTL_MOD, c);
		}
		if (blocked) return;
	}
}

// issue allows one frame more, due at time t.
static void issue(struct conn *c, uint64_t t) {
	if (c->issued - c->acked >= ring_size) errno = ETIME, die("the server is too far behind");
	int sleeps = every > 0 && random64() % every == 0;
	*due(c, c->issued++) = (t & ~1ull) | sleeps;
	sent_total++;
}

// done is called with the answer to the oldest frame of a connection.
static void done(struct conn *c, uint64_t t) {
	uint64_t since = *due(c, c->acked++);
	uint64_t ns = t > (since & ~1ull) ? t - (since & ~1ull) : 0;
	record(&all, ns);
	if (!broadcasts && !(since & 1)) record(&others, ns);
	answered++;
	if (rate == 0 && !broadcasts && (count_limit ? c->issued < count_limit : t < ends)) issue(c, t);
}

// good_head reports whether an answer begins as it has to.
static int good_head(struct conn *c, uint64_t number) {
	unsigned char want[MAX_HEADER] = {0};
	if (proto == WEBSOCKET) {
		websocket_header(want, answer_size - answer_head + 8, 0);
		put64(want + answer_head - 8, number);
	} else {
		put32(want, answer_size);
		put64(want + (proto == ECHOES ? 4 : 5), number);
		if (proto == ACKS) want[4] = COMMAND_ACK;
	}
	return memcmp(c->head, want, answer_head) == 0;
}

// check looks at received bytes and calls done for every answer that is complete.
static void check(struct conn *c, const unsigned char *p, size_t n, uint64_t t) {
	uint32_t head = answer_head, size = answer_size;
	while (n > 0) {
		if (c->acked == c->next) errno = EPROTO, die("an answer to nothing");
		uint64_t number = id(c, c->acked);
		size_t used;
		if (c->got < head) {
			used = smaller(n, head - c->got);
			memcpy(c->head + c->got, p, used);
			if (c->got + used == head && !good_head(c, number)) errno = EPROTO, die("a wrong answer");
		} else {
			used = smaller(n, size - c->got);
			if (memcmp(p, pattern + number % PATTERNS + c->got - head, used) != 0) errno = EPROTO, die("wrong bytes in an answer");
		}
		p += used, n -= used;
		c->got += used;
		if (c->got == size) {
			c->got = 0;
			done(c, t);
		}
	}
}

// open_one connects, and asks for the upgrade if there has to be one.
static void open_one(struct conn *c) {
	memset(c, 0, sizeof *c);
	c->began = now_ns();
	c->fd = dial(port, 0);
	interest(EPOLL_CTL_ADD, c);
	if (proto != WEBSOCKET) return;
	request_upgrade(c->fd, port, "/");
	c->response = memory(MAX_RESPONSE);
	opening++;
}

// upgraded looks at what arrived of the response to an upgrade.
static void upgraded(struct conn *c, size_t n) {
	const char *end = add_response(c->response, &c->got, in, n);
	if (end == NULL) return;
	if (*end != 0) errno = EPROTO, die("a wrong response");
	free(c->response);
	c->response = NULL;
	c->got = 0;
	opening--;
	record(&all, last_answer - c->began);
	answered++;
	if (!reopens) return;
	reset(c->fd);
	if (last_answer < ends) open_one(c);
}

static void receive(struct conn *c) {
	ssize_t n = recv(c->fd, in, BUFFER, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN) return;
	if (n == 0) errno = ECONNRESET;
	if (n <= 0) die("recv");
	last_answer = now_ns();
	if (c->response) {
		upgraded(c, n);
		return;
	}
	check(c, in, n, last_answer);
	if (!c->blocked) flush(c);
}

// wait_until handles what arrives, at latest until the time t (0: for as long as it takes).
static void wait_until(uint64_t t) {
	static struct epoll_event events[EVENTS];
	uint64_t now = now_ns(), left = PATIENCE * 1000000000ull;
	if (t) left = t > now ? t - now : 0;
	int n = wait_ns(epoll_fd, events, EVENTS, left);
	if (n == 0 && now_ns() - last_answer > PATIENCE * 1000000000ull) errno = ETIMEDOUT, die("no answers");
	for (int i = 0; i < n; i++) {
		struct conn *c = events[i].data.ptr;
		if (events[i].events & EPOLLOUT) {
			c->blocked = 0;
			interest(EPOLL_CTL_MOD, c);
			flush(c);
		}
		if (events[i].events & ~EPOLLOUT) receive(c);
	}
}

// pace issues frames when they are due.
static void pace(void) {
	for (uint64_t k = 0;;) {
		uint64_t t, now = now_ns();
		while ((t = started + k * 1000000000ull / rate) <= now && t < ends) {
			struct conn *c = &conns[k++ % conn_count];
			issue(c, t);
			if (!c->blocked) flush(c);
		}
		if (t >= ends) return;
		wait_until(t);
	}
}

// begin is the start of something that takes ms milliseconds.
static void begin(uint64_t ms) {
	memset(&all, 0, sizeof all);
	memset(&others, 0, sizeof others);
	sent_total = answered = 0;
	started = last_answer = now_ns();
	ends = started + ms * 1000000;
}

static void print_results(void) {
	printf("{\"messages\":%llu,\"ns\":%llu,", (unsigned long long)answered, (unsigned long long)(last_answer - started));
	print_histogram("all", &all);
	printf(",");
	print_histogram("others", &others);
	printf("}\n");
}

// forget makes all connections those of which nothing was sent.
static void forget(void) {
	for (int i = 0; i < conn_count; i++) {
		struct conn *c = &conns[i];
		c->acked = c->next = c->issued = 0;
	}
}

static void run(uint64_t ms, uint64_t in_flight) {
	ring_size = 1;
	while (ring_size < (rate ? PACED_RING : in_flight)) ring_size *= 2;
	ring = memory(conn_count * ring_size * sizeof *ring);
	memset(ring, 0, conn_count * ring_size * sizeof *ring);
	forget();
	begin(ms);
	if (rate) pace();
	for (int i = 0; i < conn_count && !rate; i++) {
		for (uint64_t k = 0; k < in_flight && !(count_limit && k >= count_limit); k++) issue(&conns[i], now_ns());
		flush(&conns[i]);
	}
	while (answered < sent_total) wait_until(0);
	free(ring);
	print_results();
}

// broadcast sends one message after the other on the first connection, each of which comes back on all of them.
static void broadcast(uint64_t ms) {
	uint64_t since;
	ring_size = 1;
	ring = &since;
	forget();
	broadcasts = 1;
	count_limit = rate = every = 0;
	begin(ms);
	while (last_answer < ends) {
		for (int i = conn_count - 1; i >= 0; i--) {
			struct conn *c = &conns[i];
			issue(c, now_ns());
			if (i > 0) c->next = c->issued; // somebody else sends it
		}
		flush(&conns[0]);
		while (answered < sent_total) wait_until(0);
		record(&others, last_answer - since);
	}
	broadcasts = 0;
	print_results();
}

static void connect_more(int n) {
	begin(0);
	for (; n > 0; n--) {
		open_one(&conns[conn_count++]);
		while (opening >= OPENING) wait_until(0);
	}
	while (opening > 0) wait_until(0);
	printf("{}\n");
}

// reopen opens connections, n at a time.
static void reopen(uint64_t ms, int n) {
	begin(ms);
	reopens = 1;
	for (int i = 0; i < n; i++) open_one(&conns[i]);
	while (opening > 0) wait_until(0);
	reopens = 0;
	print_results();
}

static void close_all(void) {
	while (conn_count > 0) close(conns[--conn_count].fd);
	printf("{}\n");
}

// measures sets the sizes of what is sent and answered. A size is a message's in WebSocket, otherwise a frame's.
static void measures(const char *name, int size) {
	unsigned char head[MAX_HEADER];
	if (size < REQUEST_HEADER + 4 || size > MAX_FRAME - MAX_HEADER) errno = EINVAL, die("size");
	frame_size = answer_size = size;
	if (strcmp(name, "websocket") == 0) {
		proto = WEBSOCKET;
		head_size = websocket_header(head, size, 1) + 8;
		answer_head = websocket_header(head, size, 0) + 8;
		frame_size = size - 8 + head_size;
		answer_size = size - 8 + answer_head;
	} else if (strcmp(name, "echo") == 0) {
		proto = ECHOES;
		head_size = answer_head = ECHO_HEADER;
	} else {
		proto = ACKS;
		head_size = REQUEST_HEADER;
		answer_head = answer_size = ACK_SIZE;
	}
}

int main(int argc, char **argv) {
	if (argc != 4) errno = EINVAL, die("usage: client PORT ack|echo|websocket SIZE");
	port = atoi(argv[1]);
	measures(argv[2], atoi(argv[3]));
	out = memory(frame_size > MAX_BATCH ? frame_size : MAX_BATCH);
	for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = random64() >> 32;
	put32(mask, random64() >> 32 | 0x01010101);
	for (size_t k = 0; k < MASK_SIZE; k++) {
		for (size_t i = 0; i < sizeof pattern; i++) masked[k][i] = pattern[i] ^ mask[(i - k) % MASK_SIZE];
	}
	prctl(PR_SET_TIMERSLACK, 1);
	many_files();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0) die("epoll_create");
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		int n;
		unsigned long long ms, count, in_flight, per_second, us, one_in;
		if (sscanf(line, "connect %d", &n) == 1 && n > 0 && n <= MAX_FDS - conn_count) {
			connect_more(n);
		} else if (sscanf(line, "run %llu %llu %llu %llu %llu %llu", &ms, &count, &in_flight, &per_second, &us, &one_in) == 6 && conn_count) {
			count_limit = count, rate = per_second, sleep_us = us, every = one_in;
			run(ms, in_flight);
		} else if (sscanf(line, "broadcast %llu", &ms) == 1 && conn_count) {
			broadcast(ms);
		} else if (sscanf(line, "open %llu %d", &ms, &n) == 2 && n > 0 && n <= MAX_FDS && conn_count == 0 && proto == WEBSOCKET) {
			reopen(ms, n);
		} else if (strcmp(line, "close\n") == 0) {
			close_all();
		} else {
			errno = EINVAL, die("command");
		}
		fflush(stdout);
	}
	for (int i = 0; i < conn_count; i++) reset(conns[i].fd);
	return 0;
}
