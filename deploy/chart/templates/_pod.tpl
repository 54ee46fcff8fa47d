{{- define "retinue.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . | int }}
runAsGroup: {{ . | int }}
fsGroup: {{ . | int }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "retinue.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "retinue.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "retinue.databaseVolume" -}}
{{- with .Values.database.ca.existingSecret }}
- name: database
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "retinue.databaseMount" -}}
{{- if .Values.database.ca.existingSecret }}
- name: database
  mountPath: /etc/retinue/database
  readOnly: true
{{- end }}
{{- end -}}

{{- /* Scratch folders; the root of files is read-only. */ -}}
{{- define "retinue.scratchVolumes" -}}
- name: home
  emptyDir:
    sizeLimit: {{ .Values.scratchSize }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratchSize }}
{{- end -}}

{{- define "retinue.scratchMounts" -}}
- name: home
  mountPath: /var/lib/retinue
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "retinue.volumes" -}}
{{ include "retinue.scratchVolumes" . }}
- name: agents
  configMap:
    name: {{ .Values.agents.existingConfigMap | default (printf "%s-agents" (include "retinue.fullname" .)) }}
{{- include "retinue.databaseVolume" . }}
{{- if and .Values.temporal.address .Values.temporal.tls.enabled }}
{{- with .Values.temporal.tls.ca.existingSecret }}
- name: temporal-ca
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- with .Values.temporal.tls.client.existingSecret }}
- name: temporal-client
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "retinue.mounts" -}}
{{ include "retinue.scratchMounts" . }}
- name: agents
  mountPath: /etc/retinue/agents
  readOnly: true
{{- include "retinue.databaseMount" . }}
{{- if and .Values.temporal.address .Values.temporal.tls.enabled }}
{{- if .Values.temporal.tls.ca.existingSecret }}
- name: temporal-ca
  mountPath: /etc/retinue/temporal-ca
  readOnly: true
{{- end }}
{{- if .Values.temporal.tls.client.existingSecret }}
- name: temporal-client
  mountPath: /etc/retinue/temporal-client
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}

{{- /* The port `.port` tells health and readiness. Starting may wait for a database that is being migrated. */ -}}
{{- define "retinue.probes" -}}
startupProbe:
  httpGet: {path: /health, port: {{ .port }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 90
livenessProbe:
  httpGet: {path: /health, port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /ready, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 6
  failureThreshold: 2
{{- end -}}

{{- define "retinue.metadata" -}}
metadata:
  annotations:
    checksum/agents: {{ toJson .root.Values.agents | sha256sum }}
    {{- if include "retinue.hasSecrets" .root }}
    # not a sum of the secrets, with which whoever sees a pod could try passwords
    retinue/secrets-of-revision: {{ .root.Release.Revision | quote }}
    {{- end }}
    {{- with .process.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "retinue.labels" . | nindent 4 }}
    {{- with .process.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "retinue.placement" -}}
{{- with .process.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .process.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .process.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if .process.topologySpread }}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "retinue.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}
