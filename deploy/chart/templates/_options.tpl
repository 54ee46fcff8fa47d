{{- /* The options of `.component`, which is `server` or `worker`, one a line. */ -}}
{{- define "retinue.options" -}}
{{- $values := .root.Values -}}
{{- $process := get $values .component -}}
{{- if eq .component "server" -}}
- --host=0.0.0.0
- --port=8000
{{- range include "retinue.hosts" .root | fromJsonArray }}
- {{ printf "--allow-host=%s" . | quote }}
{{- end }}
- --connections=10000
{{- if $values.temporal.address }}
- --dispatch=temporal
{{- end }}
{{- end }}
- --db
- {{ $values.database.url | quote }}
{{- with $values.temporal.address }}
- {{ printf "--temporal=%s" . | quote }}
{{- end }}
- --run-ttl={{ $values.runs.ttl | int }}
- --grace={{ $values.runs.grace | int }}
- --hosted-tools=
- --metrics-host=0.0.0.0
- --metrics-port=9090
{{- range concat $values.args $process.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* The names by which clients reach the servers, as a JSON list. */ -}}
{{- define "retinue.hosts" -}}
{{- $name := include "retinue.fullname" . -}}
{{- $within := printf "%s.%s" $name .Release.Namespace -}}
{{- $service := list $name $within (printf "%s.svc" $within) (printf "%s.svc.cluster.local" $within) -}}
{{- concat $service .Values.ingress.hosts | uniq | toJson -}}
{{- end -}}
