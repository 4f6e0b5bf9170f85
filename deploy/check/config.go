package check

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-push/sluice/push/config"
)

// nodeName is the name of containers that run sluice.
const nodeName = "sluice"

// node returns the container of a workload that runs sluice, nil if there is none.
func node(w *Workload) *corev1.Container {
	for i := range w.Pod.Spec.Containers {
		if c := &w.Pod.Spec.Containers[i]; c.Name == nodeName {
			return c
		}
	}
	return nil
}

// reference matches $(NAME) in the value of a variable.
var reference = regexp.MustCompile(`\$\(([A-Z][A-Z0-9_]*)\)`)

// Environ returns the variables of a container, NAME=VALUE, as a pod has them. What is known only when a pod runs has a value that it could have.
func Environ(w *Workload, c *corev1.Container) []string {
	values := make(map[string]string)
	var environ []string
	for _, e := range c.Env {
		value := reference.ReplaceAllStringFunc(e.Value, func(ref string) string { return values[ref[2:len(ref)-1]] })
		if from := e.ValueFrom; from != nil {
			switch {
			case from.SecretKeyRef != nil:
				value = "secret"
			case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
				value = w.Name + "-0"
			case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
				value = "push"
			}
		}
		values[e.Name] = value
		environ = append(environ, e.Name+"="+value)
	}
	return environ
}

// Config returns the configuration that the nodes of a workload have, from the file that they are started with, and their variables.
func (s *Set) Config(w *Workload) (*config.Config, error) {
	c := node(w)
	if c == nil {
		return nil, fmt.Errorf("%v: no container is called %s", w, nodeName)
	}
	i := slices.Index(c.Args, "--config")
	if i < 0 || i+1 == len(c.Args) {
		return nil, fmt.Errorf("%v: no --config in %q", w, c.Args)
	}
	folder, file := path.Split(c.Args[i+1])
	for _, m := range c.VolumeMounts {
		if m.MountPath != path.Clean(folder) {
			continue
		}
		for _, v := range w.Pod.Spec.Volumes {
			if v.Name != m.Name || v.ConfigMap == nil {
				continue
			}
			if o := s.configMap(v.ConfigMap.Name); o != nil && o.Data[file] != "" {
				return Parse(o.Name+"/"+file, []byte(o.Data[file]), Environ(w, c))
			}
		}
	}
	return nil, fmt.Errorf("%v: nothing is mounted that has %s", w, c.Args[i+1])
}

// Parse reads the configuration of a node.
func Parse(name string, text []byte, environ []string) (*config.Config, error) {
	return config.Parse(name, text, environ, nil)
}

// Configurations checks the configuration of all nodes: it is valid, has nothing that cannot be intended, its ports are those of the container, its
// files are mounted, and all nodes have the same namespaces.
func Configurations(s *Set, secrets Secrets) []string {
	var found problems
	var first *config.Config
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if node(w) == nil {
			continue
		}
		cfg, err := s.Config(w)
		if err != nil {
			found.add("%v", err)
			continue
		}
		for _, warning := range cfg.Warnings() {
			found.add("%v: %s", w, warning)
		}
		if first == nil {
			first = cfg
		} else if fmt.Sprint(first.Namespaces) != fmt.Sprint(cfg.Namespaces) {
			found.add("%v: its namespaces are not those of the other nodes", w)
		}
		found = append(found, listening(w, cfg)...)
		for _, file := range []string{cfg.Auth.JWT.SecretFile, cfg.API.KeysFile, cfg.Cluster.Link.SecretFile} {
			if err := isMounted(w, file, secrets); file != "" && err != nil {
				found.add("%v: %s: %v", w, file, err)
			}
		}
	}
	return found
}

// listening checks that a node listens where its container has ports, on all addresses. The kubelet comes to the address of the pod.
func listening(w *Workload, cfg *config.Config) []string {
	var found problems
	addresses := map[string]string{"clients": cfg.Listen, "internal": cfg.Internal, "link": cfg.Cluster.Link.Listen}
	for _, p := range node(w).Ports {
		if address, ok := addresses[p.Name]; ok && address != fmt.Sprintf(":%d", p.ContainerPort) {
			found.add("%v: the port %s is %d, but the node listens on %q", w, p.Name, p.ContainerPort, address)
		}
	}
	for _, entry := range Environ(w, node(w)) {
		if address, ok := strings.CutPrefix(entry, "SLUICE_INTERNAL="); ok && address == cfg.Internal {
			return found
		}
	}
	found.add("%v: sluice drain, which has no file, is not told the internal address by SLUICE_INTERNAL", w)
	return found
}

// isMounted returns an error if a file does not come from a key of a Secret.
func isMounted(w *Workload, file string, secrets Secrets) error {
	folder, key := path.Split(file)
	for _, m := range node(w).VolumeMounts {
		for _, v := range w.Pod.Spec.Volumes {
			if m.MountPath != path.Clean(folder) || v.Name != m.Name || v.Secret == nil {
				continue
			}
			if !slices.Contains(secrets[v.Secret.SecretName], key) {
				return fmt.Errorf("the Secret %s has no key %s", v.Secret.SecretName, key)
			}
			return nil
		}
	}
	return errors.New("no Secret is mounted there")
}
