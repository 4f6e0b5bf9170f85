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
	any     bool     // anything: the place where everything is put together
}

// The two products. A package of the library never imports one of the platform, not even in its tests.
const platform = "push"

// layers is the direction of imports: a package imports only what its row names. Rows point down. A name that ends in "/..." is
// a row for every package below that folder which has no row of its own; internal/... may be imported by every package.
var layers = map[string]layer{
	".": {},

	// Small helpers without opinion.
	"internal/...":    {ours: []string{"internal/..."}},
	"internal/wsdial": {},

	// What sessions over datagrams stand on.
	"internal/datagram": {ours: []string{"transport"}},

	// What a loop needs to accept connections.
	"internal/door": {ours: []string{"internal/epoll", "transport"}},

	// A command for testing.
	"internal/autobahn": {ours: []string{"websocket"}},

	// The library: leaves first. It uses the standard library only.
	"timingwheel":    {},
	"workerpool":     {},
	"codec":          {},
	"transport":      {},
	"websocket/wire": {},
	"session":        {ours: []string{"timingwheel", "workerpool", "transport"}},
	"websocket":      {ours: []string{"session", "websocket/wire"}},
	"reconnect":      {ours: []string{"timingwheel", "transport", "session"}},
	"rpc":            {ours: []string{"codec", "session", "discovery"}},
	"rpc/frame":      {},
	"rpc/pending":    {},
	"rpc/balance":    {ours: []string{"discovery"}},
	"discovery":      {},

	// Adapters have one foreign dependency each, and their suite.
	"discovery/discoverytest": {ours: []string{"discovery"}},
	"discovery/etcd":          {ours: []string{"discovery"}, foreign: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3"}},
	"discovery/zookeeper":     {ours: []string{"discovery"}, foreign: []string{"github.com/go-zookeeper/zk"}},

	// The platform.
	"push":               {},
	"push/timers":        {ours: []string{"timingwheel"}},
	"push/admission":     {},
	"push/forwarded":     {},
	"push/compression":   {},
	"push/delta":         {},
	"push/channel":       {ours: []string{"push", "push/delta"}},
	"push/protocol":      {ours: []string{"push"}},
	"push/broker":        {ours: []string{"push"}},
	"push/broker/memory": {ours: []string{"push", "push/broker", "push/channel"}},
	"push/broker/nats": {
		ours:    []string{"push", "push/broker", "push/channel"},
		foreign: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2"},
	},
	"push/pushtest": {ours: []string{"push", "push/broker"}},
	"push/pace":     {ours: []string{"push"}},
	"push/alarm":    {ours: []string{"timingwheel"}},
	"push/presence": {ours: []string{"push", "push/broker"}},
	"push/hub":      {ours: []string{"push", "push/channel", "push/broker", "push/pace", "push/alarm", "push/presence", "timingwheel"}},
	"push/origin":   {},
	"push/gateway": {
		ours: []string{"push", "push/channel", "push/hub", "push/origin", "push/pace", "push/protocol", "session", "timingwheel", "websocket/wire"},
	},
	"push/api":    {ours: []string{"push", "push/channel", "push/hub", "push/pace", "push/protocol"}},
	"push/config": {ours: []string{"push", "push/origin"}, foreign: []string{"github.com/goccy/go-yaml"}},
	"push/load": {
		ours:    []string{"push", "push/protocol", "push/pushtest/network", "session", "transport", "websocket", "websocket/wire"},
		foreign: []string{"github.com/HdrHistogram/hdrhistogram-go"},
	},
	"push/load/report": {ours: []string{"push/load"}},
	"push/metrics": {
		ours:    []string{"push", "push/hub", "push/gateway", "push/api", "push/broker"},
		foreign: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	},

	// A weak network, for tests and for load: it knows nothing of the platform.
	"push/pushtest/network": {},
	"push/laws":             {},

	// A command for testing.
	"push/laws/book": {ours: []string{"push", "push/delta", "push/protocol", "push/pushtest/network", "websocket"}},

	// The binary.
	"cmd/...": {any: true},
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
	case isOurs && strings.HasPrefix(ours, "internal/"):
		return ""
	case isOurs && (test || slices.Contains(row.ours, ours)):
		return ""
	case isOurs:
		return "its row in layers_test.go does not name it; imports point down only"
	case !strings.Contains(strings.SplitN(target, "/", 2)[0], "."): // the standard library
		return ""
	case test && inModules(target, testModules), inModules(target, row.foreign):
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
