"""What is in the Secrets that the operator makes: keys of one job, made here, sent to the API server and forgotten."""

from __future__ import annotations

import secrets
from base64 import b64encode
from typing import Any, Literal

from tjworker.api.kinds.guests.mpipods import AGENT_KEY, SSH_PRIVATE_KEY, SSH_PUBLIC_KEY

AGENT_KEY_BYTES = 32


def secret_content(holds: Literal["", "ssh-key", "agent-key"]) -> dict[str, Any]:
    """`type` and `data`."""
    if holds == "ssh-key":
        private, public = _ssh_key()
        data = {SSH_PRIVATE_KEY: private, SSH_PUBLIC_KEY: public}
        return {"type": "kubernetes.io/ssh-auth", "data": {k: b64encode(v).decode() for k, v in data.items()}}
    return {"type": "Opaque", "data": {AGENT_KEY: b64encode(secrets.token_hex(AGENT_KEY_BYTES).encode()).decode()}}


def _ssh_key() -> tuple[bytes, bytes]:
    """As the MPI operator makes it: P-521, which every OpenSSH takes, that of FIPS mode too."""
    # Only workers that serve MPIJobs pay for these modules.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"
