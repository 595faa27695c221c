"""The schemas of the built-in kinds, and the documents that kubectl reads.

Serves: `kubectl explain`, and field validation before `kubectl apply` and `create`.
"""
