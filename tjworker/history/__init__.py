"""What remains of a job once it has ended or was deleted: its last status, its pods, its phases over time.

The watcher writes it (`watcher.historian`); `tj history`, `tj describe`, `tj timeline` and the page read it. Nothing
that decides about jobs reads it, and no write of the operator waits for it.
"""
