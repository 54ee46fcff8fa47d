{{- define "retinue.databaseUrl" -}}
{{- with .Values.database -}}
postgresql://{{ .user | urlquery }}@{{ .host }}:{{ .port | int }}/{{ .name | urlquery }}?sslmode={{ .sslMode }}
{{- if .ca.existingSecret }}&sslrootcert=/etc/retinue/database/{{ .ca.key }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* The options that servers and workers have in common, one a line. */ -}}
{{- define "retinue.options" -}}
{{- $root := .root -}}
- --db
- {{ include "retinue.databaseUrl" $root | quote }}
{{- with $root.Values.temporal.address }}
- --temporal
- {{ . | quote }}
{{- end }}
{{- with $root.Values.runs }}
- --run-ttl={{ .ttl | int }}
- --human-ttl={{ .humanTtl | int }}
- --retention={{ .retention | int }}
- --chat-retention={{ .chatRetention | int }}
{{- if .tenantRuns }}
- --tenant-runs={{ .tenantRuns | int }}
{{- end }}
{{- range $name, $most := .agentRuns }}
- {{ printf "--agent-runs=%s=%d" $name ($most | int) | quote }}
{{- end }}
{{- range $name, $most := .modelRuns }}
- {{ printf "--model-runs=%s=%d" $name ($most | int) | quote }}
{{- end }}
- --hosted-tools={{ .hostedTools | join "," }}
- --grace={{ .grace | int }}
{{- end }}
- --runs-at-once={{ .process.runsAtOnce | int }}
- --log-level={{ $root.Values.logging.level }}
- --log-format={{ $root.Values.logging.format }}
- --metrics-host=0.0.0.0
- --metrics-port={{ $root.Values.metrics.port | int }}
{{- range .process.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* The names by which clients reach the servers, as a JSON list. */ -}}
{{- define "retinue.hosts" -}}
{{- $name := include "retinue.fullname" . -}}
{{- $within := printf "%s.%s" $name .Release.Namespace -}}
{{- $service := list $name $within (printf "%s.svc" $within) (printf "%s.svc.cluster.local" $within) -}}
{{- $ingress := ternary .Values.ingress.hosts list .Values.ingress.enabled -}}
{{- concat $service $ingress .Values.server.allowHosts | uniq | toJson -}}
{{- end -}}
