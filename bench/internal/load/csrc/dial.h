// What clients in C have in common: connections to a port of this machine, the upgrade to WebSocket, waiting for what arrives.
#ifndef DIAL_H
#define DIAL_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#define MASK_SIZE 4
#define OPENING 64        // connections that are opened at a time
#define MAX_RESPONSE 1024 // bytes of the answer to an upgrade

// The key and what has to come of it (RFC 6455 §1.3).
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

// dial connects; buffer is how many bytes may wait to be received, 0 if the kernel is to decide.
static inline int dial(int port, int buffer) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	if (buffer > 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

// reset closes a connection at once: thousands that linger would cost the runs that follow.
static inline void reset(int fd) {
	struct linger now = {.l_onoff = 1};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	close(fd);
}

// request_upgrade sends the request that begins a WebSocket connection.
static inline void request_upgrade(int fd, int port, const char *path) {
	char request[512];
	int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n\r\n", path, port);
	if (send(fd, request, n, MSG_NOSIGNAL) != n) die("send");
}

// response_end returns where the response ends that begins a text, or NULL if it is not whole. One that does not upgrade ends the process.
static inline const char *response_end(const char *text) {
	const char *end = strstr(text, "\r\n\r\n"), *accept = strstr(text, ": " ACCEPT "\r\n");
	if (end == NULL) return NULL;
	if (strncmp(text, "HTTP/1.1 101 ", 13) != 0 || accept == NULL || accept > end) errno = EPROTO, die("a wrong response");
	return end + 4;
}

// add_response appends n bytes to what is here of a response, which has room for MAX_RESPONSE, and returns where the response ends, or NULL
// if it is not whole.
static inline const char *add_response(char *response, uint32_t *got, const void *in, size_t n) {
	if (n > MAX_RESPONSE - 1 - *got) errno = EMSGSIZE, die("response");
	memcpy(response + *got, in, n);
	*got += n;
	response[*got] = 0;
	return response_end(response);
}

// wait_ns waits for up to count events, at most so many nanoseconds.
static inline int wait_ns(int epoll_fd, struct epoll_event *events, int count, uint64_t ns) {
	struct timespec timeout = {.tv_sec = ns / 1000000000u, .tv_nsec = ns % 1000000000u};
	int n = syscall(SYS_epoll_pwait2, epoll_fd, events, count, &timeout, NULL, 0);
	if (n < 0 && errno != EINTR) die("epoll_pwait2");
	return n < 0 ? 0 : n;
}

#endif
