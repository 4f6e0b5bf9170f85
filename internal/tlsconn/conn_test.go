package tlsconn_test

import (
	"testing"

	"github.com/sluice-push/sluice/internal/tlsconn"
)

// It works with the Go version at hand.
func TestTest(t *testing.T) {
	if err := tlsconn.Test(); err != nil {
		t.Error(err)
	}
}

func BenchmarkTest(b *testing.B) {
	for b.Loop() {
		_ = tlsconn.Test()
	}
}
