"""An API server over HTTP, and watchers of it in threads of this process."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration

from benchmarks.support.valkey import free_port
from localcluster.apiserver import ApiServer
from localcluster.http import serve
from tests.support import fast_yaml as yaml
from tests.support.kinds import AITRAININGJOBS
from tests.support.kubeconfig import make_kubeconfig
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.records_json import decode_view
from tjworker.api.resources import PODS
from tjworker.base import JobKey, JsonDict
from tjworker.kube.client import KubeClient
from tjworker.kube.transport import KubeTransport
from tjworker.settings import Settings
from tjworker.store.port import Store
from watcher.app import Watcher, make_elector

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
JOB: dict[str, Any] = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "replicaSpecs": {
            "trainer": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}},
            }
        }
    },
}
CRD = yaml.safe_load((ROOT / "k8s/crds/aitrainingjobs.elasticdeeplearning.ai.yaml").read_text())


class Api:
    """A local cluster's API server behind HTTP, on its own thread; may be stopped and started again on its port and
    data."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: Any = None
        self.start()
        self.kube = self.client()
        self.kube._request_json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD, what="crd")

    def start(self) -> None:
        async def go() -> None:
            self._apiserver = ApiServer(time.time, random.Random(1), self._data_dir)
            self._server = await serve(self._apiserver, port=self.port)

        asyncio.run_coroutine_threadsafe(go(), self._loop).result(PATIENCE_SECONDS)

    def stop(self) -> None:
        async def go() -> None:
            await self._server.close()
            self._apiserver.close()

        asyncio.run_coroutine_threadsafe(go(), self._loop).result(PATIENCE_SECONDS)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)

    def client(self) -> KubeClient:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self.port}"
        return KubeClient(KubeTransport(configuration, pool_size=32), request_timeout_seconds=PATIENCE_SECONDS)

    def write_kubeconfig(self, path: Path) -> Path:
        path.write_text(yaml.safe_dump(make_kubeconfig(f"http://127.0.0.1:{self.port}")))
        return path

    def job(self) -> JsonDict:
        return self.kube.create(AITRAININGJOBS, "default", JOB)

    def pod(self, job: JsonDict, name: str) -> JsonDict:
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        return self.kube.create(
            PODS,
            "default",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "aitj-main", "image": "x"}]},
            },
        )


class Running:
    """A watcher on its threads."""

    def __init__(self, api: Api, store: Store, name: str = "a", **settings: Any) -> None:
        self.published: list[JobKey] = []
        self.store = store
        of, stopped = Settings(**settings), threading.Event()
        elector = make_elector(of, api.client(), name, "default", stopped)
        self.watcher = Watcher(of, api.client(), store, self.published.extend, elector, stopped=stopped)
        self._thread = threading.Thread(target=self.watcher.run, daemon=True)
        self._thread.start()

    def pods(self) -> list[str]:
        view = self.store.projection.view(KEY)
        return [pod.name for pod in decode_view(view.job, view.children)[1].pods]

    @property
    def synced(self) -> bool:
        return self.watcher.report().leading and self.watcher.report().synced

    def stop(self) -> None:
        self.watcher.stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
