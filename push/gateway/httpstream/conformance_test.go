package httpstream_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name      string
		transport func(*gateway.Gateway) gateway.Transport
		client    carriertest.HTTPStream
	}{
		{"JSON", httpstream.New, carriertest.HTTPStream{Form: carriertest.JSON, Way: gateway.Emulated}},
		{"Protobuf", httpstream.New, carriertest.HTTPStream{Form: carriertest.Protobuf, Way: gateway.Emulated}},
		{"OneWay", httpstream.NewOneWay, carriertest.HTTPStream{Form: carriertest.JSON, Way: gateway.OneWay}},
		{"CompressedJSON", httpstream.New, carriertest.HTTPStream{Form: carriertest.JSON, Way: gateway.Emulated, Compressed: true}},
		{"CompressedProtobuf", httpstream.New, carriertest.HTTPStream{Form: carriertest.Protobuf, Way: gateway.Emulated, Compressed: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.client
			c.Request = func(first []byte, _ string) carriertest.StreamRequest {
				r := carriertest.StreamRequest{Method: http.MethodPost, Target: httpstream.Path, Header: http.Header{}, Body: first}
				if c.Form == carriertest.Protobuf {
					r.Header.Set("Content-Type", "application/octet-stream")
				}
				if c.Way == gateway.OneWay {
					r.Target = httpstream.OneWayPath
				}
				return r
			}
			carriertest.Run(t, carriertest.Harness{Transport: tt.transport, Form: c.Form, Way: c.Way, Dial: c.Dial, Compression: c.Compressed})
		})
	}
}
