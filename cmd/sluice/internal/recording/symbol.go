package recording

import (
	"bytes"
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

// maxInterned bounds how many symbols a reader interns. Every frame of a further symbol allocates its own string.
const maxInterned = 4096

// scanner parses a frame (see scan) and records the values that may name its symbol. All slices point into the frame; their strings still
// contain JSON escapes.
type scanner struct {
	in    []byte
	at    int
	depth int

	top       [3][]byte // by index in topNames
	data      [2][]byte // by index in dataNames
	ambiguous bool      // the elements of data disagree
	event     []byte
	stream    []byte
	topic     []byte
	channel   []byte

	elements    int  // number of elements, if the frame is an array
	numberFirst bool // the first element is a number
	last        []byte
	beforeLast  []byte
}

// topNames and dataNames are the names of members that hold a symbol. The first takes precedence.
var (
	topNames  = [...]string{"product_id", "symbol", "s"}
	dataNames = [...]string{"symbol", "s"}
)

// addMember records a member whose value is a string.
func (f *scanner) addMember(where location, key, text []byte) {
	if where == inData {
		for i, name := range dataNames {
			if string(key) != name {
				continue
			}
			if f.data[i] != nil && !bytes.Equal(f.data[i], text) {
				f.ambiguous = true
			}
			f.data[i] = text
		}
		return
	}
	switch string(key) {
	case "event":
		f.event = text
	case "stream":
		f.stream = text
	case "topic":
		f.topic = text
	case "channel":
		f.channel = text
	default:
		for i, name := range topNames {
			if string(key) == name {
				f.top[i] = text
			}
		}
	}
}

// addElement records an element of a frame that is an array.
func (f *scanner) addElement(value []byte) {
	if f.elements == 0 {
		f.numberFirst = value[0] == '-' || value[0] >= '0' && value[0] <= '9'
	}
	f.elements++
	f.beforeLast, f.last = f.last, value
}

// symbol applies the rules of the package comment to the recorded values. It returns the symbol as it is written in the frame, or nil.
func (f *scanner) symbol() []byte {
	for _, s := range f.top {
		if len(s) > 0 {
			return s
		}
	}
	if f.ambiguous {
		return nil
	}
	for _, s := range f.data {
		if len(s) > 0 {
			return s
		}
	}
	if s, _, found := bytes.Cut(f.stream, []byte{'@'}); found && len(s) > 0 && s[0] != '!' {
		return s
	}
	if _, s, found := bytes.Cut(f.topic, []byte{':'}); found && bytes.IndexByte(s, ',') < 0 {
		s, _, _ = bytes.Cut(s, []byte{'_'})
		return s
	}
	if i := bytes.LastIndexByte(f.channel, '_'); i >= 0 && len(f.event) > 0 && !bytes.HasPrefix(f.event, []byte("bts:")) {
		return f.channel[i+1:]
	}
	if f.elements >= 4 && f.numberFirst && f.beforeLast[0] == '"' && f.last[0] == '"' {
		return f.last[1 : len(f.last)-1]
	}
	return nil
}

// addressSymbol returns the symbol in the address of an HTTP request, and nil if there is none.
func addressSymbol(address string) []byte {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	if s := u.Query().Get("symbol"); s != "" {
		return []byte(s)
	}
	if strings.Contains(u.Path, "/order_book/") {
		return []byte(path.Base(u.Path))
	}
	return nil
}

// interner normalises symbols and keeps one string of each.
type interner struct {
	known map[string]string // by the spelling in the recording
}

// symbol returns the symbol for raw, which is the inside of a JSON string. It returns "" if raw is not a valid symbol.
func (in *interner) symbol(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if s, ok := in.known[string(raw)]; ok {
		return s
	}
	s := normalise(raw)
	if len(in.known) < maxInterned && len(raw) <= MaxSymbolLen {
		if in.known == nil {
			in.known = make(map[string]string)
		}
		in.known[string(raw)] = s
	}
	return s
}

func normalise(raw []byte) string {
	s := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		if err := json.Unmarshal([]byte(`"`+s+`"`), &s); err != nil {
			return ""
		}
	}
	if len(s) > MaxSymbolLen || !utf8.ValidString(s) {
		return ""
	}
	upper := []byte(s)
	for i, c := range upper {
		switch {
		case c < 0x20 || c == 0x7f:
			return ""
		case c >= 'a' && c <= 'z':
			upper[i] = c - 'a' + 'A'
		}
	}
	return string(upper)
}
