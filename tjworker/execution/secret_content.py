"""Generates the content of the Secrets that the operator creates: keys of one job, which no process keeps."""

from __future__ import annotations

import secrets
from base64 import b64encode
from typing import Any, Literal

from tjworker.api.kinds.guests.mpipods import AGENT_KEY, SSH_PRIVATE_KEY, SSH_PUBLIC_KEY

AGENT_KEY_BYTES = 32


def secret_content(holds: Literal["", "ssh-key", "agent-key"]) -> dict[str, Any]:
    """The fields `type` and `data` of a Secret with a new key."""
    if holds == "ssh-key":
        private, public = _ssh_key()
        data = {SSH_PRIVATE_KEY: private, SSH_PUBLIC_KEY: public}
        return {"type": "kubernetes.io/ssh-auth", "data": {k: b64encode(v).decode() for k, v in data.items()}}
    return {"type": "Opaque", "data": {AGENT_KEY: b64encode(secrets.token_hex(AGENT_KEY_BYTES).encode()).decode()}}


def _ssh_key() -> tuple[bytes, bytes]:
    """A new private and public key."""
    # P-521, as the MPI operator has it: every OpenSSH accepts it, in FIPS mode as well. Imported here, so that only
    # workers that serve MPIJobs load the modules.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"
