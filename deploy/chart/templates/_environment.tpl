{{- define "retinue.environment" -}}
- name: HOME
  value: /var/lib/retinue
{{- with .root.Values.database }}
{{- if .secret }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end }}
{{- with .root.Values.apiKeys }}
{{- if and .secret (eq $.component "server") }}
- name: RETINUE_API_KEYS
  valueFrom:
    secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end }}
{{- range $name, $value := .root.Values.environment.variables }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- /* Scratch folders, as the root of files is read-only, and Secrets as files. */ -}}
{{- define "retinue.volumes" -}}
- name: home
  emptyDir:
    sizeLimit: {{ .Values.pods.scratchSize }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.pods.scratchSize }}
{{- range $at, $name := .Values.environment.files }}
- name: secret-{{ $at }}
  secret:
    secretName: {{ $name | quote }}
{{- end }}
{{- end -}}

{{- define "retinue.mounts" -}}
- name: home
  mountPath: /var/lib/retinue
- name: tmp
  mountPath: /tmp
{{- range $at, $name := .Values.environment.files }}
- name: secret-{{ $at }}
  mountPath: /etc/retinue/secrets/{{ $name }}
  readOnly: true
{{- end }}
{{- end -}}
