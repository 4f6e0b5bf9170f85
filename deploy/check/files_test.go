package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-push/sluice/deploy/check"
	"github.com/sluice-push/sluice/push/config"
)

// complain fails the test with each problem.
func complain(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// NATS itself reads its configuration, which fits the pods: ports, the size of the volume, the time to end.
func TestConfigurationOfNATS(t *testing.T) {
	for _, r := range []rendering{renderings[1], renderings[4], renderings[7]} {
		t.Run(r.name, func(t *testing.T) {
			s := r.set(t)
			i := slices.IndexFunc(s.Workloads, func(w check.Workload) bool { return strings.HasSuffix(w.Name, "-nats") })
			w := s.Workloads[i]
			c := w.Pod.Spec.Containers[0]
			for _, entry := range check.Environ(&w, &c) {
				name, value, _ := strings.Cut(entry, "=")
				t.Setenv(name, value)
			}
			i = slices.IndexFunc(s.ConfigMaps, func(o *corev1.ConfigMap) bool { return o.Data["nats.conf"] != "" })
			file := filepath.Join(t.TempDir(), "nats.conf")
			if err := os.WriteFile(file, []byte(s.ConfigMaps[i].Data["nats.conf"]), 0o600); err != nil {
				t.Fatal(err)
			}
			o, err := server.ProcessConfigFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ports := map[string]int{"nats": o.Port, "routes": o.Cluster.Port, "monitor": o.HTTPPort}
			for _, p := range c.Ports {
				if ports[p.Name] != int(p.ContainerPort) {
					t.Errorf("port %s is %d, but the server listens on %d", p.Name, p.ContainerPort, ports[p.Name])
				}
			}
			if o.ServerName != w.Name+"-0" || o.Password != "secret" || len(o.Routes) != w.Replicas {
				t.Errorf("name %q, password %q, %d routes", o.ServerName, o.Password, len(o.Routes))
			}
			if size := w.Claims[0].Spec.Resources.Requests.Storage().Value(); o.JetStreamMaxStore > size*95/100 {
				t.Errorf("the server may store %d bytes, and its volume has %d", o.JetStreamMaxStore, size)
			}
			if need := o.LameDuckGracePeriod + o.LameDuckDuration + check.Rest; *w.Pod.Spec.TerminationGracePeriodSeconds < int64(need.Seconds()) {
				t.Errorf("the server needs %v to end", need)
			}
			if hook := c.Lifecycle.PreStop.Exec.Command; hook[len(hook)-1] != "ldm="+o.PidFile {
				t.Errorf("preStop is %q, and the process ID is in %s", hook, o.PidFile)
			}
		})
	}
}

// The image of NATS is the release that the tests of the product run, that of sluice the release of the chart, and all files name the same images.
func TestVersions(t *testing.T) {
	want := map[string]string{
		"nats":   regexp.MustCompile(`nats-server/v2 v(\S+)`).FindStringSubmatch(read(t, "go.mod"))[1],
		"sluice": regexp.MustCompile(`(?m)^appVersion: (\S+)$`).FindStringSubmatch(read(t, "deploy/helm/sluice/Chart.yaml"))[1],
	}
	image := regexp.MustCompile(`\b(nats|sluice):(\d+\.\d+\.\d+)`)
	text := read(t, "deploy/README.md") + read(t, "deploy/Dockerfile") + read(t, "deploy/compose/cluster/compose.yaml")
	for _, r := range []rendering{renderings[0], renderings[1], renderings[3], renderings[4]} {
		text += string(r.render(t))
	}
	seen := make(map[string]int)
	for _, m := range image.FindAllStringSubmatch(text, -1) {
		seen[m[1]]++
		if m[2] != want[m[1]] {
			t.Errorf("%s, but its release is %s", m[0], want[m[1]])
		}
	}
	if seen["nats"] < 3 || seen["sluice"] < 8 {
		t.Errorf("only %v images are named", seen)
	}
}

// The files for docker compose fit each other, and HAProxy accepts its own where it is installed.
func TestCompose(t *testing.T) {
	folder := filepath.Join(root, "deploy/compose/cluster")
	c, err := check.DecodeCompose([]byte(read(t, "deploy/compose/cluster/compose.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if nodes := c.Nodes(); len(nodes) != 4 {
		t.Errorf("%d services run sluice", len(nodes))
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	readFile := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, name)) }
	complain(t, c.References(exists))
	complain(t, c.Hardening())
	complain(t, c.Configurations(readFile))
	balancer := read(t, "deploy/compose/cluster/haproxy.cfg")
	complain(t, c.Balancer(balancer, time.Duration(config.Default().Ping.Interval)))
	readme := read(t, "deploy/README.md")
	for name, s := range c.Secrets {
		if !strings.Contains(readme, "> "+strings.TrimPrefix(s.File, "./")) {
			t.Errorf("the README does not say how to make the secret %s, %s", name, s.File)
		}
	}
	if haproxy, err := exec.LookPath("haproxy"); err == nil {
		if out, err := exec.Command(haproxy, "-c", "-f", filepath.Join(folder, "haproxy.cfg")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// Planted mistakes in the files for docker compose are found.
func TestPlantedMistakesInCompose(t *testing.T) {
	folder := filepath.Join(root, "deploy/compose/cluster")
	text, balancer := read(t, "deploy/compose/cluster/compose.yaml"), read(t, "deploy/compose/cluster/haproxy.cfg")
	for _, p := range []struct{ name, old, new, want string }{
		{"unknown field", "read_only: true", "readonly: true", "unknown field"},
		{"image", "haproxy:3.2.4", "haproxy:3.2", "has no version"},
		{"dependency", "depends_on: [hub1, hub2]", "depends_on: [hub1, hub3]", "hub3, which there is not"},
		{"no network in common", "networks: [clients, links]", "networks: [clients]", "no network in common"},
		{"network", "networks: [broker]", "networks: [brokers]", "no network brokers"},
		{"secret", "secrets: [link, tokens, api-keys]", "secrets: [link, token, api-keys]", "no secret token"},
		{"file", "./gateway.yaml:", "./gateways.yaml:", "no volume or file ./gateways.yaml"},
		{"Dockerfile", "dockerfile: deploy/Dockerfile", "dockerfile: Dockerfile", "no file Dockerfile"},
		{"root file system", "read_only: true", "read_only: false", "may write to its root file system"},
		{"memory", "    mem_limit: 1g\n", "", "no limit of memory"},
		{"time to end", "stop_grace_period: 75s ", "stop_grace_period: 30s ", "gateway1: it has 30s to end"},
		{"secret of a setting", "secrets: [link, tokens, api-keys]", "secrets: [link, api-keys]", "does not get the secret /run/secrets/tokens"},
		{"unreachable broker", "networks: [links, broker]", "networks: [links]", "hub1: it does not reach nats"},
		{"internal address", `SLUICE_INTERNAL: ":9000"`, `SLUICE_INTERNAL: ":9001"`, `the internal address is ":9001"`},
		{"third gateway", "  gateway2:\n", "  gateway3:\n", "no clients to gateway3"},
		{"balancer's server", "gateway2 gateway2:8000", "gateway2 gateway2:9000", "gateway2:9000"},
		{"balancer's time-out", "timeout tunnel 1h", "timeout tunnel 30s", "timeout tunnel"},
		{"balancer's rule", "balance leastconn", "balance source", "does not count connections"},
	} {
		t.Run(p.name, func(t *testing.T) {
			text, balancer := strings.Replace(text, p.old, p.new, 1), strings.Replace(balancer, p.old, p.new, 1)
			if text+balancer == read(t, "deploy/compose/cluster/compose.yaml")+read(t, "deploy/compose/cluster/haproxy.cfg") {
				t.Fatalf("there is no %q", p.old)
			}
			c, err := check.DecodeCompose([]byte(text))
			var found string
			if err != nil {
				found = err.Error()
			} else {
				found = strings.Join(slices.Concat(
					c.References(func(name string) bool { _, err := os.Stat(filepath.Join(folder, name)); return err == nil }),
					c.Hardening(),
					c.Configurations(func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, name)) }),
					c.Balancer(balancer, 25*time.Second),
				), "\n")
			}
			if !strings.Contains(found, p.want) {
				t.Errorf("found %q, not %q", found, p.want)
			}
		})
	}
}

// The unit and its examples have settings that there are, and time for a drain. systemd looks at them itself where it is installed.
func TestUnits(t *testing.T) {
	text := read(t, "deploy/systemd/sluice.service")
	unit, problems := check.DecodeUnit(text)
	complain(t, problems)
	complain(t, unit.Draining(0))
	if limit, _ := strconv.Atoi(unit["Service"]["LimitNOFILE"][0]); limit < 1<<20 {
		t.Errorf("LimitNOFILE is %d", limit)
	}
	dir := t.TempDir()
	// systemd wants the program of a unit to exist.
	text = strings.ReplaceAll(text, "/usr/local/bin/sluice", "/bin/true")
	for _, example := range []string{"", "hub", "gateway"} {
		t.Run("example "+example, func(t *testing.T) {
			folder := filepath.Join(dir, "units"+example)
			parts := map[string]string{"sluice.service": text}
			if example != "" {
				part := read(t, "deploy/systemd/sluice.service.d/"+example+".conf")
				own, problems := check.DecodeUnit(part)
				complain(t, problems)
				cfg, err := check.Parse(example, nil, own.Environ())
				if err != nil {
					t.Fatal(err)
				}
				complain(t, own.Draining(time.Duration(cfg.Shutdown.Delay+cfg.Shutdown.Spread)))
				parts["sluice.service.d/"+example+".conf"] = part
			}
			for name, text := range parts {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if analyze, err := exec.LookPath("systemd-analyze"); err == nil {
				if out, err := exec.Command(analyze, "verify", "--man=no", filepath.Join(folder, "sluice.service")).CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("systemd-analyze: %v: %s", err, out)
				}
			}
		})
	}
}

// Planted mistakes in units are found.
func TestPlantedMistakesInUnits(t *testing.T) {
	text := read(t, "deploy/systemd/sluice.service")
	for _, p := range []struct{ name, old, new, want string }{
		{"setting", "ProtectHome=", "ProtectHomes=", `no setting "ProtectHomes"`},
		{"section", "[Install]", "[Installation]", `no section "Installation"`},
		{"line", "UMask=0077", "UMask", "is no setting"},
		{"signal", "KillSignal=SIGTERM", "KillSignal=SIGKILL", "does not drain"},
		{"time-out", "TimeoutStopSec=120", "TimeoutStopSec=60", "a drain takes"},
		{"no time-out", "TimeoutStopSec=120", "", "a drain takes"},
	} {
		t.Run(p.name, func(t *testing.T) {
			unit, problems := check.DecodeUnit(strings.Replace(text, p.old, p.new, 1))
			if found := strings.Join(append(problems, unit.Draining(time.Minute)...), "\n"); !strings.Contains(found, p.want) {
				t.Errorf("found %q, not %q", found, p.want)
			}
		})
	}
}

// The image is built from pinned images and does not run as root. What it is built from reaches the builder.
func TestDockerfile(t *testing.T) {
	text := read(t, "deploy/Dockerfile")
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
	complain(t, check.Dockerfile(text, goVersion))
	for _, p := range []struct{ name, old, new, want string }{
		{"newest image", "golang:1.26.8-bookworm", "golang:latest", "has no version"},
		{"older Go", "golang:1.26", "golang:1.25", "go.mod asks for"},
		{"stage", "--from=build", "--from=builder", `no stage "builder"`},
		{"root", "USER 65532:65532", "USER 0:0", "not root"},
		{"name", "USER 65532:65532", "USER nobody", "not root"},
		{"no user", "USER 65532:65532\n", "", "not root"},
	} {
		t.Run(p.name, func(t *testing.T) {
			if found := strings.Join(check.Dockerfile(strings.Replace(text, p.old, p.new, 1), goVersion), "\n"); !strings.Contains(found, p.want) {
				t.Errorf("found %q, not %q", found, p.want)
			}
		})
	}
	listed := strings.Split(read(t, "deploy/Dockerfile.dockerignore"), "\n")
	out, err := exec.Command("go", "list", "-C", root, "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/sluice").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "github.com/sluice-push/sluice/"), "/")
		if !slices.Contains(listed, "!"+folder) {
			t.Errorf("Dockerfile.dockerignore leaves out %s, of which the program consists", folder)
		}
	}
}
