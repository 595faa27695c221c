"""Tokens of service accounts: `serviceaccounts/<name>/token` makes them, a TokenReview says whose they are.

A token is a JWT that this server signs (HMAC-SHA256) and alone can check. It names its service account and the pod that
it is bound to, and is worth nothing once one of them is gone. Answers are kube-apiserver's own
(pkg/registry/core/serviceaccount/storage/token.go and pkg/serviceaccount of kubernetes/kubernetes 1.36).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes, bad_request, invalid, not_found, precondition_failed
from localcluster.apiserver.typed import WrongType, decode
from localcluster.objects import timestamp
from localcluster.resources import BUILTIN
from localcluster.storage import Store
from localcluster.wire import Json

ISSUER = "https://kubernetes.default.svc"
API_AUDIENCES = (ISSUER,)
"""The audiences of a request or a review that names none."""
KEY_BYTES = 32
LEAST_SECONDS, MOST_SECONDS = 600, 1 << 32
DEFAULT_SECONDS = 3600
LEEWAY_SECONDS = 60.0
"""How long the token of an object that is being deleted stays valid."""
_VERSION = "authentication.k8s.io/v1"
_BY_PLURAL = {row.plural: row for row in BUILTIN}
_REQUEST = replace(_BY_PLURAL["tokenreviews"], kind="TokenRequest")
_EXTRA = "authentication.kubernetes.io"
_HEADER = {"alg": "HS256", "typ": "JWT"}


class Tokens:
    """`key`: what tokens are signed with; without one, one that lasts as long as this object."""

    def __init__(self, store: Store, clock: Callable[[], float], key: bytes = b"") -> None:
        self._store = store
        self._clock = clock
        self._key = key or secrets.token_bytes(KEY_BYTES)

    def request(self, namespace: str, name: str, body: Json) -> Json:
        """Answers a TokenRequest. Raises StatusError."""
        _decode("TokenRequest", body, f"{body.get('kind') or 'TokenRequest'}")
        spec: Json = body.get("spec") or {}
        account = self._store.get("serviceaccounts", (namespace, name))
        if account is None:
            raise not_found(_BY_PLURAL["serviceaccounts"], name)
        seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
        _check_seconds(seconds)
        bound = spec.get("boundObjectRef") or None
        pod = None if bound is None else self._bound_pod(namespace, name, bound)
        now, audiences = self._clock(), list(spec.get("audiences") or API_AUDIENCES)
        private: Json = {"namespace": namespace, "serviceaccount": _reference_of(account.obj)}
        if pod is not None:
            private["pod"] = _reference_of(pod)
        claims = {
            "aud": audiences,
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return {
            "kind": "TokenRequest",
            "apiVersion": _VERSION,
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": self._sign(claims), "expirationTimestamp": timestamp(now + seconds)},
        }

    def _bound_pod(self, namespace: str, account: str, bound: Json) -> Json:
        version, kind = bound.get("apiVersion", ""), bound.get("kind", "")
        if (version, kind) != ("v1", "Pod"):
            raise bad_request(f"cannot bind token to object of type {version}, Kind={kind}")
        name = bound.get("name", "")
        found = self._store.get("pods", (namespace, name))
        if found is None:
            raise not_found(_BY_PLURAL["pods"], name)
        # Pods of this cluster that name no account run as `default`.
        if found.obj["spec"].get("serviceAccountName", "default") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        uid, given = found.obj["metadata"]["uid"], bound.get("uid")
        if given and given != uid:
            why = (
                f"the UID in the bound object reference ({given}) does not match the UID in record. The object might"
                " have been deleted and then recreated"
            )
            raise precondition_failed(_BY_PLURAL["pods"], name, why)
        return found.obj

    def review(self, body: Json) -> Json:
        """Answers a TokenReview. Raises StatusError."""
        _decode("TokenReview", body, "TokenReview")
        spec: Json = body.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        try:
            status = self._user_of(spec["token"], spec.get("audiences") or API_AUDIENCES)
        except _WorthlessTokenError as error:
            status = {"user": {}, "error": str(error)}
        return {"kind": "TokenReview", "apiVersion": _VERSION, "metadata": {}, "spec": spec, "status": status}

    def _user_of(self, token: str, audiences: Sequence[str]) -> Json:
        claims = self._read_claims(token)
        if claims is None:
            raise _WorthlessTokenError("invalid bearer token")
        shared = [one for one in claims["aud"] if one in audiences]
        if not shared:
            raise _worthless(
                f"token audiences {_go_list(claims['aud'])} is invalid for the target audiences {_go_list(audiences)}"
            )
        if self._clock() >= claims["exp"]:
            raise _worthless("service account token has expired")
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        self._check_lives("serviceaccounts", namespace, account, "service account UID ({}) does not match claim ({})")
        extra = {f"{_EXTRA}/credential-id": [f"JTI={claims['jti']}"]}
        if pod := private.get("pod"):
            why = "pod UID ({}) does not match service account pod ref claim ({})"
            self._check_lives("pods", namespace, pod, why)
            extra |= {f"{_EXTRA}/pod-name": [pod["name"]], f"{_EXTRA}/pod-uid": [pod["uid"]]}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        user = {"username": claims["sub"], "uid": account["uid"], "groups": groups, "extra": extra}
        return {"authenticated": True, "user": user, "audiences": shared}

    def _check_lives(self, plural: str, namespace: str, claimed: Json, other: str) -> None:
        found = self._store.get(plural, (namespace, claimed["name"]))
        metadata = found.obj["metadata"] if found is not None else {}
        gone_at = meta.parse_time(metadata.get("deletionTimestamp", "")) if metadata else 0.0
        if found is None or (gone_at and gone_at < self._clock() - LEEWAY_SECONDS):
            raise _worthless("service account token has been invalidated")
        if metadata["uid"] != claimed["uid"]:
            raise _worthless(other.format(metadata["uid"], claimed["uid"]))

    # -- JWT ---------------------------------------------------------------------------------------
    def _sign(self, claims: Json) -> str:
        signed = f"{_encode_base64(orjson.dumps(_HEADER))}.{_encode_base64(orjson.dumps(claims))}"
        return f"{signed}.{_encode_base64(self._digest(signed))}"

    def _digest(self, signed: str) -> bytes:
        return hmac.new(self._key, signed.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def _read_claims(self, token: str) -> Json | None:
        """None for what this server has not signed."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(
            _encode_base64(self._digest(signed)).encode(), signature.encode("utf-8", "surrogatepass")
        ):
            return None
        payload = signed.partition(".")[2]
        claims: Json = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return claims


class _WorthlessTokenError(Exception):
    """Never leaves this module: it becomes the error of a TokenReview."""


def _worthless(why: str) -> _WorthlessTokenError:
    return _WorthlessTokenError(f"[invalid bearer token, {why}]")


def _decode(kind: str, body: Json, given: str) -> None:
    if given != kind:
        raise bad_request(
            f'{given} in version "v1" cannot be handled as a {kind}: converting (v1.{given}) to '
            f"(authentication.{kind}): unknown conversion"
        )
    try:
        decode(_VERSION, kind, body)
    except WrongType as wrong:
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {wrong}') from None


def _check_seconds(seconds: int) -> None:
    causes = Causes()
    if seconds < LEAST_SECONDS:
        causes.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > MOST_SECONDS:
        causes.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if causes.found:
        raise invalid(_REQUEST, "", causes.found)


def _reference_of(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _go_list(values: Sequence[Any]) -> str:
    """Formats a slice of strings as Go's %q does."""
    return "[" + " ".join(orjson.dumps(value).decode() for value in values) + "]"


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
