"""The Helm chart of the operator, built from the manifests in k8s/: `python -m charts` (or `make chart`)."""
