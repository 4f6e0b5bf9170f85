package main_test

import (
	"math"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	telemetry "github.com/sluice-push/sluice/examples/udp-telemetry"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

func TestParse(t *testing.T) {
	for text, want := range map[string]telemetry.Measurement{
		"boiler-7 42 21.5":                       {Name: "boiler-7", Number: 42, Degrees: 21.5},
		"a 0 -3\n":                               {Name: "a", Degrees: -3},
		"a.b_c 18446744073709551615 9999.999999": {Name: "a.b_c", Number: math.MaxUint64, Degrees: 9999.999999},
	} {
		if got, ok := telemetry.Parse([]byte(text)); !ok || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "a", "a 1", "a 1 ", " 1 2", "a  1 2", "a -1 2", "a 1 2 3", "a 1 2\n\n", "a 1 1e9", "a 1 NaN", "a 1 .5", "\x1b[31m 1 2", "ä 1 2",
		"a 18446744073709551616 2", "a 1 12345", "abcdefghijklmnopqrstuvwxyz0123456 1 2",
	} {
		if got, ok := telemetry.Parse([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// What is understood means the same when it is sent on, but for what it is rounded to.
func FuzzParse(f *testing.F) {
	f.Add([]byte("boiler-7 42 21.5"))
	f.Add([]byte("a 0 -0.04\n"))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		m, ok := telemetry.Parse(datagram)
		if !ok {
			return
		}
		again, ok := telemetry.Parse(telemetry.Append(m))
		if !ok || again.Name != m.Name || again.Number != m.Number || math.Abs(again.Degrees-m.Degrees) > 0.0501 {
			t.Errorf("%q is %v, which became %q and %v, %v", datagram, m, telemetry.Append(m), again, ok)
		}
	})
}
