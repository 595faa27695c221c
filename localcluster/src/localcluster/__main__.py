"""`python -m localcluster`: the whole local cluster as one process on one port of this machine.

API server, controllers, scheduler and kubelet share one event loop; nothing polls while nothing happens. SIGTERM or
SIGINT ends all pods and then the cluster, leaving no process behind; SIGKILL leaves the pods running, and the next
start on the same --data-dir takes them over.

Who may make a pod may run a command as this user: so the API is HTTPS and asks for a bearer token, both made at the
first start (`pki`). The kubeconfig, which holds the token, is written, whole, once requests are served.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import logging
import random
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml

from localcluster import pki
from localcluster.access import Access
from localcluster.apiserver import ApiServer
from localcluster.client import InProcessClient
from localcluster.controllers import controllers
from localcluster.driver import AsyncDriver
from localcluster.http import Server, serve, url_of
from localcluster.informer import Informers
from localcluster.kubelet.fake import FakeKubelet
from localcluster.kubelet.logstreams import LogStreams
from localcluster.kubelet.options import add_node_options, node_configs
from localcluster.kubelet.process import ProcessKubelet
from localcluster.kubelet.provisioner import PROVISIONER, Provisioner
from localcluster.recorder import Recorder
from localcluster.scheduler import Scheduler
from localcluster.wire import Response, Watch

log = logging.getLogger("localcluster")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m localcluster", description="A Kubernetes API for one machine.")
    made.add_argument("--port", type=int, default=0, metavar="P", help="port of the API (default: a free one)")
    made.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: loopback)")
    made.add_argument(
        "--advertised-host", metavar="NAME", help="how the kubeconfig names this machine (default: --host)"
    )
    made.add_argument(
        "--data-dir", type=Path, default=Path(".localcluster"), metavar="DIR", help="objects, logs and volumes"
    )
    made.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="written once the API is served (default: DIR/kubeconfig)"
    )
    made.add_argument(
        "--insecure",
        action="store_true",
        help="plain HTTP, no token: any client that reaches the port can run commands as you",
    )
    made.add_argument("--memory-only", action="store_true", help="keep no objects on disk")
    made.add_argument(
        "--no-agent", action="store_true", help="no nodes: kubelets come from `python -m localcluster.kubelet`"
    )
    add_node_options(made)
    return made


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    return asyncio.run(run(options))


async def run(options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Before the kubeconfig exists: a process that waits for it may send a signal at once.
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    advertised = options.advertised_host or _reachable_address(options.host)
    credentials = None
    if not options.insecure:
        credentials = pki.ensure_credentials(
            options.data_dir / "pki", (advertised, _reachable_address(options.host)), datetime.now(UTC)
        )
    apiserver = ApiServer(
        clock=time.time,
        rng=random.Random(),
        data_dir=None if options.memory_only else options.data_dir / "api",
        token_key=pki.signing_key(options.data_dir / "pki"),
    )
    try:
        server = await serve(
            apiserver,
            options.host,
            options.port,
            tls=credentials.server_context() if credentials else None,
            access=Access(credentials.token if credentials else "", frozenset({advertised.lower()})),
        )
    except OSError as error:
        apiserver.close()
        print(  # noqa: T201
            f"--port {options.port}: {options.host}:{options.port} cannot be opened ({error.strerror}); "  # noqa: RUF100, T201
            "give another --port, or 0 for a free one",
            file=sys.stderr,
        )
        return 2
    client = InProcessClient(apiserver.handle, shares=True)
    informers = Informers(client)
    driver = AsyncDriver([informers], [])
    driver.machines += controllers(client, informers, time.time)
    driver.machines.append(Scheduler(client, informers, time.time))
    kubelet = _add_kubelet(options, apiserver, client, informers, driver)
    if isinstance(kubelet, ProcessKubelet):
        server.stream_from(kubelet)
    kubeconfig = options.kubeconfig or options.data_dir / "kubeconfig"
    write_kubeconfig(kubeconfig, url_of(advertised, server.port, secure=credentials is not None), credentials)
    log.info("serving %s; KUBECONFIG=%s; %d node(s), kubelet %s", server.url, kubeconfig, options.nodes, options.agent)
    await _run_until(stop, driver)
    if isinstance(kubelet, ProcessKubelet):
        kubelet.shutdown()
    await _close_all(server, informers, apiserver)
    return 0


def _add_kubelet(
    options: argparse.Namespace,
    apiserver: ApiServer,
    client: InProcessClient,
    informers: Informers,
    driver: AsyncDriver,
) -> ProcessKubelet | FakeKubelet | None:
    if options.no_agent:
        return None
    driver.machines.append(
        Provisioner(client, informers, Recorder(client, time.time, PROVISIONER), options.data_dir / "volumes")
    )
    if options.agent == "fake":
        fake = FakeKubelet(client, informers, time.time, node_configs(options))

        def fake_log(namespace: str, pod: str, container: str, query: object) -> Response | Watch:
            return Response(200, (fake.log_of(namespace, pod) or "").encode(), content_type="text/plain")

        apiserver.log_source = fake.logs(fake_log)
        driver.machines.append(fake)
        return fake
    kubelet = ProcessKubelet(
        client,
        informers,
        time.time,
        node_configs(options),
        data_dir=options.data_dir,
        wake=driver.wake,
        isolation=options.isolation,
        working_dir=options.workdir,
    )
    streams = LogStreams(kubelet.log_folder, time.time, driver.wake)
    apiserver.log_source = kubelet.logs(streams.source)
    driver.machines += [kubelet, streams]
    return kubelet


async def _run_until(stop: asyncio.Event, driver: AsyncDriver) -> None:
    running = asyncio.create_task(driver.run())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def _close_all(server: Server, informers: Informers, apiserver: ApiServer) -> None:
    informers.close()
    await server.close()
    apiserver.close()


def _reachable_address(host: str) -> str:
    """The address by which a client reaches `host`: a wildcard address is only for listening."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104


def write_kubeconfig(path: Path, url: str, credentials: pki.Credentials | None) -> None:
    """Whole or not at all: a reader never sees half of it."""
    cluster, user = {"server": url}, {}
    if credentials is not None:
        cluster["certificate-authority-data"] = base64.b64encode(credentials.ca_pem).decode()
        user["token"] = credentials.token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "localcluster",
        "preferences": {},
        "clusters": [{"name": "localcluster", "cluster": cluster}],
        "contexts": [
            {
                "name": "localcluster",
                "context": {"cluster": "localcluster", "user": "localcluster", "namespace": "default"},
            }
        ],
        "users": [{"name": "localcluster", "user": user}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pki.write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


if __name__ == "__main__":
    sys.exit(main())
