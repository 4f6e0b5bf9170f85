{{/* The configuration of a component, node, gateway or hub, as YAML. Argument: list of the root and the component. */}}
{{- define "sluice.config" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $name := include "sluice.name" $root -}}
{{- $all := dict "internal" ":9000" "namespaces" $values.namespaces -}}
{{- $clients := mergeOverwrite (include "sluice.clientConfig" $root | fromYaml) (deepCopy $values.config) -}}
{{- $cluster := include "sluice.clusterConfig" $root | fromYaml -}}
{{- if eq (index . 1) "node" -}}
{{- mergeOverwrite (dict "role" "all" "data" "/data") $all $clients (deepCopy $values.node.config) | toYaml -}}
{{- else if eq (index . 1) "gateway" -}}
{{- $hubs := dict "discovery" (dict "addresses" (list (printf "%s-hub:8020" $name))) "advertise" (dict "public" $values.cluster.publicURL) -}}
{{- mergeOverwrite (dict "role" "gateway" "cluster" $hubs) $all $clients $cluster (deepCopy $values.gateway.config) | toYaml -}}
{{- else -}}
{{- $broker := dict "kind" "nats" "nats" (dict "replicas" 3) -}}
{{- mergeOverwrite (dict "role" "hub" "listen" "" "broker" $broker "cluster" (dict "link" (dict "listen" ":8020"))) $all $cluster (deepCopy $values.hub.config) | toYaml -}}
{{- end -}}
{{- end }}

{{/* Settings of nodes that serve clients, as YAML. */}}
{{- define "sluice.clientConfig" -}}
listen: ":8000"
auth:
  jwt:
    secret_file: /etc/sluice/tokens/secret
    previous_secret_file: /etc/sluice/tokens/previous
api:
  keys_file: /etc/sluice/api-keys/keys.yaml
{{- end }}

{{/* Settings of nodes of a cluster, as YAML. */}}
{{- define "sluice.clusterConfig" -}}
cluster:
  name: {{ .Values.cluster.name }}
  discovery: {kind: broker}
  link: {secret_file: /etc/sluice/link/secret}
  {{- with .Values.cluster.labels }}
  labels: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The configuration of NATS. */}}
{{- define "sluice.natsConfig" -}}
{{- $name := include "sluice.name" . -}}
server_name: $POD_NAME
port: 4222
http_port: 8222
pid_file: /run/nats/nats.pid

lame_duck_grace_period: 10s
lame_duck_duration: 30s

authorization { user: sluice, password: $NATS_PASSWORD }

jetstream {
  store_dir: /data
  max_memory_store: 256MB
  max_file_store: {{ .Values.nats.maxFileStore }}
}

cluster {
  name: {{ .Values.cluster.name }}
  port: 6222
  no_advertise: true
  connect_retries: 120
  routes: [
    {{- range until 3 }}
    nats://{{ $name }}-nats-{{ . }}.{{ $name }}-nats:6222
    {{- end }}
  ]
}
{{- end }}
