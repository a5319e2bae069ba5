{{- define "scalewatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of pods add "-collector-" and a hash of the ReplicaSet, within 63 characters. */}}
{{- define "scalewatch.fullname" -}}
{{- $name := include "scalewatch.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selectors go by; never changes. Takes {root, component}. */}}
{{- define "scalewatch.selector" -}}
app.kubernetes.io/name: {{ include "scalewatch.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: without the chart's version, which would roll them for nothing. */}}
{{- define "scalewatch.podLabels" -}}
{{- include "scalewatch.selector" . }}
app.kubernetes.io/part-of: scalewatch
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "scalewatch.labels" -}}
{{- include "scalewatch.podLabels" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "scalewatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "scalewatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "scalewatch.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Port of a role: the collector's is the one after the learner's, as in the agent. Takes {root, component}. */}}
{{- define "scalewatch.port" -}}
{{- $port := int .root.Values.config.http.port -}}
{{- eq .component "collector" | ternary (add1 $port) $port -}}
{{- end -}}

{{- define "scalewatch.shards" -}}
{{- int .Values.config.topics.journal_partitions -}}
{{- end -}}
