{{- define "seqferry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "seqferry.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "seqferry.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "seqferry.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "seqferry.selector" -}}
app.kubernetes.io/name: {{ include "seqferry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "seqferry.labels" -}}
{{ include "seqferry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "seqferry.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "seqferry.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "seqferry.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* What all pods share: rights, the account, where they may run. */}}
{{- define "seqferry.pod" -}}
serviceAccountName: {{ include "seqferry.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- if not (or (kindIs "invalid" .Values.userId) (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}
  runAsUser: {{ int64 .Values.userId }}
  runAsGroup: {{ int64 .Values.userId }}
  fsGroup: {{ int64 .Values.userId }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "seqferry.container" -}}
image: {{ include "seqferry.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: SEQFERRY_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.database.secretName }}
        key: {{ .Values.database.urlKey }}
  {{- if .Values.database.directUrlKey }}
  - name: SEQFERRY_DATABASE_DIRECT_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.database.secretName }}
        key: {{ .Values.database.directUrlKey }}
  {{- end }}
envFrom:
  - configMapRef:
      name: {{ include "seqferry.fullname" . }}
  {{- range .Values.environmentSecrets }}
  - secretRef:
      name: {{ . }}
  {{- end }}
volumeMounts:
  - name: state
    mountPath: /var/lib/seqferry
  - name: tmp
    mountPath: /tmp
  {{- if .Values.config }}
  - name: config
    mountPath: /etc/seqferry
    readOnly: true
  {{- end }}
{{- end -}}

{{- define "seqferry.volumes" -}}
- name: state
  emptyDir:
    sizeLimit: {{ .Values.worker.scratchSize }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.worker.scratchSize }}
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ include "seqferry.fullname" . }}-file
{{- end }}
{{- end -}}

{{/* Pods start anew when what they read has changed. */}}
{{- define "seqferry.annotations" -}}
checksum/settings: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
