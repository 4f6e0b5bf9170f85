package check

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hasPort reports whether a pod has a port with a name or a number.
func hasPort(pod *corev1.PodTemplateSpec, port intstr.IntOrString) bool {
	for _, c := range pod.Spec.Containers {
		if containerHasPort(&c, port) {
			return true
		}
	}
	return false
}

func containerHasPort(c *corev1.Container, port intstr.IntOrString) bool {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
			return true
		}
	}
	return false
}

// Services checks that the workloads, Services and Ingresses fit each other: each selector matches pods, and the ports are those of the pods.
func Services(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if own := s.selected(w.Selector); len(own) != 1 || own[0] != w {
			found.add("%v: its selector matches the pods of %v", w, own)
		}
		if w.Kind == "StatefulSet" {
			if service := s.service(w.Service); service == nil || !contains(s.served(service), w) {
				found.add("%v: there is no Service %q that has its pods", w, w.Service)
			}
		}
	}
	for _, o := range s.Services {
		pods := s.served(o)
		if len(pods) == 0 {
			found.add("Service %s: no pods have the labels %v", o.Name, o.Spec.Selector)
		}
		for _, w := range pods {
			for _, p := range o.Spec.Ports {
				target := p.TargetPort
				if target == (intstr.IntOrString{}) {
					target = intstr.FromInt32(p.Port)
				}
				if !hasPort(w.Pod, target) {
					found.add("Service %s: the pods of %v have no port %s", o.Name, w, target.String())
				}
			}
		}
	}
	for _, o := range s.Ingresses {
		for _, rule := range o.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if b := path.Backend.Service; b == nil || !s.servicePort(b.Name, b.Port.Name, b.Port.Number) {
					found.add("Ingress %s: its path %s leads to no port of a Service", o.Name, path.Path)
				}
			}
		}
	}
	return found
}

// servicePort reports whether there is a Service with a port, given by its name or its number.
func (s *Set) servicePort(service, name string, number int32) bool {
	o := s.service(service)
	if o == nil {
		return false
	}
	for _, p := range o.Spec.Ports {
		if name != "" && p.Name == name || name == "" && p.Port == number {
			return true
		}
	}
	return false
}

func contains(workloads []*Workload, w *Workload) bool {
	for _, o := range workloads {
		if o == w {
			return true
		}
	}
	return false
}

// Policies checks that each NetworkPolicy names pods and ports that there are, and that each pod is subject to one.
func Policies(s *Set) []string {
	var found problems
	isRuled := make(map[*Workload]bool)
	for _, o := range s.Policies {
		pods := s.selected(&o.Spec.PodSelector)
		if len(pods) == 0 {
			found.add("NetworkPolicy %s: it is for no pods", o.Name)
		}
		for _, w := range pods {
			isRuled[w] = true
		}
		for _, rule := range o.Spec.Ingress {
			for _, peer := range rule.From {
				if peer.NamespaceSelector == nil && len(s.selected(peer.PodSelector)) == 0 {
					found.add("NetworkPolicy %s: it lets pods in that there are not: %v", o.Name, peer.PodSelector)
				}
			}
			for _, p := range rule.Ports {
				for _, w := range pods {
					if p.Port == nil || !hasPort(w.Pod, *p.Port) {
						found.add("NetworkPolicy %s: the pods of %v have no port %v", o.Name, w, p.Port)
					}
				}
			}
		}
	}
	for i := range s.Workloads {
		if w := &s.Workloads[i]; !isRuled[w] {
			found.add("%v: no NetworkPolicy is for its pods", w)
		}
	}
	return found
}

// Reachable returns from where the port of a workload's pods can be reached, in words: "all", the names of workloads, and the names of namespaces with a
// slash. A port that no policy opens has none.
func Reachable(s *Set, workload, port string) []string {
	var from []string
	for _, o := range s.Policies {
		for _, w := range s.selected(&o.Spec.PodSelector) {
			if w.Name != workload {
				continue
			}
			for _, rule := range o.Spec.Ingress {
				if opens(&rule, port) {
					from = append(from, s.peers(&rule)...)
				}
			}
		}
	}
	return from
}

// opens reports whether a rule is for a port. Without ports it is for all.
func opens(rule *networkingv1.NetworkPolicyIngressRule, port string) bool {
	if len(rule.Ports) == 0 {
		return true
	}
	for _, p := range rule.Ports {
		if p.Port != nil && p.Port.String() == port {
			return true
		}
	}
	return false
}

func (s *Set) peers(rule *networkingv1.NetworkPolicyIngressRule) []string {
	if len(rule.From) == 0 {
		return []string{"all"}
	}
	var names []string
	for _, peer := range rule.From {
		switch {
		case peer.NamespaceSelector != nil:
			names = append(names, peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]+"/")
		case peer.PodSelector != nil:
			for _, w := range s.selected(peer.PodSelector) {
				names = append(names, w.Name)
			}
		default:
			names = append(names, "addresses")
		}
	}
	return names
}

// hostPort matches HOST:PORT in a text. The host has no colon.
var hostPort = regexp.MustCompile(`([a-z0-9][a-z0-9.-]*):(\d{2,5})\b`)

// Hosts checks that the addresses in the settings of nodes are those of Services and pods that there are: SERVICE, POD.SERVICE and POD.SERVICE.NAMESPACE.svc.
// Other names, such as nats.example.org, are those of hosts elsewhere.
func Hosts(s *Set) []string {
	var found problems
	check := func(where, text string) {
		for _, m := range hostPort.FindAllStringSubmatch(text, -1) {
			if why := s.refuseHost(m[1], m[2]); why != "" {
				found.add("%s: %s: %s", where, m[0], why)
			}
		}
	}
	for _, o := range s.ConfigMaps {
		for name, text := range o.Data {
			check("ConfigMap "+o.Name+", "+name, text)
		}
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, c := range w.Pod.Spec.Containers {
			for _, entry := range Environ(w, &c) {
				check(w.String(), entry)
			}
		}
	}
	return found
}

// refuseHost says why a host and a port do not exist, or nothing.
func (s *Set) refuseHost(host, port string) string {
	parts := strings.Split(host, ".")
	number, _ := strconv.ParseInt(port, 10, 32) // it is digits
	if len(parts) == 1 {
		if !s.servicePort(host, "", int32(number)) {
			return "there is no such Service, or it has no such port"
		}
		return ""
	}
	service := s.service(parts[1])
	if service == nil {
		if len(parts) == 2 || len(parts) == 4 && parts[3] == "svc" {
			return "there is no Service " + parts[1]
		}
		return ""
	}
	if !s.servicePort(parts[1], "", int32(number)) {
		return "Service " + parts[1] + " has no such port"
	}
	for _, w := range s.served(service) {
		i := strings.LastIndexByte(parts[0], '-')
		ordinal, err := strconv.Atoi(parts[0][i+1:])
		if w.Kind == "StatefulSet" && w.Service == parts[1] && err == nil && parts[0][:i] == w.Name && ordinal < w.Replicas {
			return ""
		}
	}
	return "Service " + parts[1] + " has no such pod"
}

// Spread checks that constraints on where pods run are about the pods themselves.
func Spread(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, c := range w.Pod.Spec.TopologySpreadConstraints {
			if own := s.selected(c.LabelSelector); len(own) != 1 || own[0] != w {
				found.add("%v: its constraint on %s is about the pods of %v", w, c.TopologyKey, own)
			}
		}
		if w.Replicas > 1 && len(w.Pod.Spec.TopologySpreadConstraints) == 0 {
			found.add("%v: nothing spreads its pods over machines", w)
		}
	}
	return found
}
