package delta_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-push/sluice/push/delta"
)

// decode reads JSON with encoding/json, numbers as their text.
func decode(text []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// sameJSON reports whether two texts are the same value.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, errX := decode(a)
	y, errY := decode(b)
	if errX != nil || errY != nil {
		t.Fatalf("%q: %v; %q: %v", a, errX, b, errY)
	}
	return reflect.DeepEqual(x, y)
}

// oracleMerge is the algorithm of RFC 7396, section 2, word by word.
func oracleMerge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object = maps.Clone(object)
	for name, value := range p {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = oracleMerge(object[name], value)
		}
	}
	return object
}

// oracleCanSay reports whether a patch from from to to exists.
func oracleCanSay(from, to any) bool {
	now, ok := to.(map[string]any)
	if !ok {
		return true
	}
	was, _ := from.(map[string]any)
	for name, value := range now {
		before, had := was[name]
		if value == nil && !(had && before == nil) || !oracleCanSay(before, value) {
			return false
		}
	}
	return true
}

var errUnfit = errors.New("unfit")

// oracleTakes reports whether the package reads a text: valid JSON, not too deep, and without two members of one name, except in objects inside
// arrays.
func oracleTakes(text []byte) bool {
	if !json.Valid(text) || !utf8.Valid(text) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return oracleWalk(d, true, 0) == nil
}

func oracleWalk(d *json.Decoder, names bool, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth == delta.MaxDepth {
		return errUnfit
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if names && seen[name.(string)] {
				return fmt.Errorf("%w: %s twice", errUnfit, name)
			}
			seen[name.(string)] = true
		}
		if err := oracleWalk(d, names && open == '{', depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// hasSurrogates reports whether a text may contain half of a surrogate pair. encoding/json reads all of these as one character.
func hasSurrogates(text []byte) bool { return strings.Contains(strings.ToLower(string(text)), `\ud`) }

// checkMerge checks the patch between two texts, and that there is a patch exactly when there can be one.
func checkMerge(t *testing.T, e *delta.Encoder, from, to []byte) (ok bool) {
	t.Helper()
	patch, ok := e.AppendMergePatch([]byte("before"), from, to)
	if !bytes.HasPrefix(patch, []byte("before")) || !ok && len(patch) != len("before") {
		t.Fatalf("dst came back as %q", patch)
	}
	patch = patch[len("before"):]
	was, _ := decode(from)
	now, _ := decode(to)
	if hasSurrogates(from) || hasSurrogates(to) {
		if !ok {
			return false
		}
	} else {
		_, object := was.(map[string]any)
		_, both := now.(map[string]any)
		if can := object && both && oracleTakes(from) && oracleTakes(to) && oracleCanSay(was, now); can != ok {
			t.Fatalf("%s to %s: the patch is %q, %v; that there is one is %v", from, to, patch, ok, can)
		}
	}
	if !ok {
		return false
	}
	how, err := decode(patch)
	if err != nil {
		t.Fatalf("%s to %s: the patch %s is no JSON: %v", from, to, patch, err)
	}
	if got := oracleMerge(was, how); !reflect.DeepEqual(got, now) {
		t.Fatalf("%s to %s: by the patch %s it becomes %v", from, to, patch, got)
	}
	checkApply(t, from, patch)
	if bytes.Equal(from, to) && string(patch) != "{}" {
		t.Fatalf("%s did not change, and the patch is %s", from, patch)
	}
	return true
}

// checkApply checks a merge patch against the oracle, on texts that the oracle takes.
func checkApply(t *testing.T, doc, patch []byte) {
	t.Helper()
	got, err := delta.ApplyMergePatch([]byte("before"), doc, patch)
	if err != nil {
		t.Fatalf("%s with %s: %v", doc, patch, err)
	}
	got, found := bytes.CutPrefix(got, []byte("before"))
	if !found || !utf8.Valid(got) {
		t.Fatalf("%s with %s: %q", doc, patch, got)
	}
	target, _ := decode(doc)
	how, _ := decode(patch)
	value, err := decode(got)
	if want := oracleMerge(target, how); err != nil || !reflect.DeepEqual(value, want) {
		t.Fatalf("%s with %s: %s, %v; %v is expected", doc, patch, got, err, want)
	}
	if len(got) > len(doc)+len(patch) {
		t.Fatalf("%s with %s: %s is longer than both", doc, patch, got)
	}
}

// jsonText writes random JSON with few names, so that names repeat, in all notations, and with all kinds of values.
type jsonText struct {
	r *rand.Rand
	s []byte
}

func (j *jsonText) pick(some ...string) { j.s = append(j.s, some[j.r.IntN(len(some))]...) }

func (j *jsonText) space() {
	if j.r.IntN(8) == 0 {
		j.pick(" ", "\n", "\t ", "\r\n")
	}
}

func (j *jsonText) value(depth int) {
	j.space()
	switch kind := j.r.IntN(10); {
	case kind < 3 && depth > 0:
		j.object(depth)
	case kind == 3 && depth > 0:
		j.s = append(j.s, '[')
		for i := range j.r.IntN(3) {
			if i > 0 {
				j.s = append(j.s, ',')
			}
			j.value(depth - 1)
		}
		j.s = append(j.s, ']')
	default:
		j.pick("1", "1.0", "1e0", "-0", "0", "12345678901234567890", "true", "false", "null", `""`, `"a"`, `"\u0061"`, `"水"`, `"\"\\\n"`)
	}
	j.space()
}

func (j *jsonText) object(depth int) {
	names := []string{`"a"`, `"b"`, `"c"`, `"水"`, `""`, `"a\"b"`}
	j.r.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	if j.r.IntN(4) == 0 {
		for i, name := range names {
			names[i] = strings.NewReplacer(`"a"`, `"\u0061"`, "水", `\u6C34`, `\"`, `\u0022`).Replace(name)
		}
	}
	j.s = append(j.s, '{')
	for i, name := range names[:j.r.IntN(len(names))] {
		if i > 0 {
			j.s = append(j.s, ',')
		}
		j.space()
		j.s = append(j.s, name...)
		j.space()
		j.s = append(j.s, ':')
		j.value(depth - 1)
	}
	j.space()
	j.s = append(j.s, '}')
}
