package load

import (
	"errors"
	"testing"
)

// Only an answer that says that a publication was not taken is a refusal: after any other its number must not be used again.
func TestAnswered(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		ok      bool
		refused bool
	}{
		{status: 200, body: `{"result":{}}`, ok: true},
		{status: 200, body: `{"error":{"code":100,"message":"internal"}}`},
		{status: 500, body: `{"error":{"code":100,"message":"internal"}}`},
		{status: 200, body: `{"error":{"code":102,"message":"unknown channel"}}`, refused: true},
		{status: 400, body: "bad", refused: true},
		{status: 500, body: "oh"},
		{status: 502, body: "{}"},
		{status: 503, body: "busy", refused: true},
		{status: 504},
	} {
		err := answered(c.status, []byte(c.body))
		if _, no := errors.AsType[*refusal](err); (err == nil) != c.ok || no != c.refused {
			t.Errorf("status %d %s: %v, refused %v", c.status, c.body, err, no)
		}
	}
}
