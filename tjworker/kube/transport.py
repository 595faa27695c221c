"""The real Transport: the kubernetes package's configuration and authentication over its own urllib3 pool, raw bytes.

Connections, TLS and proxies are urllib3's. A request over one of them goes out by http.client, which urllib3's connections
are: urllib3's own way of a request costs twice the CPU, and half of what a worker does is requests.

Made after a fork, one a process; thread-safe. Never retries (the callers do, each in its own way), never maps a status to
an error, never logs a header. Credentials are renewed by the kubernetes package (exec plug-ins, projected tokens); a 401
reads the configuration once more before it is believed, because a rotated token file is found no other way.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPMessage
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3.exceptions import HTTPError

from tjworker.base import Terminal, Transient
from tjworker.kube.lines import LineSplitter
from tjworker.kube.port import HttpResponse, Stream

USER_AGENT = "trainingjob-operator/0.1"
CONNECT_TIMEOUT_SECONDS = 5.0
_RELOAD_SECONDS = 10.0
_CREDENTIALS_SECONDS = 1.0
"""How long they are used before the kubernetes package is asked again whether they are still good: asking costs as much as
sending."""
_READ_BYTES = 256 * 1024
_FAILURES = (HTTPError, HTTPException, OSError)


def load_configuration() -> Configuration:
    """KUBECONFIG and its current context; without it the pod's service account; without that ~/.kube/config. Raises
    Terminal that says where it looked."""
    configuration = Configuration()
    named = os.environ.get("KUBECONFIG", "")
    default = Path("~/.kube/config").expanduser()
    try:
        if named:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=named, client_configuration=configuration
            )
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        elif default.exists():
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(default), client_configuration=configuration
            )
        else:
            raise Terminal(
                "no Kubernetes cluster is configured: KUBECONFIG is not set, this is no pod, and "
                f"{default} does not exist. Set KUBECONFIG to a kubeconfig file"
            )
    except (config.ConfigException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise Terminal(
            f"the Kubernetes configuration ({named or default}) cannot be used: {_why(named, error)}. Correct it, "
            "or choose another with KUBECONFIG"
        ) from error
    return configuration


def _why(named: str, error: Exception) -> str:
    """What is wrong with the file, for whoever wrote it. The package's own words where they say so."""
    if named and not any(Path(part).exists() for part in named.split(os.pathsep) if part):
        return "there is no such file"
    if isinstance(error, TypeError):  # what the package makes of it
        return "it is no mapping with clusters, contexts and users"
    # YAML's messages have several lines, the package's end with one dot or two.
    return " ".join(str(error).split()).removeprefix("Invalid kube-config file. ").rstrip(".")


def remove_temporary_files() -> None:
    """The kubernetes package writes certificates of a kubeconfig to files and leaves their removal to `atexit`, without which
    a Celery child ends. For the end of a process: no transport of it can connect afterwards."""
    config.kube_config._cleanup_temp_files()  # type: ignore[no-untyped-call]


class KubeTransport:
    """A Transport over HTTP(S)."""

    def __init__(
        self, configuration: Configuration | None = None, *, pool_size: int = 10, user_agent: str = USER_AGENT
    ) -> None:
        self._given = configuration is not None
        self._pool_size = pool_size
        self._user_agent = user_agent
        self._lock = threading.Lock()
        self._loaded_at = monotonic()
        self._loads = 0
        """How often the configuration has been read anew."""
        self._connect(configuration or load_configuration())

    def _connect(self, configuration: Configuration) -> None:
        configuration.connection_pool_maxsize = self._pool_size
        # A half-open idle connection in the pool is noticed by the kernel, not by the next request's time-out.
        configuration.keep_alive = True
        self._configuration = configuration
        self._base = str(configuration.host).rstrip("/")
        self._path = urlsplit(self._base).path
        self._pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._connections: Any = self._pool.connection_from_url(self._base)
        self._credentials: dict[str, str] = {}
        self._credentials_until = 0.0

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        headers = {"content-type": content_type} if body is not None else {}
        send = self._send_by_proxy if isinstance(self._pool, urllib3.ProxyManager) else self._send
        loads = self._loads
        answer = send(method, path, query, body, headers, timeout_seconds)
        if answer.status == 401 and self._reload(loads):
            answer = send(method, path, query, body, headers, timeout_seconds)
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_seconds: float | None,
    ) -> HttpResponse:
        target = f"{self._path}{path}?{urlencode(query)}" if query else self._path + path
        pool = self._connections
        try:
            # One that the server has closed meanwhile is noticed here and opened again.
            connection = pool._get_conn()
            try:
                if connection.sock is None:
                    connection.timeout = min(CONNECT_TIMEOUT_SECONDS, timeout_seconds or CONNECT_TIMEOUT_SECONDS)
                    connection.connect()
                connection.sock.settimeout(timeout_seconds)
                HTTPConnection.request(connection, method, target, body, self._headers(headers))
                answer = HTTPConnection.getresponse(connection)
                text = answer.read()
            except BaseException:
                # In the middle of an answer: whatever comes next on it is not what the next request asked for.
                connection.close()
                raise
            finally:
                pool._put_conn(connection)
        except _FAILURES as error:
            raise Transient(_plain(error)) from error
        return HttpResponse(answer.status, text, _lower(answer.headers))

    def _send_by_proxy(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_seconds: float | None,
    ) -> HttpResponse:
        connect_seconds = min(CONNECT_TIMEOUT_SECONDS, timeout_seconds or CONNECT_TIMEOUT_SECONDS)
        timeout = urllib3.Timeout(connect=connect_seconds, read=timeout_seconds)
        try:
            answer = self._pool.urlopen(
                method,
                self._url(path, query),
                body=body,
                headers=self._headers(headers),
                retries=False,
                redirect=False,
                timeout=timeout,
            )
        except _FAILURES as error:
            raise Transient(_plain(error)) from error
        return HttpResponse(answer.status, answer.data, _lower(answer.headers))

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_SECONDS, read=read_timeout_seconds)
        loads = self._loads
        try:
            answer = self._pool.urlopen(
                "GET",
                self._url(path, query),
                headers=self._headers({}),
                retries=False,
                redirect=False,
                timeout=timeout,
                preload_content=False,
            )
        except _FAILURES as error:
            raise Transient(_plain(error)) from error
        if answer.status == 401:
            self._reload(loads)
        return HttpStream(answer)

    def close(self) -> None:
        self._pool.clear()

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._base}{path}?{urlencode(query)}" if query else self._base + path

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        if monotonic() >= self._credentials_until:
            self._renew_credentials()
        return {"user-agent": self._user_agent, "accept": "application/json", **self._credentials, **more}

    def _renew_credentials(self) -> None:
        headers = {}
        # The refresh hook of the kubernetes package changes its own state; and what was read from a configuration must not
        # be kept once another one has been read.
        with self._lock:
            settings: Mapping[str, Any] = self._configuration.auth_settings()
            for auth in settings.values():
                if auth.get("in") == "header" and auth.get("value"):
                    headers[str(auth["key"])] = str(auth["value"])
            self._credentials = headers
            self._credentials_until = monotonic() + _CREDENTIALS_SECONDS

    def _reload(self, loads: int) -> bool:
        """Read the configuration anew, unless another thread has since this was read so often; False when that was done a
        moment ago and did not help, or the configuration was given."""
        with self._lock:
            if self._loads != loads:
                return True
            if self._given or monotonic() - self._loaded_at < _RELOAD_SECONDS:
                return False
            self._loaded_at = monotonic()
            try:
                self._connect(load_configuration())
            except Terminal:
                return False
            self._loads += 1
            return True


class HttpStream:
    """One open watch over urllib3. Bytes leave as whole lines the moment they arrive."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer
        self.status = answer.status
        self.headers: Mapping[str, str] = _lower(answer.headers)
        self._closed = False
        self._reading = False

    def lines(self) -> Iterator[list[bytes]]:
        splitter = LineSplitter()
        self._reading = True
        try:
            while not self._closed:
                try:
                    chunk = self._answer.read1(_READ_BYTES)
                except (*_FAILURES, ValueError, AttributeError) as error:
                    # ValueError, AttributeError: a TLS socket that `close` pulls away from under the read.
                    if self._closed:
                        return
                    raise Transient(f"watch broke off: {_plain(error)}") from error
                if not chunk:
                    return
                if lines := splitter.feed(chunk):
                    yield lines
        finally:
            self._answer.close()

    def body(self) -> bytes:
        try:
            return bytes(self._answer.read(64 * 1024))
        except _FAILURES:
            return b""

    def close(self) -> None:
        """Ends a read in another thread; the connection does not go back to the pool."""
        self._closed = True
        if not self._reading:
            self._answer.close()
            return
        # Closing the file object would wait for the lock that the blocked reader holds; the socket has none, and the
        # reader closes the rest when it wakes up.
        with contextlib.suppress(*_FAILURES, ValueError, RuntimeError):
            self._answer.shutdown()


def _lower(headers: Mapping[str, Any] | HTTPMessage) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in headers.items()}


def _plain(error: Exception) -> str:
    """One line without the object addresses that urllib3 puts into its messages."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, Exception) else error)
    return f"{type(error).__name__}: {text.rsplit('>: ', 1)[-1]}"
