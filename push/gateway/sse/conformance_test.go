package sse_test

import (
	"net/http"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sse"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name      string
		transport func(*gateway.Gateway) gateway.Transport
		path      string
		way       gateway.Way
		http2     bool
		packed    bool
	}{
		{"Emulated", sse.New, sse.Path, gateway.Emulated, false, false},
		{"OneWay", sse.NewOneWay, sse.OneWayPath, gateway.OneWay, false, false},
		{"EmulatedOverHTTP2", sse.New, sse.Path, gateway.Emulated, true, false},
		{"CompressedOneWay", sse.NewOneWay, sse.OneWayPath, gateway.OneWay, false, true},
		{"CompressedOverHTTP2", sse.New, sse.Path, gateway.Emulated, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := carriertest.HTTPStream{Form: carriertest.JSON, Way: tt.way, HTTP2: tt.http2, Compressed: tt.packed, Read: carriertest.ReadEvent}
			c.Request = func(first []byte, lastID string) carriertest.StreamRequest {
				r := carriertest.StreamRequest{Method: http.MethodGet, Header: http.Header{"Accept": {"text/event-stream"}}}
				r.Target = tt.path + "?cf_connect=" + url.QueryEscape(string(first))
				if lastID != "" {
					r.Header.Set("Last-Event-ID", lastID)
				}
				return r
			}
			carriertest.Run(t, carriertest.Harness{Transport: tt.transport, Form: c.Form, Way: c.Way, Dial: c.Dial, Compression: c.Compressed})
		})
	}
}
