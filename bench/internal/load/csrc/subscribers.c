// The clients of a push server: one thread that subscribes thousands of connections, publishes on one more, and checks what arrives.
//
//   subscribers PORT plain|centrifuge|nats SIZE EACH CHANNELS
//
// SIZE is that of the data of a publication in bytes; each connection subscribes to EACH of CHANNELS channels, chosen at random. What is
// spoken over WebSocket:
//
//   plain        text messages: "sub C C …" is answered with "ok"; "pub C DATA" goes, as DATA, to all that are subscribed to C
//   centrifuge   the Centrifuge client protocol v2 in JSON, at /connection/websocket; channel C is called ticks:C
//   nats         the NATS client protocol; channel C is called ticks.C
//
// It answers each line of standard input with a line of JSON, and ends with it:
//
//   connect N                              opens N connections more and waits until the server has confirmed all they subscribe to
//   publish MS RATE WINDOW PATIENCE        publishes for MS milliseconds, RATE times a second, or with RATE = 0 as soon as fewer than WINDOW
//                                          are under way, and waits for what is missing until nothing came for PATIENCE milliseconds
//   storm MS RATE PATIENCE                 publishes like that, and in the middle resets all connections that subscribe and opens them
//                                          again, which has to go on where it was; says when all were back, and when they had all. It
//                                          is for centrifuge, on connections that were opened behind the command remember
//   share LEADS MS RATE PATIENCE START     is for several of these programs, each at a server of its own, that are all sent the same publications: RATE a second
//                                          for MS milliseconds, from the time START of CLOCK_MONOTONIC in nanoseconds. It publishes if
//                                          LEADS is 1, and otherwise another one does. All have one channel, and did the same before
//   narrow N                               gives one in N of the connections that subscribe, of those opened from now on, a receive buffer of
//                                          8 KiB
//   stall                                  lets these read no more; nothing is missing that they do not get
//   unstall                                lets them read again, whatever it is
//   close                                  closes them all
//
// With a rate each publication has its time, and latencies count from then, whether or not it could be sent then. Of several
// channels, the one numbered k from 0 is published to in proportion to 1/(k+1). Every byte of every publication is compared, and for each
// subscription the numbers of its channel are counted, so that what is lost, doubled or out of order is known.
#define _GNU_SOURCE
#include <sys/prctl.h>

#include "dial.h"
#include "subscription.h"

#define BUFFER (256 << 10)
#define EVENTS 32             // that are handled before it is looked whether a publication is due
#define MAX_LINE (64 << 10)   // of what a server says
#define PATIENCE 30           // seconds without any answer while connections are opened
#define NARROW (8 << 10)      // bytes that may wait at a connection that will stall

struct conn {
	int fd, blocked;            // blocked: waits for room to send
	char *response;             // to the upgrade, as far as it is here; NULL when there was one
	uint32_t got;               // bytes of it
	uint32_t awaited;           // answers that have not come yet
	unsigned char head[10];     // of the frame that is being received
	uint32_t head_len;
	int inside;                 // the header is whole
	uint64_t left;              // bytes of the payload that are not here yet
	unsigned char *line;        // that is not whole yet, or NULL
	uint32_t line_len;
	unsigned char *rest;        // what could not be sent yet, or NULL
	uint32_t off, len;          // of it
	struct subscription *subs;  // NULL for the connection that publishes
	struct position *positions; // of each; NULL if it is not to return
	int returns;                // it was cut and goes on from there
	enum { READS, STALLS, SKIPS } manner;
};

#include "dialects.h"
#include "publications.h"

static struct conn conns[MAX_FDS];
static int conn_count, epoll_fd, port, opening, remembers, narrow;
static unsigned char in[BUFFER];

static void interest(int op, struct conn *c) {
	struct epoll_event e = {.events = c->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
	if (epoll_ctl(epoll_fd, op, c->fd, &e) < 0) die("epoll_ctl");
}

static void flush(struct conn *c) {
	if (c->len > c->off) {
		ssize_t n = send(c->fd, c->rest + c->off, c->len - c->off, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN) die("send");
		if (n > 0) c->off += n;
	}
	int blocked = c->off < c->len;
	if (!blocked) {
		free(c->rest);
		c->rest = NULL;
		c->off = c->len = 0;
	}
	if (blocked != c->blocked) {
		c->blocked = blocked;
		interest(EPOLL_CTL_MOD, c);
	}
}

static void confirmed(struct conn *c) {
	if (c->awaited == 0) errno = EPROTO, die("an answer to nothing");
	if (--c->awaited == 0) opening--;
}

// What arrives.

// keep puts the beginning of a line aside.
static void keep(struct conn *c, const unsigned char *p, size_t n) {
	if (n > MAX_LINE - c->line_len) errno = EMSGSIZE, die("line");
	c->line = realloc(c->line, c->line_len + n);
	if (c->line == NULL) die("realloc");
	memcpy(c->line + c->line_len, p, n);
	c->line_len += n;
}

// line is called with the end of each line.
static void line(struct conn *c, const unsigned char *p, size_t n) {
	if (c->line == NULL) {
		if (n > 0) dialect->line(c, p, n);
		return;
	}
	if (n > 0) keep(c, p, n);
	dialect->line(c, c->line, c->line_len);
	free(c->line);
	c->line = NULL;
	c->line_len = 0;
}

// payload takes some of a message apart; ends says that it goes no further.
static void payload(struct conn *c, const unsigned char *p, size_t n, int ends) {
	for (const unsigned char *end; n > 0 && (end = memchr(p, '\n', n)) != NULL;) {
		line(c, p, end - p);
		n -= end + 1 - p;
		p = end + 1;
	}
	if (ends && dialect->whole) line(c, p, n);
	else if (n > 0) keep(c, p, n);
}

// header takes bytes of a frame's header (RFC 6455 §5.2) and returns how many.
static size_t header(struct conn *c, const unsigned char *p, size_t n) {
	for (size_t used = 0; used < n;) {
		c->head[c->head_len++] = p[used++];
		if (c->head_len < 2) continue;
		int code = c->head[1];
		uint32_t whole = 2 + (code == 126 ? 2 : code == 127 ? 8 : 0);
		if (c->head_len < whole) continue;
		if (code & 0x80 || c->head[0] & 0x70) errno = EPROTO, die("a wrong frame");
		if ((c->head[0] & 0xF) == CLOSE) errno = ECONNRESET, die("the server closes a connection");
		if (c->head[0] & 0x8) errno = EPROTO, die("a wrong frame");
		c->left = code == 126 ? c->head[2] << 8 | c->head[3] : code == 127 ? get64(c->head + 2) : (uint64_t)code;
		c->head_len = 0;
		c->inside = 1;
		return used;
	}
	return n;
}

// frames takes what arrived apart.
static void frames(struct conn *c, const unsigned char *p, size_t n) {
	while (n > 0) {
		size_t used;
		if (!c->inside) used = header(c, p, n);
		else used = 0;
		p += used, n -= used;
		if (!c->inside) return;
		used = smaller(n, c->left);
		c->left -= used;
		int ends = c->left == 0 && c->head[0] & FIN;
		if (used > 0 || ends) payload(c, p, used, ends);
		if (c->left == 0) c->inside = 0;
		p += used, n -= used;
	}
}

// greet begins what comes after the upgrade.
static void greet(struct conn *c) {
	c->awaited = dialect->answers;
	if (c->subs) c->awaited += dialect->each ? each : !dialect->answers;
	if (c->awaited == 0) opening--;
	dialect->greet(c);
	flush(c);
}

// upgraded looks at what arrived of the response to an upgrade.
static void upgraded(struct conn *c, size_t n) {
	const char *end = add_response(c->response, &c->got, in, n);
	if (end == NULL) return;
	char *response = c->response;
	c->response = NULL;
	greet(c);
	frames(c, (const unsigned char *)end, response + c->got - end);
	free(response);
}

// skip throws away what arrived on a connection that did not read for a while. Servers may have given it up.
static void skip(struct conn *c) {
	ssize_t n = recv(c->fd, in, BUFFER, MSG_DONTWAIT);
	if (n > 0 || (n < 0 && errno == EAGAIN)) return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

static void receive(struct conn *c) {
	if (c->manner == SKIPS) {
		skip(c);
		return;
	}
	ssize_t n = recv(c->fd, in, BUFFER, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN) return;
	if (n == 0) errno = ECONNRESET;
	if (n <= 0) die("recv");
	last_answer = now_ns();
	if (c->response) upgraded(c, n);
	else frames(c, in, n);
}

// wait_until handles what arrives, at latest until the time t.
static void wait_until(uint64_t t) {
	static struct epoll_event events[EVENTS];
	uint64_t now = now_ns();
	int n = wait_ns(epoll_fd, events, EVENTS, t > now ? t - now : 0);
	for (int i = 0; i < n; i++) {
		struct conn *c = events[i].data.ptr;
		if (events[i].events & EPOLLOUT) flush(c);
		if (events[i].events & ~EPOLLOUT) receive(c);
	}
}

// Commands.

// choose subscribes a connection to channels.
static void choose(struct conn *c) {
	c->subs = memory(each * sizeof *c->subs);
	for (uint32_t i = 0; i < each; i++) {
		uint32_t channel, k;
		do {
			channel = each == channels ? i : random64() % channels;
			for (k = 0; k < i && c->subs[k].channel != channel; k++) {
			}
		} while (k < i);
		c->subs[i] = (struct subscription){.channel = channel, .last = sequences[channel]};
		subscribers[channel]++;
	}
	if (remembers) c->positions = memory(each * sizeof *c->positions);
}

// is_narrow reports whether a connection has a small receive buffer, and stalls when it is told to.
static int is_narrow(struct conn *c) { return narrow > 0 && c > conns && (c - conns) % narrow == 0; }

static void connect_one(struct conn *c) {
	c->fd = dial(port, is_narrow(c) ? NARROW : 0);
	interest(EPOLL_CTL_ADD, c);
	request_upgrade(c->fd, port, dialect->path);
	c->response = memory(MAX_RESPONSE);
	opening++;
}

static void open_one(int subscribes) {
	struct conn *c = &conns[conn_count++];
	memset(c, 0, sizeof *c);
	if (subscribes) choose(c);
	connect_one(c);
}

// opened waits until fewer than n connections are on their way.
static void opened(int n) {
	while (opening >= n) {
		wait_until(last_answer + PATIENCE * 1000000000ull);
		if (now_ns() - last_answer >= PATIENCE * 1000000000ull) errno = ETIMEDOUT, die("no answers");
	}
}

// connect_more opens n connections, and before the first the one that publishes.
static void connect_more(int n) {
	last_answer = now_ns();
	if (conn_count == 0) open_one(0);
	for (; n > 0; n--) {
		opened(OPENING);
		open_one(1);
	}
	opened(1);
	printf("{}\n");
}

// expect makes one publication more, due at time t, and returns its number.
static uint32_t expect(uint64_t t) {
	struct publication *p = &ring[issued % RING];
	if (p->missing > 0) errno = ETIME, die("the server is too far behind");
	uint32_t channel = draw();
	*p = (struct publication){.due = t, .channel = channel, .sequence = ++sequences[channel], .missing = subscribers[channel]};
	if (p->missing > 0) under_way++;
	return issued++;
}

// send_publication leaves a publication to flush.
static void send_publication(uint32_t number) {
	static unsigned char data[MAX_LINE];
	make_data(data, number);
	dialect->publish(&conns[0], ring[number % RING].channel, data);
}

// issue makes one publication more, due at time t, and leaves it to flush.
static void issue(uint64_t t) { send_publication(expect(t)); }

// drain waits for what is under way, and returns how many deliveries did not come.
static uint64_t drain(uint64_t patience) {
	uint64_t lost = 0, had = deliveries, since = now_ns();
	while (under_way > 0) {
		wait_until(since + patience);
		if (deliveries > had) had = deliveries, since = last_answer;
		else if (now_ns() >= since + patience) break;
	}
	for (int i = 0; i < RING; i++) lost += ring[i].missing, ring[i].missing = 0;
	under_way = 0;
	return lost;
}

// forget makes all subscriptions such that nothing is missing.
static void forget(void) {
	for (int i = 1; i < conn_count; i++) {
		for (uint32_t k = 0; conns[i].manner == READS && k < each; k++) {
			struct subscription *s = &conns[i].subs[k];
			s->last = sequences[s->channel];
			s->gaps = 0;
		}
	}
}

// begin_run forgets what was counted, and returns the time.
static uint64_t begin_run(void) {
	memset(&all, 0, sizeof all);
	memset(&lasts, 0, sizeof lasts);
	deliveries = doubled = disordered = 0;
	forget();
	return last_answer = now_ns();
}

// print_run says what came of a run that began with the publication numbered first.
static void print_run(uint64_t started, uint32_t first, uint64_t lost) {
	printf("\"messages\":%llu,\"publications\":%u,\"ns\":%llu,\"lost\":%llu,\"doubled\":%llu,\"disordered\":%llu,", (unsigned long long)deliveries,
		issued - first, (unsigned long long)(last_answer - started), (unsigned long long)lost, (unsigned long long)doubled,
		(unsigned long long)disordered);
	print_histogram("all", &all);
	printf(",");
	print_histogram("others", &lasts);
	printf("}\n");
}

static void publish(uint64_t ms, uint64_t rate, uint32_t window, uint64_t patience) {
	uint64_t started = begin_run(), ends = started + ms * 1000000, t = started;
	uint32_t first = issued;
	for (uint64_t k = 0, now = started; t < ends; now = now_ns()) {
		if (rate) {
			while ((t = started + k * 1000000000ull / rate) <= now && t < ends) issue(t), k++, flush(&conns[0]);
		} else {
			for (; under_way < window && now < ends; now = now_ns()) issue(now);
			flush(&conns[0]);
			if (now >= ends || now > last_answer + patience) break; // drain counts what is missing
		}
		if (t < ends) wait_until(rate ? t : smaller(ends, now + patience));
	}
	uint64_t lost = drain(patience);
	printf("{");
	print_run(started, first, lost);
}

static void share(int leads, uint64_t ms, uint64_t rate, uint64_t patience, uint64_t start) {
	uint32_t first = issued, count = (ms * rate + 999) / 1000;
	begin_run();
	for (uint32_t k = 0; k < count; k++) expect(start + k * 1000000000ull / rate);
	for (uint32_t k = 0; k < count; k++) {
		uint64_t due = ring[(first + k) % RING].due;
		while (now_ns() < due) wait_until(due);
		if (leads) send_publication(first + k), flush(&conns[0]);
	}
	uint64_t lost = drain(patience);
	printf("{\"whole\":[");
	for (uint32_t k = first; k < issued; k++) printf("%s%llu", k > first ? "," : "", (unsigned long long)ring[k % RING].whole);
	printf("],");
	print_run(start, first, lost);
}

// cut resets all connections that subscribe. What they know of their subscriptions stays.
static void cut(void) {
	for (int i = 1; i < conn_count; i++) {
		struct conn *c = &conns[i], fresh = {.subs = c->subs, .positions = c->positions, .returns = 1};
		if (c->positions == NULL) errno = EINVAL, die("a connection that cannot return");
		reset(c->fd);
		free(c->line);
		free(c->rest);
		*c = fresh;
	}
}

// complete reports whether nothing is missing of the publications up to the one numbered end.
static int complete(uint32_t end) {
	for (uint32_t i = end > RING ? end - RING : 0; i < end; i++) {
		if (ring[i % RING].missing > 0) return 0;
	}
	return 1;
}

static void storm(uint64_t ms, uint64_t rate, uint64_t patience) {
	uint64_t started = begin_run(), ends = started + ms * 1000000, t, since = 0, back = 0, caught = 0;
	uint32_t first = issued, end = 0;
	int returning = conn_count;
	uint64_t k = 0, now = started;
	for (; now < ends || !caught; now = now_ns()) {
		while ((t = started + k * 1000000000ull / rate) <= now && t < ends) issue(t), k++, flush(&conns[0]);
		if (!since && now >= started + ms * 500000) cut(), returning = 1, since = now;
		while (returning < conn_count && opening < OPENING) connect_one(&conns[returning++]);
		if (since && !back && returning == conn_count && opening == 0) back = now - since, end = issued;
		if (back && !caught && complete(end)) caught = now - since;
		if (now > last_answer + patience) errno = ETIMEDOUT, die("clients that were cut do not come back");
		wait_until(since && !caught ? now + 1000000 : t < ends ? t : ends);
	}
	uint64_t lost = drain(patience);
	printf("{\"back\":%llu,\"caught\":%llu,", (unsigned long long)back, (unsigned long long)caught);
	print_run(started, first, lost);
}

// stall lets narrow connections read no more. Nobody waits for what they should get.
static void stall(void) {
	for (int k = 1; k < conn_count; k++) {
		struct conn *c = &conns[k];
		if (!is_narrow(c) || c->manner != READS) continue;
		c->manner = STALLS;
		if (epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL) < 0) die("epoll_ctl");
		for (uint32_t i = 0; i < each; i++) subscribers[c->subs[i].channel]--;
	}
	printf("{}\n");
}

// unstall lets them read again.
static void unstall(void) {
	for (int i = 1; i < conn_count; i++) {
		struct conn *c = &conns[i];
		if (c->manner != STALLS) continue;
		c->manner = SKIPS;
		interest(EPOLL_CTL_ADD, c);
	}
	printf("{}\n");
}

static void close_all(void) {
	for (; conn_count > 0; conn_count--) {
		struct conn *c = &conns[conn_count - 1];
		reset(c->fd);
		free(c->subs);
		free(c->positions);
		free(c->line);
		free(c->rest);
	}
	memset(subscribers, 0, sizeof subscribers);
}

// begin reads the arguments.
static void begin(char **argv) {
	port = atoi(argv[1]);
	for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
		if (strcmp(dialects[i].name, argv[2]) == 0) dialect = &dialects[i];
	}
	size = atoi(argv[3]), each = atoi(argv[4]), channels = atoi(argv[5]);
	if (dialect == NULL || size < HEADER + TRAILER + 1 || size > MAX_LINE / 2) errno = EINVAL, die("dialect or size");
	if (each < 1 || each > channels || channels > MAX_CHANNELS) errno = EINVAL, die("channels");
	pattern = memory(size + PATTERNS);
	for (uint32_t i = 0; i < size + PATTERNS; i++) pattern[i] = 'A' + random64() % 26;
	put32(mask, random64() >> 32 | 0x01010101);
	for (uint32_t k = 0; k < channels; k++) shares[k] = (k ? shares[k - 1] : 0) + 1.0 / (k + 1);
}

int main(int argc, char **argv) {
	if (argc != 6) errno = EINVAL, die("usage: subscribers PORT plain|centrifuge|nats SIZE EACH CHANNELS");
	begin(argv);
	prctl(PR_SET_TIMERSLACK, 1);
	many_files();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0) die("epoll_create");
	char command[256];
	while (fgets(command, sizeof command, stdin)) {
		int n;
		unsigned window;
		unsigned long long ms, rate, patience, start;
		if (sscanf(command, "connect %d", &n) == 1 && n > 0 && n < MAX_FDS - conn_count) {
			connect_more(n);
		} else if (sscanf(command, "publish %llu %llu %u %llu", &ms, &rate, &window, &patience) == 4 && conn_count && window < RING) {
			publish(ms, rate, window, patience * 1000000);
		} else if (sscanf(command, "storm %llu %llu %llu", &ms, &rate, &patience) == 3 && conn_count && rate > 0) {
			storm(ms, rate, patience * 1000000);
		} else if (sscanf(command, "share %d %llu %llu %llu %llu", &n, &ms, &rate, &patience, &start) == 5 && conn_count && channels == 1 && ms * rate / 1000 < RING) {
			share(n, ms, rate, patience * 1000000, start);
		} else if (strcmp(command, "remember\n") == 0) {
			remembers = 1;
			printf("{}\n");
		} else if (sscanf(command, "narrow %d", &n) == 1 && n > 0) {
			narrow = n;
			printf("{}\n");
		} else if (strcmp(command, "stall\n") == 0) {
			stall();
		} else if (strcmp(command, "unstall\n") == 0) {
			unstall();
		} else if (strcmp(command, "close\n") == 0) {
			close_all();
			printf("{}\n");
		} else {
			errno = EINVAL, die("command");
		}
		fflush(stdout);
	}
	close_all();
	return 0;
}
