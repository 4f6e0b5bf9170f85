// What a connection knows of a subscription.
#ifndef SUBSCRIPTION_H
#define SUBSCRIPTION_H

#include <stdint.h>

// A subscription of a connection: which publications it had.
struct subscription {
	uint32_t channel, last; // the number in the channel of the newest
	uint32_t gaps;          // how many before that did not come
};

// A position is where a server that remembers what it sent lets a subscription go on.
struct position {
	uint64_t offset;
	char epoch[32];
};

#endif
