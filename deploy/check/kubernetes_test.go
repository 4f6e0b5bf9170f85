package check_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluice-push/sluice/deploy/check"
)

// root is the root of the repository.
const root = "../.."

// rendering is what users can install.
type rendering struct {
	name      string
	overlay   string // of kustomize; empty: the chart
	component string // of kustomize, used on top of the overlay
	release   string
	values    map[string]any
}

var renderings = []rendering{
	{name: "kustomize single", overlay: "single"},
	{name: "kustomize cluster", overlay: "cluster"},
	{name: "kustomize cluster with TLS", overlay: "cluster", component: "link-tls"},
	{name: "helm single", release: "sluice", values: map[string]any{"mode": "single"}},
	{name: "helm cluster", release: "sluice"},
	{name: "helm cluster with TLS", release: "sluice", values: map[string]any{"secrets": map[string]any{"linkTLS": "sluice-link-tls"}}},
	{name: "helm single with another name", release: "feed", values: map[string]any{"mode": "single", "node": map[string]any{"storageClass": "fast"}}},
	{name: "helm cluster with everything", release: "feed", values: everything},
	{name: "helm cluster with another NATS", release: "feed", values: map[string]any{
		"nats": map[string]any{"url": "nats://sluice:$(NATS_PASSWORD)@nats.example.org:4222"},
	}},
}

// everything are values of the chart that are off by default.
var everything = map[string]any{
	"image":            map[string]any{"repository": "registry.example.org:5000/live/sluice", "tag": "1.2.3"},
	"imagePullSecrets": []any{map[string]any{"name": "registry"}},
	"service":          map[string]any{"type": "ClusterIP", "annotations": map[string]any{"a": "b"}},
	"ingress":          map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "push-tls", "annotations": map[string]any{"a": "b"}},
	"cluster":          map[string]any{"labels": map[string]any{"zone": "a"}},
	"gateway": map[string]any{
		"annotations": map[string]any{"a": "b"}, "nodeSelector": map[string]any{"pool": "push"}, "autoscaling": map[string]any{"sessions": 1000000, "min": 3},
		"tolerations": []any{map[string]any{"key": "push", "operator": "Exists"}},
	},
	"hub":  map[string]any{"replicas": 3, "annotations": map[string]any{"a": "b"}, "nodeSelector": map[string]any{"pool": "push"}},
	"nats": map[string]any{"annotations": map[string]any{"a": "b"}, "storageClass": "fast"},
}

// render renders the objects, as YAML.
func (r *rendering) render(t *testing.T) []byte {
	t.Helper()
	var text []byte
	var err error
	switch folder := filepath.Join(root, "deploy/kubernetes"); {
	case r.overlay == "":
		text, err = check.Helm(filepath.Join(root, "deploy/helm/sluice"), r.release, r.values)
	case r.component == "":
		text, err = check.Kustomize(filesys.MakeFsOnDisk(), filepath.Join(folder, "overlays", r.overlay))
	default:
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(dir, "own")
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		lines := "resources: [../overlays/" + r.overlay + "]\ncomponents: [../components/" + r.component + "]\n"
		if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err = check.Kustomize(filesys.MakeFsOnDisk(), own)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// set renders and decodes the objects.
func (r *rendering) set(t *testing.T) *check.Set {
	t.Helper()
	s, err := check.Decode(r.render(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allChecks returns what all checks find in a set.
func allChecks(t *testing.T, s *check.Set) []string {
	t.Helper()
	secrets := check.SecretsOf(read(t, "deploy/README.md"))
	return slices.Concat(
		check.Services(s), check.Policies(s), check.Hosts(s), check.Spread(s),
		check.Budgets(s), check.Autoscaling(s, check.MetricsOf(read(t, "docs/metrics.md"))), check.Draining(s), check.Probes(s),
		check.Images(s), check.References(s, secrets), check.Hardening(s),
		check.Configurations(s, secrets),
	)
}

// Everything that users can install passes all checks.
func TestObjects(t *testing.T) {
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			s := r.set(t)
			if len(s.Workloads) == 0 {
				t.Fatal("there are no pods")
			}
			for _, problem := range allChecks(t, s) {
				t.Error(problem)
			}
		})
	}
}

// Only gateways reach links, only hubs reach NATS, and only Prometheus reaches internal ports.
func TestWhoReachesWhat(t *testing.T) {
	for _, r := range renderings {
		if r.release == "feed" || strings.HasSuffix(r.name, "single") {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			s := r.set(t)
			for _, port := range []struct {
				workload, port string
				from           []string
			}{
				{"sluice-gateway", "clients", []string{"all"}},
				{"sluice-gateway", "internal", []string{"monitoring/"}},
				{"sluice-hub", "link", []string{"sluice-gateway"}},
				{"sluice-hub", "internal", []string{"monitoring/"}},
				{"sluice-nats", "nats", []string{"sluice-hub"}},
				{"sluice-nats", "routes", []string{"sluice-nats"}},
				{"sluice-nats", "monitor", nil},
			} {
				if from := check.Reachable(s, port.workload, port.port); !slices.Equal(from, port.from) {
					t.Errorf("port %s of %s can be reached from %q, not from %q", port.port, port.workload, from, port.from)
				}
			}
		})
	}
}

// The chart makes the same objects as kustomize, apart from their labels and the order of what has none.
func TestChartEqualsOverlays(t *testing.T) {
	for mode, components := range map[string][2]int{"single": {0, 3}, "cluster": {1, 4}, "cluster with TLS": {2, 5}} {
		t.Run(mode, func(t *testing.T) {
			if diff := cmp.Diff(plain(t, renderings[components[0]].set(t)), plain(t, renderings[components[1]].set(t))); diff != "" {
				t.Errorf("kustomize (-) and Helm (+) differ:\n%s", diff)
			}
		})
	}
}

// contentHash is what kustomize appends to the name of a ConfigMap.
var contentHash = regexp.MustCompile(`"(sluice(?:-[a-z]+)?)-[0-9a-z]{10}"`)

// plain returns the objects by kind and name, without what kustomize and Helm add each in its way.
func plain(t *testing.T, s *check.Set) map[string]any {
	t.Helper()
	objects := make(map[string]any)
	for _, o := range s.Objects {
		about, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		about.SetLabels(nil)
		if m, ok := o.(*corev1.ConfigMap); ok {
			for name, text := range m.Data {
				m.Data[name] = plainConfig(t, name, text)
			}
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(contentHash.ReplaceAll(text, []byte(`"$1"`)), &value); err != nil {
			t.Fatal(err)
		}
		name := contentHash.ReplaceAllString(`"`+about.GetName()+`"`, "$1")
		objects[o.GetObjectKind().GroupVersionKind().Kind+" "+strings.Trim(name, `"`)] = withoutAdditions(value)
	}
	return objects
}

// plainConfig returns a configuration without comments, the keys of YAML in order.
func plainConfig(t *testing.T, name, text string) string {
	t.Helper()
	if strings.HasSuffix(name, ".yaml") {
		var settings any
		if err := yaml.UnmarshalStrict([]byte(text), &settings); err != nil {
			t.Fatal(err)
		}
		sorted, err := yaml.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		return string(sorted)
	}
	var lines strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			lines.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return lines.String()
}

// withoutAdditions removes the instance from labels, the checksum of the configuration, which the chart has instead of names with a hash, and the policy
// for pulling images, which Kubernetes would choose likewise.
func withoutAdditions(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			v[name] = withoutAdditions(field)
			if list, ok := field.([]any); ok && (name == "volumes" || name == "volumeMounts") {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		delete(v, "app.kubernetes.io/instance")
		delete(v, "checksum/config")
		delete(v, "imagePullPolicy")
		if a, ok := v["annotations"].(map[string]any); ok && len(a) == 0 {
			delete(v, "annotations")
		}
	case []any:
		for i := range v {
			v[i] = withoutAdditions(v[i])
		}
	}
	return value
}

// The chart refuses values that it does not have, and some that cannot be meant.
func TestChartRefusesValues(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"mode":             {"mode": "both"},
		"unknown":          {"replicas": 3},
		"below":            {"gateway": map[string]any{"replicas": 3}},
		"window":           {"gateway": map[string]any{"autoscaling": map[string]any{"scaleDownSeconds": 7200}}},
		"one hub":          {"hub": map[string]any{"replicas": 1}},
		"image not pinned": {"image": map[string]any{"tag": "latest"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := check.Helm(filepath.Join(root, "deploy/helm/sluice"), "sluice", values); err == nil {
				t.Error("no error")
			}
		})
	}
}
