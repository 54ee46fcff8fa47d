{{- /* A variable from a Secret: one of yours, or the chart's. */ -}}
{{- define "retinue.secretVariable" -}}
{{- if or .secret.value .secret.existingSecret }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret.existingSecret | default .ours }}
      key: {{ ternary .secret.key .name (ne .secret.existingSecret "") }}
{{- end }}
{{- end -}}

{{- define "retinue.databaseEnvironment" -}}
{{- include "retinue.secretVariable" (dict "name" "PGPASSWORD" "secret" .root.Values.database.password "ours" .ours) }}
{{- end -}}

{{- define "retinue.environment" -}}
{{- $ours := include "retinue.fullname" .root -}}
- name: HOME
  value: /var/lib/retinue
{{- include "retinue.databaseEnvironment" (dict "root" .root "ours" $ours) }}
{{- if eq .component "server" }}
{{- include "retinue.secretVariable" (dict "name" "RETINUE_API_KEYS" "secret" .root.Values.apiKeys "ours" $ours) }}
{{- end }}
{{- if .root.Values.temporal.address }}
{{- include "retinue.temporalEnvironment" (dict "root" .root "ours" $ours) }}
{{- end }}
{{- range $name, $value := .root.Values.environment.variables }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "retinue.temporalEnvironment" -}}
{{- $ours := .ours -}}
{{- with .root.Values.temporal }}
- name: TEMPORAL_NAMESPACE
  value: {{ .namespace | quote }}
- name: TEMPORAL_TLS
  value: {{ .tls.enabled | quote }}
{{- include "retinue.secretVariable" (dict "name" "TEMPORAL_API_KEY" "secret" .apiKey "ours" $ours) }}
{{- if .tls.enabled }}
{{- with .tls.serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if .tls.ca.existingSecret }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /etc/retinue/temporal-ca/{{ .tls.ca.key }}
{{- end }}
{{- if .tls.client.existingSecret }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /etc/retinue/temporal-client/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /etc/retinue/temporal-client/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "retinue.environmentFrom" -}}
{{- if .Values.environment.secrets }}
- secretRef:
    name: {{ include "retinue.fullname" . }}-environment
{{- end }}
{{- range .Values.environment.existingSecrets }}
- secretRef:
    name: {{ . | quote }}
{{- end }}
{{- end -}}
