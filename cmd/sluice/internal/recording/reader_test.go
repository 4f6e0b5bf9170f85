package recording_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-push/sluice/cmd/sluice/internal/recording"
)

// readAll returns the frames of a reader, with copies of the data, and the error that ended it, nil for io.EOF.
func readAll(r *recording.Reader) ([]recording.Frame, error) {
	var out []recording.Frame
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		f.Data = bytes.Clone(f.Data)
		out = append(out, f)
	}
}

func compress(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type wanted struct {
	time   int64
	symbol string
	data   string
	line   int
}

var forms = []struct {
	name string
	text string
	want []wanted
}{
	{name: "empty"},
	{name: "blank lines", text: "\n\r\n \n"},
	{
		name: "stamped",
		text: "1723161253937085768 {\"s\":\"A\"}\n5 [1]\n",
		want: []wanted{{1723161253937085768, "A", `{"s":"A"}`, 1}, {5, "", "[1]", 2}},
	},
	{
		name: "carriage returns, blank lines, no last newline",
		text: "\n1 {\"s\":\"A\"}\r\n\n2 {\"s\":\"B\"}",
		want: []wanted{{1, "A", `{"s":"A"}`, 2}, {2, "B", `{"s":"B"}`, 4}},
	},
	{
		name: "white space is kept",
		text: "1  { \"s\" : \"A\" } \n",
		want: []wanted{{1, "A", ` { "s" : "A" } `, 1}},
	},
	{
		name: "captured conversation",
		text: "wss://x.example/ws <-> 1618678132.368463\n" +
			"wss://x.example/ws <- 1618678132.83: {\"op\":\"subscribe\",\"symbol\":\"A\"}\n" +
			"1618678132.9348202: {\"symbol\":\"A\"}\n1618678133.5: {}\n1618678134: 7\n1.1234567899: 8\n\n\n",
		want: []wanted{
			{1618678132934820200, "A", `{"symbol":"A"}`, 3},
			{1618678133500000000, "", "{}", 4},
			{1618678134000000000, "", "7", 5},
			{1123456789, "", "8", 6},
		},
	},
	{
		name: "captured conversation without its opening",
		text: "1618678132.5: {\"s\":\"A\"}\n",
		want: []wanted{{1618678132500000000, "A", `{"s":"A"}`, 1}},
	},
	{
		name: "captured answers",
		text: "https://x.example/depth?symbol=abc&limit=5 -> 12.5: {\"bids\":[]}\n" +
			"https://x.example/v2/order_book/btcusd -> 13.5: {\"bids\":[]}\n" +
			"https://x.example/depth?symbol=abc -> 14.5: {\"symbol\":\"DEF\"}\n" +
			"https://x.example/time -> 15.5: {}\n" +
			"::%zz -> 16.5: {}\n",
		want: []wanted{
			{12500000000, "ABC", `{"bids":[]}`, 1},
			{13500000000, "BTCUSD", `{"bids":[]}`, 2},
			{14500000000, "DEF", `{"symbol":"DEF"}`, 3},
			{15500000000, "", `{}`, 4},
			{16500000000, "", `{}`, 5},
		},
	},
}

func TestForms(t *testing.T) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range []string{tt.text, compress(t, tt.text), compress(t, "") + compress(t, tt.text)} {
				got, err := readAll(recording.NewReader(iotest.OneByteReader(strings.NewReader(text)), "x", nil))
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != len(tt.want) {
					t.Fatalf("got %d frames, want %d", len(got), len(tt.want))
				}
				for i, f := range got {
					if g := (wanted{f.Time, f.Symbol, string(f.Data), f.Line}); g != tt.want[i] {
						t.Errorf("frame %d: got %+v, want %+v", i, g, tt.want[i])
					}
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	tests := []struct {
		name   string
		in     io.Reader
		opts   *recording.Options
		frames int
		want   string
		is     error
	}{
		{name: "no form", in: strings.NewReader("hello\n"), want: `recording: x:1: neither "<unix nanoseconds> <JSON>" nor a captured conversation`},
		{name: "only a time", in: strings.NewReader("\n123\n"), want: `recording: x:2: neither "<unix nanoseconds> <JSON>" nor a captured conversation`},
		{name: "a time and a letter", in: strings.NewReader("12h 1\n"), want: `recording: x:1: neither "<unix nanoseconds> <JSON>" nor a captured conversation`},
		{name: "stamped, then captured", in: strings.NewReader("1 {}\n1.5: {}\n"), frames: 1, want: `recording: x:2: expected "<unix nanoseconds> <JSON>"`},
		{name: "captured, then stamped", in: strings.NewReader("1.5: {}\n1 {}\n"), frames: 1, want: `recording: x:2: expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`},
		{name: "captured, then text", in: strings.NewReader("1.5: {}\nhello\n"), frames: 1, want: `recording: x:2: expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`},
		{name: "no fraction after the point", in: strings.NewReader("1.: {}\n"), want: `recording: x:1: expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`},
		{name: "answer without time", in: strings.NewReader("h -> : {}\n"), want: `recording: x:1: expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`},
		{name: "answer without body", in: strings.NewReader("h -> 12.5\n"), want: `recording: x:1: expected "<unix seconds>: <JSON>" or "<address> <->, <- or -> <unix seconds>"`},
		{name: "nanoseconds too large", in: strings.NewReader("9223372036854775808 {}\n"), want: "recording: x:1: time is out of range: a number of 19 digits"},
		{name: "seconds too large", in: strings.NewReader("9223372036.9: {}\n"), want: "recording: x:1: time is out of range: 9223372036 seconds"},
		{name: "answer's seconds too large", in: strings.NewReader("h -> 99999999999999999999: {}\n"), want: "recording: x:1: time is out of range: a number of 20 digits"},
		{name: "no JSON", in: strings.NewReader("1 {}\n2 pong\n"), frames: 1, want: `recording: x:2: frame is not JSON: unexpected 'p' at byte 0`},
		{name: "empty frame", in: strings.NewReader("1 \n"), want: `recording: x:1: frame is not JSON: it ends early`},
		{name: "two values", in: strings.NewReader("1 {} {}\n"), want: `recording: x:1: frame is not JSON: unexpected '{' at byte 3`},
		{name: "last line cut off", in: strings.NewReader("1 {}\n2 {\"a\":"), frames: 1, want: `recording: x:2: frame is not JSON: it ends early`},
		{name: "nested too deep", in: strings.NewReader("1 " + strings.Repeat("[", 10_001)), want: `recording: x:1: frame is not JSON: it is nested deeper than 10000 levels`},
		{
			name: "line too long", in: strings.NewReader("1 \"aaaa\"\n2 \"aaaaa\"\n"), opts: &recording.Options{MaxLine: 8}, frames: 1,
			want: "recording: x:2: line is too long: more than 8 bytes", is: recording.ErrLineTooLong,
		},
		{
			name: "line without end", in: io.MultiReader(strings.NewReader("1 {}\n2 \""), endless{}), frames: 1,
			want: "recording: x:2: line is too long: more than 16777216 bytes", is: recording.ErrLineTooLong,
		},
		{
			name: "file breaks", in: io.MultiReader(strings.NewReader("1 {}\n2 {"), iotest.ErrReader(broken)), frames: 1,
			want: "recording: x:2: read: the disk is broken", is: broken,
		},
		{name: "file breaks at once", in: iotest.ErrReader(broken), want: "recording: x:1: read: the disk is broken", is: broken},
		{
			name: "gzip mark only", in: strings.NewReader("\x1f\x8b"), is: io.ErrUnexpectedEOF,
			want: "recording: x:1: the compressed data ends early, the file is incomplete: unexpected EOF",
		},
		{name: "no gzip after its mark", in: strings.NewReader("\x1f\x8b0123456789"), want: "recording: x:1: decompress: gzip: invalid header", is: gzip.ErrHeader},
		{name: "garbage after gzip", in: strings.NewReader(compress(t, "1 {}\n") + "garbage 0123456789"), frames: 1, want: "recording: x:2: decompress: gzip: invalid header", is: gzip.ErrHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := recording.NewReader(tt.in, "x", tt.opts)
			got, err := readAll(r)
			if len(got) != tt.frames {
				t.Errorf("%d frames came before the error, want %d", len(got), tt.frames)
			}
			if err == nil || err.Error() != tt.want {
				t.Fatalf("got error\n  %v, want\n  %s", err, tt.want)
			}
			var typed *recording.Error
			if !errors.As(err, &typed) || typed.File != "x" || typed.Line == 0 {
				t.Errorf("got %#v", err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if _, again := r.Next(); !errors.Is(again, err) {
				t.Errorf("another Next says %v", again)
			}
		})
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// TestTruncated truncates a compressed recording at every byte. The frames that are read are always the first ones of the recording.
func TestTruncated(t *testing.T) {
	plain, err := os.ReadFile(filepath.Join(cutFolder, "exchange-frames", "KRAKEN.ws.48.0"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := readAll(recording.NewReader(bytes.NewReader(plain), "whole", nil))
	if err != nil {
		t.Fatal(err)
	}
	packed := compress(t, string(plain))
	most := 0
	for n := 2; n < len(packed); n++ {
		got, err := readAll(recording.NewReader(strings.NewReader(packed[:n]), "part", nil))
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "incomplete") {
			t.Fatalf("%d of %d bytes: got error %v", n, len(packed), err)
		}
		if len(got) > len(want) {
			t.Fatalf("%d of %d bytes: %d frames", n, len(packed), len(got))
		}
		for i, f := range got {
			if !bytes.Equal(f.Data, want[i].Data) || f.Time != want[i].Time {
				t.Fatalf("%d of %d bytes: frame %d is %s", n, len(packed), i, f.Data)
			}
		}
		most = max(most, len(got))
	}
	if most != len(want) {
		t.Errorf("with only the checksum missing %d of %d frames came", most, len(want))
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	missing := filepath.Join(folder, "missing")
	if _, err := recording.Open(missing, nil); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), missing) != 1 {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := recording.Open(folder, nil); err == nil || err.Error() != "recording: "+folder+": is a folder" {
		t.Errorf("a folder: %v", err)
	}
	name := filepath.Join(folder, "name")
	if err := os.WriteFile(name, []byte("1 {}\n2 {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Name() != name {
		t.Errorf("it is called %s", r.Name())
	}
	if read, total := r.Progress(); read != 0 || total != 10 {
		t.Errorf("before the first frame %d of %d bytes are read", read, total)
	}
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestNoLimit(t *testing.T) {
	line := `"` + strings.Repeat("a", 17<<20) + `"`
	for name, limit := range map[string]int{"default": 0, "off": -1} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(recording.NewReader(strings.NewReader("1 "+line+"\n"), "x", &recording.Options{MaxLine: limit}))
			if limit == 0 {
				if !errors.Is(err, recording.ErrLineTooLong) {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err != nil || len(got) != 1 || string(got[0].Data) != line {
				t.Errorf("got %d frames and error %v", len(got), err)
			}
		})
	}
}
