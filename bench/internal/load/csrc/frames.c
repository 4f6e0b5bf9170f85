// The limit that servers of frames with a length are compared with.
//
//   frames ack|echo
#define _GNU_SOURCE
#include "loop.h"

static unsigned char acks[(IN_SIZE / REQUEST_HEADER + 2) * ACK_SIZE];
static size_t acked; // bytes of acks
static int echoes;

static size_t frame_need(struct conn *c, const unsigned char *p, size_t n) {
	(void)c;
	if (n < LENGTH_SIZE) return LENGTH_SIZE;
	uint32_t size = get32(p);
	if (size < (echoes ? LENGTH_SIZE : REQUEST_HEADER) || size > MAX_FRAME) errno = EPROTO, die("frame");
	return size;
}

// take appends the acknowledgement of a request. Echoes are sent from where they are.
static void take(struct conn *c, unsigned char *request, size_t size) {
	(void)c, (void)size;
	if (echoes) return;
	unsigned char *dst = acks + acked;
	put32(dst, ACK_SIZE);
	dst[4] = COMMAND_ACK;
	memcpy(dst + 5, request + 5, 8);
	dst[13] = 0;
	acked += ACK_SIZE;
}

static void finish(int fd, unsigned char *first, size_t first_size, size_t begin, size_t end) {
	struct iovec v[2];
	int count = 0;
	if (echoes) {
		if (first) v[count++] = (struct iovec){.iov_base = first, .iov_len = first_size};
		if (end > begin) v[count++] = (struct iovec){.iov_base = in + begin, .iov_len = end - begin};
	} else if (acked) {
		v[count++] = (struct iovec){.iov_base = acks, .iov_len = acked};
		acked = 0;
	}
	if (count) answer(fd, v, count);
}

static void dropped(int fd) { (void)fd; }

int main(int argc, char **argv) {
	if (argc != 2) errno = EINVAL, die("usage: frames ack|echo");
	echoes = strcmp(argv[1], "echo") == 0;
	serve();
}
