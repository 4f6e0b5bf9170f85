package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// scrape returns the metrics of a node, with native histograms.
func (p *process) scrape() map[string]*dto.MetricFamily {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.internal+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	decoder, out := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)), map[string]*dto.MetricFamily{}
	for {
		f := new(dto.MetricFamily)
		switch err := decoder.Decode(f); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			p.t.Fatal(err)
		}
		out[f.GetName()] = f
	}
}

// metric returns the sum of a metric over all series that have the given labels, which are pairs of name and value. For a histogram it is the
// number of observations.
func metric(f *dto.MetricFamily, labels ...string) (sum float64) {
next:
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if have[labels[i]] != labels[i+1] {
				continue next
			}
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// eventuallyShown waits until the metrics of a node satisfy a condition.
func (p *process) eventuallyShown(what string, holds func(map[string]*dto.MetricFamily) bool) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(feedTime)
	defer late.Stop()
	for {
		shown := p.scrape()
		if holds(shown) {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			p.t.Fatalf("it is not shown that %s:\n%v", what, shown)
		}
	}
}

// metricsClient is a WebSocket client that sends what the test tells it to.
type metricsClient struct {
	t    *testing.T
	conn *websocket.Conn
}

func (p *process) metricsClient(t *testing.T) *metricsClient {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+p.public+"/connection/websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	c := &metricsClient{t, conn}
	c.ask(&protocol.Command{ID: 1, Kind: protocol.KindConnect})
	return c
}

// ask sends a command and returns its answer. It skips pushes.
func (c *metricsClient) ask(cmd *protocol.Command) *protocol.Reply {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, json.AppendCommand(nil, cmd)); err != nil {
		c.t.Fatal(err)
	}
	for {
		_, frame, err := c.conn.Read(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		for line, rest := json.NextLine(frame); line != nil; line, rest = json.NextLine(rest) {
			r := new(protocol.Reply)
			if err := json.DecodeReply(line, r); err != nil {
				c.t.Fatal(err)
			}
			if r.ID == cmd.ID {
				return r
			}
		}
	}
}

// subscribe subscribes to a channel, from a position unless that is zero.
func (c *metricsClient) subscribe(name string, at push.Position) push.Position {
	c.t.Helper()
	cmd := &protocol.Command{ID: 2, Kind: protocol.KindSubscribe}
	cmd.Subscribe = protocol.SubscribeRequest{Channel: name, Recover: at.Epoch != "", Position: at}
	r := c.ask(cmd)
	if r.Error != nil {
		c.t.Fatal(r.Error)
	}
	return r.Subscribe.Position
}

// TestMetrics: the metrics follow the events. Clients connect over either transport, receive publications, are cut and resume; the API is
// called, also with errors.
func TestMetrics(t *testing.T) {
	const publications = 50
	p := startNode(t, "--insecure")
	if s := p.scrape(); metric(s["sluice_ready"]) != 1 || metric(s["sluice_broker_connected"], "kind", "nats") != 1 || s["process_open_fds"] == nil {
		t.Errorf("at the beginning: %v", s)
	}
	first := p.metricsClient(t)
	from := first.subscribe("news", push.Position{})
	events, err := http.Get("http://" + p.public + `/connection/uni_sse?cf_connect={"subs":{"news":{}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Body.Close() }()
	p.publishAll(1, publications, func(_, i int) string { return fmt.Sprintf(`{"channel":"news","data":%d}`, i) })
	p.eventuallyShown("both have got everything", func(s map[string]*dto.MetricFamily) bool {
		return metric(s["sluice_deliveries_total"]) == 2*publications && metric(s["sluice_delivery_delay_seconds"]) == 2*publications &&
			metric(s["sluice_publications_received_total"]) == publications && metric(s["sluice_publications_accepted_total"]) == publications &&
			metric(s["sluice_api_requests_total"], "method", "publish", "outcome", "ok") == publications &&
			metric(s["sluice_api_request_duration_seconds"], "method", "publish") == publications &&
			metric(s["sluice_connections"], "transport", "uni_sse") == 1 && metric(s["sluice_connections"], "transport", "websocket") == 1 &&
			metric(s["sluice_subscribes_total"], "outcome", "new") == 2 && metric(s["sluice_fanout_duration_seconds"]) > 0
	})
	_ = first.conn.CloseNow()
	p.eventuallyShown("the client is gone", func(s map[string]*dto.MetricFamily) bool {
		return metric(s["sluice_disconnects_total"], "transport", "websocket", "code", "left") == 1 && metric(s["sluice_sessions"]) == 1
	})
	p.metricsClient(t).subscribe("news", from)
	p.metricsClient(t).subscribe("news", push.Position{Epoch: "another life", Offset: from.Offset})
	if resp, err := http.Post("http://"+p.public+"/api/publish", "", strings.NewReader(`{"channel":"nowhere:x","data":1}`)); err != nil {
		t.Error(err)
	} else {
		_ = resp.Body.Close()
	}
	bad := p.metricsClient(t)
	if err := bad.conn.Write(t.Context(), websocket.MessageText, []byte("nonsense")); err != nil {
		t.Error(err)
	}
	p.eventuallyShown("one came back, one could not, and one was sent away", func(s map[string]*dto.MetricFamily) bool {
		return metric(s["sluice_subscribes_total"], "outcome", "recovered") == 1 && metric(s["sluice_subscribes_total"], "outcome", "fresh_epoch") == 1 &&
			metric(s["sluice_disconnects_total"], "code", "3501") == 1 && metric(s["sluice_commands_total"], "kind", "subscribe") == 3 &&
			metric(s["sluice_api_requests_total"], "outcome", "unknown_channel") == 1 && metric(s["sluice_subscriptions"]) == 3 &&
			metric(s["sluice_sent_bytes_total"], "transport", "uni_sse") > 0 && metric(s["sluice_received_bytes_total"]) > 0
	})
}
