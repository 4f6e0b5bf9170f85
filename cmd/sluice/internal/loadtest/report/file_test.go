package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/report"
)

// Read returns what Write has written. Secrets are not written.
func TestWriteAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := *perfect()
		r.Format = rapid.Int().Draw(t, "format")
		r.Seconds = rapid.Float64Range(0, 1e9).Draw(t, "seconds")
		r.Spec.Seed = rapid.Uint64().Draw(t, "seed")
		r.Spec.Settle = time.Duration(rapid.Int64().Draw(t, "settle"))
		r.Spec.Prefix = rapid.String().Draw(t, "prefix")
		r.Deliveries.Lost = rapid.Uint64().Draw(t, "lost")
		r.Connects.Reasons = rapid.MapOf(rapid.StringN(1, 5, -1), rapid.Int()).Draw(t, "reasons")
		r.Problems = rapid.SliceOf(rapid.String()).Draw(t, "problems")
		r.Spec.Key, r.Spec.Token = "the secret key", "the secret token"
		format := r.Format
		var text bytes.Buffer
		must2(t, report.Write(&text, &r))
		if r.Format != format {
			t.Fatal("the result was changed")
		}
		if strings.Contains(text.String(), "the secret") {
			t.Fatalf("a secret is written: %s", text.String())
		}
		got, err := report.Read(&text)
		must2(t, err)
		r.Format, r.Spec.Key, r.Spec.Token = report.FormatVersion, "", ""
		if len(r.Connects.Reasons) == 0 {
			r.Connects.Reasons = nil
		}
		if len(r.Problems) == 0 {
			r.Problems = nil
		}
		if !reflect.DeepEqual(got, &r) {
			t.Fatalf("read %+v\nwrote %+v", got, &r)
		}
	})
}

func must2(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A result that JSON cannot represent is an error.
func TestWriteNonsense(t *testing.T) {
	r := perfect()
	r.Latency.P99 = math.NaN()
	if err := report.Write(&bytes.Buffer{}, r); err == nil {
		t.Error("what is no number was written")
	}
}

func TestReadErrors(t *testing.T) {
	var text bytes.Buffer
	must(t, report.Write(&text, perfect()))
	whole := text.String()
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "not a result file, or incomplete"},
		{"a part", whole[:len(whole)/2], "not a result file, or incomplete"},
		{"two", whole + whole, "not a result file, or incomplete"},
		{"other JSON", `{"a": 1}`, "it has no format number"},
		{"a list", `[]`, "not a result file"},
		{"a newer format", strings.Replace(whole, `"format": 1`, `"format": 2`, 1), "format 2, expected format 1"},
		{"an older format", `{"format": 0, "deliveries": "many"}`, "format 0"},
		{"wrong types", `{"format": 1, "seconds": "ten"}`, "seconds"},
	} {
		r, err := report.Read(strings.NewReader(tt.text))
		if err == nil || r != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", tt.name, r, err, tt.want)
		}
		if isFormat := strings.HasPrefix(tt.want, "format"); errors.Is(err, report.ErrFormat) != isFormat {
			t.Errorf("%s: is ErrFormat: %t", tt.name, !isFormat)
		}
	}
	// Read ignores a field that a later version has added.
	r, err := report.Read(strings.NewReader(`{"format": 1, "colour": "blue", "seconds": 7}`))
	if err != nil || r.Seconds != 7 {
		t.Errorf("with a field more: %+v, %v", r, err)
	}
}

// A file gets its name when it is complete. Until then, an older file of that name stays.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	names := func() string {
		entries, err := os.ReadDir(filepath.Dir(path))
		must(t, err)
		return fmt.Sprint(entries)
	}
	content := func() string {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	f, err := report.Create(path)
	must(t, err)
	f.Drop()
	if content() != "before" || strings.Contains(names(), "part") {
		t.Errorf("dropped: %q, %s", content(), names())
	}
	f, err = report.Create(path)
	must(t, err)
	nonsense := perfect()
	nonsense.Seconds = math.Inf(1)
	if err := f.Keep(nonsense); err == nil || content() != "before" || strings.Contains(names(), "part") {
		t.Errorf("nonsense: %v, %q, %s", err, content(), names())
	}
	f, err = report.Create(path)
	must(t, err)
	if content() != "before" {
		t.Errorf("before it is kept: %q", content())
	}
	must(t, f.Keep(perfect()))
	r, err := report.Open(path)
	if err != nil || !reflect.DeepEqual(r, perfect()) || strings.Contains(names(), "part") {
		t.Errorf("kept: %+v, %v, %s", r, err, names())
	}
	if _, err := report.Create(filepath.Join(path, "b.json")); err == nil {
		t.Error("a file was made below a file")
	}
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	for _, name := range []string{path, path + ".none"} {
		if _, err := report.Open(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Read does not panic for any bytes. A result that it accepts can be formatted, written and read again.
func FuzzRead(f *testing.F) {
	var text bytes.Buffer
	if err := report.Write(&text, broken()); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(`{"format": 1, "latency": {"count": 1, "p50_ms": -1e300}, "server": {"cpu_s": 1e-300}, "storm": {}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := report.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		_ = report.Summary(r)
		_ = report.Compare(*r, *perfect())
		_ = report.Compare(*perfect(), *r)
		var again bytes.Buffer
		if err := report.Write(&again, r); err != nil {
			t.Fatal(err)
		}
		if _, err := report.Read(&again); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleRead() {
	r, err := report.Read(strings.NewReader(`{"format": 1, "connects": {"clients": 3}, "deliveries": {"expected": 6, "received": 5, "lost": 1}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Verdict(r), report.Sound(r))
	_, err = report.Read(strings.NewReader(`{"format": 7}`))
	fmt.Println(errors.Is(err, report.ErrFormat), loadtest.One)
	// Output:
	// 3 clients got 5 of 6 deliveries: 1 lost. false
	// true one
}
