"""The proxy before the API server, and what the operator's own client sees of a watch through it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.chaos.proxy import Faults, Proxy
from tests.chaos.spoiled import Fate
from tests.e2e.control_plane.api import open_transport
from tests.support.kubeconfig import make_kubeconfig
from tests.support.scripted_api import line, pod
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api.resources import LEASES, PODS
from tjworker.base import Conflict, OperatorError, Transient
from tjworker.kube.client import KubeClient

EVENTS = [line("ADDED", pod(f"p{n}", n + 1, note="läuft, 訓練中 🚀")).rstrip() for n in range(6)]
PODS_PATH, LEASE = "/api/v1/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader"


class Upstream(BaseHTTPRequestHandler):
    """An API server that has one watch to give, a Lease, and lists without anything in them."""

    def do_GET(self) -> None:
        if "watch=" in self.path:
            body = b"\n".join(EVENTS) + b"\n"
        else:
            body = json.dumps({"metadata": {"resourceVersion": "6"}, "items": []}).encode()
        self.send_response(200 if self.path.startswith(("/api/", "/apis/")) else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        """Requests are no news."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, name="upstream", daemon=True).start()
    made = Proxy(f"http://127.0.0.1:{upstream.server_address[1]}", seed=4711)
    made.start()
    yield made
    made.stop()
    upstream.shutdown()
    upstream.server_close()


@pytest.fixture
def client(proxy: Proxy, tmp_path: Path) -> Iterator[KubeClient]:
    kubeconfig = tmp_path / "user.kubeconfig"
    kubeconfig.write_text(json.dumps(make_kubeconfig("https://nowhere")))
    made = KubeClient(
        open_transport(proxy.kubeconfig(kubeconfig, "watcher1")), watch_read_timeout_seconds=PATIENCE_SECONDS
    )
    yield made
    made.close()
    proxy.faults = Faults()


def seen(client: KubeClient) -> tuple[list[bytes], OperatorError | None]:
    """The lines of a watch of pods, and how it broke off."""
    got: list[bytes] = []
    try:
        stream = client.watch(PODS, resource_version=1, timeout_seconds=40)
        for lines in stream.lines():
            got += lines
    except OperatorError as error:
        return got, error
    return got, None


def in_order(got: list[bytes]) -> bool:
    return got == EVENTS[: len(got)]


@dataclass(frozen=True)
class Case:
    fates: tuple[Fate, ...]
    want: Callable[[list[bytes]], bool]
    want_error: type[OperatorError] | None = None


CASES: dict[str, Case] = {
    "Without a fate all of it comes.": Case((), lambda got: got == EVENTS),
    "410 at once is an answer, and no stream.": Case((Fate.GONE,), lambda got: not got, Conflict),
    "An ERROR event is the last.": Case((Fate.ERROR,), lambda got: in_order(got[:-1]) and b'"code":410' in got[-1]),
    "A cut stream breaks off, and half a line is none.": Case((Fate.CUT,), in_order, Transient),
    "What comes in pieces is whole.": Case((Fate.SPLIT,), lambda got: got == EVENTS),
    "Events come again.": Case((Fate.TWICE,), lambda got: got[::2] == EVENTS and set(got) == set(EVENTS)),
    "Empty bookmarks come between.": Case(
        (Fate.EMPTY,), lambda got: got[::2] == EVENTS and len(got) == 2 * len(EVENTS)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_watch(name: str, proxy: Proxy, client: KubeClient) -> None:
    case = CASES[name]
    proxy.faults = Faults(fates=case.fates)
    proxy.fates.clear()
    for _ in range(3):
        got, error = seen(client)
        assert case.want(got), f"{got}, {error}"
        assert type(error) is (case.want_error or type(None))
    assert proxy.fates == dict.fromkeys(case.fates, 3)


def test_a_half_open_watch_stays_so_when_the_faults_are_over_until_it_is_given_up(
    proxy: Proxy, client: KubeClient
) -> None:
    proxy.silences.clear()
    proxy.faults = Faults(fates=(Fate.SILENT,))
    got: list[bytes] = []
    stream = client.watch(PODS, resource_version=1, timeout_seconds=40)
    reader = threading.Thread(target=lambda: got.extend(line for lines in stream.lines() for line in lines))
    reader.start()
    until("the watch is silent", lambda: proxy.silent_now)
    proxy.faults = Faults()
    assert seen(client) == (EVENTS, None)
    assert list(proxy.silent_now.values()) == ["watcher1/api/v1/pods"]
    stream.close()
    reader.join()
    until("the proxy has seen that it was given up", lambda: not proxy.silent_now)
    assert in_order(got)
    assert len(proxy.silences) == 1


def test_open_watches_break_when_they_are_told_to(proxy: Proxy, client: KubeClient) -> None:
    proxy.faults = Faults(fates=(Fate.SILENT,))
    found: list[OperatorError | None] = []
    reader = threading.Thread(target=lambda: found.append(seen(client)[1]))
    reader.start()
    until("the watch is silent", lambda: proxy.silent_now)
    proxy.break_watches()
    reader.join()
    assert isinstance(found[0], Transient)


def test_a_dead_server_answers_nothing_but_for_the_lease(proxy: Proxy, client: KubeClient) -> None:
    proxy.faults = Faults(dead=True)
    assert not client.alive()
    for asked in (lambda: client.list_page(PODS), lambda: client.watch(PODS, resource_version=1, timeout_seconds=40)):
        with pytest.raises(Transient):
            asked()
    assert client.get(LEASES, "default", "leader") is not None
