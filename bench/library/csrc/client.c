// The load: one thread that sends frames over many connections and checks every answer, byte by byte.
//
//   client PORT ack|echo SIZE     SIZE is that of the frames sent, length included
//
// It answers each line of standard input with a line of JSON, and ends with it:
//
//   connect N                                  opens N connections more
//   run MS COUNT INFLIGHT RATE US EVERY        sends for MS milliseconds, or COUNT frames a connection when COUNT > 0, and waits for
//                                              what is in flight; with RATE = 0 each connection has INFLIGHT frames in flight,
//                                              otherwise RATE frames a second are sent in all, on the connections in turn.
//                                              One frame in EVERY, chosen at random, asks its handler to sleep US microseconds.
//   close                                      closes them all
//
// With a rate each frame has its time, and its latency counts from then, whether or not it could be sent then. Otherwise it
// counts from the answer that made room for it. Frames are never kept: which bytes are sent next follows from the number of
// the frame and how much of it was sent.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#define BUFFER (256 << 10)
#define EVENTS 512
#define PATTERNS 251        // the bytes of a frame begin at its number modulo this
#define PATIENCE 30         // seconds without any answer after which something is broken
#define MAX_BATCH (64 << 10) // bytes that are sent at once, if not one frame is more
#define PACED_RING 2048     // frames a connection may be behind when paced

struct conn {
	int fd, blocked;              // blocked: waits for room to send
	uint32_t off;                 // bytes of the frame `next` that were sent
	uint32_t got;                 // bytes of the answer to `acked` that are here
	uint64_t acked, next, issued; // frames: answered ≤ sent ≤ may be sent
	unsigned char head[ACK_SIZE]; // of the answer
};

// A histogram with 128 buckets for each power of two: 0.8 % wide.
#define SUB_BITS 7
#define BUCKETS ((65 - SUB_BITS) << SUB_BITS)
struct histogram {
	uint64_t counts[BUCKETS], total, max;
};

static struct conn conns[MAX_FDS];
static int conn_count, epoll_fd, echoes;
static uint32_t frame_size, head_size;
static unsigned char pattern[MAX_FRAME + PATTERNS], in[BUFFER], *out;
static uint64_t *ring, ring_size; // when each frame in flight was due; the lowest bit says that it sleeps
static struct histogram all, others;

// The run.
static uint64_t ends, count_limit, rate, started, sent_total, answered, every, last_answer, random_state = 88172645463325252u;
static uint32_t sleep_us;

static void record(struct histogram *h, uint64_t ns) {
	int shift = 0;
	if (ns >> SUB_BITS) shift = 63 - __builtin_clzll(ns) - SUB_BITS;
	h->counts[((uint64_t)shift << SUB_BITS) + (ns >> shift)]++;
	h->total++;
	if (ns > h->max) h->max = ns;
}

static void print_histogram(const char *name, const struct histogram *h) {
	printf("\"%s\":{\"max\":%llu,\"counts\":[", name, (unsigned long long)h->max);
	const char *comma = "";
	for (uint64_t i = 0; i < BUCKETS; i++) {
		if (h->counts[i] == 0) continue;
		// The largest value of the bucket. Those below 2·128 have a bucket each.
		uint64_t shift = i >> SUB_BITS ? (i >> SUB_BITS) - 1 : 0;
		uint64_t top = ((i - (shift << SUB_BITS) + 1) << shift) - 1;
		printf("%s[%llu,%llu]", comma, (unsigned long long)top, (unsigned long long)h->counts[i]);
		comma = ",";
	}
	printf("]}");
}

static uint64_t *due(struct conn *c, uint64_t frame) { return &ring[(c - conns) * ring_size + (frame & (ring_size - 1))]; }

// id is what identifies a frame on the wire: connection and number.
static uint64_t id(struct conn *c, uint64_t frame) { return (uint64_t)(c - conns) << 40 | frame; }

static void interest(int op, struct conn *c) {
	struct epoll_event e = {.events = c->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
	if (epoll_ctl(epoll_fd, op, c->fd, &e) < 0) die("epoll_ctl");
}

// append puts bytes of a frame, from off to its end or as many as fit, at dst.
static size_t append(unsigned char *dst, size_t room, struct conn *c, uint64_t frame, uint32_t off) {
	unsigned char head[REQUEST_HEADER + 4];
	uint32_t n = head_size;
	uint64_t number = id(c, frame);
	put32(head, frame_size);
	put64(head + head_size - 8, number);
	if (!echoes) {
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
	size_t body = smaller(frame_size - off, room - done);
	if (off >= n) memcpy(dst + done, pattern + number % PATTERNS + off, body), done += body;
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

static uint64_t random64(void) {
	random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
	return random_state;
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
	if (!(since & 1)) record(&others, ns);
	answered++;
	if (rate == 0 && (count_limit ? c->issued < count_limit : t < ends)) issue(c, t);
}

// check looks at received bytes and calls done for every answer that is complete.
static void check(struct conn *c, const unsigned char *p, size_t n, uint64_t t) {
	uint32_t head = echoes ? ECHO_HEADER : ACK_SIZE, size = echoes ? frame_size : ACK_SIZE;
	while (n > 0) {
		if (c->acked == c->next) errno = EPROTO, die("an answer to nothing");
		uint64_t number = id(c, c->acked);
		size_t used;
		if (c->got < head) {
			used = smaller(n, head - c->got);
			memcpy(c->head + c->got, p, used);
			if (c->got + used == head) {
				int good = get32(c->head) == size && get64(c->head + (echoes ? 4 : 5)) == number;
				if (!echoes) good = good && c->head[4] == COMMAND_ACK && c->head[13] == 0;
				if (!good) errno = EPROTO, die("a wrong answer");
			}
		} else {
			used = smaller(n, size - c->got);
			if (memcmp(p, pattern + number % PATTERNS + c->got, used) != 0) errno = EPROTO, die("wrong bytes in an answer");
		}
		p += used, n -= used;
		c->got += used;
		if (c->got == size) {
			c->got = 0;
			done(c, t);
		}
	}
}

static void receive(struct conn *c) {
	ssize_t n = recv(c->fd, in, BUFFER, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN) return;
	if (n == 0) errno = ECONNRESET;
	if (n <= 0) die("recv");
	last_answer = now_ns();
	check(c, in, n, last_answer);
	if (!c->blocked) flush(c);
}

// wait_until handles what arrives, at latest until the time t (0: for as long as it takes).
static void wait_until(uint64_t t) {
	static struct epoll_event events[EVENTS];
	uint64_t now = now_ns(), left = PATIENCE * 1000000000ull;
	if (t) left = t > now ? t - now : 0;
	struct timespec timeout = {.tv_sec = left / 1000000000u, .tv_nsec = left % 1000000000u};
	int n = syscall(SYS_epoll_pwait2, epoll_fd, events, EVENTS, &timeout, NULL, 0);
	if (n < 0 && errno != EINTR) die("epoll_pwait2");
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

static void run(uint64_t ms, uint64_t in_flight) {
	ring_size = 1;
	while (ring_size < (rate ? PACED_RING : in_flight)) ring_size *= 2;
	ring = memory(conn_count * ring_size * sizeof *ring);
	memset(ring, 0, conn_count * ring_size * sizeof *ring);
	memset(&all, 0, sizeof all);
	memset(&others, 0, sizeof others);
	sent_total = answered = 0;
	for (int i = 0; i < conn_count; i++) {
		struct conn *c = &conns[i];
		c->acked = c->next = c->issued = 0;
	}
	started = last_answer = now_ns();
	ends = started + ms * 1000000;
	if (rate) pace();
	for (int i = 0; i < conn_count && !rate; i++) {
		for (uint64_t k = 0; k < in_flight && !(count_limit && k >= count_limit); k++) issue(&conns[i], now_ns());
		flush(&conns[i]);
	}
	while (answered < sent_total) wait_until(0);
	free(ring);
	printf("{\"messages\":%llu,\"ns\":%llu,", (unsigned long long)answered, (unsigned long long)(last_answer - started));
	print_histogram("all", &all);
	printf(",");
	print_histogram("others", &others);
	printf("}\n");
}

static void connect_more(int port, int n) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	for (; n > 0; n--) {
		struct conn *c = &conns[conn_count];
		memset(c, 0, sizeof *c);
		c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
		int on = 1;
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		interest(EPOLL_CTL_ADD, c);
		conn_count++;
	}
	printf("{}\n");
}

static void close_all(void) {
	while (conn_count > 0) close(conns[--conn_count].fd);
	printf("{}\n");
}

int main(int argc, char **argv) {
	if (argc != 4) errno = EINVAL, die("usage: client PORT ack|echo SIZE");
	echoes = strcmp(argv[2], "echo") == 0;
	frame_size = atoi(argv[3]);
	head_size = echoes ? ECHO_HEADER : REQUEST_HEADER;
	if (frame_size < REQUEST_HEADER + 4 || frame_size > MAX_FRAME) errno = EINVAL, die("size");
	out = memory(frame_size > MAX_BATCH ? frame_size : MAX_BATCH);
	for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = random64() >> 32;
	prctl(PR_SET_TIMERSLACK, 1);
	many_files();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0) die("epoll_create");
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		int n;
		unsigned long long ms, count, in_flight, per_second, us, one_in;
		if (sscanf(line, "connect %d", &n) == 1 && n > 0 && n <= MAX_FDS - conn_count) {
			connect_more(atoi(argv[1]), n);
		} else if (sscanf(line, "run %llu %llu %llu %llu %llu %llu", &ms, &count, &in_flight, &per_second, &us, &one_in) == 6 && conn_count) {
			count_limit = count, rate = per_second, sleep_us = us, every = one_in;
			run(ms, in_flight);
		} else if (strcmp(line, "close\n") == 0) {
			close_all();
		} else {
			errno = EINVAL, die("command");
		}
		fflush(stdout);
	}
	// What is still open is reset: thousands of connections that linger would cost the runs that follow.
	for (int i = 0; i < conn_count; i++) {
		struct linger now = {.l_onoff = 1};
		setsockopt(conns[i].fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	}
	return 0;
}
