// The publications: how they are made, who should have them, and whether they are what was published.
//
// A program includes this behind dialects.h.
#ifndef PUBLICATIONS_H
#define PUBLICATIONS_H

#include "histogram.h"

#define MAX_CHANNELS 10000
#define PATTERNS 31    // the pattern of a publication begins at its number modulo this
#define HEADER 35      // bytes of the data before the pattern
#define TRAILER 2      // and behind
#define RING (1 << 16) // publications that may be under way

struct publication {
	uint64_t due;
	uint32_t channel, sequence, missing; // missing: subscribers that do not have it
	uint64_t whole;                      // nanoseconds from due until the last subscriber had it
};

static unsigned char *pattern;
static struct publication ring[RING];
static uint32_t channels;
static uint32_t subscribers[MAX_CHANNELS], sequences[MAX_CHANNELS]; // of each channel: how many, and the last number
static double shares[MAX_CHANNELS]; // of what is published, of the channels up to each
static uint32_t issued, under_way;
static uint64_t deliveries, doubled, disordered, last_answer;
static struct histogram all, lasts;

static void put_hex(unsigned char *dst, uint32_t v, int n) {
	while (n-- > 0) dst[n] = "0123456789abcdef"[v & 15], v >>= 4;
}

// make_data makes the data of a publication: {"n":"NUMBER CHANNEL SEQUENCE","p":"PATTERN"}, the three in hexadecimal digits.
static void make_data(unsigned char *dst, uint32_t number) {
	const struct publication *p = &ring[number % RING];
	memcpy(dst, "{\"n\":\"........ .... ........\",\"p\":\"", HEADER);
	put_hex(dst + 6, number, 8);
	put_hex(dst + 15, p->channel, 4);
	put_hex(dst + 20, p->sequence, 8);
	memcpy(dst + HEADER, pattern + number % PATTERNS, size - HEADER - TRAILER);
	memcpy(dst + size - TRAILER, "\"}", TRAILER);
}

static struct subscription *subscription(struct conn *c, uint32_t channel) {
	for (uint32_t i = 0; c->subs && i < each; i++) {
		if (c->subs[i].channel == channel) return &c->subs[i];
	}
	errno = EPROTO, die("a publication that was not subscribed to");
	return NULL;
}

static void delivered(struct conn *c, const unsigned char *data, size_t n) {
	static unsigned char want[MAX_LINE]; // the publication that arrived before, of which there are many more
	static uint32_t made = UINT32_MAX;
	if (n != size) errno = EPROTO, die("a wrong publication");
	uint32_t number = hex(data + 6, 8);
	if (number >= issued || issued - number > RING) errno = EPROTO, die("a wrong publication");
	struct publication *p = &ring[number % RING];
	if (number != made) make_data(want, made = number);
	if (memcmp(data, want, size) != 0) errno = EPROTO, die("wrong bytes in a publication");
	struct subscription *s = subscription(c, p->channel);
	if (p->sequence > s->last) {
		s->gaps += p->sequence - s->last - 1;
		s->last = p->sequence;
	} else if (s->gaps > 0) {
		s->gaps--;
		disordered++;
	} else {
		doubled++;
		return;
	}
	if (p->missing == 0) errno = EPROTO, die("more publications than subscribers");
	deliveries++;
	uint64_t ns = last_answer > p->due ? last_answer - p->due : 0;
	record(&all, ns);
	if (--p->missing > 0) return;
	record(&lasts, p->whole = ns);
	under_way--;
}

// draw returns a channel.
static uint32_t draw(void) {
	double at = (random64() >> 11) * 0x1p-53 * shares[channels - 1];
	uint32_t low = 0, high = channels - 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (shares[middle] > at) high = middle;
		else low = middle + 1;
	}
	return low;
}

#endif
