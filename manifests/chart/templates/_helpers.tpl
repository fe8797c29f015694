{{/* Everything of a release is called after it, so that several can stand side by side. */}}
{{- define "waggle.name" -}}
{{ .Release.Name }}
{{- end }}

{{- define "waggle.scheduler" -}}
{{ include "waggle.name" . }}-scheduler
{{- end }}

{{- define "waggle.claims" -}}
{{ include "waggle.name" . }}-claims
{{- end }}

{{/* "true" if claims have a Deployment of their own: if they are to, or there is no extender to serve them beside. */}}
{{- define "waggle.separate" -}}
{{- if or .Values.claims.separate (not .Values.extender.enabled) }}true{{ end }}
{{- end }}

{{- define "waggle.vpods" -}}
{{ include "waggle.name" . }}-vpods
{{- end }}

{{/* "true" if vpods have a Deployment of their own: if they are to, or there is no extender to serve them beside. */}}
{{- define "waggle.vpodsSeparate" -}}
{{- if or .Values.vpods.separate (not .Values.extender.enabled) }}true{{ end }}
{{- end }}

{{/* The schedulerName of the pods of its own kube-scheduler. */}}
{{- define "waggle.schedulerName" -}}
{{ .Values.scheduler.name | default (include "waggle.scheduler" .) }}
{{- end }}

{{- define "waggle.labels" -}}
app.kubernetes.io/part-of: waggle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* A reference from repository, tag and digest: (dict "image" ... "tag" DEFAULT). */}}
{{- define "waggle.image" -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .tag }}{{ end }}
{{- end }}

{{- define "waggle.account" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "waggle.name" . }}
{{- end }}

{{/* waggle.yaml: what fits the other objects of this chart, and above it what the operator says. */}}
{{- define "waggle.config" -}}
{{- $clients := list "kube-scheduler" "system:kube-scheduler" }}
{{- $tls := dict "cert_file" "/etc/waggle/tls/tls.crt" "key_file" "/etc/waggle/tls/tls.key" "client_ca_file" "/etc/waggle/tls/ca.crt" "verb_clients" $clients "page_clients" (append $clients "waggle-viewer") }}
{{- $server := dict "host" "0.0.0.0" "port" 9096 "health_port" 9097 "tls" $tls }}
{{- $pods := dict "resource" .Values.controlPlane.managedResource }}
{{- if .Values.scheduler.enabled }}
{{- $pods = dict "scheduler_names" (list (include "waggle.schedulerName" .)) }}
{{- end }}
{{- $election := dict "enabled" true "label_pod" true "name" (include "waggle.name" .) }}
{{- $config := dict "server" $server "pods" $pods "leader_election" $election "log" (dict "format" "json") }}
{{- if and .Values.claims.enabled (not (include "waggle.separate" .)) }}
{{- $_ := set $config "claims" (dict "enabled" true "authorization" "kubernetes") }}
{{- end }}
{{- if and .Values.vpods.enabled (not (include "waggle.vpodsSeparate" .)) }}
{{- $_ := set $config "vpods" (dict "enabled" true "custom_resources" true) }}
{{- end }}
{{- if .Values.ordering.enabled }}
{{- $_ := set $config "ordering" (dict "enabled" true) }}
{{- end }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) }}
{{- end }}

{{/* The same for claims as a Deployment of their own. Clients show a token, and need no certificate. leader_election.name
is that of the group whose members share pools: another release in this namespace has others. */}}
{{- define "waggle.claimsConfig" -}}
{{- $tls := dict "cert_file" "/etc/waggle/tls/tls.crt" "key_file" "/etc/waggle/tls/tls.key" }}
{{- $server := dict "host" "0.0.0.0" "port" 9096 "health_port" 9097 "tls" $tls }}
{{- $claims := dict "enabled" true "authorization" "kubernetes" "share_pools" true }}
{{- $election := dict "name" (include "waggle.name" .) }}
{{- $config := dict "extender" (dict "enabled" false) "server" $server "claims" $claims "leader_election" $election "log" (dict "format" "json") }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.claims.config)) }}
{{- end }}

{{/* The same for vpods as a Deployment of their own. The Lease is leader_election.name with -vpods. */}}
{{- define "waggle.vpodsConfig" -}}
{{- $tls := dict "cert_file" "/etc/waggle/tls/tls.crt" "key_file" "/etc/waggle/tls/tls.key" }}
{{- $server := dict "host" "0.0.0.0" "port" 9096 "health_port" 9097 "tls" $tls "inspect_authorization" "kubernetes" }}
{{- $vpods := dict "enabled" true "custom_resources" true }}
{{- $election := dict "enabled" true "name" (include "waggle.name" .) }}
{{- $config := dict "extender" (dict "enabled" false) "server" $server "vpods" $vpods "leader_election" $election "log" (dict "format" "json") }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.vpods.config)) }}
{{- end }}

{{- define "waggle.schedulerConfig" -}}
{{- if .Values.scheduler.configuration }}
{{- .Values.scheduler.configuration }}
{{- else }}
{{- $url := printf "https://%s.%s.svc:" (include "waggle.name" .) .Release.Namespace }}
{{- .Files.Get "files/kube-scheduler-config.yaml"
  | replace "https://waggle.waggle-system.svc:" $url
  | replace "resourceName: waggle-scheduler" (printf "resourceName: %s" (include "waggle.scheduler" .))
  | replace "resourceNamespace: waggle-system" (printf "resourceNamespace: %s" .Release.Namespace)
  | replace "schedulerName: waggle-scheduler" (printf "schedulerName: %s" (include "waggle.schedulerName" .)) }}
{{- end }}
{{- end }}
