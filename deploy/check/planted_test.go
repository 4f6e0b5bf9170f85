package check_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/deploy/check"
)

// planted are mistakes: what is replaced in the rendered cluster, by what, and what is said about it.
var planted = []struct{ name, old, new, want string }{
	{"unknown field", "automountServiceAccountToken: false", "automountToken: false", `unknown field "automountToken"`},
	{"case of a field", "replicas: 3\n  selector", "Replicas: 3\n  selector", `unknown field "spec.Replicas"`},
	{"wrong type", "minReplicas: 2", "minReplicas: two", "cannot unmarshal"},
	{"field twice", "minReplicas: 2", "minReplicas: 2\n  minReplicas: 3", `already set in map`},
	{"unknown kind", "kind: HorizontalPodAutoscaler", "kind: HorizontalAutoscaler", "no kind"},
	{"removed version", "apiVersion: policy/v1", "apiVersion: policy/v1beta1", "no kind"},

	{
		"labels of pods",
		"        app.kubernetes.io/component: hub\n        app.kubernetes.io/name: sluice\n    spec:",
		"        app.kubernetes.io/component: hubs\n    spec:",
		"StatefulSet sluice-hub: its selector",
	},
	{
		"selector of a Service",
		"    sluice/clients: \"true\"\n  type: LoadBalancer",
		"    sluice/clients: \"yes\"\n  type: LoadBalancer",
		"Service sluice: no pods",
	},
	{"port of a Service", "targetPort: link", "targetPort: links", "Service sluice-hub: the pods of StatefulSet sluice-hub have no port links"},
	{"headless Service", "serviceName: sluice-hub", "serviceName: sluice-hubs", "there is no Service"},

	{
		"pods of a policy",
		"      app.kubernetes.io/component: nats\n      app.kubernetes.io/name: sluice\n  policyTypes",
		"      app.kubernetes.io/component: broker\n  policyTypes",
		"NetworkPolicy sluice-nats: it is for no pods",
	},
	{
		"peers of a policy",
		"          app.kubernetes.io/component: gateway\n          app.kubernetes.io/name: sluice\n    ports",
		"          app.kubernetes.io/component: gateways\n    ports",
		"it lets pods in that there are not",
	},
	{"port of a policy", "- port: link\n", "- port: 8020\n", ""},
	{"other port of a policy", "- port: link\n", "- port: 8021\n", "NetworkPolicy sluice-hub: the pods of StatefulSet sluice-hub have no port"},

	{"host of hubs", "addresses: [\"sluice-hub:8020\"]", "addresses: [\"sluice-hubs:8020\"]", "sluice-hubs:8020: there is no such Service"},
	{"port of hubs", "addresses: [\"sluice-hub:8020\"]", "addresses: [\"sluice-hub:8021\"]", "sluice-hub:8021"},
	{"fourth server", "nats://sluice-nats-2.sluice-nats:6222", "nats://sluice-nats-3.sluice-nats:6222", "no such pod"},
	{"server of another Service", "@sluice-nats-1.sluice-nats:4222", "@sluice-nats-1.nats:4222", "there is no Service nats"},
	{
		"announced address",
		"$(POD_NAME).sluice-hub.$(POD_NAMESPACE).svc:8020",
		"$(POD_NAME).sluice-gateway.$(POD_NAMESPACE).svc:8020",
		"there is no Service sluice-gateway",
	},

	{
		"constraint",
		"            app.kubernetes.io/component: hub\n            app.kubernetes.io/name: sluice\n        maxSkew",
		"            app.kubernetes.io/component: nats\n            app.kubernetes.io/name: sluice\n        maxSkew",
		"its constraint on kubernetes.io/hostname",
	},
	{
		"budget without room",
		"maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: hub",
		"maxUnavailable: 0\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: hub",
		"0 may go",
	},
	{
		"budget for all",
		"maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: hub",
		"maxUnavailable: 2\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: hub",
		"2 may go",
	},
	{
		"budget of others",
		"maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: hub",
		"maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: nats",
		"it has 0 PodDisruptionBudgets",
	},

	{"window", "stabilizationWindowSeconds: 1800", "stabilizationWindowSeconds: 7200", "window of scaling down"},
	{"speed of scaling", "periodSeconds: 120\n        type: Pods", "periodSeconds: 15\n        type: Pods", "it ends 1 Pods in 15 s"},
	{"metric", "name: sluice_sessions", "name: sluice_clients", "does not have the metric sluice_clients"},
	{"scaled by memory", "      name: cpu\n", "      name: memory\n", "scales by memory"},
	{
		"scaled workload",
		"scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment",
		"scaleTargetRef:\n    apiVersion: apps/v1\n    kind: ReplicaSet",
		"there is no ReplicaSet",
	},

	{"grace period", "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 90", "its pods have 90 s to end"},
	{"longer drain", "shutdown: {delay: 10s, spread: 1m}", "shutdown: {delay: 10s, spread: 5m}", "5m40s"},
	{"rollout", "minReadySeconds: 80", "minReadySeconds: 20", "minReadySeconds is 20"},
	{"no delay", "shutdown: {delay: 10s, spread: 1m}", "shutdown: {delay: 0s, spread: 1m}", "shutdown.delay"},
	{"drain without waiting", "              - --wait\n", "", "preStop"},
	{"liveness", "          terminationGracePeriodSeconds: 30\n", "", "a pod that is not live"},

	{
		"port of a probe",
		"path: /health/ready\n            port: internal",
		"path: /health/ready\n            port: public",
		"which the container does not have",
	},
	{"path of a probe", "path: /health/ready", "path: /ready", "its readinessProbe asks /ready"},
	{
		"no probe",
		"        startupProbe:\n          failureThreshold: 120\n          httpGet:\n            path: /health/live\n            port: internal\n          periodSeconds: 1\n",
		"",
		"no startupProbe",
	},

	{"image without version", "image: nats:2.15.2", "image: nats", "has no version"},
	{"image of a line", "image: nats:2.15.2", "image: nats:2.15", "has no version"},
	{"newest image", "image: sluice:0.1.0", "image: sluice:latest", "has no version"},

	{"ConfigMap", "- configMap:\n          name: sluice-hub", "- configMap:\n          name: sluice-hubs", "there is no ConfigMap sluice-hubs"},
	{"Secret", "secretName: sluice-link", "secretName: sluice-links", "nothing says how to make the Secret sluice-links"},
	{"key of a Secret", "key: password", "key: pass", "with the key pass"},
	{"account", "serviceAccountName: sluice", "serviceAccountName: push", "there is no ServiceAccount"},
	{
		"volume",
		"- mountPath: /etc/sluice/tokens\n          name: tokens",
		"- mountPath: /etc/sluice/tokens\n          name: token",
		"there is no volume token",
	},
	{"mount", "        - mountPath: /etc/sluice/tokens\n          name: tokens\n          readOnly: true\n", "", "the volume tokens is mounted nowhere"},
	{"order of variables", "value: $(POD_NAME)\n", "value: $(NODE_NAME)\n", "which is not set before it"},

	{"root", "runAsNonRoot: true", "runAsNonRoot: false", "may run as root"},
	{"file system", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "may write to its root file system"},
	{"capabilities", "drop:\n            - ALL", "drop:\n            - KILL", "has capabilities"},
	{"limit of CPU", "limits:\n            memory: 2Gi", "limits:\n            cpu: 2\n            memory: 2Gi", "has a limit of CPU"},
	{
		"memory",
		"requests:\n            cpu: \"1\"\n            memory: 2Gi",
		"requests:\n            cpu: \"1\"\n            memory: 1Gi",
		"does not ask for the memory",
	},
	{"memory of Go", "value: 1800MiB", "value: 2048MiB", "GOMEMLIMIT is 2048 MiB"},
	{"service links", "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks"},

	{"setting", "secret_file: /etc/sluice/tokens/secret", "secret_path: /etc/sluice/tokens/secret", "secret_path"},
	{"value", "algorithms: [HS256]", "algorithms: [HS255]", "HS255"},
	{"file of a setting", "secret_file: /etc/sluice/tokens/secret", "secret_file: /etc/sluice/tokens/key", "has no key key"},
	{"folder of a setting", "keys_file: /etc/sluice/api-keys/keys.yaml", "keys_file: /etc/sluice/keys/keys.yaml", "no Secret is mounted there"},
	{"namespaces", "- name: quotes\n        mode: table", "- name: prices\n        mode: table", "its namespaces are not those"},
	{"port of a setting", "listen: \":8000\"", "listen: \":8080\"", "listens on \":8080\""},
	{"address of a setting", "internal: \":9000\"", "internal: \"127.0.0.1:9000\"", ""}, // the variable wins
	{"name of a variable", "name: SLUICE_INTERNAL", "name: SLUICE_INTERNALS", "SLUICE_INTERNALS"},
	{"address of the broker", "value: nats://", "value: http://", "broker.nats.url"},
}

// Planted mistakes are found.
func TestPlantedMistakes(t *testing.T) {
	cluster := string(renderings[1].render(t))
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			text := strings.Replace(cluster, p.old, p.new, 1)
			if text == cluster {
				t.Fatalf("there is no %q", p.old)
			}
			var found string
			if s, err := check.Decode([]byte(text)); err != nil {
				found = err.Error()
			} else {
				found = strings.Join(allChecks(t, s), "\n")
			}
			if !strings.Contains(found, p.want) || p.want == "" && found != "" {
				t.Errorf("found %q, not %q", found, p.want)
			}
		})
	}
}
