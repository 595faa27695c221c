"""A local API server behind HTTP, in a thread of its own, and a kubeconfig for it."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localcluster.apiserver import ApiServer
from localcluster.http import Server, serve
from localcluster_tests.support.waiting import PATIENCE_SECONDS


@dataclass(slots=True)
class Running:
    apiserver: ApiServer
    url: str
    kubeconfig: Path
    loop: asyncio.AbstractEventLoop

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work` in the API server's thread."""

        async def there() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(PATIENCE_SECONDS)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    apiserver = ApiServer(time.time, random.Random(7))
    server: Server = asyncio.run_coroutine_threadsafe(serve(apiserver), loop).result(PATIENCE_SECONDS)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "local",
                "clusters": [{"name": "local", "cluster": {"server": server.url}}],
                "users": [{"name": "local", "user": {}}],
                "contexts": [
                    {"name": "local", "context": {"cluster": "local", "user": "local", "namespace": "default"}}
                ],
            }
        )
    )
    yield Running(apiserver, server.url, kubeconfig, loop)
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_SECONDS)
    loop.close()
