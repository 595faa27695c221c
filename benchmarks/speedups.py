"""The operator's processes without one of its speed-ups, for `benchmarks.without`.

`python -m benchmarks.speedups` is the watcher, `celery -A benchmarks.speedups worker` a worker. Each is the real one,
but for the speed-up that TJ_BENCH_WITHOUT names: in its place is what a reader would write instead.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPResponse
from typing import Any

from benchmarks.support.replacing import replace, replace_constant

WITHOUT = "TJ_BENCH_WITHOUT"


def read_with_http_client() -> None:
    """Head and body of a request leave in two pieces, and the head of an answer goes through an e-mail parser."""
    from tjworker.kube.connections import ConnectionPool, Exchange

    class Read:
        def __init__(self, response: HTTPResponse) -> None:
            self.status = response.status
            self.headers = {name.lower(): value for name, value in response.getheaders()}
            self._response = response

            self.reusable = False

        def pieces(self) -> Iterator[bytes]:
            while piece := self._response.read1(64 * 1024):
                yield piece
            # `read1` leaves a response open whose last byte it has read, and the connection then takes no request.
            self._response.close()
            self.reusable = not self._response.will_close

    def send(
        self: Any, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float | None
    ) -> Any:
        connection = self._take_connection(5.0)
        try:
            connection.sock.settimeout(timeout_seconds)
            connection.request(method, self._prefix + path, body, {"host": self._host} | headers)
            return Exchange(connection, Read(connection.getresponse()))  # type: ignore[arg-type]
        except BaseException:
            connection.close()
            raise

    replace(ConnectionPool, ConnectionPool.send, send)


def request_by_urllib3() -> None:
    """The pool that the kubernetes package brings, instead of connections, http1 and httptools."""
    import urllib3

    from tjworker.kube import transport
    from tjworker.kube.connections import ConnectionPool

    # The API server of the benchmark has a certificate of its own, and a warning for each request takes CPU.
    urllib3.disable_warnings()

    class Answered:
        """Connection and answer of an exchange in one."""

        def __init__(self, response: Any) -> None:
            self.connection, self.answer = self, self
            self.response, self.status = response, response.status
            self.headers = {name.lower(): value for name, value in response.headers.items()}
            self.sock = response.connection.sock
            self.close = response.close

        def pieces(self) -> Iterator[bytes]:
            yield from self.response.stream(64 * 1024)

    class Pool:
        def __init__(self, configuration: Any, size: int) -> None:
            self._host = configuration.host.rstrip("/")
            self._pools = urllib3.PoolManager(
                maxsize=size,
                cert_reqs="CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
                ca_certs=configuration.ssl_ca_cert,
                cert_file=configuration.cert_file,
                key_file=configuration.key_file,
            )

        def send(
            self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout_seconds: float | None
        ) -> Any:
            timeout = urllib3.Timeout(connect=5.0, read=timeout_seconds)
            return Answered(
                self._pools.request(
                    method,
                    self._host + path,
                    body=body,
                    headers=headers,
                    timeout=timeout,
                    retries=False,
                    preload_content=False,
                )
            )

        def give_back(self, exchange: Any) -> None:
            exchange.response.release_conn()

        def close(self) -> None:
            self._pools.clear()

    replace(transport, ConnectionPool, Pool)


def publish_by_celery() -> None:
    from tjworker.base import KEYS_PER_TASK, JobKey
    from tjworker.publisher import RECONCILE, Publisher, describe_keys

    def send(self: Publisher, keys: Sequence[JobKey]) -> None:
        from tjworker.app import app

        with app.producer_or_acquire() as producer:
            for start in range(0, len(keys), KEYS_PER_TASK):
                of_task = keys[start : start + KEYS_PER_TASK]
                app.send_task(RECONCILE, [of_task[0]], argsrepr=describe_keys(of_task), producer=producer)

    replace(Publisher, Publisher._send, send)


def write_records_unpacked() -> None:
    from tjworker.store import packing

    replace(packing, packing.pack, lambda record: record)
    replace(packing, packing.unpack, lambda packed, *, most_bytes=0: packed)


def decide_in_threads() -> None:
    """Each pass of a task observes, decides and writes in its own thread."""
    from tjworker.controllers.jobs import JobReconciler

    first_phase, second_phase = JobReconciler._observe_and_decide, JobReconciler._complete_pass

    def whole_pass(self: JobReconciler, job_pass: Any) -> Any:
        first_phase(self, [job_pass])
        return (job_pass.lease, job_pass.end) if job_pass.end else second_phase(self, job_pass)

    replace(JobReconciler, first_phase, lambda self, passes: None)
    replace(JobReconciler, second_phase, whole_pass)


def serve_one_key_with_a_task() -> None:
    from tjworker import base

    replace_constant(base, "KEYS_PER_TASK", 1)
    # The setting has its own default, which may not be higher.
    os.environ["TJ_KEYS_PER_TASK"] = "1"


def make_passes_in_turn() -> None:
    from benchmarks.support.in_turn import PassesInTurn
    from tjworker.controllers.concurrent import ConcurrentPasses

    def run(
        self: object,
        passes: Sequence[Callable[[], Any]],
        release: Callable[[Sequence[Any]], None],
        ended: Sequence[Any],
    ) -> None:
        PassesInTurn[Any](time.monotonic).run(passes, release, ended)

    replace(ConcurrentPasses, ConcurrentPasses._run_in_threads, run)


def write_in_turn() -> None:
    from tjworker.execution.threads import Threads

    replace(Threads, Threads.begin, lambda self, work: None)


def write_every_first_status() -> None:
    from tjworker.reconcile import converge
    from tjworker.reconcile.first_status import may_wait_for_pods

    replace(converge, may_wait_for_pods, lambda p, plan: False)


def collect_garbage_as_it_comes() -> None:
    from tjworker import collector

    # Before watcher and tasks import it.
    replace(collector, collector.settle, lambda: None)


def write_each_change_at_once() -> None:
    from watcher.gathering import Gathering

    replace(Gathering, Gathering.seconds, lambda self: 0.0)


def send_each_task_event() -> None:
    from celery.worker.consumer import Consumer as CeleryConsumer

    from tjworker.worker.consumer import Consumer

    replace(Consumer, Consumer.on_send_event_buffered, CeleryConsumer.on_send_event_buffered)


def read_whole_answers() -> None:
    from tjworker.kube import transport

    replace_constant(transport, "METADATA", transport.JSON)


def ask_for_credentials_with_each_request() -> None:
    from tjworker.kube import transport

    replace_constant(transport, "_CREDENTIALS_SECONDS", 0.0)


SPEED_UPS: Mapping[str, tuple[Callable[[], None], str]] = {
    "http1": (read_with_http_client, "kube/http1.py reads answers with httptools"),
    "connections": (request_by_urllib3, "kube/connections.py and http1.py, instead of urllib3"),
    "publisher": (publish_by_celery, "publisher.py writes Celery's messages"),
    "packing": (write_records_unpacked, "store/packing.py packs records"),
    "phases": (decide_in_threads, "controllers/jobs.py decides about all jobs of a task before it writes"),
    "keys": (serve_one_key_with_a_task, "a task serves several keys while jobs queue"),
    "passes": (make_passes_in_turn, "controllers/concurrent.py makes the passes of a task concurrently"),
    "writes": (write_in_turn, "execution/threads.py makes writes of a pass concurrently"),
    "first-status": (write_every_first_status, "reconcile/first_status.py leaves out the first status"),
    "collector": (collect_garbage_as_it_comes, "collector.py tunes the garbage collector"),
    "gathering": (write_each_change_at_once, "the watcher gathers changes while many jobs change"),
    "events": (send_each_task_event, "worker/consumer.py sends task events in groups"),
    "metadata": (read_whole_answers, "a worker asks for metadata alone of what it writes"),
    "credentials": (ask_for_credentials_with_each_request, "kube/transport.py keeps credentials for a second"),
}
"""Name -> how it is taken out, and what it is."""


def take_out(name: str) -> None:
    """Take the speed-up of this name out of this process; none for ''. Call it before the process' own modules are
    imported. Raises KeyError for another name, LookupError if the product has it elsewhere now."""
    if name:
        SPEED_UPS[name][0]()


take_out(os.environ.get(WITHOUT, ""))

if __name__ == "__main__":
    from watcher.__main__ import main

    sys.exit(main())
else:
    from tjworker.app import app

    __all__ = ["app"]
