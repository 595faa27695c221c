"""`python -m localcluster` over HTTPS, as clients meet it: who gets in, what outlives a restart, what others may
read."""

from __future__ import annotations

import base64
import http.client
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.client import ApiError
from localcluster.http_client import HttpClient, ServerAccess
from localcluster_tests.support.waiting import PATIENCE_SECONDS
from localcluster_tests.unit.test_main import Start, connect, start, starting, until

__all__ = ["start"]  # the fixture
pytestmark = [pytest.mark.xdist_group("secure"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster for the tests that only look at it; its data is in the same folder."""
    folder = tmp_path_factory.mktemp("served")
    with starting(folder) as run:
        run("localcluster", "--data-dir", folder / "data", "--kubeconfig", folder / "kubeconfig", "--agent", "fake")
        connect(folder / "kubeconfig")
        yield folder / "kubeconfig"


def read(kubeconfig: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Host and port, the cluster's part, the user's part."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    return cluster["server"].partition("://")[2], cluster, config["users"][0]["user"]


def code(connection: ServerAccess) -> int:
    """The status code of a list of nodes; 0 without an answer."""
    client = HttpClient(connection)
    try:
        client.get(NODES)
    except ApiError as error:
        return error.code
    finally:
        client.close()
    return 200


def test_only_the_kubeconfig_opens_the_cluster(served: Path) -> None:
    address, cluster, user = read(served)
    trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
    server = f"https://{address}"
    assert cluster["server"] == server
    assert code(ServerAccess(server, user["token"], ca_data=trusted)) == 200
    assert code(ServerAccess(server, ca_data=trusted)) == 401
    assert code(ServerAccess(server, "wrong", ca_data=trusted)) == 401
    assert code(ServerAccess(server, user["token"])) == 0, "only the kubeconfig holds the authority"
    assert code(ServerAccess(f"http://{address}", user["token"])) != 200, "plain HTTP"
    port = address.rpartition(":")[2]
    assert code(ServerAccess(f"https://localhost:{port}", user["token"], ca_data=trusted)) == 200


def test_the_advertised_host_is_what_the_kubeconfig_and_the_certificate_name(start: Start, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    named = ["--agent", "fake", "--host", "0.0.0.0", "--advertised-host", "localhost"]
    start("localcluster", "--data-dir", tmp_path / "data", "--kubeconfig", kubeconfig, *named)
    client = connect(kubeconfig)
    assert read(kubeconfig)[0].startswith("localhost:")
    until("there is a node", lambda: client.get(NODES)["items"])


def test_insecure_is_plain_http_that_web_pages_cannot_use(start: Start, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    start("localcluster", "--data-dir", tmp_path / "data", "--kubeconfig", kubeconfig, "--agent", "fake", "--insecure")
    client = connect(kubeconfig)
    address, cluster, user = read(kubeconfig)
    assert (cluster, user) == ({"server": f"http://{address}"}, {})
    assert client.get(NODES)
    for headers, want in (({}, 200), ({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403)):
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
        connection.request("GET", NODES, headers=headers)
        assert connection.getresponse().status == want, headers
        connection.close()
