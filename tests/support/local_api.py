"""The local cluster's API server behind HTTP, in a thread of its own, and a kubeconfig for it."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster.apiserver import ApiServer
from localcluster.http import serve
from tests.support.waiting import PATIENCE_SECONDS


@contextmanager
def local_api(folder: Path, apiserver: ApiServer | None = None) -> Iterator[Path]:
    """The kubeconfig."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = asyncio.run_coroutine_threadsafe(serve(apiserver or ApiServer(time.time, random.Random(7))), loop)
    server = served.result(PATIENCE_SECONDS)
    kubeconfig = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": {"server": server.url}}],
        "users": [{"name": "local", "user": {}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local", "namespace": "default"}}],
    }
    kubeconfig.write_text(json.dumps(content))
    try:
        yield kubeconfig
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()
