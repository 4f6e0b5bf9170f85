package sluice_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer says what a package may import besides the standard library.
type layer struct {
	ours    []string // packages of this module, by folder
	foreign []string // modules of others, by path
	tests   []string // modules of others that only the tests import
	any     bool     // anything: the place where everything is put together
}

// The two products. A package of the library never imports one of the platform, not even in its tests.
const platform = "push"

// layers is the direction of imports: a package imports only what its row names. Rows point down. A name that ends in "/..." is
// a row for every package below that folder which has no row of its own; internal/... may be imported by every package, and push/internal/...
// by the platform.
var layers = map[string]layer{
	".": {},

	// Small helpers without opinion.
	"internal/...":       {ours: []string{"internal/..."}},
	"internal/proxydial": {},

	// What sessions over datagrams stand on.
	"internal/datagram": {ours: []string{"timingwheel", "transport/udp"}},
	// What a session on a goroutine of its own stands on.
	"internal/goroutineconn": {},

	// Event loops accept connections and have timers.
	"internal/eventloop": {ours: []string{"timingwheel", "transport"}},

	// Programs for development: nothing imports them.
	"tools/...": {any: true},

	// The library: leaves first. It uses the standard library only.
	"timingwheel":    {},
	"workerpool":     {},
	"codec":          {},
	"rpc/frame":      {},
	"rpc/pending":    {},
	"rpc/balance":    {ours: []string{"discovery"}},
	"splice":         {},
	"transport":      {},
	"transport/udp":  {},
	"websocket/wire": {},
	"session":        {ours: []string{"timingwheel", "workerpool", "transport", "transport/udp"}},
	"websocket":      {ours: []string{"session", "websocket/wire"}},
	"discovery":      {},
	"rpc":            {ours: []string{"rpc/frame", "rpc/pending", "session"}},
	"rpc/client":     {ours: []string{"rpc", "rpc/balance", "discovery"}},

	// Forms of bodies; each has one foreign dependency.
	"rpc/protobuf": {ours: []string{"rpc", "rpc/frame"}, foreign: []string{"google.golang.org/protobuf"}},
	"rpc/thrift":   {ours: []string{"rpc", "rpc/frame"}, foreign: []string{"github.com/apache/thrift"}},

	// Registries; each adapter has one foreign dependency.
	"discovery/discoverytest": {ours: []string{"discovery", "rpc", "rpc/client"}}, // calls to what is found
	"discovery/etcd":          {ours: []string{"discovery"}, foreign: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3"}},
	"discovery/zookeeper":     {ours: []string{"discovery"}, foreign: []string{"github.com/go-zookeeper/zk"}},

	"reconnect": {ours: []string{"timingwheel", "transport", "session"}},

	// The platform. Its own small helpers may be imported by all of it.
	"push/internal/...":  {},
	"push":               {},
	"push/delta":         {},
	"push/channel":       {ours: []string{"push", "push/delta"}},
	"push/protocol":      {ours: []string{"push"}},
	"push/protocol/json": {ours: []string{"push", "push/protocol"}},

	// The Protobuf form, written by hand, and what is generated from its .proto files: for gRPC, for Connect, and for the tests of the former.
	"push/protocol/protobuf": {ours: []string{"push", "push/protocol", "push/protocol/json"}},
	"push/protocol/protobuf/clientv1": {
		foreign: []string{"google.golang.org/protobuf", "google.golang.org/grpc"},
	},
	"push/protocol/protobuf/clientv1/clientv1connect": {
		ours: []string{"push/protocol/protobuf/clientv1"}, foreign: []string{"connectrpc.com/connect"},
	},
	"push/protocol/protobuf/unistream": {
		foreign: []string{"google.golang.org/protobuf", "google.golang.org/grpc"},
	},
	"push/protocol/protobuf/unistream/unistreamconnect": {
		ours: []string{"push/protocol/protobuf/unistream"}, foreign: []string{"connectrpc.com/connect"},
	},

	"push/broker":        {ours: []string{"push"}},
	"push/broker/memory": {ours: []string{"push", "push/broker", "push/channel"}},
	"push/broker/nats": {
		ours:    []string{"push", "push/broker", "push/channel"},
		foreign: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2"},
	},
	"push/link/wire":   {ours: []string{"push", "push/broker", "rpc"}},
	"push/link":        {ours: []string{"push", "push/broker", "push/link/wire", "rpc", "rpc/frame", "session"}},
	"push/broker/link": {ours: []string{"push", "push/broker", "push/link/wire", "rpc", "rpc/frame"}},
	"push/pushtest":    {ours: []string{"push", "push/broker"}},
	"push/pace":        {ours: []string{"push"}},
	"push/timers":      {ours: []string{"timingwheel"}},
	"push/presence":    {ours: []string{"push", "push/broker"}},
	"push/relay":       {ours: []string{"push", "push/broker", "push/channel"}},
	"push/hub": {
		ours: []string{
			"push", "push/channel", "push/broker", "push/hub/control", "push/hub/counters", "push/pace", "push/presence", "push/relay", "push/timers", "timingwheel",
		},
	},
	"push/hub/control":  {ours: []string{"push"}},
	"push/hub/counters": {ours: []string{"push", "push/channel"}},
	"push/cluster":      {ours: []string{"push", "push/broker", "discovery"}},
	"push/cluster/members": {
		ours: []string{"push/broker", "push/cluster", "discovery"}, tests: []string{"go.etcd.io/etcd/client/v3"},
	},
	"push/origin":      {},
	"push/admission":   {},
	"push/forwarded":   {},
	"push/compression": {},
	"push/gateway": {
		ours: []string{
			"push", "push/admission", "push/channel", "push/compression", "push/forwarded", "push/gateway/expiry", "push/gateway/inbox", "push/gateway/route", "push/gateway/settings", "push/hub", "push/origin",
			"push/presence", "push/protocol", "push/protocol/json", "push/protocol/protobuf", "timingwheel",
		},
	},
	"push/gateway/expiry":     {},
	"push/gateway/inbox":      {},
	"push/gateway/route":      {ours: []string{"push"}},
	"push/gateway/settings":   {ours: []string{"push", "push/hub", "push/pace", "push/protocol"}},
	"push/gateway/outbox":     {ours: []string{"push", "push/hub"}},
	"push/gateway/stream":     {ours: []string{"push", "push/compression", "push/gateway", "push/gateway/outbox", "push/hub", "push/protocol"}},
	"push/gateway/sse":        {ours: []string{"push", "push/gateway", "push/gateway/stream", "push/hub", "push/protocol"}},
	"push/gateway/httpstream": {ours: []string{"push", "push/gateway", "push/gateway/stream", "push/protocol"}},
	"push/gateway/clientrpc": {
		ours:    []string{"push", "push/gateway", "push/gateway/route", "push/protocol", "push/protocol/protobuf"},
		foreign: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}, // codes; fields
	},
	"push/gateway/grpc/rawstream": {
		ours: []string{"push/protocol/protobuf"}, foreign: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
	},
	"push/gateway/grpc": {
		ours: []string{
			"push", "push/gateway", "push/gateway/clientrpc", "push/gateway/grpc/rawstream", "push/gateway/outbox", "push/protocol",
			"push/protocol/protobuf/clientv1", "push/protocol/protobuf/unistream", "transport",
		},
		foreign: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
	},
	"push/gateway/connect": {
		ours: []string{
			"push", "push/channel", "push/compression", "push/gateway", "push/gateway/clientrpc", "push/gateway/stream", "push/hub", "push/protocol", "push/protocol/protobuf",
			"push/protocol/protobuf/clientv1", "push/protocol/protobuf/clientv1/clientv1connect",
			"push/protocol/protobuf/unistream/unistreamconnect",
		},
		foreign: []string{"connectrpc.com/connect", "google.golang.org/grpc", "google.golang.org/protobuf"},
	},
	"push/gateway/sessionconn": {ours: []string{"push", "push/gateway", "push/hub", "session"}},
	"push/gateway/tcp":         {ours: []string{"push", "push/gateway", "push/gateway/sessionconn", "push/protocol", "codec", "session", "transport"}},
	"push/gateway/websocket":   {ours: []string{"push", "push/compression", "push/gateway", "push/gateway/sessionconn", "session", "websocket/wire"}},
	"push/api":                 {ours: []string{"push", "push/channel", "push/revocation", "push/hub", "push/pace", "push/protocol/json"}},
	"push/auth":                {ours: []string{"push", "push/protocol/json"}, foreign: []string{"github.com/golang-jwt/jwt/v5"}},
	"push/auth/jwks":           {ours: []string{"push/auth"}},
	"push/revocation":          {ours: []string{"push", "push/auth", "push/channel", "push/hub"}},
	"push/permission":          {ours: []string{"push", "push/auth"}},
	"push/config":              {ours: []string{"push", "push/admission", "push/auth", "push/cluster", "push/forwarded", "push/origin"}, foreign: []string{"github.com/goccy/go-yaml"}},
	"push/metrics": {
		ours:    []string{"push", "push/admission", "push/hub", "push/gateway", "push/api", "push/broker", "push/cluster"},
		foreign: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	},

	// The suite of all carriers makes the nodes that it needs.
	"push/pushtest/carriertest": {
		ours: []string{
			"push", "push/broker", "push/broker/memory", "push/delta", "push/gateway", "push/gateway/route", "push/hub", "push/protocol", "push/protocol/json",
			"push/protocol/protobuf", "transport", "websocket",
		},
	},

	// A weak network, for tests and for load: it knows nothing of the platform.
	"push/pushtest/network": {},
	"push/laws":             {},

	// The binary. Its load generator knows of the platform what a client knows.
	"cmd/...": {any: true},
	"cmd/sluice/internal/loadtest": {
		ours: []string{
			"push", "push/protocol", "push/protocol/json", "push/protocol/protobuf", "push/pushtest/network", "session", "transport", "websocket",
			"cmd/sluice/internal/clientconn", "cmd/sluice/internal/loadtest/delivery", "cmd/sluice/internal/loadtest/hostclock",
			"cmd/sluice/internal/loadtest/process", "cmd/sluice/internal/loadtest/reasoncount", "cmd/sluice/internal/loadtest/sink",
		},
		foreign: []string{"github.com/HdrHistogram/hdrhistogram-go"},
	},
	"cmd/sluice/internal/loadtest/delivery":    {foreign: []string{"github.com/HdrHistogram/hdrhistogram-go"}},
	"cmd/sluice/internal/loadtest/hostclock":   {},
	"cmd/sluice/internal/loadtest/process":     {},
	"cmd/sluice/internal/loadtest/reasoncount": {ours: []string{"cmd/sluice/internal/clientconn", "push", "websocket", "websocket/wire"}},
	"cmd/sluice/internal/loadtest/report":      {ours: []string{"cmd/sluice/internal/loadtest"}},
	"cmd/sluice/internal/loadtest/sink": {
		ours: []string{"push", "push/protocol", "push/protocol/json", "session", "websocket", "cmd/sluice/internal/loadtest/reasoncount"},
	},
}

// testModules are the modules that tests may use besides those of their package.
var testModules = []string{
	"go.uber.org/goleak",
	"pgregory.net/rapid",
	"github.com/coder/websocket",
	"github.com/gorilla/websocket",
	"github.com/chromedp/chromedp",
	"github.com/chromedp/cdproto",
	"github.com/prometheus/common",
	"google.golang.org/protobuf",
	"golang.org/x/net", // frames of HTTP/2 that no client writes
}

// rowOf returns the row of a package.
func rowOf(table map[string]layer, name string) (layer, bool) {
	if row, ok := table[name]; ok {
		return row, true
	}
	for dir := name; ; {
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return layer{}, false
		}
		dir = dir[:i]
		if row, ok := table[dir+"/..."]; ok {
			return row, true
		}
	}
}

// isPlatform reports whether a package of ours belongs to the platform.
func isPlatform(name string) bool {
	return name == platform || strings.HasPrefix(name, platform+"/") || strings.HasPrefix(name, "cmd/")
}

// checkLayers returns a complaint for each package without a row and each import its row does not allow. Packages of other
// modules in the repository are not looked at: their go.mod says what they use.
func checkLayers(table map[string]layer, folders []folder) []string {
	var complaints []string
	for _, f := range folders {
		if f.foreign {
			continue
		}
		row, ok := rowOf(table, f.name)
		if !ok {
			complaints = append(complaints, fmt.Sprintf("package %s has no row in the table of layers_test.go: add one that "+
				"names what it may import, as section 2 of the design has it, or move the code where it belongs", f.name))
			continue
		}
		for _, s := range f.files {
			for _, spec := range s.file.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					continue // the compiler complains
				}
				if why := refuse(row, f.name, target, s.isTest()); why != "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %s imports %s: %s",
						s.name, s.line(spec.Pos()), f.name, target, why))
				}
			}
		}
	}
	return complaints
}

// refuse says why the package name may not import target, or nothing when it may.
func refuse(row layer, name, target string, test bool) string {
	ours, isOurs := strings.CutPrefix(target, modulePath+"/")
	if target == modulePath {
		return "the root holds no code"
	}
	switch {
	case isOurs && isPlatform(ours) && !isPlatform(name):
		return "the library does not know the platform"
	case row.any, ours == name:
		return ""
	case isOurs && (strings.HasPrefix(ours, "internal/") || strings.HasPrefix(ours, platform+"/internal/")):
		return ""
	case isOurs && (test || slices.Contains(row.ours, ours)):
		return ""
	case isOurs:
		return "its row in layers_test.go does not name it; imports point down only"
	case !strings.Contains(strings.SplitN(target, "/", 2)[0], "."): // the standard library
		return ""
	case test && (inModules(target, testModules) || inModules(target, row.tests)), inModules(target, row.foreign):
		return ""
	case len(row.foreign) == 0:
		return "only the standard library is allowed here"
	}
	return "this module is not in its row in layers_test.go"
}

// inModules reports whether an import path belongs to one of the modules.
func inModules(target string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return target == m || strings.HasPrefix(target, m+"/") })
}

// Imports point down only, and nobody uses a module that its layer does not need.
func TestLayers(t *testing.T) {
	complain(t, checkLayers(layers, repository(t)))
}

// The table itself points down: following its rows never leads back.
func TestLayersHaveNoCycle(t *testing.T) {
	if cycle := findCycle(layers); cycle != nil {
		t.Errorf("the table of layers goes in a circle: %s", strings.Join(cycle, " → "))
	}
}

// findCycle returns the packages of a circle in the table, nil when there is none.
func findCycle(table map[string]layer) []string {
	done := make(map[string]bool)
	var visit func(name string, from []string) []string
	visit = func(name string, from []string) []string {
		if i := slices.Index(from, name); i >= 0 {
			return append(from[i:], name)
		}
		if done[name] {
			return nil
		}
		for _, next := range table[name].ours {
			if strings.HasSuffix(next, "/...") { // helpers may use each other; the compiler refuses circles among them
				continue
			}
			if cycle := visit(next, append(slices.Clone(from), name)); cycle != nil {
				return cycle
			}
		}
		done[name] = true
		return nil
	}
	for name := range table {
		if cycle := visit(name, nil); cycle != nil {
			return cycle
		}
	}
	return nil
}
