"""`python -m localcluster.kubelet`: only kubelets, against any API server that the kubeconfig names.

SIGTERM or SIGINT ends the pods of a process kubelet and then the kubelet; SIGKILL leaves them running for the next one.
An API server that is away is waited for.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from localcluster.driver import ThreadDriver
from localcluster.http_client import HttpClient, from_kubeconfig
from localcluster.informer import Informers
from localcluster.kubelet.fake import FakeKubelet
from localcluster.kubelet.logserver import LogServer
from localcluster.kubelet.options import add_node_options, node_configs
from localcluster.kubelet.process import ProcessKubelet


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.kubelet", description="Kubelets for any Kubernetes API server."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE", help="which API server")
    parser.add_argument("--context", default="", help="its context (default: the current one)")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(".localcluster-agents"), metavar="DIR", help="process: logs and volumes"
    )
    parser.add_argument(
        "--kubelet-port", type=int, default=0, metavar="P", help="process: where logs are served (default: a free port)"
    )
    parser.add_argument(
        "--tls-cert-file", default="", help="process: serve logs over TLS, as a real kube-apiserver demands"
    )
    parser.add_argument("--tls-private-key-file", default="")
    parser.add_argument(
        "--client-ca-file", default="", help="process: serve logs only to holders of a certificate of this authority"
    )
    add_node_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        client = HttpClient(from_kubeconfig(options.kubeconfig, options.context))
    except (OSError, ValueError) as error:
        print(f"--kubeconfig {options.kubeconfig}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    informers = Informers(client)
    driver = ThreadDriver([informers], [])
    if options.agent == "fake":
        driver.machines.append(FakeKubelet(client, informers, time.time, node_configs(options)))
        _run_until_signalled(driver)
    else:
        try:
            kubelet, server = _process_kubelet(options, client, informers, driver)
        except OSError as error:
            print(f"--kubelet-port {options.kubelet_port}: {error}", file=sys.stderr)  # noqa: T201
            return 2
        _run_until_signalled(driver)
        kubelet.shutdown()
        server.close()
    informers.close()
    return 0


def _process_kubelet(
    options: argparse.Namespace, client: HttpClient, informers: Informers, driver: ThreadDriver
) -> tuple[ProcessKubelet, LogServer]:
    kubelet = ProcessKubelet(
        client,
        informers,
        time.time,
        [],
        data_dir=options.data_dir,
        wake=driver.wake,
        isolation=options.isolation,
        working_dir=options.workdir,
    )
    server = LogServer(
        kubelet.log_folder,
        port=options.kubelet_port,
        cert_file=options.tls_cert_file,
        key_file=options.tls_private_key_file,
        client_ca_file=options.client_ca_file,
    )
    kubelet.add_nodes(node_configs(options, server.port))
    driver.machines.append(kubelet)
    return kubelet, server


def _run_until_signalled(driver: ThreadDriver) -> None:
    # A handler may only do what is safe while the main thread holds any lock: SimpleQueue.put is, Event.set is not.
    stop: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stop.put(received))
    running = threading.Thread(target=driver.run, name="driver")
    running.start()
    stop.get()
    driver.stop()
    running.join()


if __name__ == "__main__":
    sys.exit(main())
