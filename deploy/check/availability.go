package check

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rest is how long a node may take to end after its clients have been asked to go, with a reserve.
const Rest = 30 * time.Second

// mostWindow is the longest window of an autoscaler that the API server accepts.
const mostWindow = 3600

// Budgets checks that each workload of several pods has one PodDisruptionBudget, and that it leaves room: one pod may go, and not all.
func Budgets(s *Set) []string {
	var found problems
	budgets := make(map[*Workload]int)
	for _, o := range s.Budgets {
		pods := s.selected(o.Spec.Selector)
		if len(pods) == 0 {
			found.add("PodDisruptionBudget %s: it is for no pods", o.Name)
		}
		for _, w := range pods {
			budgets[w]++
			most := w.Replicas
			if o.Spec.MaxUnavailable != nil {
				most, _ = intstr.GetScaledValueFromIntOrPercent(o.Spec.MaxUnavailable, w.Replicas, true)
			}
			if o.Spec.MinAvailable != nil {
				least, _ := intstr.GetScaledValueFromIntOrPercent(o.Spec.MinAvailable, w.Replicas, true)
				most = w.Replicas - least
			}
			if most < 1 || most >= w.Replicas {
				found.add("PodDisruptionBudget %s: of %d pods of %v %d may go at the same time", o.Name, w.Replicas, w, most)
			}
		}
	}
	for i := range s.Workloads {
		switch w := &s.Workloads[i]; {
		case w.Replicas > 1 && budgets[w] != 1:
			found.add("%v: it has %d PodDisruptionBudgets", w, budgets[w])
		case w.Replicas == 1 && budgets[w] > 0:
			found.add("%v: a PodDisruptionBudget for a single pod keeps its machine from being drained", w)
		}
	}
	return found
}

// Autoscaling checks that autoscalers scale workloads that there are, and by metrics that nodes have or that Kubernetes measures.
func Autoscaling(s *Set, metrics map[string]bool) []string {
	var found problems
	for _, o := range s.Autoscalings {
		w := s.target(o)
		if w == nil {
			found.add("HorizontalPodAutoscaler %s: there is no %s %s", o.Name, o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name)
			continue
		}
		for _, m := range o.Spec.Metrics {
			switch {
			case m.Type == autoscalingv2.PodsMetricSourceType && !metrics[m.Pods.Metric.Name]:
				found.add("HorizontalPodAutoscaler %s: docs/metrics.md does not have the metric %s", o.Name, m.Pods.Metric.Name)
			case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource.Name == corev1.ResourceMemory:
				found.add("HorizontalPodAutoscaler %s: it scales by memory, which is not given back at once", o.Name)
			}
		}
		down := o.Spec.Behavior.ScaleDown
		if window := down.StabilizationWindowSeconds; window == nil || *window > mostWindow || *window < 300 {
			found.add("HorizontalPodAutoscaler %s: its window of scaling down is %v s", o.Name, window)
		}
		for _, p := range down.Policies {
			if p.Type != autoscalingv2.PodsScalingPolicy || p.Value != 1 || int64(p.PeriodSeconds) < grace(w) {
				found.add("HorizontalPodAutoscaler %s: it ends %d %s in %d s, but clients of one gateway need %d s", o.Name, p.Value, p.Type, p.PeriodSeconds, grace(w))
			}
		}
	}
	return found
}

// grace returns how many seconds the pods of a workload have to end.
func grace(w *Workload) int64 {
	if s := w.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return *s
	}
	return 30 // the default of Kubernetes
}

// Draining checks that the pods with nodes drain before they end, and have the time for it that their configuration says. While a node drains, a rollout
// waits.
func Draining(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		c := node(w)
		if c == nil {
			continue
		}
		cfg, err := s.Config(w)
		if err != nil {
			continue // Configurations reports it
		}
		drain := time.Duration(cfg.Shutdown.Delay + cfg.Shutdown.Spread)
		if need := drain + Rest; grace(w) < int64(need.Seconds()) {
			found.add("%v: its pods have %d s to end, but the configuration asks for %v, with the rest", w, grace(w), need)
		}
		if cfg.Shutdown.Spread > 0 && time.Duration(w.MinReady)*time.Second < drain {
			found.add("%v: minReadySeconds is %d, less than a drain takes (%v): a rollout ends the next node while clients of the last one move", w, w.MinReady, drain)
		}
		if cfg.Shutdown.Delay < 5e9 {
			found.add("%v: shutdown.delay is %v, too short for balancers to notice that a node ends", w, cfg.Shutdown.Delay)
		}
		hook := c.Lifecycle
		if hook == nil || hook.PreStop == nil || hook.PreStop.Exec == nil || len(hook.PreStop.Exec.Command) != 3 ||
			hook.PreStop.Exec.Command[1] != "drain" || hook.PreStop.Exec.Command[2] != "--wait" {
			found.add("%v: preStop is not sluice drain --wait", w)
		}
		if p := c.LivenessProbe; p != nil && (p.TerminationGracePeriodSeconds == nil || *p.TerminationGracePeriodSeconds > int64(Rest.Seconds())) {
			found.add("%v: a pod that is not live has no grace period of its own, so it is drained although it does not answer", w)
		}
	}
	return found
}

// Probes checks that containers have all three probes, on ports that they have, with paths that nodes answer.
func Probes(s *Set) []string {
	var found problems
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, c := range w.Pod.Spec.Containers {
			for name, p := range map[string]*corev1.Probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
				if p == nil || p.HTTPGet == nil {
					found.add("%v: container %s has no %s by HTTP", w, c.Name, name)
					continue
				}
				if !containerHasPort(&c, p.HTTPGet.Port) {
					found.add("%v: the %s of container %s asks port %s, which the container does not have", w, name, c.Name, p.HTTPGet.Port.String())
				}
				want := "/health/live"
				if name == "readinessProbe" {
					want = "/health/ready"
				}
				if c.Name == nodeName && (p.HTTPGet.Path != want || p.HTTPGet.Port.String() != "internal") {
					found.add("%v: its %s asks %s of port %s", w, name, p.HTTPGet.Path, p.HTTPGet.Port.String())
				}
			}
		}
	}
	return found
}
