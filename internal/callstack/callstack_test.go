package callstack_test

import (
	"testing"

	"github.com/sluice-push/sluice/internal/callstack"
	"github.com/sluice-push/sluice/internal/testwait"
)

const here = "github.com/sluice-push/sluice/internal/callstack_test"

func within(root string) bool { return callstack.Within(here, []string{"nothing", root}) }

//go:noinline
func direct() bool { return within("direct") }

//go:noinline
func literal() bool { return func() bool { return within("literal") }() }

//go:noinline
func directly() bool { return within("direct") }

type kind struct{}

//go:noinline
func (*kind) method() bool { return within("(*kind).method") }

// deep asks from n calls below.
//
//go:noinline
func deep(n int) bool {
	if n == 0 {
		return within("bottom")
	}
	return deep(n - 1)
}

//go:noinline
func bottom(n int) bool { return deep(n) }

func TestWithin(t *testing.T) {
	for name, got := range map[string]bool{
		"a function": direct(), "a literal in one": literal(), "a method": new(kind).method(), "far below": bottom(1000), "just below": bottom(62),
	} {
		if !got {
			t.Errorf("%s is not found", name)
		}
	}
	if directly() || deep(1000) || callstack.Within("elsewhere", []string{"direct"}) {
		t.Error("found what is not there")
	}
	found := make(chan bool)
	go func() { found <- within("TestWithin.func1") }()
	if !testwait.Receive(t, found) {
		t.Error("the function of a goroutine is not found")
	}
}
