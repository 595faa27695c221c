"""Finds the sender of a report: the pod to which the API server has bound its token.

A valid token is remembered for a while, so that a pod that reports every second does not cost a review each time. That
is safe: only the pod can end before its token expires, and the pod is read for each report.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tjworker.base import GroupResource, mapping
from tjworker.kube.client import KubeClient

REVIEWS = GroupResource("tokenreviews.authentication.k8s.io")
# kube-apiserver remembers a valid token for 10 s itself (`TokenSuccessCacheTTL`).
GOOD_SECONDS = 60.0
MOST_KEPT = 10_000
MOST_TOKEN_CHARS = 16 << 10
# `PodNameKey` and `PodUIDKey` in k8s.io/apiserver/pkg/authentication/serviceaccount.
_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Sender:
    """A pod, as its token names it."""

    namespace: str
    pod: str
    uid: str


class Tokens:
    """Thread-safe."""

    def __init__(self, kube: KubeClient, now: Callable[[], float]) -> None:
        """`now`: monotonic seconds."""
        self._kube = kube
        self._now = now
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, Sender]] = OrderedDict()
        """Digest of token and audience -> (until when the token counts as valid, its sender)."""

    def sender(self, token: str, audience: str) -> Sender | None:
        """The pod of a token; None if the token is not valid for this audience, or is not bound to a pod. Raises
        OperatorError if the API server does not answer."""
        # No request to the API server for what cannot be a token.
        if not token or len(token) > MOST_TOKEN_CHARS or not token.isascii():
            return None
        # With the audience: the same token on the path of another job must be reviewed again. A digest, so that this
        # memory holds no token that could be used.
        digest = hashlib.sha256(f"{audience}\n{token}".encode()).digest()
        with self._lock:
            kept = self._known.get(digest)
        if kept is not None and self._now() < kept[0]:
            return kept[1]
        sender = self._review(token, audience)
        # A refusal is not remembered: a sender that invents tokens would push the valid tokens out.
        if sender is not None:
            with self._lock:
                self._known[digest] = (self._now() + GOOD_SECONDS, sender)
                self._known.move_to_end(digest)
                while len(self._known) > MOST_KEPT:
                    self._known.popitem(last=False)
        return sender

    def _review(self, token: str, audience: str) -> Sender | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        status = mapping(self._kube.create(REVIEWS, "", body).get("status"))
        # An authenticator that does not know audiences answers without them. Such a token is meant for the API server.
        if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
            return None
        user = mapping(status.get("user"))
        extra, name = mapping(user.get("extra")), str(user.get("username", ""))
        pods, uids = list(extra.get(_POD_NAME) or ()), list(extra.get(_POD_UID) or ())
        # A token of a user, or one that is bound to no pod, names no sender.
        if not name.startswith(_ACCOUNT) or len(pods) != 1 or len(uids) != 1:
            return None
        return Sender(name.removeprefix(_ACCOUNT).partition(":")[0], pods[0], uids[0])
