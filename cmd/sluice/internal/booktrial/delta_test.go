package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

func TestWhole(t *testing.T) {
	old, next := newChange("b", "99", "1", 10).data, newChange("b", "99", "2.5", 11).data
	fossil, err := json.Marshal(string(new(delta.Encoder).AppendFossil(nil, []byte(old), []byte(next))))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		form push.Delta
		p    push.Publication
		has  bool
		want string // an error begins with row
	}{
		"merge":              {push.Merge, push.Publication{Data: []byte(`{"q":"2.5","u":11}`), Delta: true}, true, next},
		"merge, in full":     {push.Merge, push.Publication{Data: []byte(next)}, false, next},
		"fossil":             {push.Fossil, push.Publication{Data: fossil, Delta: true}, true, next},
		"fossil, in full":    {push.Fossil, push.Publication{Data: text}, true, next},
		"fossil, no string":  {push.Fossil, push.Publication{Data: []byte(next)}, true, "row"},
		"fossil, wrong base": {push.Fossil, push.Publication{Data: []byte(`"5\n0;"`), Delta: true}, true, "row"},
		"of nothing":         {push.Merge, push.Publication{Data: []byte(`{}`), Delta: true}, false, "row"},
		"not asked for":      {push.NoDelta, push.Publication{Data: []byte(`{}`), Delta: true}, true, "row"},
		"no patch":           {push.Merge, push.Publication{Data: []byte(`{`), Delta: true}, true, "row"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolve(tt.form, &tt.p, old, tt.has)
			if fails := strings.HasPrefix(tt.want, "row"); fails != (err != nil) || !fails && string(got) != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}
