"""Reads when Redis' certificate expires."""

from __future__ import annotations

import ssl

import redis

SOON_SECONDS = 14 * 86_400
"""From then on `tj doctor` and the alert TjCertificateEnds report it. cert-manager renews well before."""


def certificate_ends(connected: redis.Redis) -> float | None:
    """When the certificate of Redis expires, in Unix seconds; None without TLS, or if certificates are not verified.
    Uses a connection of the client's pool."""
    pool = connected.connection_pool
    connection = pool.get_connection()
    try:
        # redis-py has no public way to the socket. Python has the fields of a certificate only if it verified it.
        shown = connection._sock
        until = (shown.getpeercert() or {}).get("notAfter") if isinstance(shown, ssl.SSLSocket) else None
    finally:
        pool.release(connection)
    return None if until is None else float(ssl.cert_time_to_seconds(str(until)))
