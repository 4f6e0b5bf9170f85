package members

import (
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// LeaseView is leaseView, for tests.
type LeaseView = leaseView

// Away is away, for tests.
func (v *leaseView) Away(now time.Time) { v.away(now) }

// Observe is observe, for tests.
func (v *leaseView) Observe(now time.Time, list []broker.Lease, own string) Found {
	return v.observe(now, list, own)
}

// ProblemLog is problemLog, for tests.
type ProblemLog = problemLog

// Fresh is fresh, for tests.
func (l *problemLog) Fresh(now time.Time, problems map[string]error) []string {
	return l.fresh(now, problems)
}
