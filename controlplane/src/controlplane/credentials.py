"""Keys, tokens and kubeconfigs. Pure but for the randomness of a new key; the caller writes the files."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_P256_OID = bytes.fromhex("06082a8648ce3d030107")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("kubernetes-admin", ("system:masters",))
# Alone in its process the controller manager acts for all its controllers at once, which no one role of RBAC allows.
CONTROLLER_MANAGER = User("system:kube-controller-manager", ("system:masters",))
SCHEDULER = User("system:kube-scheduler")


def new_signing_key() -> str:
    """A fresh P-256 private key (SEC 1, RFC 5915; the optional public half is left out, as Go derives it): what the API
    server signs service account tokens with. Made by hand, so that neither openssl nor a library is needed for it."""
    secret = (secrets.randbelow(_P256_ORDER - 1) + 1).to_bytes(32, "big")
    parts = b"\x02\x01\x01" + b"\x04\x20" + secret + b"\xa0" + bytes([len(_P256_OID)]) + _P256_OID
    text = base64.b64encode(b"\x30" + bytes([len(parts)]) + parts).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def token_file(tokens: Iterable[tuple[str, User]]) -> str:
    """The static token file of the API server: token, user, uid, groups."""
    return "".join(f'{token},"{user.name}","{user.name}","{",".join(user.groups)}"\n' for token, user in tokens)


def kubeconfig(server: str, ca_pem: str, user: str, token: str) -> str:
    """JSON, which is YAML too."""
    return (
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "control-plane",
                "clusters": [
                    {
                        "name": "control-plane",
                        "cluster": {
                            "server": server,
                            "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode(),
                        },
                    }
                ],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [
                    {
                        "name": "control-plane",
                        "context": {"cluster": "control-plane", "user": user, "namespace": "default"},
                    }
                ],
            },
            indent=1,
        )
        + "\n"
    )
