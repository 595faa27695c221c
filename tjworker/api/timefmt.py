"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds. Pure; reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime


def to_rfc3339(unix_seconds: float) -> str:
    """1700000000.7 -> 2023-11-14T22:13:20Z (fractions are cut, as metav1.Time does)."""
    return datetime.fromtimestamp(int(unix_seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str | None) -> float | None:
    """Unix seconds, None for an empty or garbled time: a wrong time in a status must not stop a job."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
