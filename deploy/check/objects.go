// Package check tests the files of the folder deploy: it renders what users install, with the same code as kustomize and Helm have, decodes it as the API
// server of Kubernetes does, and looks for what decoding does not find, such as a Service that selects no pods.
//
// [Decode] makes a [Set] of the rendered objects. Each check is a function of a Set that returns the problems that it has found, as text for people.
package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Set is the objects of one rendering.
type Set struct {
	Objects   []runtime.Object
	Workloads []Workload

	Services     []*corev1.Service
	ConfigMaps   []*corev1.ConfigMap
	Accounts     []*corev1.ServiceAccount
	Ingresses    []*networkingv1.Ingress
	Policies     []*networkingv1.NetworkPolicy
	Budgets      []*policyv1.PodDisruptionBudget
	Autoscalings []*autoscalingv2.HorizontalPodAutoscaler
}

// Workload is a StatefulSet or a Deployment.
type Workload struct {
	Kind, Name string
	Replicas   int // the least number: for a Deployment with an autoscaler, that of the autoscaler
	MinReady   int // minReadySeconds
	Service    string
	Selector   *metav1.LabelSelector
	Pod        *corev1.PodTemplateSpec
	Claims     []corev1.PersistentVolumeClaim
}

// problems collects what checks find.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// decoder decodes the kinds of objects that there are. It refuses fields that a kind does not have, and fields that are given twice.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // the same types are not added twice
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
})

// Decode reads objects, documents of YAML, as strictly as the API server with strict validation of fields.
func Decode(text []byte) (*Set, error) {
	s, decoder := new(Set), decoder()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if isBlank(document) {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w, in:\n%s", err, document)
		}
		s.add(object)
	}
	for _, h := range s.Autoscalings {
		if w := s.target(h); w != nil && h.Spec.MinReplicas != nil {
			w.Replicas = int(*h.Spec.MinReplicas)
		}
	}
	return s, nil
}

// isBlank reports whether a document has only comments and white space.
func isBlank(document []byte) bool {
	for line := range strings.Lines(string(document)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && line != "---" {
			return false
		}
	}
	return true
}

func (s *Set) add(object runtime.Object) {
	s.Objects = append(s.Objects, object)
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		s.Workloads = append(s.Workloads, Workload{
			"StatefulSet", o.Name, replicas(o.Spec.Replicas), int(o.Spec.MinReadySeconds), o.Spec.ServiceName, o.Spec.Selector, &o.Spec.Template,
			o.Spec.VolumeClaimTemplates,
		})
	case *appsv1.Deployment:
		s.Workloads = append(s.Workloads, Workload{
			"Deployment", o.Name, replicas(o.Spec.Replicas), int(o.Spec.MinReadySeconds), "", o.Spec.Selector, &o.Spec.Template, nil,
		})
	case *corev1.Service:
		s.Services = append(s.Services, o)
	case *corev1.ConfigMap:
		s.ConfigMaps = append(s.ConfigMaps, o)
	case *corev1.ServiceAccount:
		s.Accounts = append(s.Accounts, o)
	case *networkingv1.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *networkingv1.NetworkPolicy:
		s.Policies = append(s.Policies, o)
	case *policyv1.PodDisruptionBudget:
		s.Budgets = append(s.Budgets, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.Autoscalings = append(s.Autoscalings, o)
	}
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// target returns the workload that an autoscaler scales, nil if there is none.
func (s *Set) target(h *autoscalingv2.HorizontalPodAutoscaler) *Workload {
	for i := range s.Workloads {
		if w := &s.Workloads[i]; w.Kind == h.Spec.ScaleTargetRef.Kind && w.Name == h.Spec.ScaleTargetRef.Name {
			return w
		}
	}
	return nil
}

// selected returns the workloads whose pods a selector matches. No selector matches none, and an empty one all.
func (s *Set) selected(selector *metav1.LabelSelector) []*Workload {
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	var found []*Workload
	for i := range s.Workloads {
		if match.Matches(labels.Set(s.Workloads[i].Pod.Labels)) {
			found = append(found, &s.Workloads[i])
		}
	}
	return found
}

// service returns the Service with a name, nil if there is none.
func (s *Set) service(name string) *corev1.Service {
	for _, o := range s.Services {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// served returns the workloads whose pods a Service has.
func (s *Set) served(o *corev1.Service) []*Workload {
	if len(o.Spec.Selector) == 0 {
		return nil
	}
	return s.selected(&metav1.LabelSelector{MatchLabels: o.Spec.Selector})
}

// configMap returns the ConfigMap with a name, nil if there is none.
func (s *Set) configMap(name string) *corev1.ConfigMap {
	for _, o := range s.ConfigMaps {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// String returns the kind and the name.
func (w *Workload) String() string { return w.Kind + " " + w.Name }
