package recording_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// FuzzReader reads files of any content. The reader never panics, bounds its lines, and returns only valid JSON that is in the file.
func FuzzReader(f *testing.F) {
	f.Add([]byte("1723161253937085768 {\"stream\":\"btcusdt@trade\",\"data\":{\"s\":\"BTCUSDT\"}}\n2 [1,[],\"trade\",\"A/B\"]\n"))
	f.Add([]byte("wss://x <-> 1.5\nwss://x <- 1.5: {}\n1.5: {\"channel\":\"a_b\",\"event\":\"data\"}\nh?symbol=a -> 2.5: {}\n\n"))
	f.Add([]byte("1.5: {\"topic\":\"/a:B_c\"}\n1: {\"data\":[{\"symbol\":\"\\u0041\"}]}\r\n"))
	f.Add([]byte(compress(f, "1 {\"product_id\":\"A\"}\n")))
	f.Add([]byte(compress(f, "1 {\"product_id\":\"A\"}\n")[:20]))
	f.Fuzz(func(t *testing.T, file []byte) {
		const most = 512
		frames, err := readAll(recording.NewReader(bytes.NewReader(file), "x", &recording.Options{MaxLine: most}))
		if err != nil && !strings.HasPrefix(err.Error(), "recording: x:") {
			t.Errorf("error %v", err)
		}
		plain := !bytes.HasPrefix(file, []byte{0x1f, 0x8b})
		line := 0
		for _, fr := range frames {
			if len(fr.Data) > most || !recording.Valid(fr.Data) {
				t.Errorf("frame %q", fr.Data)
			}
			if plain && !bytes.Contains(file, fr.Data) {
				t.Errorf("frame %q does not stand in the file", fr.Data)
			}
			if fr.Time < 0 || fr.Line <= line {
				t.Errorf("time %d, line %d after %d", fr.Time, fr.Line, line)
			}
			line = fr.Line
			if len(fr.Symbol) > recording.MaxSymbolLen || !utf8.ValidString(fr.Symbol) {
				t.Errorf("symbol %q", fr.Symbol)
			}
		}
	})
}

// FuzzScan compares the scanner with encoding/json: both accept the same input.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"stream":"a@b","data":{"s":"A","b":[["1.0","0e-1"]],"m":true,"n":null,"o":false}}`,
		`[1,-0.5E+10,"\u12aF\\\"\/\b\f\n\r\t"," "]`, " {} ", "[]", `"`, `{"a":1,}`, "[1,]", "01", "1.", "-", "1e", `"\u12"`, `"\x"`, "tru", "",
		"\"\x1f\"", "\"\xff\"", `{"a" 1}`, `{1:2}`, "[[[[", `{"data":{"data":[{"s":"x"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, err := recording.Scan(frame)
		if valid := recording.Valid(frame); valid != (err == nil) {
			t.Errorf("valid is %v, the walker says %v: %q", valid, err, frame)
		}
	})
}
