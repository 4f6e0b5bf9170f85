// Publish and subscribe for the server in C, by one thread or two. Messages are text: "sub T T …" subscribes a connection to topics and is
// answered with "ok"; "pub T DATA" goes, as DATA, to all that are subscribed to T.
//
// What one read brings for one topic is put together and leaves in one send for each subscriber; two threads take half of the subscribers
// each. What a socket does not take is kept until it does.
#ifndef TOPICS_H
#define TOPICS_H

#include <pthread.h>
#include <semaphore.h>

#include "loop.h"

#define MAX_TOPICS 10000
#define MAX_BEHIND (16 << 20) // bytes that a subscriber may be behind
#define TEXT_FRAME 0x81
#define MAX_HEADER_OUT 10

struct topic {
	int *fds, count, room;
};

static struct topic topics[MAX_TOPICS];
static unsigned char batch[IN_SIZE + MAX_FRAME + MAX_HEADER_OUT]; // frames for the subscribers of batch_topic
static size_t batch_len;
static struct topic *batch_topic;
static int threads;
static sem_t begin_half, half_done;

// deliver sends the batch to one subscriber.
static void deliver(int fd) {
	struct conn *c = &conns[fd];
	if (c->rest == NULL) {
		struct iovec v = {.iov_base = batch, .iov_len = batch_len};
		answer(fd, &v, 1);
		return;
	}
	if (c->len - c->off + batch_len > MAX_BEHIND) errno = ENOBUFS, die("a subscriber is too far behind");
	c->rest = realloc(c->rest, c->len + batch_len);
	if (c->rest == NULL) die("realloc");
	memcpy(c->rest + c->len, batch, batch_len);
	c->len += batch_len;
}

static void deliver_range(int from, int to) {
	for (int i = from; i < to; i++) deliver(batch_topic->fds[i]);
}

// second_thread delivers the second half whenever it is told to. The first waits for it before it does anything else.
static void *second_thread(void *unused) {
	for (;;) {
		while (sem_wait(&begin_half) < 0) {
		}
		deliver_range(batch_topic->count / 2, batch_topic->count);
		sem_post(&half_done);
	}
	return unused;
}

static void start_threads(int n) {
	pthread_t thread;
	threads = n;
	if (sem_init(&begin_half, 0, 0) < 0 || sem_init(&half_done, 0, 0) < 0) die("sem_init");
	if (threads > 1 && (errno = pthread_create(&thread, NULL, second_thread, NULL)) != 0) die("pthread_create");
}

// send_batch delivers what was put together.
static void send_batch(void) {
	if (batch_len == 0) return;
	int all = batch_topic->count, mine = threads > 1 ? all / 2 : all;
	if (mine < all) sem_post(&begin_half);
	deliver_range(0, mine);
	if (mine < all) {
		while (sem_wait(&half_done) < 0) {
		}
	}
	batch_len = 0;
}

static struct topic *topic_of(char **text) {
	char *end;
	unsigned long number = strtoul(*text, &end, 10);
	if (end == *text || number >= MAX_TOPICS) errno = EPROTO, die("topic");
	*text = end;
	return &topics[number];
}

static void subscribe(int fd, char *text) {
	while (*text) {
		struct topic *t = topic_of(&text);
		if (t->count == t->room) {
			t->room = t->room ? 2 * t->room : 16;
			t->fds = realloc(t->fds, t->room * sizeof *t->fds);
			if (t->fds == NULL) die("realloc");
		}
		t->fds[t->count++] = fd;
	}
}

// publish adds a publication to the batch.
static void publish(char *text, const char *end) {
	struct topic *t = topic_of(&text);
	if (*text++ != ' ') errno = EPROTO, die("publication");
	size_t n = end - text;
	if (batch_topic != t || batch_len + n > IN_SIZE) send_batch();
	batch_topic = t;
	unsigned char *p = batch + batch_len;
	size_t header = 2;
	p[0] = TEXT_FRAME;
	if (n < 126) p[1] = n;
	else if (n < 1 << 16) p[1] = 126, p[2] = n >> 8, p[3] = n, header = 4;
	else p[1] = 127, put64(p + 2, n), header = 10;
	memcpy(p + header, text, n);
	batch_len += header + n;
}

// handle takes a message, behind which there is room for a byte, and returns the length of the answer, which it leaves at dst.
static size_t handle(int fd, unsigned char *message, size_t n, unsigned char *dst) {
	char *text = (char *)message;
	text[n] = 0;
	if (n > 4 && memcmp(text, "sub ", 4) == 0) {
		subscribe(fd, text + 4);
		memcpy(dst, "\x81\x02" "ok", 4);
		return 4;
	}
	if (n < 4 || memcmp(text, "pub ", 4) != 0) errno = EPROTO, die("message");
	publish(text + 4, text + n);
	return 0;
}

// unsubscribe is called with a connection that ends.
static void unsubscribe(int fd) {
	for (struct topic *t = topics; t < topics + MAX_TOPICS; t++) {
		int kept = 0;
		for (int i = 0; i < t->count; i++) {
			if (t->fds[i] != fd) t->fds[kept++] = t->fds[i];
		}
		t->count = kept;
	}
}

#endif
