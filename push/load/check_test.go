package load_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/load"
)

// A spec that cannot be run is refused with what is wrong; one that says nothing is complete.
func TestValidate(t *testing.T) {
	if err := (load.Spec{}).Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		spec load.Spec
		want string
	}{
		"no URL":          {load.Spec{URL: "localhost"}, "no URL to connect to"},
		"bad URL":         {load.Spec{URL: "ws://%zz"}, "cannot be read"},
		"publish URL":     {load.Spec{PublishURL: "ftp://x"}, "no URL to publish to"},
		"bad publish URL": {load.Spec{PublishURL: "http://%zz"}, "cannot be read"},
		"protocol":        {load.Spec{Protocol: "x"}, `unknown protocol "x"`},
		"publish":         {load.Spec{Publish: "x"}, `unknown way to publish "x"`},
		"shape":           {load.Spec{Shape: "x"}, `unknown shape "x"`},
		"clients":         {load.Spec{Clients: -1}, "-1 clients"},
		"rate":            {load.Spec{Rate: 1e7}, "publications a second"},
		"window":          {load.Spec{Window: 1000}, "window 1000"},
		"bytes":           {load.Spec{Bytes: 63}, "63 bytes"},
		"stalled":         {load.Spec{Stalled: 1}, "stalled 1"},
		"stall too long":  {load.Spec{Duration: time.Second, StallFor: 2 * time.Second}, "stall for 2s"},
		"stall below 0":   {load.Spec{StallFor: -1}, "stall for -1ns"},
		"buffer":          {load.Spec{StallBuffer: -1}, "stall buffer"},
		"connect":         {load.Spec{Connect: -1}, "at a time"},
		"times":           {load.Spec{Warmup: -1}, "times cannot be negative"},
		"duration":        {load.Spec{Duration: -1}, "duration"},
		"processes":       {load.Spec{Clients: 2, Processes: 3}, "3 processes for 2 clients"},
		"channels":        {load.Spec{Shape: load.Market, Channels: 3, Each: 4}, "4 of 3 channels"},
		"zipf":            {load.Spec{Shape: load.Market, Zipf: 0.5}, "zipf 0.5"},
		"plain":           {load.Spec{Shape: load.Market, Protocol: load.Plain}, "no channels"},
		"streams":         {load.Spec{Shape: load.Market, Channels: 100_000, Rate: -1, Window: 100}, "use fewer"},
		"prefix":          {load.Spec{Prefix: `a"`}, "prefix"},
		"too many":        {load.Spec{Rate: 1e6, Duration: 1e14}, "more than can be counted"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.spec.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "load: ") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := load.Run(t.Context(), c.spec, nil); err == nil {
				t.Error("it is run all the same")
			}
		})
	}
}
