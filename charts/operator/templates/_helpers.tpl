{{- define "trainingjob-operator.labels" -}}
app.kubernetes.io/name: trainingjob-operator
app.kubernetes.io/part-of: trainingjob-operator
{{- end }}

{{- define "trainingjob-operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "trainingjob-operator.prefix" -}}
{{ (.Values.settings).TJ_KEY_PREFIX | default "tj" }}
{{- end }}

{{- define "trainingjob-operator.history" -}}
{{ .Values.history.existingSecret | default "tj-history" }}
{{- end }}

{{- /* `helm upgrade --reuse-values` gives the values of an older chart. What they lack has its default, a section or a field of it. */ -}}
{{- define "trainingjob-operator.defaults" -}}
{{- range $name, $default := .Files.Get "files/defaults.yaml" | fromYaml }}
{{- if not (hasKey $.Values $name) }}
{{- $_ := set $.Values $name $default }}
{{- else if and (kindIs "map" $default) (ne $name "settings") }}
{{- range $field, $value := $default }}
{{- if not (hasKey (index $.Values $name) $field) }}
{{- $_ := set (index $.Values $name) $field $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What no schema can say: checked once, before anything is rendered. */ -}}
{{- define "trainingjob-operator.check" -}}
{{- if has .Release.Namespace .Values.namespaces }}
{{- fail (printf "namespaces: %s is the namespace of the operator itself, where a job could take its service accounts and Secrets. Install the operator in another namespace: helm install --namespace tj-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- range $setting, $value := dict "TJ_KINDS" "kinds" "TJ_GANG_SCHEDULER" "gangScheduler" "TJ_NAMESPACES" "namespaces" "TJ_HISTORY_URL" "history.url" }}
{{- if hasKey ($.Values.settings | default dict) $setting }}
{{- fail (printf "settings.%s: set the value `%s` instead, which also gives it the rights or the Secret that it needs" $setting $value) }}
{{- end }}
{{- end }}
{{- if and (not .Values.redis.enabled) .Values.secrets.create }}
{{- range $name := concat (list "url" "tasksUrl" "caCertificate") (ternary (list "pageUrl") list .Values.page.enabled) }}
{{- if not (index $.Values.redis.external $name) }}
{{- fail (printf "redis.external.%s: required when redis.enabled is false; or set secrets.create to false and create the Secrets tj-redis and tj-redis-tls yourself" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.history.url .Values.history.existingSecret }}
{{- fail "history.url: history.existingSecret is set, too; one of both names the database" }}
{{- end }}
{{- if and .Values.history.url (not .Values.secrets.create) }}
{{- fail "history.url: secrets.create is false; create a Secret with the URL yourself, and name it in history.existingSecret" }}
{{- end }}
{{- end }}
