package reconnect

import "slices"

// spread says how n sessions, of which some are at addresses already, are spread over those that are wanted: which of them leave,
// and where others are dialed. Afterwards the numbers at any two wanted addresses differ by one at most, and no way to reach that ends
// fewer sessions. wanted must not be empty, and names each address once; who comes first in it is preferred where it makes no
// difference otherwise.
func spread(at, wanted []string, n int) (leaves []bool, dials []string) {
	have := make(map[string]int, len(wanted))
	for _, a := range at {
		have[a]++
	}
	each, extra := n/len(wanted), n%len(wanted)
	order := slices.Clone(wanted) // those that have more than their share already come first, and keep one of it
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
