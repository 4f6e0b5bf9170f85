package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pinned matches the name of an image with a version of three numbers. A registry may precede it, a word may follow.
var pinned = regexp.MustCompile(`^(?:[a-z0-9.-]+(?::\d+)?/)*[a-z0-9-]+:v?\d+\.\d+\.\d+(?:[.-][a-z0-9.-]+)?$`)

// Pinned reports whether an image is one release, which does not change.
func Pinned(image string) bool {
	return pinned.MatchString(image) || strings.Contains(image, "@sha256:")
}

// Images checks that all images are pinned.
func Images(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, c := range slices.Concat(w.Pod.Spec.InitContainers, w.Pod.Spec.Containers) {
			if !Pinned(c.Image) {
				found.add("%v: the image %q has no version", w, c.Image)
			}
		}
	}
	return found
}

// Secrets are the keys of Secrets that users make, by the name of the Secret.
type Secrets map[string][]string

// References checks that the ConfigMaps, Secrets and accounts that pods name exist, and that volumes and mounts fit each other.
func References(s *Set, secrets Secrets) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if !slices.ContainsFunc(s.Accounts, func(o *corev1.ServiceAccount) bool { return o.Name == w.Pod.Spec.ServiceAccountName }) {
			found.add("%v: there is no ServiceAccount %q", w, w.Pod.Spec.ServiceAccountName)
		}
		names := make(map[string]bool)
		for _, v := range w.Pod.Spec.Volumes {
			if names[v.Name] {
				found.add("%v: two volumes are called %s", w, v.Name)
			}
			names[v.Name] = true
			if v.ConfigMap != nil && s.configMap(v.ConfigMap.Name) == nil {
				found.add("%v: there is no ConfigMap %s", w, v.ConfigMap.Name)
			}
			if v.Secret != nil && secrets[v.Secret.SecretName] == nil {
				found.add("%v: nothing says how to make the Secret %s", w, v.Secret.SecretName)
			}
		}
		for _, claim := range w.Claims {
			names[claim.Name] = true
		}
		mounted := make(map[string]bool)
		for _, c := range w.Pod.Spec.Containers {
			found = append(found, mounts(w, &c, names, mounted)...)
			found = append(found, variables(w, &c, secrets)...)
		}
		for name := range names {
			if !mounted[name] {
				found.add("%v: the volume %s is mounted nowhere", w, name)
			}
		}
	}
	return found
}

// mounts checks the mounts of a container, and marks in mounted the volumes that they use.
func mounts(w *Workload, c *corev1.Container, names, mounted map[string]bool) []string {
	var found problems
	paths := make(map[string]bool)
	for _, m := range c.VolumeMounts {
		if !names[m.Name] {
			found.add("%v: there is no volume %s", w, m.Name)
		}
		if paths[m.MountPath] {
			found.add("%v: two volumes are mounted on %s", w, m.MountPath)
		}
		mounted[m.Name], paths[m.MountPath] = true, true
	}
	return found
}

// variables checks what the variables of a container refer to.
func variables(w *Workload, c *corev1.Container, secrets Secrets) []string {
	var found problems
	names := make(map[string]bool)
	for _, e := range c.Env {
		if names[e.Name] {
			found.add("%v: the variable %s is set twice", w, e.Name)
		}
		for _, m := range reference.FindAllStringSubmatch(e.Value, -1) {
			if !names[m[1]] {
				found.add("%v: the variable %s refers to %s, which is not set before it", w, e.Name, m[1])
			}
		}
		names[e.Name] = true
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			if ref := e.ValueFrom.SecretKeyRef; !slices.Contains(secrets[ref.Name], ref.Key) {
				found.add("%v: nothing says how to make the Secret %s with the key %s", w, ref.Name, ref.Key)
			}
		}
	}
	return found
}

// Hardening checks what pods and containers may do, and what resources they ask for.
func Hardening(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		p := w.Pod.Spec
		if sc := p.SecurityContext; sc == nil || !isTrue(sc.RunAsNonRoot) || sc.RunAsUser == nil || *sc.RunAsUser == 0 || sc.SeccompProfile == nil ||
			sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			found.add("%v: its pods may run as root, or without seccomp", w)
		}
		if p.EnableServiceLinks == nil || *p.EnableServiceLinks {
			found.add("%v: enableServiceLinks is not false: a Service sluice-hub would set variables that nodes take for settings", w)
		}
		if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
			found.add("%v: its pods get a token of the API server", w)
		}
		for _, c := range p.Containers {
			sc := c.SecurityContext
			if sc == nil || !isTrue(sc.ReadOnlyRootFilesystem) || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
				sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL") || len(sc.Capabilities.Add) > 0 {
				found.add("%v: container %s may write to its root file system, or has capabilities", w, c.Name)
			}
			found = append(found, resources(w, &c)...)
		}
	}
	return found
}

func isTrue(b *bool) bool { return b != nil && *b }

// resources checks what a container asks for: CPU without a limit, and memory with the limit at the request, of which Go uses a little less.
func resources(w *Workload, c *corev1.Container) []string {
	var found problems
	if _, isLimited := c.Resources.Limits[corev1.ResourceCPU]; isLimited || c.Resources.Requests.Cpu().IsZero() {
		found.add("%v: container %s has a limit of CPU, or no request", w, c.Name)
	}
	limit := c.Resources.Limits.Memory().Value()
	if limit == 0 || limit != c.Resources.Requests.Memory().Value() {
		found.add("%v: container %s does not ask for the memory that it is limited to", w, c.Name)
	}
	if goLimit := goMemory(w, c); goLimit*100 > limit*95 || goLimit*100 < limit*70 {
		found.add("%v: container %s may have %d MiB, but GOMEMLIMIT is %d MiB", w, c.Name, limit>>20, goLimit>>20)
	}
	return found
}

// goMemory returns the value of GOMEMLIMIT, 0 if it is not set in MiB.
func goMemory(w *Workload, c *corev1.Container) int64 {
	for _, entry := range Environ(w, c) {
		if text, ok := strings.CutPrefix(entry, "GOMEMLIMIT="); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(text, "MiB"), 10, 64) // 0 is a finding
			return n << 20
		}
	}
	return 0
}
