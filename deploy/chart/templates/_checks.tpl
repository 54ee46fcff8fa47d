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
{{- $url := .Values.database.url -}}
{{- if not $url -}}
{{- fail "database.url: say where PostgreSQL is: postgresql://USER@HOST:PORT/NAME?sslmode=require" -}}
{{- else if or (regexMatch "^[a-z]+://[^/@]*:[^/]*@" $url) (regexMatch "[?&]password=" $url) -}}
{{- fail "database.url: leave the password out, which pods would show: make a Secret of it, and name that in database.secret" -}}
{{- else if not (regexMatch "[?&]sslmode=" $url) -}}
{{- fail "database.url: say how TLS is used: ?sslmode=require, verify-full or disable" -}}
{{- else if and (regexMatch "[?&]sslmode=verify-" $url) (not (regexMatch "[?&]sslrootcert=" $url)) -}}
{{- fail "database.url: sslmode=verify-… needs certificates to trust: &sslrootcert=/etc/retinue/secrets/NAME/ca.crt of a Secret NAME in environment.files" -}}
{{- end -}}
{{- range concat .Values.args .Values.server.args .Values.worker.args -}}
{{- if regexMatch "^--(db|dispatch|temporal|run-ttl|grace|host|port|metrics-host|metrics-port)(=|$)" . -}}
{{- fail (printf "args: %s is said by the chart; the values database, temporal and runs change it" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.scrapers) -}}
{{- fail "networkPolicy.scrapers: say where Prometheus is, which may otherwise not reach the metrics" -}}
{{- end -}}
{{- range $component := list "server" "worker" -}}
{{- with (get $.Values $component).autoscaling -}}
{{- if gt (.minReplicas | int) (.maxReplicas | int) -}}
{{- fail (printf "%s.autoscaling: minReplicas %d is more than maxReplicas %d" $component (.minReplicas | int) (.maxReplicas | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
