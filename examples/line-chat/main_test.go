package main_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	main "github.com/sluice-push/sluice/examples/line-chat"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// Nobody moves the cursor of somebody else.
func TestClean(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "",
		" hello,\tworld ":        "hello, world",
		"\x1b[2Jgone":            "[2Jgone",
		"a\x00b\x7fc\u009bd":     "abcd",
		"broken \xff\xfe text":   "broken  text",
		"\u202eright to left":    "right to left",
		"Grüße, 世界 😀":            "Grüße, 世界 😀",
		"\r\n":                   "",
		"carriage\rreturn":       "carriagereturn",
		"/name \u200bsomebody\n": "/name somebody",
	} {
		if got := main.Clean([]byte(line)); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}
