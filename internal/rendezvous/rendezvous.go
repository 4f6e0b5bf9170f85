// Package rendezvous has the hash functions of weighted rendezvous hashing. For a key, the member with the highest score is chosen. All callers
// with the same members choose alike. If a member leaves, only its keys move; if a member joins, it takes only its share of the keys.
//
// Results are part of agreements between processes of different releases, so they must never change.
package rendezvous

import "math"

// Hash returns a hash of a text: FNV-1a of 64 bits, followed by [Mix].
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return Mix(h)
}

// Mix spreads the bits of a number (the finalizer of SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Unit returns a number between 0 and 1, both excluded, for random bits.
func Unit(bits uint64) float64 {
	const digits = 52 // with one more, the largest number would be rounded to 1
	return (float64(bits>>(64-digits)) + 0.5) / (1 << digits)
}

// Score returns the score of a member for a key, both given as hashes. The chance of a member to have the highest score is in proportion to its
// weight (Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005).
//
// Processors may differ in the last bit of a score. Two members would have to be that close for a choice to differ.
func Score(key, member uint64, weight float64) float64 {
	return weight / -math.Log(Unit(Mix(key^member)))
}
