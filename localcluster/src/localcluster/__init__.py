"""A Kubernetes API for one machine, whose pods run as processes.

Serves: `tj up` and `python -m localcluster` (docs/local-cluster.md), and in process the simulation.
"""
