"""The history: what remains of a job that has ended or was deleted. Its last status, its pods, its phases over time.

The watcher writes it (`watcher.historian`). `tj history`, `tj describe`, `tj timeline` and the page read it. Decisions
about jobs do not depend on it, and no other write of the operator waits for it.
"""
