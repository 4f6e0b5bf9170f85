package carriertest_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
)

// The harness of a carrier whose clients listen to the body of an HTTP response.
func ExampleRun() {
	client := carriertest.HTTPStream{
		Form: carriertest.JSON,
		Way:  gateway.Emulated,
		Request: func(first []byte, _ string) carriertest.StreamRequest {
			return carriertest.StreamRequest{Method: "POST", Target: httpstream.Path, Body: first}
		},
	}
	_ = func(t *testing.T) { // TestConformance
		carriertest.Run(t, carriertest.Harness{Transport: httpstream.New, Form: client.Form, Way: client.Way, Dial: client.Dial})
	}
}

func ExampleReadEvent() {
	frame, id, err := carriertest.ReadEvent(bufio.NewReader(strings.NewReader("retry: 1000\nid: a=x:1\ndata: {}\n\n")))
	fmt.Println(string(frame), *id, err)
	// Output: {} a=x:1 <nil>
}
