package admission_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/admission"
)

// count returns how often a limit was exceeded.
func count(l *admission.Limits, n admission.Name) uint64 {
	for _, one := range l.Counts() {
		if one.Name == n {
			return one.Exceeded
		}
	}
	return 0
}

// Each limit is counted by itself; one that runs dry says so. The log has one record of each, however often it was exceeded.
func TestLimits(t *testing.T) {
	var log bytes.Buffer
	l := admission.NewLimits(slog.New(slog.NewTextHandler(&log, nil)), admission.Connects, "unknown")
	for i, n := range admission.Names() {
		for range i + 1 {
			if enforced := l.Exceeded(n, "client", "10.0.0.1"); enforced != (n != admission.Connects) || enforced != l.Enforced(n) {
				t.Errorf("%s: enforced is %t", n, enforced)
			}
		}
		if got := count(l, n); got != uint64(i)+1 { //nolint:gosec // not negative
			t.Errorf("%s was counted %d times", n, got)
		}
	}
	if n := len(l.Counts()); n != len(admission.Names()) {
		t.Errorf("%d counts", n)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != len(admission.Names()) || !strings.Contains(lines[3], "client=10.0.0.1 limit=limits.connects enforced=false total=1") {
		t.Errorf("the log has %d lines:\n%s", len(lines), log.String())
	}
}

// Users are counted one by one, and forgotten with their last session.
func TestUsers(t *testing.T) {
	var u admission.Users
	for i := range 3 {
		if a, b := u.Enter("ann"), u.Enter("bob"); a != i+1 || b != i+1 {
			t.Errorf("ann has %d sessions, bob %d, want %d", a, b, i+1)
		}
	}
	for range 3 {
		u.Leave("ann")
	}
	if n := u.Len(); n != 1 {
		t.Errorf("%d users have sessions", n)
	}
	if n := u.Enter("ann"); n != 1 {
		t.Errorf("ann has %d sessions", n)
	}
	if n := u.Enter("bob"); n != 4 {
		t.Errorf("bob has %d sessions", n)
	}
}
