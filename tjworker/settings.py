"""One frozen object with every setting, read once from the environment (`TJ_*`). Names include units.

`python -m tjworker.settings` writes docs/settings.md from it, `--check` compares.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tjworker.base import KEYS_PER_TASK
from tjworker.scope import Scope

OFF = "off"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
SECRET = ("redis_url", "record_keys", "history_url", "page_basic_auth")
"""Settings whose values are never shown."""


def turn_seconds(period: float) -> float:
    """How long one run of a periodic task excludes the runs of other beats."""
    # Less than the period: two runs of one beat are never exactly a period apart, and every second one would be lost.
    return 0.8 * period


class Settings(BaseSettings):
    """Each setting is the environment variable `TJ_` and its name in upper case. `tj doctor` prints them all."""

    model_config = SettingsConfigDict(env_prefix="TJ_", frozen=True, extra="ignore")

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0",
        pattern=r"^rediss?://\S+$",
        description="Redis for broker, projection and locks (rediss:// for TLS)",
    )
    key_prefix: str = Field(
        "tj",
        pattern=r"^[a-z0-9][-a-z0-9]{0,31}$",
        description="first part of every Redis key and of the Celery queue: two operators can share one Redis",
    )
    record_keys: str = Field(
        "",
        pattern=r"^$|^[^\s,]{32,}(,[^\s,]{32,})*$",
        repr=False,
        description=(
            "keys with which watcher and workers seal the records in Redis, each of 32 characters or more, "
            "separated by commas: the first seals, all open; required by these two, and for no other process"
        ),
    )
    own_namespace: str = Field(
        "",
        validate_default=True,
        description=(
            "namespace of the operator, which it never serves: a job there could take its labels, service "
            "accounts and Secrets; empty: the pod's, or none outside a cluster"
        ),
    )
    namespaces: str = Field("", description="namespaces to serve, separated by commas; empty: all but its own")
    namespaces_excluded: str = Field(
        "",
        description="namespaces that another operator serves, separated by commas: this one serves all others; not"
        " together with TJ_NAMESPACES",
    )

    kinds: str = Field(
        "",
        description=(
            "job kinds of other operators to serve: `all`, or names such as PaddleJob or pytorchjobs.kubeflow.org, "
            "separated by commas; install the folder of each in k8s/kinds"
        ),
    )

    resync_seconds: float = Field(30, gt=0, description="how often the resync looks for keys whose task was lost")
    full_resync_seconds: float = Field(600, gt=0, description="how often every unfinished job is queued")
    collect_orphans_seconds: float = Field(
        600, gt=0, description="how often the orphan collector looks for objects of deleted jobs"
    )
    collect_earlier_orphans: bool = Field(
        False,
        description=(
            "whether the orphan collector also deletes objects of an earlier EDL operator: labelled paddle-job, "
            "paddle-job-master or paddle-job-pserver, without controller and TrainingJob; other clients made such "
            "batch Jobs, too"
        ),
    )
    lock_ttl_seconds: float = Field(
        30, gt=0, description="lease of the lock of one key; its worker renews it after a third"
    )
    retry_base_seconds: float = Field(1, gt=0, description="first wait of a key after a failure; doubles with each")
    retry_max_seconds: float = Field(300, gt=0, description="longest wait of a key after failures")
    writes_per_pass: int = Field(
        500, ge=1, description="most creates and deletes of one pass; the rest waits for the next"
    )
    write_concurrency: int = Field(
        3,
        ge=1,
        le=64,
        description=(
            "most concurrent write requests of one pass, in threads that the passes of a process share. Higher "
            "values create large jobs faster but delay other jobs on a busy API server"
        ),
    )
    keys_per_task: int = Field(
        8,
        ge=1,
        le=KEYS_PER_TASK,
        description="most jobs that one task works on concurrently; more than one only while jobs queue",
    )

    autoscale_seconds: float = Field(
        5, gt=0, description="how often the autoscaler looks at the cluster and the elastic jobs"
    )
    autoscale_policy: str = Field(
        "fulfillment",
        pattern="^(fulfillment|fair|throughput|goodput|off)$",
        description=(
            "how the autoscaler divides the cluster: fulfillment (fills it, takes from no job for another), "
            "fair (equal shares), throughput or goodput (more for jobs that more replicas speed up, by their "
            "reported speeds); off: roles are scaled by hand"
        ),
    )
    autoscale_cooldown_seconds: float = Field(
        30,
        ge=0,
        description=(
            "how long a role that shrank does not grow, and one that grew does not shrink unless room is "
            "needed; a replica without a node for this long is removed"
        ),
    )
    gang_scheduler: str = Field(
        "none",
        pattern="^(none|kubernetes|volcano|scheduler-plugins)$",
        description=(
            "scheduler whose PodGroups make the pods of a job start together or not at all: kubernetes (from "
            "1.36 on, with the feature gates GenericWorkload and GangScheduling), volcano or "
            "scheduler-plugins; none: each pod is scheduled by itself. Install its folder in k8s/gangs"
        ),
    )
    gang_scheduler_name: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        max_length=253,
        description=(
            "schedulerName of a gang's pods, where neither the job nor the template names one; empty: the "
            "scheduler's default name (volcano, scheduler-plugins-scheduler, default-scheduler)"
        ),
    )
    max_load_desired: float = Field(
        0.97, ge=0, le=1, description="fraction of the cluster's CPUs that the autoscaler fills; it fills all GPUs"
    )

    request_timeout_seconds: float = Field(15, gt=0, description="time-out of one request to the API server")
    watch_timeout_seconds: float = Field(
        60,
        gt=0,
        le=80,
        description=(
            "a watch that is silent for this long is opened again (a half-open connection lasts at most 90 s)"
        ),
    )
    list_page_size: int = Field(500, ge=1, description="objects a page of a list")

    leader_elect: bool = Field(True, description="watchers elect a leader through a Lease")
    leader_namespace: str = Field("", description="namespace of the Lease; empty: the operator's own, else default")
    lease_duration_seconds: float = Field(
        15, gt=0, description="a leader that has not renewed for this long is replaced"
    )
    lease_renew_seconds: float = Field(5, gt=0, description="how often the leader renews; well below the duration")

    task_soft_time_limit_seconds: float = Field(30, gt=0, description="a reconcile is stopped after this long")

    node_failure_grace_seconds: float = Field(
        30, ge=0, description="pods on a node that is not ready for this long count as lost"
    )
    creating_duration_seconds: float = Field(
        900, gt=0, description="a pod whose containers cannot be created is replaced after this long"
    )
    creating_restart_seconds: float = Field(3600, gt=0, description="for how long such pods are replaced in all")
    enable_creating_failed: bool = Field(
        False, description="the job fails after that; otherwise the pod is left waiting"
    )
    gpu_resources: str = Field(
        "nvidia.com/gpu,amd.com/gpu",
        description=("extended resources that the autoscaler counts as GPUs, separated by commas"),
    )
    gpu_fault_conditions: str = Field(
        "GPUFault,GPUUnhealthy,NvidiaGPUFault",
        description="node conditions, set by a node problem detector, that mean a faulty GPU; separated by commas",
    )
    restart_limit: int = Field(5, ge=0, description="restarts of one pserver after which its EDL job fails")
    autoclean: bool = Field(True, description="release the resources of an ended EDL job")
    git_sync_image: str = Field(
        "alpine/git:2.47.2",
        pattern=r"^\S+$",
        description="image of the init container that clones for kubedl.io/git-sync-config: it needs git and sh",
    )
    host_ports: str = Field(
        "20000-29999",
        pattern=r"^([0-9]{4,5}-[0-9]{4,5})?$",
        description=(
            "first and last node port for jobs with kubedl.io/network-mode: host; avoid NodePorts and the kernel's "
            "ports (net.ipv4.ip_local_port_range); empty: none"
        ),
    )

    log_tails: bool = Field(
        True,
        description=(
            "whether the end of a failed container's log is copied into its job's status, where every reader of "
            "the job sees it"
        ),
    )

    history_jobs: int = Field(10_000, ge=0, description="most ended or deleted jobs that the history keeps; 0: none")
    history_seconds: float = Field(
        604_800, gt=0, description="how long the history keeps a job after it ended or was deleted"
    )
    history_url: str = Field(
        "",
        pattern=r"^((postgresql://|sqlite:////)[^\s/]\S*)?$",
        repr=False,
        description="database that keeps the history instead of Redis: postgresql://USER:PASSWORD@HOST/DATABASE with"
        " the parameters of libpq, or sqlite:////PATH where all processes share one disk; the same for the watcher, the"
        " page and `tj`. Needs the extra `history`",
    )

    reports_url: str = Field(
        "",
        pattern=r"^(https://[^\s/]+)?$",
        description=(
            "where pods report the progress of their training, as https://HOST:PORT of `python -m "
            "tjworker.reports`; empty: no reports. The installations of k8s/, compose and `tj up` set it"
        ),
    )
    reports_ca_file: str = Field(
        "/etc/reports-ca/ca.crt",
        min_length=1,
        description="file with the authority of that server's certificate, PEM: workers write it into the pods",
    )
    reports_host: str = Field(
        "0.0.0.0",  # noqa: S104  pods must reach it
        min_length=1,
        description="address on which the report server listens",
    )
    reports_port: int = Field(8082, ge=1, le=65535, description="port of the report server")
    reports_tls_folder: str = Field(
        "/etc/reports-tls",
        min_length=1,
        description="folder with tls.crt and tls.key of the report server; read again when they change",
    )

    page_host: str = Field("127.0.0.1", min_length=1, description="address on which the page listens")
    page_port: int = Field(8088, ge=1, le=65535, description="port of the page")
    page_access: str = Field(
        "token",
        pattern="^(token|kubeconfig)$",
        description=(
            "token: viewers of the page see what the token in `Authorization` may read, which a proxy with a login "
            "sets; kubeconfig: they see what this process may read; only on a loopback address, or with "
            "page_basic_auth"
        ),
    )
    page_basic_auth: str = Field(
        "",
        repr=False,
        pattern=r"^([^:\s]+:\S{8,})?$",
        description=(
            "user:password that the page asks for where page_access is kubeconfig, the password of 8 characters or "
            "more; empty: none"
        ),
    )
    page_flower_url: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="address of Flower for the page's link; empty: no link"
    )
    page_url: str = Field(
        "", pattern=r"^(https?://[^\s{}]+)?$", description="address of the page for Flower's link; empty: no link"
    )

    health_host: str = Field(
        "0.0.0.0",  # noqa: S104  the kubelet must reach it
        min_length=1,
        description="address of each process's /healthz and /readyz; the kubelet calls from outside the pod",
    )
    health_port: int = Field(
        0, ge=0, le=65535, description="port of /healthz and /readyz of watcher, worker and beat; 0: none"
    )
    metrics_host: str = Field(
        "0.0.0.0",  # noqa: S104  the scraper must reach it
        min_length=1,
        description="address of each process's /metrics, which needs no password",
    )
    metrics_port: int = Field(
        0, ge=0, le=65535, description="port of /metrics of watcher, worker and beat, for Prometheus; 0: none"
    )
    metrics_jobs: int = Field(
        0,
        ge=0,
        le=10_000,
        description=(
            "most jobs with metrics of their own, labelled with their names, for alerts on single jobs: two series "
            "each, live jobs first; 0: none"
        ),
    )
    log_format: str = Field(
        "console", pattern="^(console|json)$", description="console (for people) or json (one object a line)"
    )
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="DEBUG, INFO, WARNING or ERROR")

    @field_validator("redis_url", mode="before")
    @classmethod
    def _reject_sentinel(cls, value: object) -> object:
        # Before the pattern, whose message would only show a regular expression.
        if "sentinel" in str(value).partition("://")[0].lower():
            raise ValueError(
                "the operator does not ask Sentinel; name an address that follows the primary, such as"
                " rediss://USER:PASSWORD@tj-redis-primary:6379/0 (docs/operations.md, 'Redis with Sentinel')"
            )
        return value

    @field_validator("redis_url")
    @classmethod
    def _reject_password_in_options(cls, value: str) -> str:
        # Libraries quote a URL in their errors without the part before the @, but with its options.
        parts = urlsplit(value)
        # Raises if the port is not a number.
        _ = parts.port
        named = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} & {"password", "username"}
        if named:
            raise ValueError(
                f"its option {sorted(named)[0]} belongs before the host: {parts.scheme}://USER:PASSWORD@HOST"
            )
        return value

    @field_validator("host_ports")
    @classmethod
    def _check_order_of_ports(cls, value: str) -> str:
        first, _, last = value.partition("-")
        if value and not 1024 <= int(first) <= int(last) <= 65535:
            raise ValueError("it is first-last, and both are from 1024 to 65535, such as 20000-29999")
        return value

    @field_validator("own_namespace")
    @classmethod
    def _default_to_pod_namespace(cls, value: str) -> str:
        # With a kubeconfig the operator may serve another cluster, where the pod's namespace means nothing.
        if value or os.environ.get("KUBECONFIG") or not _POD_NAMESPACE.exists():
            return value
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip()

    @field_validator("namespaces", "namespaces_excluded")
    @classmethod
    def _check_names(cls, value: str) -> str:
        if wrong := [name for name in _names(value) if not _DNS_LABEL.fullmatch(name)]:
            raise ValueError(
                f"{wrong[0]!r} is no name of a namespace: that has lower-case letters, digits and '-', begins and ends"
                " with a letter or a digit, and has at most 63 characters"
            )
        return value

    @field_validator("namespaces_excluded")
    @classmethod
    def _reject_both_lists(cls, value: str, others: ValidationInfo) -> str:
        if _names(value) and _names(others.data.get("namespaces", "")):
            raise ValueError(
                f"TJ_NAMESPACES={others.data['namespaces']!r} is set, too, and an operator serves either the namespaces"
                " of that list or all but those of this one"
            )
        return value

    @field_validator("namespaces")
    @classmethod
    def _reject_own_namespace(cls, value: str, others: ValidationInfo) -> str:
        own = others.data.get("own_namespace", "")
        if own and own in _names(value):
            raise ValueError(
                f"{own} is the operator's own namespace, and a job there could take its labels, service accounts and "
                "Secrets; let the operator live in a namespace apart from those that it serves "
                "(docs/operations.md, 'Some namespaces')"
            )
        return value

    @property
    def kind_list(self) -> tuple[str, ...]:
        """The names of other operators' kinds, as the user wrote them. `api.kinds.served` finds the kinds."""
        return _names(self.kinds)

    @property
    def host_port_range(self) -> tuple[int, int] | None:
        first, _, last = self.host_ports.partition("-")
        return (int(first), int(last)) if first else None

    @property
    def record_key_list(self) -> tuple[str, ...]:
        return tuple(key for key in self.record_keys.split(",") if key)

    @property
    def gpu_resource_list(self) -> tuple[str, ...]:
        return _names(self.gpu_resources)

    @property
    def gpu_fault_condition_list(self) -> tuple[str, ...]:
        return _names(self.gpu_fault_conditions)

    @property
    def lease_namespace(self) -> str:
        return self.leader_namespace or self.own_namespace or "default"

    @property
    def namespace_list(self) -> tuple[str, ...]:
        """The namespaces to serve; empty means all but the excluded."""
        return _names(self.namespaces)

    @property
    def excluded_namespace_list(self) -> tuple[str, ...]:
        return _names(self.namespaces_excluded)

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace_list, self.excluded_namespace_list)


@cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({n.strip() for n in text.split(",") if n.strip()}))


@cache
def load_settings() -> Settings:
    """The settings of this process. Raises pydantic.ValidationError that names each wrong variable."""
    return Settings()


def settings_or_exit() -> Settings:
    """`load_settings` at the start of a process: a wrong variable ends it with one line instead of a traceback."""
    try:
        return load_settings()
    except ValidationError as error:
        advice = "Correct or unset it and start again; `tj doctor` lists all settings."
        raise SystemExit(f"{describe_wrong_settings(error)}. {advice}") from None


def describe_wrong_settings(error: ValidationError) -> str:
    """Each wrong variable with its value, unless that is secret, and the rule that it breaks."""
    return "; ".join(
        f"TJ_{name.upper()}={'(not shown)' if name in SECRET else repr(one['input'])}: {one['msg']}"
        for one in error.errors()
        for name in ["_".join(str(part) for part in one["loc"])]
    )


_NO_SETTING = re.compile(
    r"TJ_(CACHE_DIR|REAL|REAL_\w+|(TEST|BENCH|HOSTILE)_\w+|PLOT|MUTANTS|FRAMEWORKS|SDK|SDK_\w+|COMPOSE|CLUSTER|CHART|ALERTS|ALERTS_ONLY|PEER_MANIFESTS|POLLUX_DATA|RECORD_REFUSALS)"
)
"""Variables of this project's builds, tests and benchmarks. A test checks that all are here."""
_SERVICE_LINK = re.compile(r"(?P<service>TJ_\w+?)_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""Variables that Kubernetes puts into a pod for each Service of its namespace, such as `tj-redis`."""


def unknown_variables(names: Iterable[str]) -> Mapping[str, str]:
    """Variable -> a message, for each name that looks like a setting and is none. A misspelt setting would otherwise go
    unnoticed, and its default be used."""
    every = set(names)
    known = [f"TJ_{name.upper()}" for name in Settings.model_fields]
    unknown = {}
    for name in sorted(every):
        if not name.startswith("TJ_") or name in known or _NO_SETTING.fullmatch(name) or _is_link(name, every):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "unset it, or look for its name in docs/settings.md"
        unknown[name] = f"{name} is no setting, and has no effect; {hint}"
    return unknown


def _is_link(name: str, every: set[str]) -> bool:
    link = _SERVICE_LINK.fullmatch(name)
    # Kubernetes sets all variables of a Service or none. Without the host it is a setting with an unlucky name.
    return link is not None and f"{link['service']}_SERVICE_HOST" in every


def markdown() -> Iterator[str]:
    """docs/settings.md, line by line."""
    yield "# Settings"
    yield ""
    yield "Generated by `python -m tjworker.settings` from `tjworker/settings.py`; `make verify` compares them."
    yield ""
    yield "Read from the environment once, when a process starts. Every process of one operator gets the same;"
    yield "a value that is out of bounds ends the process with a line that says which. A misspelt name changes"
    yield "nothing, so each process warns of it when it starts, and `tj doctor` does."
    yield ""
    yield "| variable | default | bounds | what |"
    yield "|---|---|---|---|"
    properties = Settings.model_json_schema()["properties"]
    for name, field in Settings.model_fields.items():
        default = f"`{field.default}`".lower() if isinstance(field.default, bool) else f"`{field.default}`"
        shown = default if field.default != "" else "empty"
        yield f"| `TJ_{name.upper()}` | {shown} | {_bounds(properties[name])} | {field.description or ''} |"


def _bounds(schema: dict[str, object]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "pattern": "matches"}
    found = [
        f"{word} `{schema[key]:g}`" if isinstance(schema[key], int | float) else f"{word} `{schema[key]}`"
        for key, word in words.items()
        if key in schema
    ]
    return ", ".join(found).replace("|", "\\|")


def main(arguments: Sequence[str] = ()) -> int:
    page = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
    text = "\n".join(markdown()) + "\n"
    if "--check" in arguments:
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            sys.stderr.write(
                f"{page.name} is not what tjworker/settings.py says; run `make generate` and commit the result\n"
            )
            return 1
        return 0
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
