"""The Celery app: `celery -A tjworker.app worker | beat | flower`. It only has settings, and connects to nothing.

Importing it reads the environment (a wrong `TJ_*` ends the process with one line). Tasks are named as text, so only a
worker imports the code that decides.

A task is a hint. Every message may be lost, doubled or late: the work queue in `store/` knows which jobs are due, and
the resync publishes lost keys again (docs/adr/0004-work-queue-over-celery.md).
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import setup_logging
from kombu.entity import Exchange, Queue
from kombu.utils.url import parse_url

from tjworker.settings import Settings, settings_or_exit
from tjworker.telemetry.logging import configure_logging


def transport_options() -> dict[str, Any]:
    """The options of kombu's Redis transport. Every wait is bounded, so that a silent Redis counts as gone."""
    return {
        # Saves two Redis calls per task. kombu's record of fetched messages restores those of a dead worker after
        # minutes. The resync takes seconds, and also finds messages that were lost on their way (ADR 4).
        "ack_emulation": False,
        "socket_timeout": 8,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # kombu makes some lost connections again by itself, with waits that would grow to 30 s.
        "interval_start": 1,
        "interval_max": 1,
    }


def broker_url(redis_url: str) -> str:
    """The URL of Redis for kombu. A URL with `ssl_cert_reqs=` stays as it is."""
    if not redis_url.startswith("rediss://") or "ssl_cert_reqs=" in redis_url:
        return redis_url
    # Unlike redis-py, kombu does not verify certificates for a bare `rediss://`: a man in the middle would get the
    # password.
    return f"{redis_url}{'&' if '?' in redis_url else '?'}ssl_cert_reqs=required"


def periodic_queue(prefix: str) -> str:
    """The name of the queue for beat's tasks."""
    # A queue of their own: thousands of keys may wait, and the resync and the autoscaler would come as much too late. A
    # worker asks its queues in turn, however many messages each holds.
    return f"{prefix}.periodic"


def _queue(name: str) -> Queue:
    return Queue(name, Exchange(name), routing_key=name)  # type: ignore[no-untyped-call]


def queue_options(prefix: str) -> dict[str, Any]:
    names = (prefix, periodic_queue(prefix))
    return {
        "task_default_queue": prefix,
        "task_queues": tuple(_queue(name) for name in names),
        "task_routes": {"tjworker.reconcile": {"queue": prefix}, "tjworker.*": {"queue": periodic_queue(prefix)}},
    }


def worker_options() -> dict[str, Any]:
    return {
        # As text, so that only a worker loads it.
        "worker_consumer": "tjworker.worker.consumer:Consumer",
        "worker_prefetch_multiplier": 1,
        # A busy worker fetches no task. A fetched one would wait for the running pass, which may create 500 pods, while
        # other workers are free.
        "worker_disable_prefetch": True,
        "worker_max_memory_per_child": 400_000,  # KiB
        "worker_proc_alive_timeout": 60,
        # structlog formats the lines of every logger (`telemetry/logging.py`).
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # It has an effect only on late acknowledgements, but False logs a warning at each loss of the connection.
        "worker_cancel_long_running_tasks_on_connection_loss": True,
    }


def make_app(settings: Settings) -> Celery:
    broker, prefix = broker_url(settings.redis_url), settings.key_prefix
    ours = {
        "amqp": "tjworker.worker.broker:AMQP",
        "control": "tjworker.worker.broker:Control",
        "events": "tjworker.worker.broker:Events",
    }
    app = Celery("tjworker", broker=broker, include=("tjworker.worker.tasks",), **ours)
    app.conf.update(
        # -- messages
        **queue_options(prefix),
        accept_content=["json"],
        task_serializer="json",
        event_serializer="json",
        event_exchange=f"{prefix}.events",
        event_queue_prefix=f"{prefix}.events",
        control_exchange=f"{prefix}.control",
        enable_utc=True,
        timezone="UTC",
        # -- tasks. Acknowledged when they begin: a killed worker's key comes back when its lease lapses (seconds), not
        # when the broker's visibility timeout ends (minutes).
        task_acks_late=False,
        task_ignore_result=True,
        # The watchdog. The limit itself is kept in the child (`child.time_limit`).
        task_time_limit=2 * settings.task_soft_time_limit_seconds,
        task_publish_retry=True,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2},
        # -- Flower reads these events; each carries its task's result. A "sent" event would double the cost of a
        # message for its publisher.
        worker_send_task_events=True,
        task_send_sent_event=False,
        **worker_options(),
        # -- Redis may be away at the start of a process and at any time later: wait for it, for ever.
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_transport_options=transport_options(),
        # kombu reads the URL. Flower's page "Broker" reads only this.
        broker_use_ssl=parse_url(broker).get("ssl"),
        # -- beat keeps no file: beat_schedule.py has the periods, and each task makes sure itself that it runs once.
        beat_scheduler="tjworker.worker.beat:Scheduler",
        beat_max_loop_interval=5,
    )
    # As text, loaded when it is needed: the schedule is above this module in the layers.
    app.config_from_object("beat_schedule", force=False)
    app.on_after_finalize.connect(_remove_built_in_tasks, weak=False)
    return app


def _remove_built_in_tasks(sender: Celery, **_: Any) -> None:
    # `celery.chain`, `celery.accumulate` and others. No process here sends them, but a client that can write to Redis
    # could make a worker run them.
    for name in [name for name in sender._tasks if name.startswith("celery.")]:
        del sender._tasks[name]


@setup_logging.connect  # type: ignore[untyped-decorator]
def _configure_logging(**_: Any) -> None:
    """Configure logging in place of Celery, which leaves it alone if this signal has a receiver."""
    configure_logging(settings_or_exit())


app = make_app(settings_or_exit())
if page_url := settings_or_exit().page_url:
    # Imported on demand: tornado is for Flower alone.
    from tjworker.telemetry.flower_link import link_flower

    link_flower(page_url)
