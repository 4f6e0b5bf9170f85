package api

// UnknownMethod stands for all methods that do not exist.
const UnknownMethod = "unknown"

// Stats are the counters of the API since New.
type Stats struct {
	// Requests counts answered requests by method and by the code of the error: 0 for none, the code of a push.Error, or codecount.Other for all
	// others. A broadcast as a whole has no error, whatever the results of its channels.
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
