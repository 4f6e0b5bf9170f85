// Distributions of times, as the bench reads them.
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include "common.h"

// A histogram with 128 buckets for each power of two: 0.8 % wide.
#define SUB_BITS 7
#define BUCKETS ((65 - SUB_BITS) << SUB_BITS)
struct histogram {
	uint64_t counts[BUCKETS], total, max;
};

static inline void record(struct histogram *h, uint64_t ns) {
	int shift = 0;
	if (ns >> SUB_BITS) shift = 63 - __builtin_clzll(ns) - SUB_BITS;
	h->counts[((uint64_t)shift << SUB_BITS) + (ns >> shift)]++;
	h->total++;
	if (ns > h->max) h->max = ns;
}

static inline void print_histogram(const char *name, const struct histogram *h) {
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

#endif
