"""Structured logs to stderr: one line for each decision that changed something, as text for people or as JSON.

Call `configure_logging` once per process; a second call does no harm. Then call
`structlog.get_logger(__name__).info("pod deleted", key=..., uid=..., token=...)`: a few words, and the facts as fields.
Lines that libraries log through `logging` have the same form.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import MutableMapping
from functools import partial
from typing import Any, TextIO

import structlog

from tjworker.base import printable
from tjworker.settings import Settings, unknown_variables

_TOO_TALKATIVE = {
    # Celery logs two lines per task, whether it changed anything or not. Flower shows tasks.
    "celery.worker.strategy": logging.WARNING,
    "celery.app.trace": logging.WARNING,
    "celery.beat": logging.WARNING,
    "urllib3": logging.WARNING,
    "kubernetes": logging.WARNING,
}
_SHARED: tuple[structlog.types.Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
_OURS: list[structlog.types.Processor] = [
    structlog.stdlib.filter_by_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    *_SHARED,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]
"""One list for the life of the process, since each logger keeps the list that its first line used."""
_LONGER = frozenset({"exc_info", "exception", "stack"})
"""Fields that need more than one line."""
_QUOTED = re.compile(r"[ \t=\r\n\"']")


def configure_logging(settings: Settings, *, stream: TextIO | None = None) -> None:
    target = stream or sys.stderr
    structlog.configure(
        processors=_OURS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    # No line shows threads and processes, so `logging` need not look them up.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_make_renderers(settings.log_format, target),
            ],
        )
    )
    root = logging.getLogger()
    # Replaced, not added: with the handler of a second call, or of Celery's own set-up, each line would come twice.
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name, level in _TOO_TALKATIVE.items():
        # With TJ_LOG_LEVEL=ERROR these loggers must not say more than the others.
        logging.getLogger(name).setLevel(max(level, logging.getLevelName(settings.log_level)))
    # Here, since every process configures its logging when it starts.
    for warning in unknown_variables(os.environ).values():
        structlog.get_logger(__name__).warning(warning)


def _make_renderers(log_format: str, target: TextIO) -> list[structlog.types.Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    # structlog's default, rich's tracebacks, prints local variables, secrets included. It also takes seconds of CPU for
    # one traceback: a worker that had lost Redis did not reconnect meanwhile.
    render = structlog.dev.ConsoleRenderer(colors=target.isatty(), pad_event_to=0, exception_formatter=_print_traceback)
    return [_without_escapes, render if target.isatty() else partial(_render_plain, render)]


def _render_plain(render: structlog.types.Processor, logger: Any, name: str, event: MutableMapping[str, Any]) -> Any:
    """The same line as from `render`, without columns and colours, for a third of the CPU."""
    if not event.keys().isdisjoint(_LONGER):
        return render(logger, name, event)
    parts = [event.pop(key, "") for key in ("timestamp", "level", "event", "logger")]
    line = "{} [{:<9}] {} [{}]".format(*parts)
    return " ".join([line, *(f"{key}={_show_value(event[key])}" for key in sorted(event))])


def _show_value(value: object) -> str:
    return value if isinstance(value, str) and not _QUOTED.search(value) else repr(value)


def _without_escapes(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # Names, messages and errors hold foreign text, which a terminal must not interpret. JSON escapes it itself. A value
    # that is not text is shown by its repr, which escapes.
    return {key: printable(value, keep="\n\t") if isinstance(value, str) else value for key, value in event.items()}


def _print_traceback(out: TextIO, error: Any) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    out.write(printable(text.getvalue(), keep="\n\t"))
