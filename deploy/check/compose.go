package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Compose is what our files for docker compose use of its format.
type Compose struct {
	Name     string                   `json:"name"`
	Services map[string]*Container    `json:"services"`
	Networks map[string]Network       `json:"networks"`
	Volumes  map[string]struct{}      `json:"volumes"`
	Secrets  map[string]ComposeSecret `json:"secrets"`
}

// Container is a service of docker compose.
type Container struct {
	Image           string            `json:"image"`
	Build           *Build            `json:"build"`
	Command         []string          `json:"command"`
	Environment     map[string]string `json:"environment"`
	Ports           []string          `json:"ports"`
	Volumes         []string          `json:"volumes"`
	Secrets         []string          `json:"secrets"`
	Networks        []string          `json:"networks"`
	DependsOn       []string          `json:"depends_on"`
	Ulimits         map[string]int    `json:"ulimits"`
	MemLimit        string            `json:"mem_limit"`
	ReadOnly        bool              `json:"read_only"`
	CapDrop         []string          `json:"cap_drop"`
	SecurityOpt     []string          `json:"security_opt"`
	StopGracePeriod string            `json:"stop_grace_period"`
	Restart         string            `json:"restart"`
}

// Build says how docker compose builds an image.
type Build struct {
	Context    string `json:"context"`
	Dockerfile string `json:"dockerfile"`
}

// Network is a network of docker compose. An internal one does not lead outside.
type Network struct {
	Internal bool `json:"internal"`
}

// ComposeSecret is a file that containers get.
type ComposeSecret struct {
	File string `json:"file"`
}

// DecodeCompose reads a file for docker compose. Fields that [Compose] does not have are errors.
func DecodeCompose(text []byte) (*Compose, error) {
	c := new(Compose)
	return c, yaml.UnmarshalStrict(text, c)
}

// Nodes returns the services that run sluice, by name.
func (c *Compose) Nodes() map[string]*Container {
	nodes := make(map[string]*Container)
	for name, s := range c.Services {
		if strings.HasPrefix(s.Image, nodeName+":") {
			nodes[name] = s
		}
	}
	return nodes
}

// File returns the file of the host that is mounted at a path of the container, empty if there is none.
func (s *Container) File(at string) string {
	for _, v := range s.Volumes {
		if parts := strings.Split(v, ":"); len(parts) > 1 && parts[1] == at && strings.HasPrefix(parts[0], "./") {
			return parts[0]
		}
	}
	return ""
}

// Environ returns the variables, NAME=VALUE, in order.
func (s *Container) Environ() []string {
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		environ = append(environ, name+"="+s.Environment[name])
	}
	return environ
}

// References checks that services, networks, volumes and secrets that are referred to exist, and that images are pinned. exists says whether there is a
// file, which is named as in the text.
func (c *Compose) References(exists func(name string) bool) []string {
	var found problems
	for name, s := range c.Services {
		if !Pinned(s.Image) {
			found.add("%s: the image %q has no version", name, s.Image)
		}
		for _, other := range s.DependsOn {
			if c.Services[other] == nil {
				found.add("%s depends on %s, which there is not", name, other)
			} else if !slices.ContainsFunc(c.Services[other].Networks, func(n string) bool { return slices.Contains(s.Networks, n) }) {
				found.add("%s depends on %s, but they have no network in common", name, other)
			}
		}
		for _, network := range s.Networks {
			if _, ok := c.Networks[network]; !ok {
				found.add("%s: there is no network %s", name, network)
			}
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok {
				found.add("%s: there is no secret %s", name, secret)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[from]; !ok && !(strings.HasPrefix(from, "./") && exists(from)) {
				found.add("%s: there is no volume or file %s", name, from)
			}
		}
		if b := s.Build; b != nil && !exists(b.Context+"/"+b.Dockerfile) {
			found.add("%s: there is no file %s in %s", name, b.Dockerfile, b.Context)
		}
	}
	slices.Sort(found)
	return found
}

// Hardening checks that all containers but the balancer, whose image decides that, may do little.
func (c *Compose) Hardening() []string {
	var found problems
	for name, s := range c.Services {
		if len(s.Ports) > 0 {
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			found.add("%s: the container may write to its root file system, or has capabilities", name)
		}
		if s.MemLimit == "" {
			found.add("%s: it has no limit of memory", name)
		}
	}
	slices.Sort(found)
	return found
}

// Configurations checks the configuration of the nodes. read returns the text of a file, which is named as in the text of the services.
func (c *Compose) Configurations(read func(name string) ([]byte, error)) []string {
	var found problems
	namespaces := make(map[string]string) // by their text: a node that has them
	for name, s := range c.Nodes() {
		text, err := read(s.File("/etc/sluice/sluice.yaml"))
		if err != nil {
			found.add("%s: %v", name, err)
			continue
		}
		cfg, err := Parse(name, text, s.Environ())
		if err != nil {
			found.add("%s: %v", name, err)
			continue
		}
		for _, warning := range cfg.Warnings() {
			found.add("%s: %s", name, warning)
		}
		namespaces[fmt.Sprint(cfg.Namespaces)] = name
		for _, file := range []string{cfg.Auth.JWT.SecretFile, cfg.API.KeysFile, cfg.Cluster.Link.SecretFile} {
			if secret, _ := strings.CutPrefix(file, "/run/secrets/"); file != "" && !slices.Contains(s.Secrets, secret) {
				found.add("%s: it does not get the secret %s", name, file)
			}
		}
		need := time.Duration(cfg.Shutdown.Delay+cfg.Shutdown.Spread) + Rest
		if grace, _ := time.ParseDuration(s.StopGracePeriod); grace < need {
			found.add("%s: it has %v to end, but the configuration asks for %v, with the rest", name, grace, need)
		}
		if s.Environment["SLUICE_INTERNAL"] != cfg.Internal || cfg.Internal != ":9000" {
			found.add("%s: the internal address is %q", name, cfg.Internal)
		}
		for _, m := range hostPort.FindAllStringSubmatch(string(text)+"\n"+strings.Join(s.Environ(), "\n"), -1) {
			if m[1] != "localhost" && !c.reaches(s, m[1]) {
				found.add("%s: it does not reach %s", name, m[1])
			}
		}
	}
	if len(namespaces) > 1 {
		found.add("nodes have different namespaces: %v", slices.Sorted(maps.Values(namespaces)))
	}
	slices.Sort(found)
	return found
}

// reaches reports whether a container has a network in common with a service, or is that service.
func (c *Compose) reaches(s *Container, service string) bool {
	other := c.Services[service]
	return other != nil && slices.ContainsFunc(other.Networks, func(n string) bool { return slices.Contains(s.Networks, n) })
}

var (
	balancerServer  = regexp.MustCompile(`(?m)^\s*server\s+\S+\s+([a-z0-9-]+):(\d+)`)
	balancerTimeout = regexp.MustCompile(`(?m)^\s*timeout\s+(client|server|tunnel)\s+(\d+)(s|m|h)\b`)
)

// Balancer checks the configuration of HAProxy: it sends clients to the gateways, and has patience for connections with a ping now and then.
func (c *Compose) Balancer(text string, ping time.Duration) []string {
	var found problems
	served := make(map[string]bool)
	for _, m := range balancerServer.FindAllStringSubmatch(text, -1) {
		served[m[1]] = true
		if c.Services[m[1]] == nil || m[2] != "8000" {
			found.add("the balancer sends clients to %s:%s", m[1], m[2])
		}
	}
	for name := range c.Nodes() {
		if strings.HasPrefix(name, "gateway") && !served[name] {
			found.add("the balancer sends no clients to %s", name)
		}
	}
	timeouts := make(map[string]time.Duration)
	for _, m := range balancerTimeout.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2]) // it is digits
		timeouts[m[1]] = time.Duration(n) * map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[m[3]]
	}
	for _, name := range []string{"client", "server", "tunnel"} {
		if timeouts[name] < 2*ping {
			found.add("the balancer ends connections after %v (timeout %s), but nodes ping every %v", timeouts[name], name, ping)
		}
	}
	if !strings.Contains(text, "balance leastconn") {
		found.add("the balancer does not count connections")
	}
	slices.Sort(found)
	return found
}
