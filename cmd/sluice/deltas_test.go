package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// TestDeltaState: a subscriber resolves publications that may be deltas.
func TestDeltaState(t *testing.T) {
	const first, second = `{"n":1,"same":"text"}`, `{"n":2,"same":"text"}`
	fossil := string(new(delta.Encoder).AppendFossil(nil, []byte(first), []byte(second)))
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type pub struct {
		in   push.Publication
		want string // the data, or the text of the error
	}
	full := func(key, data string) push.Publication { return push.Publication{Key: key, Data: []byte(data)} }
	diff := func(key, data string) push.Publication {
		return push.Publication{Key: key, Data: []byte(data), Delta: true}
	}
	for _, tt := range []struct {
		name string
		form push.Delta
		pubs []pub
	}{
		{"fossil", push.Fossil, []pub{{full("", quote(first)), first}, {diff("", quote(fossil)), second}, {full("", quote(first)), first}}},
		{"merge", push.Merge, []pub{{full("a", first), first}, {full("b", second), second}, {diff("a", `{"n":2}`), second}}},
		{"removed", push.Merge, []pub{{full("a", first), first}, {push.Publication{Key: "a", Op: push.Remove}, ""}, {diff("a", `{}`), "without a base"}}},
		{"other base", push.Fossil, []pub{{full("", quote(`"x"`)), `"x"`}, {diff("", quote(fossil)), "cannot be applied"}}},
		{"not a patch", push.Merge, []pub{{full("", first), first}, {diff("", `{"n":`), "cannot be applied"}}},
		{"not a string", push.Fossil, []pub{{full("", first), "is not a string"}}},
	} {
		b := &deltaState{form: tt.form, quoted: true, held: map[string][]byte{}}
		for i, p := range tt.pubs {
			err := b.resolve("c", &p.in)
			if got := string(p.in.Data); err == nil && got != p.want || err != nil && !strings.Contains(err.Error(), p.want) {
				t.Errorf("%s: publication %d is %s: %v, want %s", tt.name, i, got, err, p.want)
			}
		}
	}
}
