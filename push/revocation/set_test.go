package revocation_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/revocation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func put(t interface {
	Helper()
	Fatal(args ...any)
}, s *revocation.Set, key string, e revocation.Entry,
) bool {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	isNew, err := s.Put(key, data)
	if err != nil {
		t.Fatal(err)
	}
	return isNew
}

// TestRevoked has a row for each way in which a token is revoked or not.
func TestRevoked(t *testing.T) {
	at := time.Unix(1000, 0)
	var s revocation.Set
	put(t, &s, "1", revocation.Entry{Kind: revocation.Token, ID: "t1", Until: 1001})
	put(t, &s, "2", revocation.Entry{Kind: revocation.Token, ID: "t2", Until: 1000})
	put(t, &s, "3", revocation.Entry{Kind: revocation.Tokens, ID: "ann", Before: 500})
	put(t, &s, "4", revocation.Entry{Kind: revocation.User, ID: "bob", Until: 2000})
	for name, tt := range map[string]struct {
		token auth.Token
		want  bool
	}{
		"nothing":                {auth.Token{}, false},
		"its ID":                 {auth.Token{ID: "t1", User: "eve"}, true},
		"its ID, over":           {auth.Token{ID: "t2", User: "eve"}, false},
		"other ID":               {auth.Token{ID: "ann", User: "eve"}, false},
		"issued before":          {auth.Token{User: "ann", IssuedAt: time.Unix(499, 0)}, true},
		"issued in that second":  {auth.Token{User: "ann", IssuedAt: time.Unix(500, 0)}, true},
		"issued after":           {auth.Token{User: "ann", IssuedAt: time.Unix(501, 0)}, false},
		"does not say when":      {auth.Token{User: "ann"}, true},
		"blocked":                {auth.Token{User: "bob", IssuedAt: at}, true},
		"user with another's ID": {auth.Token{User: "t1"}, false},
	} {
		if got := s.Revoked(&tt.token, at); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if s.Revoked(&auth.Token{User: "bob"}, time.Unix(2000, 0)) {
		t.Error("the block does not end")
	}
	if over := s.Over(at); len(over) != 1 || over[0] != "2" {
		t.Errorf("over are %q", over)
	}
}

// TestPutRefuses: rows that no node has written are passed over.
func TestPutRefuses(t *testing.T) {
	var s revocation.Set
	for _, data := range []string{
		"", "1", "{", `{"kind":"user"}`, `{"kind":"all","id":"x"}`, `{"kind":"tokens","id":"x"}`, `{"kind":"user","id":"x","until":-1}`,
		`{"kind":"user","id":"` + strings.Repeat("x", 1025) + `"}`,
	} {
		if _, err := s.Put("k", []byte(data)); err == nil {
			t.Errorf("%.40s was taken", data)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d are revoked", s.Len())
	}
}

// TestSetIsAsItsRows: after any changes, the set is what a map of the rows says.
func TestSetIsAsItsRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s revocation.Set
		rows := map[string]revocation.Entry{}
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			kind, name := revocation.Kind(rapid.IntRange(0, 2).Draw(t, "kind")), names.Draw(t, "name")
			key := fmt.Sprint(kind, name)
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				s.Remove(key)
				delete(rows, key)
			case 1:
				keep := map[string]bool{key: true}
				s.Keep(keep)
				for k := range rows {
					if !keep[k] {
						delete(rows, k)
					}
				}
			default:
				e := revocation.Entry{Kind: kind, ID: name, Before: int64(rapid.IntRange(1, 5).Draw(t, "before")), Until: int64(rapid.IntRange(0, 5).Draw(t, "until"))}
				if isNew := put(t, &s, key, e); isNew == (rows[key] == e) {
					t.Fatalf("%+v over %+v: new %t", e, rows[key], isNew)
				}
				rows[key] = e
			}
		}
		now := int64(rapid.IntRange(0, 6).Draw(t, "now"))
		token := auth.Token{ID: names.Draw(t, "token"), User: names.Draw(t, "user"), IssuedAt: time.Unix(int64(rapid.IntRange(1, 6).Draw(t, "issued")), 0)}
		want := false
		for _, e := range rows {
			about := e.ID == token.User
			if e.Kind == revocation.Token {
				about = e.ID == token.ID
			}
			want = want || about && (e.Until == 0 || now < e.Until) && (e.Kind != revocation.Tokens || token.IssuedAt.Unix() <= e.Before)
		}
		if got := s.Revoked(&token, time.Unix(now, 0)); got != want || s.Len() != len(rows) {
			t.Fatalf("revoked %t, want %t; %d rows, want %d", got, want, s.Len(), len(rows))
		}
	})
}
