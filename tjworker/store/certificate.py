"""How long the certificate is good that Redis shows. It looks at a connection of the
client's, and makes one where none is there."""

from __future__ import annotations

import ssl

import redis

SOON_SECONDS = 14 * 86_400
"""`tj doctor` and the alert TjCertificateEnds say it from then on. cert-manager renews well before."""


def certificate_ends(connected: redis.Redis) -> float | None:
    """When the certificate that Redis has shown runs out, in Unix seconds; None without TLS, or where it is not
    verified. Connects."""
    pool = connected.connection_pool
    connection = pool.get_connection()
    try:
        shown = connection._sock
        until = (shown.getpeercert() or {}).get("notAfter") if isinstance(shown, ssl.SSLSocket) else None
    finally:
        pool.release(connection)
    return None if until is None else float(ssl.cert_time_to_seconds(str(until)))
