package report

import (
	"strings"
	"testing"
)

// What was dropped is the second number of each processor; nothing is said of none.
func TestDropped(t *testing.T) {
	const softnet = "120d05ca 0000000f 00000002 00000000\n11a68c85 00000010 00000009 00000000\n\nhalf\n1 x\n"
	if n := dropped(softnet); n != 31 {
		t.Errorf("%d were dropped, want 31", n)
	}
	if n := dropped(""); n != 0 {
		t.Errorf("%d were dropped of none", n)
	}
	if text := OfDropped(0); text != "" {
		t.Errorf("%q is said of none", text)
	}
	if text := OfDropped(31); !strings.Contains(text, " 31 packets") {
		t.Errorf("%q is said of 31", text)
	}
}
