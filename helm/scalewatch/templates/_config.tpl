{{/*
The configuration as YAML. Helm holds numbers as floats and toYaml writes large ones as 6.7e+07, which is no whole number
to the agent: so scalars are written as JSON. Takes a map or a list.
*/}}
{{- define "scalewatch.yaml" -}}
{{- $words := list "y" "n" "yes" "no" "on" "off" "true" "false" "null" -}}
{{- if kindIs "map" . }}
{{- range $key, $value := . }}
{{- $plain := and (regexMatch "^[a-z][a-z0-9_]*$" $key) (not (has $key $words)) }}
{{ ternary $key (toRawJson $key) $plain }}: {{- include "scalewatch.yamlValue" $value }}
{{- end }}
{{- else }}
{{- range . }}
- {{- include "scalewatch.yamlValue" . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "scalewatch.yamlValue" -}}
{{- if and (or (kindIs "map" .) (kindIs "slice" .)) . -}}
{{- include "scalewatch.yaml" . | trim | nindent 2 -}}
{{- else -}}
{{- print " " (toRawJson .) -}}
{{- end -}}
{{- end -}}

{{/* The data of the ConfigMap, the same for the hook's and for the checksum. */}}
{{- define "scalewatch.data" -}}
agent.yaml: |
  # Made by Helm from the values `config`.
  {{- include "scalewatch.yaml" .Values.config | trim | nindent 2 }}
{{- range $name, $text := .Values.files }}
{{ $name | quote }}: {{ toRawJson $text }}
{{- end }}
{{- end -}}

{{/* Lists where a secret itself stands in the configuration. Never shows it. Takes {value, path}. */}}
{{- define "scalewatch.bareSecrets" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $key, $value := .value -}}
{{- if and (kindIs "string" $value) $value (regexMatch "(^|_)(password|salt|token|secret)$" $key) -}}
{{- if not (regexMatch "^\\$\\{env:[A-Za-z_][A-Za-z0-9_]*\\}$" $value) }} {{ $path }}.{{ $key }}{{- end -}}
{{- else -}}
{{- include "scalewatch.bareSecrets" (dict "value" $value "path" (printf "%s.%s" $path $key)) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- include "scalewatch.bareSecrets" (dict "value" $value "path" (printf "%s[%d]" $path $index)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What no schema can say: values that contradict each other, or that would only show when pods start. */}}
{{- define "scalewatch.check" -}}
{{- $config := .Values.config -}}
{{- if not $config.kafka.bootstrap -}}
{{- fail "config.kafka.bootstrap is empty: name the brokers as host:port." -}}
{{- end -}}
{{- if has $config.http.host (list "127.0.0.1" "::1" "localhost") -}}
{{- fail (printf "config.http.host is %s, but probes and readers come from outside of the pod: use 0.0.0.0 or ::." $config.http.host) -}}
{{- end -}}
{{- if not (and (gt (int $config.http.port) 0) (lt (int $config.http.port) 65535)) -}}
{{- fail "config.http.port has to be one of 1 to 65534: the collector's is the one after it." -}}
{{- end -}}
{{- if not $config.sources -}}
{{- fail "config.sources is empty: name the topics to read, such as [{topics: [slurm.jobs], format: slurm, system: centre}]." -}}
{{- end -}}
{{- with include "scalewatch.bareSecrets" (dict "value" $config "path" "config") | trim -}}
{{- fail (printf "A secret stands in the values (%s): write ${env:NAME} or {file: PATH} there, and name a Secret in secrets.env or secrets.files." .) -}}
{{- end -}}
{{- include "scalewatch.checkVariables" . -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs ingress.hosts." -}}
{{- end -}}
{{- if gt (int .Values.collector.autoscaling.minReplicas) (int .Values.collector.autoscaling.maxReplicas) -}}
{{- fail "collector.autoscaling.minReplicas is more than maxReplicas." -}}
{{- end -}}
{{- end -}}

{{/* Each ${env:NAME} of the configuration has to come from somewhere. */}}
{{- define "scalewatch.checkVariables" -}}
{{- if not .Values.pod.envFrom -}}
{{- $given := keys .Values.secrets.env -}}
{{- range .Values.pod.extraEnv -}}
{{- $given = append $given .name -}}
{{- end -}}
{{- range regexFindAll "\\$\\{env:[A-Za-z_][A-Za-z0-9_]*\\}" (toRawJson .Values.config) -1 | uniq -}}
{{- $name := . | trimPrefix "${env:" | trimSuffix "}" -}}
{{- if not (has $name $given) -}}
{{- fail (printf "config names ${env:%s}: add secrets.env.%s, such as {secret: scalewatch, key: password}, or a variable of that name to pod.extraEnv." $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
