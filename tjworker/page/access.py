"""Identifies the viewers of the page, and asks the API server what each may see, with the viewer's own token.

In a cluster this process has no rights of its own. A viewer is the bearer of a token, which a proxy with a login puts
into `Authorization`. A viewer sees the rows of the namespaces and kinds whose jobs the token may list
(SelfSubjectAccessReview), and the page of a job is read with the token. Answers are remembered for a while, tokens by
their hash.

On a user's own machine (`TJ_PAGE_ACCESS=kubeconfig`) every viewer counts as the owner of the kubeconfig. Then the page
listens on a loopback address and answers only to the names of this machine, or it asks for a password
(`TJ_PAGE_BASIC_AUTH`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import orjson
from kubernetes.client import Configuration

from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.base import GroupResource, Invalid, OperatorError, Terminal, parse_key
from tjworker.cli.cluster import Cluster
from tjworker.cli.jobs import FoundJob
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import to_error
from tjworker.kube.port import Transport
from tjworker.kube.resources import RESOURCES
from tjworker.kube.transport import KubeTransport

# Every authenticated user may ask it (`system:basic-user`), so a viewer needs no role for the page itself.
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GOOD_SECONDS = 60.0
"""How long an answer is remembered. A right that was taken away works for lists that much longer. The page of a job
asks each time."""
MOST_VIEWERS = 500
MOST_TOKEN_CHARS = 16 << 10
MOST_NAMESPACES = 200
"""How many pairs of kind and namespace are checked for a viewer who may not list a kind in the whole cluster. Jobs of
further pairs are not shown, and a note says so."""
MOST_RIGHTS = 5_000
"""How many answers of one viewer are remembered."""
REQUEST_SECONDS = 10.0
USER_AGENT = "tj-page/0.1"
FIRST_KIND = next(iter(KINDS))


class NotAllowed(Exception):
    """The viewer may not see the view. The message, for the viewer, says what to do. `code`: the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Viewer:
    """A viewer, and the API server's answers about the viewer's rights. Thread-safe."""

    transport: Transport
    api: KubeClient
    now: Callable[[], float]
    name: str = ""
    """The same for all requests with one token; '' if viewers are not distinguished."""
    _rights: dict[tuple[str, str], tuple[float, bool]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def may(self, verb: str, resource: GroupResource, namespace: str = "") -> bool:
        """True if the viewer has the right. Raises OperatorError if the API server does not answer, and NotAllowed if
        it does not know the token."""
        right = f"{verb} {resource}", namespace
        with self._lock:
            known = self._rights.get(right)
            if known is not None and self.now() - known[0] < GOOD_SECONDS:
                return known[1]
        # Without the lock, which must not be held during a request. Two threads may ask the same question, which does
        # no harm.
        row = RESOURCES[resource]
        spec = {"verb": verb, "group": row.group, "resource": row.plural, "namespace": namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": spec},
        }
        answer = self.transport.request("POST", REVIEWS, body=orjson.dumps(body), timeout_seconds=REQUEST_SECONDS)
        # The review needs no right, so 401 is about the token itself.
        if answer.status == 401:
            raise _unknown(own=not self.name)
        if answer.status >= 300:
            raise to_error(answer, f"ask whether jobs of {namespace or 'all namespaces'} may be listed")
        allowed = bool((orjson.loads(answer.body).get("status") or {}).get("allowed"))
        with self._lock:
            # The address of a view can name any namespace, so a viewer could fill the memory.
            if len(self._rights) >= MOST_RIGHTS:
                self._rights.clear()
            self._rights[right] = self.now(), allowed
        return allowed

    def listable(
        self, places: Iterable[tuple[GroupResource, str]], threads: ThreadPoolExecutor, chosen: str = ""
    ) -> tuple[frozenset[tuple[GroupResource, str]], int]:
        """The (kind, namespace) of `places` whose jobs the viewer may list, and how many places were not checked. The
        places of the namespace `chosen` are checked first."""
        # The limit must not leave out the namespace that the viewer looks at.
        wanted = sorted(set(places), key=lambda place: (place[1] != chosen, place))
        # First the right for all namespaces: it saves the questions for each of them.
        whole = {kind for kind in {kind for kind, _ in wanted} if self.may("list", kind)}
        rest = [place for place in wanted if place[0] not in whole]
        checked = rest[:MOST_NAMESPACES]
        allowed = threads.map(lambda place: self.may("list", place[0], place[1]), checked)
        listable = {place for place in wanted if place[0] in whole}
        listable |= {place for place, may in zip(checked, allowed, strict=True) if may}
        return frozenset(listable), len(rest) - len(checked)

    def cluster(self) -> Cluster:
        """The form in which functions of the commands take a cluster."""
        return Cluster(self.api, self.transport, "default")


class Viewers:
    """All viewers. With `own`, every viewer reads with this configuration, after giving `password` (`user:password`) if
    one is set. Without, each viewer reads with the token of the request."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        own: bool,
        password: str = "",
        connect: Callable[[Configuration], Transport] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configuration = configuration
        self._connect = connect or self._open
        self._now = now
        self._lock = threading.Lock()
        self._own = self._viewer(configuration) if own else None
        self._password = f"Basic {base64.b64encode(password.encode()).decode()}" if password else ""
        self._known: OrderedDict[bytes, Viewer] = OrderedDict()

    def _open(self, given: Configuration) -> Transport:
        # A transport that reads the kubeconfig itself reads it again when its credentials have run out.
        read = None if given is self._configuration else given
        return KubeTransport(read, user_agent=USER_AGENT, pool_size=4)

    @property
    def names_no_one(self) -> bool:
        """True if every client that reaches the page counts as its owner."""
        return self._own is not None and not self._password

    @property
    def challenge(self) -> str:
        """The header WWW-Authenticate of an answer 401. `Basic` makes a browser ask for the password."""
        return 'Basic realm="jobs", charset="UTF-8"' if self._password else "Bearer"

    def viewer(self, authorization: str) -> Viewer:
        """The viewer of a request. Raises NotAllowed if the token is missing, or the password is missing or wrong."""
        if self._own is not None:
            # Compared in constant time, so that the delay of the answer reveals nothing of the password.
            if self._password and not hmac.compare_digest(authorization.encode(), self._password.encode()):
                raise NotAllowed(401, "user or password is wrong; TJ_PAGE_BASIC_AUTH of the page has both")
            return self._own
        kind, _, token = authorization.partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token or len(token) > MOST_TOKEN_CHARS or not token.isascii():
            raise NotAllowed(
                401,
                "this page shows what your own token of the cluster may read, and none came with the request: open it"
                " through the proxy where you sign in (docs/page.md)",
            )
        name = hashlib.sha256(token.encode()).digest()
        with self._lock:
            viewer = self._known.get(name)
            if viewer is None:
                viewer = self._known[name] = self._viewer(_with_token(self._configuration, token), name.hex())
                # The viewer of the oldest request goes, with the connections.
                while len(self._known) > MOST_VIEWERS:
                    self._known.popitem(last=False)[1].api.close()
            self._known.move_to_end(name)
            return viewer

    def _viewer(self, configuration: Configuration, name: str = "") -> Viewer:
        transport = self._connect(configuration)
        return Viewer(transport, KubeClient(transport, request_timeout_seconds=REQUEST_SECONDS), self._now, name)

    def readable(self, error: OperatorError) -> tuple[int, str]:
        """(HTTP status, message) for the viewer."""
        if error.status == 401:
            refused = _unknown(own=self._own is not None)
            return refused.code, refused.message
        return readable_error(error)


def _with_token(own: Configuration, token: str) -> Configuration:
    """A configuration for the same cluster with this token, and without this process' own credentials."""
    made = Configuration()
    made.host, made.ssl_ca_cert, made.verify_ssl = own.host, own.ssl_ca_cert, own.verify_ssl
    made.proxy, made.no_proxy = own.proxy, own.no_proxy
    made.api_key = {"authorization": f"Bearer {token}"}
    return made


def _unknown(*, own: bool) -> NotAllowed:
    """The API server does not know the token. `own`: it is that of the page's kubeconfig."""
    if own:
        # Not 401: that asks the viewer for the password of the page.
        return NotAllowed(
            503,
            "the API server does not know the credentials of the page's kubeconfig, or they have run out; sign in to"
            " the cluster again: when `kubectl get aitj` works, this page does, too",
        )
    return NotAllowed(
        401, "the cluster does not know this token, or it has run out; sign in again: reload the page in your browser"
    )


def find_job(viewer: Viewer, resource: str, namespace: str, name: str) -> FoundJob:
    """The job, read with the viewer's token. Raises NotAllowed if it does not exist, OperatorError if it cannot be
    read."""
    try:
        # The names become a path at the API server, where `..` or `%2f` would lead to another object.
        parse_key(f"{resource}/{namespace}/{name}")
    except Invalid:
        raise NotAllowed(404, "that is no name of a job") from None
    if resource not in KNOWN_KINDS:
        raise NotAllowed(404, f"{resource} is no job kind that this operator knows")
    known = GroupResource(resource)
    raw = viewer.api.get(known, namespace, name)
    if raw is None:
        raise NotAllowed(404, f"there is no {KNOWN_KINDS[known].kind} {name} in namespace {namespace}; see History")
    return FoundJob(known, raw)


def readable_error(error: OperatorError) -> tuple[int, str]:
    """(HTTP status, message) for the viewer, but for a token that is not known (`Viewers.readable`)."""
    if isinstance(error, Terminal) and error.status == 403:
        return 403, f"your token may not do that: {error.message}; ask who manages the namespace for the role `view`"
    if error.status == 404:
        return 404, error.message
    return 503, f"{error.message}; reload the page in a moment, and `tj doctor` says what is wrong"
