"""Nodes: pods as processes of this machine, or played from a script.

Serves: `kubectl logs`, the kubelet and failing nodes of docs/local-cluster.md, and the simulation (fake).
"""
