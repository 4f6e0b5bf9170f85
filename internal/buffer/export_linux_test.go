package buffer

// Reported returns how many calls of each frame one report acknowledges. The report is of the calls from first to last. begin has the number of
// each frame's first call.
func Reported(begin []uint32, first, last uint32) (acked []uint32) {
	var waiting []*BigFrame
	for _, n := range begin {
		waiting = append(waiting, &BigFrame{first: n})
	}
	report{first: first, last: last}.count(waiting)
	for _, l := range waiting {
		acked = append(acked, l.acked)
	}
	return acked
}
