// What the programs share: the wire, the clock, the end when something cannot be.
//
// A frame begins with its length, four bytes, most significant first, which count themselves.
//   echo      length, id (8 bytes), pattern             answered with the same bytes
//   request   length, command, id (8 bytes), pattern    answered with an acknowledgement
//   ack       length 14, 0x81, id, result 0
// Command 2 is an ordinary request. Command 3 asks the handler to sleep first; the pattern then begins with four bytes that say
// for how many microseconds.
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define LENGTH_SIZE 4
#define ACK_SIZE 14
#define ECHO_HEADER 12
#define REQUEST_HEADER 13
#define MAX_FRAME (1 << 20)
#define MAX_FDS 20480
#define COMMAND_REQUEST 0x02
#define COMMAND_SLEEP 0x03
#define COMMAND_ACK 0x81

static inline uint32_t get32(const unsigned char *p) {
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void put32(unsigned char *p, uint32_t v) {
	p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v;
}

static inline uint64_t get64(const unsigned char *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

static inline void put64(unsigned char *p, uint64_t v) { put32(p, v >> 32), put32(p + 4, v); }

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static inline uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

// die ends the process and says why, to the bench as JSON and to people.
static inline void die(const char *what) {
	printf("{\"error\":\"%s: %s\"}\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

// many_files raises the limit of open files as far as it goes.
static inline void many_files(void) {
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0) die("getrlimit");
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0) die("setrlimit");
}

// random64 returns the next of numbers that look random and are always the same.
static inline uint64_t random64(void) {
	static uint64_t state = 88172645463325252u;
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return state;
}

static inline void *memory(size_t n) {
	void *p = malloc(n);
	if (p == NULL) die("malloc");
	return p;
}

#endif
