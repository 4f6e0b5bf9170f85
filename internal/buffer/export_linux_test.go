package buffer

// Reported returns how many calls of each frame are reported by one report, of the calls from first to last. The frames begin with the calls of
// these numbers.
func Reported(begin []uint32, first, last uint32) (acked []uint32) {
	var waiting []*Large
	for _, n := range begin {
		waiting = append(waiting, &Large{first: n})
	}
	report{first: first, last: last}.count(waiting)
	for _, l := range waiting {
		acked = append(acked, l.acked)
	}
	return acked
}
