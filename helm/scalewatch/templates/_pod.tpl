{{/* Settings of the pods of a role: its own go before the common ones. Takes {root, component}. */}}
{{- define "scalewatch.podValues" -}}
{{- $role := index .root.Values .component -}}
{{- mergeOverwrite (deepCopy .root.Values.pod) (dig "pod" (dict) $role) | toYaml -}}
{{- end -}}

{{/* How long a role may take to leave: its flush (30 s), then its commit or checkpoint, then open responses (15 s). */}}
{{- define "scalewatch.graceSeconds" -}}
{{- $settings := index (.root.Values.config) .component | default dict -}}
{{- $deadline := dig "deadline_s" 8 $settings -}}
{{- add (ceil $deadline) 45 -}}
{{- end -}}

{{/* Metadata of the pods. Takes {root, component}. */}}
{{- define "scalewatch.podMetadata" -}}
{{- $pod := include "scalewatch.podValues" . | fromYaml -}}
annotations:
  # a change of the configuration rolls the pods
  checksum/config: {{ include "scalewatch.data" .root | sha256sum }}
  kubectl.kubernetes.io/default-container: {{ .component }}
  {{- with $pod.annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
labels:
  {{- include "scalewatch.podLabels" . | nindent 2 }}
  {{- with $pod.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Everything of a pod but its containers. Takes {root, component, account, config}. */}}
{{- define "scalewatch.podSpec" -}}
{{- $pod := include "scalewatch.podValues" . | fromYaml -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $pod.podSecurityContext | nindent 2 }}
{{- with $pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap:
      name: {{ .config }}
  - name: tmp
    emptyDir:
      sizeLimit: {{ $pod.tmpSizeLimit }}
  {{- range $name, $from := $values.secrets.files }}
  - name: secret-{{ $name }}
    secret:
      secretName: {{ $from.secret }}
  {{- end }}
  {{- with $pod.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Everything of a container but its command, ports, probes and resources. Takes {root, component}. */}}
{{- define "scalewatch.container" -}}
{{- $pod := include "scalewatch.podValues" . | fromYaml -}}
{{- $values := .root.Values -}}
name: {{ .component }}
image: {{ include "scalewatch.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
securityContext:
  {{- toYaml $pod.containerSecurityContext | nindent 2 }}
{{- if or $values.secrets.env $pod.extraEnv }}
env:
  {{- range $name, $from := $values.secrets.env }}
  - name: {{ $name }}
    valueFrom:
      secretKeyRef:
        name: {{ $from.secret }}
        key: {{ $from.key }}
  {{- end }}
  {{- with $pod.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $pod.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: config
    mountPath: /etc/scalewatch
    readOnly: true
  - name: tmp
    mountPath: /tmp
  {{- range $name, $from := $values.secrets.files }}
  - name: secret-{{ $name }}
    mountPath: /etc/scalewatch-secrets/{{ $name }}
    readOnly: true
  {{- end }}
  {{- with $pod.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
Command, port and probes of a role. A learner that waits for a shard is never ready in the agent's own words; where
standbys are wanted, a rollout must not wait for that, so such learners are ready when they answer.
*/}}
{{- define "scalewatch.role" -}}
{{- $probes := .root.Values.probes -}}
{{- $waits := and (eq .component "learner") (gt (int .root.Values.learner.standbys) 0) -}}
args: [run, --config, /etc/scalewatch/agent.yaml, --role, {{ .component }}, --watch]
ports:
  - name: http
    containerPort: {{ include "scalewatch.port" . }}
    protocol: TCP
startupProbe:
  httpGet: {path: /healthz, port: http}
  {{- toYaml $probes.startup | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: http}
  {{- toYaml $probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: {{ ternary "/healthz" "/readyz" $waits }}, port: http}
  {{- toYaml $probes.readiness | nindent 2 }}
{{- end -}}

{{/* How pods of a role are spread. Takes {root, component}. */}}
{{- define "scalewatch.spread" -}}
{{- $pod := include "scalewatch.podValues" . | fromYaml -}}
{{- $usual := list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "scalewatch.selector" . | fromYaml)) -}}
topologySpreadConstraints:
  {{- range default $usual $pod.topologySpreadConstraints }}
  - {{- toYaml (merge (deepCopy .) $selector) | nindent 4 }}
  {{- end }}
{{- end -}}
