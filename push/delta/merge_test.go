package delta_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/delta"
)

// The examples of RFC 7396, appendix A, in full.
var appendixA = []struct{ original, patch, result string }{
	{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
	{`{"a":"b"}`, `{"a":null}`, `{}`},
	{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
	{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
	{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
	{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
	{`["a","b"]`, `["c","d"]`, `["c","d"]`},
	{`{"a":"b"}`, `["c"]`, `["c"]`},
	{`{"a":"foo"}`, `null`, `null`},
	{`{"a":"foo"}`, `"bar"`, `"bar"`},
	{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
	{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
	{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
}

func TestApplyMergePatchAppendixA(t *testing.T) {
	for _, tt := range appendixA {
		got, err := delta.ApplyMergePatch([]byte("before "), []byte(tt.original), []byte(tt.patch))
		if err != nil || string(got) != "before "+tt.result {
			t.Errorf("%s with %s: %s, %v; %s is expected", tt.original, tt.patch, got, err, tt.result)
		}
		checkMerge(t, new(delta.Encoder), []byte(tt.original), []byte(tt.result))
	}
}

// The example of RFC 7396, section 3.
func TestMergePatchSection3(t *testing.T) {
	const doc = `{
     "title": "Goodbye!",
     "author" : {
       "givenName" : "John",
       "familyName" : "Doe"
     },
     "tags":[ "example", "sample" ],
     "content": "This will be unchanged"
   }`
	const patch = `{
     "title": "Hello!",
     "phoneNumber": "+01-123-456-7890",
     "author": {
       "familyName": null
     },
     "tags": [ "example" ]
   }`
	const result = `{
     "title": "Hello!",
     "author" : {
       "givenName" : "John"
     },
     "tags": [ "example" ],
     "content": "This will be unchanged",
     "phoneNumber": "+01-123-456-7890"
   }`
	got, err := delta.ApplyMergePatch(nil, []byte(doc), []byte(patch))
	if err != nil || !sameJSON(t, got, []byte(result)) {
		t.Errorf("%s, %v", got, err)
	}
	made, ok := new(delta.Encoder).AppendMergePatch(nil, []byte(doc), []byte(result))
	if !ok || !sameJSON(t, made, []byte(patch)) {
		t.Errorf("the patch is %s, %v", made, ok)
	}
}

func TestAppendMergePatch(t *testing.T) {
	for _, tt := range []struct{ name, from, to, patch string }{
		{"the same", `{"a":1}`, `{"a":1}`, `{}`},
		{"empty", `{}`, `{}`, `{}`},
		{"another order", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, `{}`},
		{"other white space", `{"a":{"b":1}}`, " { \"a\" :\n{ \"b\" : 1 } } ", `{}`},
		{"changed", `{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":3}`},
		{"numbers are their text", `{"a":1,"b":0,"c":10}`, `{"a":1.0,"b":-0,"c":1e1}`, `{"a":1.0,"b":-0,"c":1e1}`},
		{"added, removed and kept", `{"a":1,"b":2}`, `{"b":2,"c":{"d":[]}}`, `{"c":{"d":[]},"a":null}`},
		{"all removed", `{"a":1,"b":{"c":2}}`, `{}`, `{"a":null,"b":null}`},
		{"deep", `{"a":{"b":{"c":1,"d":2}},"e":3}`, `{"a":{"b":{"c":1,"d":4}},"e":3}`, `{"a":{"b":{"d":4}}}`},
		{"emptied", `{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`},
		{"an object instead of a number", `{"a":1}`, `{"a":{}}`, `{"a":{}}`},
		{"a number instead of an object", `{"a":{}}`, `{"a":1}`, `{"a":1}`},
		{"an array as a whole", `{"a":[1,2,3]}`, `{"a":[1,2,4]}`, `{"a":[1,2,4]}`},
		{"null in an array", `{"a":[]}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		{"null that stays", `{"a":null,"b":{"c":null,"d":1}}`, `{"b":{"d":2,"c":null},"a":null}`, `{"b":{"d":2}}`},
		{"null that goes", `{"a":null}`, `{}`, `{"a":null}`},
		{"null that became something", `{"a":null}`, `{"a":0}`, `{"a":0}`},
		{"names with escapes", `{"a":1,"\u0062":2,"c":3}`, `{"\u0061":1,"b":5}`, `{"b":5,"c":null}`},
		{"characters beyond 16 bits", `{"🌊":1}`, `{"\ud83c\udf0a":2}`, `{"\ud83c\udf0a":2}`},
		{"strings in other words", `{"a":"b"}`, `{"a":"\u0062"}`, `{"a":"\u0062"}`},
		{"two of one name in an array", `{"a":[]}`, `{"a":[{"b":1,"b":2}]}`, `{"a":[{"b":1,"b":2}]}`},
		{"names that look alike", `{"a\n":1,"a\\n":2,"":3}`, `{"a\n":4,"a\\n":2,"":3}`, `{"a\n":4}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e delta.Encoder
			got, ok := e.AppendMergePatch([]byte("before "), []byte(tt.from), []byte(tt.to))
			if !ok || string(got) != "before "+tt.patch {
				t.Errorf("the patch is %s, %v; %s is expected", got, ok, tt.patch)
			}
			applied, err := delta.ApplyMergePatch(nil, []byte(tt.from), []byte(tt.patch))
			if err != nil || !sameJSON(t, applied, []byte(tt.to)) {
				t.Errorf("applied it is %s, %v", applied, err)
			}
		})
	}
}

// nested returns objects nested to a given depth.
func nested(depth int, inner string) string {
	return strings.Repeat(`{"a":`, depth) + inner + strings.Repeat("}", depth)
}

func TestAppendMergePatchCannot(t *testing.T) {
	const object = `{"a":1}`
	for _, tt := range []struct{ name, from, to string }{
		{"a member becomes null", object, `{"a":null}`},
		{"a new member is null", object, `{"a":1,"b":null}`},
		{"null in a new object", object, `{"a":1,"b":{"c":[],"d":{"e":null}}}`},
		{"null in an object that was none", object, `{"a":{"b":null}}`},
		{"null deep inside", `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":null}}}`},
		{"to an array", object, `[]`},
		{"from an array", `[]`, object},
		{"to null", object, `null`},
		{"from null", `null`, object},
		{"from nothing", ``, object},
		{"to nothing", object, ``},
		{"to no JSON", object, `{"a":1`},
		{"from no JSON", `{"a":1}}`, object},
		{"a name twice", object, `{"a":1,"b":1,"a":2}`},
		{"a name twice, written in two ways", object, `{"a":1,"\u0061":2}`},
		{"a name twice before", `{"b":{"c":1,"c":1}}`, object},
		{"half of a surrogate pair", object, `{"\ud83c":1}`},
		{"the other half", object, `{"\udf0a":1}`},
		{"both halves, but not together", object, `{"\ud83c-\udf0a":1}`},
		{"both halves in the wrong order", object, `{"\udf0a\ud83c":1}`},
		{"half before another character", object, `{"\ud83c\u0061":1}`},
		{"too deep", object, nested(delta.MaxDepth+1, "1")},
		{"too deep in an array", object, `{"a":` + strings.Repeat("[", delta.MaxDepth) + strings.Repeat("]", delta.MaxDepth) + `}`},
		{"too deep before", nested(1000, "1"), object},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e delta.Encoder
			if got, ok := e.AppendMergePatch([]byte("before"), []byte(tt.from), []byte(tt.to)); ok || string(got) != "before" {
				t.Errorf("the patch is %q, %v", got, ok)
			}
			if got, ok := e.AppendMergePatch(nil, []byte(object), []byte(`{"a":2}`)); !ok || string(got) != `{"a":2}` {
				t.Errorf("the next patch is %q, %v", got, ok)
			}
		})
	}
	if _, ok := new(delta.Encoder).AppendMergePatch(nil, []byte(object), []byte(nested(delta.MaxDepth, "1"))); !ok {
		t.Error("no patch for a value that is as deep as it may be")
	}
}

// Input that is not JSON is refused, with the offset.
func TestApplyMergePatchRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", ``, "unexpected end of JSON, expected a value at byte 0"},
		{"space", " \n", "unexpected end of JSON, expected a value at byte 2"},
		{"two values", `{} {}`, `unexpected '{', expected the end at byte 3`},
		{"no name", `{1:2}`, `unexpected '1', expected a member name at byte 1`},
		{"no colon", `{"a" 1}`, `unexpected '1', expected ':' at byte 5`},
		{"no value", `{"a":}`, `unexpected '}', expected a value at byte 5`},
		{"no end", `{"a":1`, `unexpected end of JSON, expected ',' or '}' at byte 6`},
		{"comma at the end", `{"a":1,}`, `unexpected '}', expected a member name at byte 7`},
		{"comma at the end of an array", `[1,]`, `unexpected ']', expected a value at byte 3`},
		{"mixed brackets", `[1}`, `unexpected '}', expected ',' or ']' at byte 2`},
		{"broken true", `[tru]`, `unexpected 't', expected true at byte 1`},
		{"broken null", `nul`, `unexpected 'n', expected null at byte 0`},
		{"leading zero", `01`, `unexpected '1', expected the end at byte 1`},
		{"only a sign", `-`, `unexpected end of JSON, expected a digit at byte 1`},
		{"no digit behind the point", `1.e1`, `unexpected 'e', expected a digit at byte 2`},
		{"no digit in the exponent", `1e+`, `unexpected end of JSON, expected a digit at byte 3`},
		{"plus", `+1`, `unexpected '+', expected a value`},
		{"open string", `"a`, `a string does not end at byte 2`},
		{"line break in a string", "\"a\nb\"", `a control character in a string at byte 2`},
		{"unknown escape", `"\x"`, `an escape that JSON does not know at byte 1`},
		{"short escape", `"\u12"`, `an escape that JSON does not know at byte 1`},
		{"letters that are no digits", `"\u12g4"`, `an escape that JSON does not know at byte 1`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", `invalid UTF-8 in a string at byte 6`},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", `invalid UTF-8 in a string at byte 1`},
		{"a name twice", `{"a":1,"b":{"a":1},"a":2}`, `the object has a second member "a" at byte 19`},
		{"a surrogate in a name", `{"x\ud800":1}`, `half of a surrogate pair at byte 1`},
		{"too deep", strings.Repeat("[", 65), `nested deeper than 64 levels at byte 64`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for side, run := range map[string]func() ([]byte, error){
				"document": func() ([]byte, error) { return delta.ApplyMergePatch([]byte("before"), []byte(tt.text), []byte("{}")) },
				"patch":    func() ([]byte, error) { return delta.ApplyMergePatch([]byte("before"), []byte("{}"), []byte(tt.text)) },
			} {
				got, err := run()
				var format *delta.FormatError
				if !errors.As(err, &format) {
					t.Fatalf("%s: the error is %v", side, err)
				}
				if !strings.HasPrefix(err.Error(), "delta: apply merge patch: "+side+": ") ||
					!strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: the error is %q, %q is expected", side, err, tt.want)
				}
				if string(got) != "before" {
					t.Errorf("%s: dst came back as %q", side, got)
				}
			}
		})
	}
}

// Text that a patch does not change stays as it is, and members keep their order.
func TestApplyMergePatchKeepsText(t *testing.T) {
	const doc = "{ \"z\" : [ 1.0,\n2 ], \"\\u0061\":1, \"b\":{\"c\" :1e5}}"
	got, err := delta.ApplyMergePatch(nil, []byte(doc), []byte(`{"new":{"x":null,"y":1},"a":2,"b":{"d":3}}`))
	if want := "{\"z\":[ 1.0,\n2 ],\"\\u0061\":2,\"b\":{\"c\":1e5,\"d\":3},\"new\":{\"y\":1}}"; err != nil || string(got) != want {
		t.Errorf("%s, %v; %s is expected", got, err, want)
	}
}

func TestMergePatchRandom(t *testing.T) {
	var e delta.Encoder
	said := 0
	const pairs = 3_000
	for seed := range uint64(pairs) {
		r := newRand(seed)
		text := func() []byte {
			j := jsonText{r: r}
			j.object(4)
			return j.s
		}
		from, to := text(), text()
		if checkMerge(t, &e, from, to) {
			said++
		}
		checkMerge(t, &e, from, from)
		checkApply(t, from, to)
	}
	if said < pairs/10 || said > pairs*9/10 {
		t.Errorf("%d of %d pairs have a patch: the worlds are not mixed well", said, pairs)
	}
}

func TestMergePatchMarket(t *testing.T) {
	var e delta.Encoder
	for seed := range uint64(100) {
		r := newRand(seed)
		if from, to := tick(r), tick(r); !checkMerge(t, &e, from, to) {
			t.Fatalf("no patch from %s to %s", from, to)
		}
		b := newBook(r, 40)
		from := b.json()
		if b.move(r, 5); !checkMerge(t, &e, from, b.json()) {
			t.Fatalf("no patch from %s to %s", from, b.json())
		}
	}
	row := row4K()
	if patch, ok := e.AppendMergePatch(nil, row.from, row.to); !ok || string(patch) != `{"price":101.5}` {
		t.Errorf("%s, %v", patch, ok)
	}
}

// Objects with very many members do not take disproportionately long.
func TestMergePatchManyMembers(t *testing.T) {
	object := func(first, step int) []byte {
		var s bytes.Buffer
		for i := range 20_000 {
			fmt.Fprintf(&s, `,"%d":{"\u0061":%d}`, first+i*step, i%7*step)
		}
		return append(append([]byte("{"), s.Bytes()[1:]...), '}')
	}
	var e delta.Encoder
	if !checkMerge(t, &e, object(0, 1), object(19_999, -1)) {
		t.Error("no patch")
	}
}
