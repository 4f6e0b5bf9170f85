package connect_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-push/sluice/internal/testwait"
	connectclients "github.com/sluice-push/sluice/push/gateway/connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
)

// textTransport has a client of gRPC-Web speak base64. It pads each piece of a request, as the protocol allows.
type textTransport struct {
	t    testing.TB
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *textTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Content-Type", strings.Replace(r.Header.Get("Content-Type"), "grpc-web", "grpc-web-text", 1))
	in, out := io.Pipe()
	plain := r.Body
	r.Body, r.ContentLength = in, -1
	go func() {
		var buf [100]byte // no multiple of three
		for {
			n, err := plain.Read(buf[:])
			if _, failed := io.WriteString(out, base64.StdEncoding.EncodeToString(buf[:n])); err == nil {
				err = failed
			}
			if err != nil {
				_ = out.CloseWithError(err)
				_ = plain.Close()
				return
			}
		}
	}()
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	contentType := res.Header.Get("Content-Type")
	if res.StatusCode != http.StatusOK {
		return res, nil // a refusal in HTTP, for instance of two streams over HTTP/1.1
	}
	if !strings.HasPrefix(contentType, "application/grpc-web-text+") {
		t.t.Errorf("the response has the content type %q, status %s", contentType, res.Status)
	}
	res.Header.Set("Content-Type", strings.Replace(contentType, "-text", "", 1))
	res.Body = &decoded{ReadCloser: res.Body}
	return res, nil
}

// decoded is a body whose groups of base64 are decoded one by one.
type decoded struct {
	io.ReadCloser
	rest []byte
}

// Read implements io.Reader.
func (d *decoded) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		var group [4]byte
		if _, err := io.ReadFull(d.ReadCloser, group[:]); err != nil {
			return 0, err
		}
		var err error
		if d.rest, err = base64.StdEncoding.DecodeString(string(group[:])); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// TestNotText: bodies that are no base64, and content types that are none of gRPC-Web, are refused.
func TestNotText(t *testing.T) {
	n := newNode(t, nil)
	for name, c := range map[string]struct{ method, contentType, body, status string }{
		"no base64":          {clientv1connect.ClientSendProcedure, "application/grpc-web-text", "AAAA*AAA", "13"},
		"an end in a group":  {clientv1connect.ClientSendProcedure, "application/grpc-web-text+proto", "AAAAA", "13"},
		"an end in a head":   {clientv1connect.ClientConsumeProcedure, "application/grpc-web-text", "AAAA", "13"},
		"an unknown form":    {clientv1connect.ClientSendProcedure, "application/grpc-web-text+xml", "", ""},
		"not quite the type": {clientv1connect.ClientSendProcedure, "application/grpc-web-texts", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, n.url+c.method, strings.NewReader(c.body))
			must(t, err)
			r.Header.Set("Content-Type", c.contentType)
			res, err := n.httpClient(variant{}).Do(r)
			must(t, err)
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			must(t, err)
			if c.status == "" {
				if res.StatusCode != http.StatusUnsupportedMediaType {
					t.Errorf("got %s", res.Status)
				}
				return
			}
			status := res.Header.Get("Grpc-Status")
			if status == "" {
				text, err := base64.StdEncoding.DecodeString(string(body))
				must(t, err)
				_, status, _ = strings.Cut(string(text), "grpc-status: ")
				status, _, _ = strings.Cut(status, "\r\n")
			}
			if status != c.status {
				t.Errorf("got the status %q: %v %q", status, res.Header, body)
			}
		})
	}
}

// FuzzTextBody: pieces of any sizes, each padded, decode to what they were, whatever the sizes of reads. Anything else is an error, or what
// encoding/base64 makes of it.
func FuzzTextBody(f *testing.F) {
	f.Add([]byte("a body"), uint8(1), uint8(1))
	f.Add([]byte("AAAAAAECAw=="), uint8(4), uint8(5))
	f.Add([]byte("AA=A"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, piece, read uint8) {
		decode := func(text string) ([]byte, error) {
			in := iotest.OneByteReader(strings.NewReader(text))
			return io.ReadAll(&reads{connectclients.NewTextBody(in), int(read) + 1})
		}
		var text strings.Builder
		for part := range slices.Chunk(data, int(piece)+1) {
			text.WriteString(base64.StdEncoding.EncodeToString(part))
		}
		if got, err := decode(text.String()); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q came back as %q, %v", data, got, err)
		}
		got, err := decode(string(data))
		if want, invalid := base64.StdEncoding.DecodeString(string(data)); invalid == nil && !bytes.ContainsAny(data, "\r\n") &&
			(err != nil || !bytes.Equal(got, want)) {
			t.Errorf("%q: got %q, %v, want %q", data, got, err, want)
		}
		if err == nil && len(data)%4 != 0 {
			t.Errorf("%q is not refused", data)
		}
	})
}

// reads is a reader whose caller asks for so many bytes at a time.
type reads struct {
	io.Reader
	most int
}

// Read implements io.Reader.
func (r *reads) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.most)]) }
