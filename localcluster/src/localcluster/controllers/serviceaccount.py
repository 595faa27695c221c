"""Keeps a service account `default` in every namespace that is not going. Safe to run twice."""

from __future__ import annotations

from localcluster.client import ApiError, Client
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.wire import Json

NAME = "default"


class ServiceAccountController(KeyedMachine):
    name = "service-account-controller"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._namespaces = informers.get("/api/v1/namespaces")
        self._namespaces.subscribe(lambda _, new: self.enqueue(key_of(new)) if new is not None else None)
        self._accounts = informers.get("/api/v1/serviceaccounts")
        self._accounts.subscribe(self._account_changed)

    def _account_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None and old["metadata"]["name"] == NAME:
            self.enqueue(old["metadata"]["namespace"])

    def reconcile(self, key: str, now: float) -> None:
        namespace = self._namespaces.get(key)
        if (
            namespace is None
            or "deletionTimestamp" in namespace["metadata"]
            or self._accounts.get(f"{key}/{NAME}") is not None
        ):
            return
        path = f"/api/v1/namespaces/{key}/serviceaccounts"
        try:
            self._client.create(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}})
        except ApiError as error:
            if error.code not in (403, 404, 409):  # it is there, or its namespace has begun to go
                raise
