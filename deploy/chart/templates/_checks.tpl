{{- /* What a schema cannot say, or not in words. */ -}}
{{- define "retinue.checks" -}}
{{- with .Values.agents -}}
{{- if and .files .existingConfigMap -}}
{{- fail "agents: give either files or existingConfigMap" -}}
{{- else if not (or .files .existingConfigMap) -}}
{{- fail "agents.files: give the text of the file of agents: helm install … --set-file 'agents.files.agents\\.yml=agents.yml'; or agents.existingConfigMap" -}}
{{- else if and .files (not (hasKey .files .main)) -}}
{{- fail (printf "agents.main: %q is not among agents.files, which has %s" .main (keys .files | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- with .Values.database -}}
{{- if not .host -}}
{{- fail "database.host: give the host name of PostgreSQL" -}}
{{- end -}}
{{- if and (hasPrefix "verify-" .sslMode) (not .ca.existingSecret) -}}
{{- fail (printf "database.ca.existingSecret: sslMode %s needs a Secret with the certificates to trust" .sslMode) -}}
{{- end -}}
{{- end -}}
{{- range $place, $secret := dict "apiKeys" .Values.apiKeys "database.password" .Values.database.password "temporal.apiKey" .Values.temporal.apiKey -}}
{{- if and $secret.value $secret.existingSecret -}}
{{- fail (printf "%s: give either value or existingSecret" $place) -}}
{{- end -}}
{{- end -}}
{{- with .Values.temporal -}}
{{- if and (or .apiKey.value .apiKey.existingSecret) (not .tls.enabled) -}}
{{- fail "temporal.tls.enabled: a key of Temporal is only sent by TLS: set it to true" -}}
{{- end -}}
{{- end -}}
{{- with .Values.worker.autoscaling -}}
{{- if and .enabled (eq .source "keda") (not .prometheus) -}}
{{- fail "worker.autoscaling.prometheus: give the address of Prometheus, which KEDA asks" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.scrapers) -}}
{{- fail "networkPolicy.scrapers: say where Prometheus is, which may otherwise not reach the metrics" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: give the names under which the servers answer" -}}
{{- end -}}
{{- range $place, $scaled := dict "server.autoscaling" .Values.server.autoscaling "worker.autoscaling" .Values.worker.autoscaling -}}
{{- if gt ($scaled.minReplicas | int) ($scaled.maxReplicas | int) -}}
{{- fail (printf "%s: minReplicas %d is more than maxReplicas %d" $place ($scaled.minReplicas | int) ($scaled.maxReplicas | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
