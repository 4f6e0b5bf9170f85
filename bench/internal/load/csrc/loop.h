// What the servers in C have in common: one thread, one level-triggered epoll set, one read a wake-up into one buffer, all frames in it
// handled, one write for all answers.
//
// A program defines frame_need, take, finish and dropped, and calls serve. It prints {"addr":"127.0.0.1:PORT"}, then answers the lines of standard
// input, of which "gc" gives memory back first, and ends with it.
//
// A connection that is idle has neither buffer; one with part of a frame keeps that part, one whose peer does not read what is
// not written, and is not read from meanwhile.
#ifndef LOOP_H
#define LOOP_H

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"

#define IN_SIZE (256 << 10)
#define EVENTS 512

struct conn {
	unsigned char *part; // the frame that is half here, or NULL
	uint32_t have, need; // bytes of it that are here; how many it has, as far as that is known
	unsigned char *rest; // what could not be written yet, or NULL
	uint32_t off, len;   // of it
	int upgraded;        // for programs in which frames come after a handshake
};

static struct conn conns[MAX_FDS];
static unsigned char in[IN_SIZE];
static int epoll_fd, open_conns, highest_fd;

// frame_need returns how many bytes the frame has that begins with the n bytes at p, or how many of it have to be here before more is
// known. It ends the process when no frame is like that.
static size_t frame_need(struct conn *c, const unsigned char *p, size_t n);

// take is called with every whole frame.
static void take(struct conn *c, unsigned char *frame, size_t size);

// finish answers the frames that were taken: first, or NULL, and those from begin to end in the buffer.
static void finish(int fd, unsigned char *first, size_t first_size, size_t begin, size_t end);

// dropped is called with every connection that ends.
static void dropped(int fd);

static void interest(int op, int fd, uint32_t events) {
	struct epoll_event e = {.events = events, .data.fd = fd};
	if (epoll_ctl(epoll_fd, op, fd, &e) < 0) die("epoll_ctl");
}

static void drop(int fd) {
	struct conn *c = &conns[fd];
	dropped(fd);
	free(c->part);
	free(c->rest);
	memset(c, 0, sizeof *c);
	close(fd);
	open_conns--;
}

// answer writes up to two pieces at once and keeps what the socket does not take.
static void answer(int fd, struct iovec *v, int count) {
	ssize_t n = count == 1 ? send(fd, v->iov_base, v->iov_len, MSG_NOSIGNAL) : writev(fd, v, count);
	if (n < 0) {
		if (errno != EAGAIN) return; // reading fails as well, and drops the connection
		n = 0;
	}
	size_t total = 0, skip = n;
	for (int i = 0; i < count; i++) total += v[i].iov_len;
	if (skip == total) return;
	struct conn *c = &conns[fd];
	c->rest = memory(total - skip);
	c->off = c->len = 0;
	for (int i = 0; i < count; i++) {
		size_t s = smaller(skip, v[i].iov_len);
		memcpy(c->rest + c->len, (char *)v[i].iov_base + s, v[i].iov_len - s);
		c->len += v[i].iov_len - s;
		skip -= s;
	}
	interest(EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void writable(int fd) {
	struct conn *c = &conns[fd];
	ssize_t n = send(fd, c->rest + c->off, c->len - c->off, MSG_NOSIGNAL);
	if (n < 0) {
		if (errno != EAGAIN) drop(fd);
		return;
	}
	c->off += n;
	if (c->off < c->len) return;
	free(c->rest);
	c->rest = NULL;
	interest(EPOLL_CTL_MOD, fd, EPOLLIN);
}

// complete adds to the frame that is half here and returns how many bytes of p it used.
static size_t complete(struct conn *c, const unsigned char *p, size_t n) {
	size_t used = smaller(n, c->need - c->have);
	memcpy(c->part + c->have, p, used);
	c->have += used;
	return used;
}

// keep puts the beginning of a frame aside.
static void keep(struct conn *c, const unsigned char *p, size_t n) {
	c->need = frame_need(c, p, n);
	c->part = memory(c->need);
	c->have = 0;
	complete(c, p, n);
}

static void readable(int fd) {
	struct conn *c = &conns[fd];
	struct iovec v[2] = {{.iov_base = in, .iov_len = IN_SIZE}};
	size_t gap = 0;
	ssize_t n;
	if (c->part) {
		gap = c->need - c->have;
		v[1] = v[0];
		v[0] = (struct iovec){.iov_base = c->part + c->have, .iov_len = gap};
		n = readv(fd, v, 2);
	} else {
		n = recv(fd, in, IN_SIZE, 0);
	}
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN) drop(fd);
		return;
	}
	size_t got = n, filled = smaller(got, gap), used = 0, first_size = 0;
	got -= filled;
	unsigned char *first = NULL; // the frame that was half here and is whole now
	if (c->part) {
		c->have += filled;
		for (size_t need; (need = frame_need(c, c->part, c->have)) > c->need;) {
			c->need = need;
			c->part = realloc(c->part, need);
			if (c->part == NULL) die("realloc");
			used += complete(c, in + used, got - used);
		}
		if (c->have < c->need) return;
		first = c->part;
		first_size = c->need;
		c->part = NULL;
		take(c, first, first_size);
	}
	size_t begin = used;
	while (used < got) {
		size_t size = frame_need(c, in + used, got - used);
		if (size > got - used) break;
		take(c, in + used, size);
		used += size;
	}
	if (used < got) keep(c, in + used, got - used);
	finish(fd, first, first_size, begin, used);
	free(first);
}

static void accept_all(int listener) {
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EAGAIN || errno == ECONNABORTED) return;
			die("accept");
		}
		if (fd >= MAX_FDS) errno = EMFILE, die("accept");
		int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		open_conns++;
		if (fd > highest_fd) highest_fd = fd;
		interest(EPOLL_CTL_ADD, fd, EPOLLIN);
	}
}

// command answers one line of standard input.
static void command(void) {
	char line[64];
	ssize_t n = read(0, line, sizeof line - 1);
	if (n <= 0) exit(0);
	line[n] = 0;
	if (strcmp(line, "gc\n") == 0) malloc_trim(0);
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	uint64_t us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
	printf("{\"conns\":%d,\"cpu_ns\":%llu,\"goroutines\":0,\"mallocs\":0}\n", open_conns, (unsigned long long)us * 1000);
	fflush(stdout);
}

static int listen_loopback(void) {
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 || listen(fd, 4096) < 0) die("listen");
	if (getsockname(fd, (struct sockaddr *)&a, &size) < 0) die("getsockname");
	printf("{\"addr\":\"127.0.0.1:%d\"}\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

// serve does not return.
static void serve(void) {
	signal(SIGPIPE, SIG_IGN);
	many_files();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0) die("epoll_create");
	int listener = listen_loopback();
	interest(EPOLL_CTL_ADD, listener, EPOLLIN);
	interest(EPOLL_CTL_ADD, 0, EPOLLIN);
	static struct epoll_event events[EVENTS];
	for (;;) {
		int n = epoll_wait(epoll_fd, events, EVENTS, -1);
		if (n < 0 && errno != EINTR) die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == 0) command();
			else if (fd == listener) accept_all(listener);
			else if (conns[fd].rest) writable(fd);
			else readable(fd);
		}
	}
}

#endif
