"""The Celery app: `celery -A tjworker.app worker | beat | flower`. Settings only; it decides nothing and connects to nothing.

Importing it reads the environment (a wrong `TJ_*` ends the process with one line) and no decision: tasks are named by
text and imported by the worker alone.

A task is a hint. Every message may be lost, doubled or late: the work queue in `store/` says what is to be done, and the
resync publishes again what was lost (docs/adr/0004-work-queue-over-celery.md).
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import setup_logging

from tjworker import broker
from tjworker.settings import Settings, settings_or_exit
from tjworker.telemetry.logging import configure_logging


def transport_options() -> dict[str, Any]:
    """How kombu talks to Redis. Every wait is bounded, so that a Redis that is silent is noticed like one that is gone."""
    return {
        # Two Redis calls a task less. kombu's record of fetched messages would bring back those of a worker that died, after
        # minutes; the resync does so in seconds, and finds those that were lost on the way as well (ADR 4).
        "ack_emulation": False,
        "socket_timeout": 8,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }


def broker_url(redis_url: str) -> str:
    """The same Redis for kombu. Of `rediss://` alone kombu makes TLS without a look at the certificate, so that anybody in
    between gets the password; redis-py, which the store uses, verifies. Whoever wants less says so (`ssl_cert_reqs=none`)."""
    if not redis_url.startswith("rediss://") or "ssl_cert_reqs=" in redis_url:
        return redis_url
    return f"{redis_url}{'&' if '?' in redis_url else '?'}ssl_cert_reqs=required"


def make_app(settings: Settings) -> Celery:
    broker.register()
    app = Celery("tjworker", broker=broker_url(settings.redis_url), include=("tjworker.tasks",))
    prefix = settings.key_prefix
    app.conf.update(
        # -- messages
        task_default_queue=prefix,
        accept_content=["json"],
        task_serializer="json",
        event_serializer="json",
        event_exchange=f"{prefix}.events",
        event_queue_prefix=f"{prefix}.events",
        control_exchange=f"{prefix}.control",
        enable_utc=True,
        timezone="UTC",
        # -- tasks. Acknowledged when they begin: what a killed worker held comes back when its lease lapses (seconds), not
        # when the broker's visibility timeout ends (minutes).
        task_acks_late=False,
        task_ignore_result=True,
        task_soft_time_limit=settings.task_soft_time_limit_seconds,
        task_time_limit=2 * settings.task_soft_time_limit_seconds,
        task_publish_retry=True,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2},
        # -- Flower reads these events; a task's result stands in its own event. A "sent" event would double the cost of
        # each message for its publisher.
        worker_send_task_events=True,
        task_send_sent_event=False,
        # -- workers
        worker_consumer="tjworker.consumer:Consumer",  # by name: only a worker loads it
        worker_prefetch_multiplier=1,
        # Not even one: a task that a worker has fetched while it is busy waits for that pass, be it the creation of 500 pods,
        # though others are free.
        worker_disable_prefetch=True,
        worker_max_memory_per_child=400_000,  # KiB
        worker_proc_alive_timeout=60,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,  # late acknowledgement only; False warns at each loss
        # -- Redis may be away when a process starts and whenever it likes: wait for it, for ever.
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_transport_options=transport_options(),
        # -- beat keeps no file: what is due is a row of beat_schedule.py, and each task is single-flight by itself.
        beat_scheduler="celery.beat:Scheduler",
        beat_max_loop_interval=5,
    )
    # By name and only when it is needed: the schedule is above this module in the house.
    app.config_from_object("beat_schedule", force=False)
    return app


@setup_logging.connect  # type: ignore[untyped-decorator]
def _configure_logging(**_: Any) -> None:
    """Celery's own set-up of logging steps aside when somebody listens here."""
    configure_logging(settings_or_exit())


app = make_app(settings_or_exit())
