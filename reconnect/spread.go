package reconnect

import "slices"

// spread computes how n sessions, some of which are at addresses already, are spread over the wanted addresses: which sessions leave, and which
// addresses are dialed. Afterwards the numbers at any two wanted addresses differ by one at most, and no other way to reach that ends fewer
// sessions. wanted must not be empty, and names each address once. If there is a choice, addresses that come earlier in wanted are preferred.
func spread(at, wanted []string, n int) (leaves []bool, dials []string) {
	have := make(map[string]int, len(wanted))
	for _, a := range at {
		have[a]++
	}
	each, extra := n/len(wanted), n%len(wanted)
	order := slices.Clone(wanted) // addresses with more than their share come first, and keep one of the extra sessions
	slices.SortStableFunc(order, func(a, b string) int {
		return min(max(have[b]-each, 0), 1) - min(max(have[a]-each, 0), 1)
	})
	room := make(map[string]int, len(wanted))
	for i, a := range order {
		room[a] = each
		if i < extra {
			room[a]++
		}
	}
	leaves = make([]bool, len(at))
	left := n
	for i, a := range at {
		if leaves[i] = room[a] == 0; !leaves[i] {
			room[a]--
			left--
		}
	}
	for left > 0 { // one at each address, then another at each
		for _, a := range wanted {
			if room[a] > 0 {
				room[a]--
				left--
				dials = append(dials, a)
			}
		}
	}
	return leaves, dials
}
