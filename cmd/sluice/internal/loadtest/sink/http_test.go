package sink

import (
	"errors"
	"testing"
)

// Only an answer which says that the publication was not accepted is a refusal. After any other error its sequence number must not be used
// again.
func TestParseAnswer(t *testing.T) {
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
		err := parseAnswer(c.status, []byte(c.body))
		if _, no := errors.AsType[*Refusal](err); (err == nil) != c.ok || no != c.refused {
			t.Errorf("status %d %s: %v, refused %v", c.status, c.body, err, no)
		}
	}
}
