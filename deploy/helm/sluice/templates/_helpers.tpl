{{/* Name of all objects: the release, with "sluice" in it. The longest suffix is "-gateway". */}}
{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- else -}}{{ printf "%s-sluice" .Release.Name | trunc 40 | trimSuffix "-" }}{{- end -}}
{{- end }}

{{/* Labels by which pods of a component are selected. Argument: list of the root and the component. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels by which pods that serve clients are selected. */}}
{{- define "sluice.clients" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
sluice/clients: "true"
{{- end }}

{{/* Labels of objects. Argument: list of the root and the component, which may be empty. */}}
{{- define "sluice.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What the pods of all components have. Argument: list of the root and the values of the component. */}}
{{- define "sluice.pod" -}}
{{- $root := index . 0 -}}
{{- $of := index . 1 -}}
serviceAccountName: {{ include "sluice.name" $root }}
automountServiceAccountToken: false
enableServiceLinks: false # its variables begin with SLUICE_, as those of the configuration do
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- if hasKey $of "storage" }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $of.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $of.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the containers of all components have. */}}
{{- define "sluice.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Image, command, probes and end of the containers that run sluice. */}}
{{- define "sluice.node" -}}
image: {{ include "sluice.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/sluice/config/sluice.yaml]
{{ include "sluice.container" . }}
startupProbe:
  httpGet: {path: /health/live, port: internal}
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /health/live, port: internal}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
  terminationGracePeriodSeconds: 30 # a node that does not answer cannot be drained
readinessProbe:
  httpGet: {path: /health/ready, port: internal}
  periodSeconds: 5
  timeoutSeconds: 6 # the node sends a publication through and waits 5 s for it
  failureThreshold: 2
lifecycle:
  preStop:
    exec: {command: [/sluice, drain, --wait]} # SIGTERM, which follows, would end a drain that goes on
{{- end }}

{{/* Volumes, and where they are mounted. Argument: dict with config, the name of the ConfigMap, and secrets, their names by folder. */}}
{{- define "sluice.volumes" -}}
- name: config
  configMap: {name: {{ .config }}}
{{- range $folder, $secret := .secrets }}
- name: {{ $folder }}
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "sluice.mounts" -}}
- {name: config, mountPath: /etc/sluice/config, readOnly: true}
{{- range $folder, $secret := .secrets }}
- {name: {{ $folder }}, mountPath: /etc/sluice/{{ $folder }}, readOnly: true}
{{- end }}
{{- end }}

{{/* The pods of a component, for constraints. Argument: list of the root and the component. */}}
{{- define "sluice.selected" -}}
labelSelector:
  matchLabels: {{ include "sluice.selector" . | nindent 4 }}
{{- end }}

{{/* Secrets of pods that serve clients, by folder. */}}
{{- define "sluice.clientSecrets" -}}
api-keys: {{ .Values.secrets.apiKeys }}
tokens: {{ .Values.secrets.tokens }}
{{- end }}
