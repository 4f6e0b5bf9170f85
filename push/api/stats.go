package api

// UnknownMethod stands for all methods that there are not.
const UnknownMethod = "unknown"

// Stats is what the API has counted since it began.
type Stats struct {
	// Requests are those answered, by method and by the code of the error they were answered, 0 when there was none: a push.Error's, all
	// others are count.Other. A broadcast has none as a whole, whatever became of its parts.
	Requests map[string]map[uint32]uint64
}

// Stats returns the counters. They are not read at one instant.
func (a *Handler) Stats() Stats {
	s := Stats{Requests: make(map[string]map[uint32]uint64, len(a.outcomes))}
	for name, outcomes := range a.outcomes {
		s.Requests[name] = outcomes.Read()
	}
	return s
}
