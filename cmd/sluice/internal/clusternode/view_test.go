package clusternode

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/cluster"
)

// ask returns the answer of a handler.
func ask(t *testing.T, h *Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
	return w
}

// A gateway says which nodes it knows, and where its partitions are. What it says is read back.
func TestView(t *testing.T) {
	public := listen(t, "tcp", "127.0.0.1:0")
	n, err := New(parse(t, `
role: gateway
cluster:
  {name: c, node: g, labels: {zone: b}, discovery: {kind: static, addresses: ["a:1", "b:1"]}, placement: {policy: zone, pinned: {vip: {tier: vip}}}}
namespaces: [{name: quotes, mode: table, partitions: 4}, {name: vip, mode: value}]
`), Options{Public: public, Capacity: 9, Version: "v1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	if err := n.Join(nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Known(testwait.Context(t)); err != nil {
		t.Fatal(err)
	}
	h := &Handler{}
	h.Show(n.View)
	w := ask(t, h)
	want := `{"node":"g","cluster":"c","zone":"b","members":[{"id":"a:1","cluster":"c","role":"hub","link":"a:1","weight":100},` +
		`{"id":"b:1","cluster":"c","role":"hub","link":"b:1","weight":100},` +
		`{"id":"g","cluster":"c","role":"gateway","public":"http://` + public.Addr().String() +
		`","labels":{"zone":"b"},"weight":100,"capacity":9,"version":"v1","draining":true}],` +
		`"namespaces":[{"name":"quotes","hubs":["HUBS"]},` +
		`{"name":"vip","hubs":[],"problem":"cluster: no hub: namespace \"vip\" is pinned to hubs with tier=vip, and none of 2 hubs has that"}]}` + "\n"
	view, err := ReadView(strings.NewReader(w.Body.String()))
	if err != nil || len(view.Members) != 3 || len(view.Namespaces) != 2 {
		t.Fatalf("%+v, %v", view, err)
	}
	hubs := view.Namespaces[0].Hubs
	for i, hub := range hubs {
		p, err := n.places.placer.Place(n.Set(), broker.Partition{Namespace: "quotes", Index: i}, "b")
		if err != nil || hub != p.ID {
			t.Errorf("partition %d is on %s, want %v, %v", i, hub, p, err)
		}
	}
	if want = strings.Replace(want, "HUBS", strings.Join(hubs, `","`), 1); len(hubs) != 4 || w.Body.String() != want {
		t.Errorf("answered\n%swant\n%s", w.Body, want)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	again, err := json.Marshal(view)
	if err != nil || string(again)+"\n" != want {
		t.Errorf("read back as %s, %v", again, err)
	}
}

// Before the node is part of its cluster, and when it cannot say what it is, there is an error.
func TestHandlerErrors(t *testing.T) {
	h := &Handler{}
	if w := ask(t, h); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "waits for its broker") || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	h.Show(func() (*View, error) { return nil, errors.New("no name") })
	if w := ask(t, h); w.Code != http.StatusInternalServerError || w.Body.String() != "no name\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A node in no cluster is its only member, and has all partitions.
func TestAlone(t *testing.T) {
	view, err := Alone(parse(t, "cluster: {node: me, labels: {zone: z}}\nnamespaces: [{name: quotes, mode: table, partitions: 3}]"),
		Options{Public: listen(t, "tcp", "127.0.0.1:0")}, func(m *cluster.Member) { m.Sessions = 7 })()
	if err != nil {
		t.Fatal(err)
	}
	if m := view.Members[0]; view.Node != "me" || view.Cluster != "" || view.Zone != "z" || len(view.Members) != 1 || m.ID != "me" || m.Sessions != 7 ||
		m.Public == "" {
		t.Errorf("%+v", view)
	}
	if ns := view.Namespaces[len(view.Namespaces)-1]; ns.Name != "quotes" || strings.Join(ns.Hubs, " ") != "me me me" {
		t.Errorf("%+v", view.Namespaces)
	}
}

// Text that is no view is refused, and a member that is not valid.
func TestReadView(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "not JSON as sluice info",
		"[]":                             "not JSON as sluice info",
		"{}":                             "there are no node and members",
		`{"node":"a"}`:                   "there are no node and members",
		`{"node":"a","members":[]}`:      "there are no node and members",
		`{"node":"a","members":[{}]}`:    "id is missing",
		`{"node":"a","members":["a"]}`:   "bad member",
		`{"node":"a","members":[null]}`:  "bad member",
		`{"node":"a","members":{"a":1}}`: "not JSON as sluice info",
		`{"node":"a","members":[{"id":"a","role":"none"}]}`:                    "unknown role",
		`{"node":"a","members":[{"id":"a","weight":-1}]}`:                      "weight",
		`{"node":"` + strings.Repeat("a", mostViewBytes) + `","members":[{}]}`: "bytes",
	} {
		if v, err := ReadView(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %+v, %v", text, v, err)
		}
	}
}
