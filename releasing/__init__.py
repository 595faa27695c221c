"""A release in one folder: wheels, chart, manifests, bills of materials, checksums: `python -m releasing`."""
