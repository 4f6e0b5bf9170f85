package loadtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest"
)

// Validate returns an error for each invalid setting, and none for the zero Spec.
func TestValidate(t *testing.T) {
	if err := (loadtest.Spec{}).Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		spec loadtest.Spec
		want string
	}{
		"no URL":          {loadtest.Spec{URL: "localhost"}, "not a server URL"},
		"bad URL":         {loadtest.Spec{URL: "ws://%zz"}, "malformed"},
		"publish URL":     {loadtest.Spec{PublishURL: "ftp://x"}, "not a publish URL"},
		"bad publish URL": {loadtest.Spec{PublishURL: "http://%zz"}, "malformed"},
		"protocol":        {loadtest.Spec{Protocol: "x"}, `unknown protocol "x"`},
		"centrifuge":      {loadtest.Spec{Protocol: "centrifuge"}, `unknown protocol "centrifuge": use json, protobuf, plain`},
		"transport":       {loadtest.Spec{Transport: "x"}, `transport "x" is not known: use websocket, sse, http_stream`},
		"no protobuf":     {loadtest.Spec{Transport: "sse", Protocol: loadtest.Protobuf}, `transport sse does not carry the protocol "protobuf": use json`},
		"no plain":        {loadtest.Spec{Transport: "sse", Protocol: loadtest.Plain}, `transport sse does not carry the protocol "plain": use websocket`},
		"URL of sse":      {loadtest.Spec{Transport: "sse", URL: "ws://a"}, `transport sse: "ws://a" is no address of a node`},
		"bad URL of sse":  {loadtest.Spec{Transport: "sse", URL: "http://%zz"}, "malformed"},
		"publish":         {loadtest.Spec{Publish: "x"}, `unknown publish method "x"`},
		"shape":           {loadtest.Spec{Shape: "x"}, `unknown shape "x"`},
		"clients":         {loadtest.Spec{Clients: -1}, "-1 clients"},
		"few tokens":      {loadtest.Spec{Clients: 3, Tokens: []string{"a", "b"}}, "2 tokens for 3 clients"},
		"token, tokens":   {loadtest.Spec{Clients: 1, Tokens: []string{"a"}, Token: "a"}, "or one for all of them"},
		"rejoin":          {loadtest.Spec{Rejoin: -1}, "64 concurrent connects, -1 after a storm"},
		"pauses":          {loadtest.Spec{RetryMin: 2, RetryMax: 1}, "the shortest first"},
		"plain storm":     {loadtest.Spec{Shape: loadtest.Storm, Channels: 2, Protocol: loadtest.Plain}, "a storm of one channel"},
		"storm channels":  {loadtest.Spec{Shape: loadtest.Storm, Channels: 2, Each: 3}, "3 subscriptions per client to 2 channels"},
		"rate":            {loadtest.Spec{Rate: 1e7}, "publications per second"},
		"window":          {loadtest.Spec{Window: 1000}, "window 1000"},
		"bytes":           {loadtest.Spec{Bytes: 63}, "63 bytes"},
		"stalled":         {loadtest.Spec{Stalled: 1}, "stalled 1"},
		"stall too long":  {loadtest.Spec{Duration: time.Second, StallFor: 2 * time.Second}, "stall for 2s"},
		"stall below 0":   {loadtest.Spec{StallFor: -1}, "stall for -1ns"},
		"buffer":          {loadtest.Spec{StallBuffer: -1}, "stall buffer"},
		"connect":         {loadtest.Spec{Connect: -1}, "concurrent connects"},
		"times":           {loadtest.Spec{Warmup: -1}, "negative time: use 0 or more for settle, warmup and patience"},
		"duration":        {loadtest.Spec{Duration: -1}, "duration"},
		"processes":       {loadtest.Spec{Clients: 2, Processes: 3}, "3 processes for 2 clients"},
		"channels":        {loadtest.Spec{Shape: loadtest.Market, Channels: 3, Each: 4}, "4 subscriptions per client to 3 channels"},
		"zipf":            {loadtest.Spec{Shape: loadtest.Market, Zipf: 0.5}, "zipf 0.5"},
		"plain":           {loadtest.Spec{Shape: loadtest.Market, Protocol: loadtest.Plain}, "no channels"},
		"streams":         {loadtest.Spec{Shape: loadtest.Market, Channels: 100_000, Rate: -1, Window: 100}, "use fewer"},
		"prefix":          {loadtest.Spec{Prefix: `a"`}, "prefix"},
		"too many":        {loadtest.Spec{Rate: 1e6, Duration: 1e14}, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.spec.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "loadtest: ") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := loadtest.Run(t.Context(), c.spec, nil); err == nil {
				t.Error("Run accepts it")
			}
		})
	}
}
