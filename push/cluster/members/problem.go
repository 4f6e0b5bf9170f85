package members

import (
	"slices"
	"time"
)

const (
	// quiet is how long a problem has to be gone until it is logged again. So an entry that is good and bad in turn does not fill the log.
	quiet = time.Minute
	// maxProblems is how many problems are remembered. While there are so many, others are not logged.
	maxProblems = 100
)

// problemLog decides which problems are logged. It has no clock: the caller says what time it is.
type problemLog struct {
	gone map[string]time.Time // since when a problem that was logged is gone; zero: it is there
}

// fresh takes all problems that there are, by name, and returns the names of those to log, sorted.
func (l *problemLog) fresh(now time.Time, problems map[string]error) []string {
	for name, since := range l.gone {
		switch _, there := problems[name]; {
		case there:
			l.gone[name] = time.Time{}
		case since.IsZero():
			l.gone[name] = now
		case now.Sub(since) >= quiet:
			delete(l.gone, name)
		}
	}
	var names []string
	for name := range problems {
		if _, known := l.gone[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = names[:min(len(names), maxProblems-len(l.gone))]
	for _, name := range names {
		if l.gone == nil {
			l.gone = make(map[string]time.Time)
		}
		l.gone[name] = time.Time{}
	}
	return names
}
