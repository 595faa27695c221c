"""`python -m tjworker.page`: serves the page at TJ_PAGE_HOST and TJ_PAGE_PORT until SIGTERM or SIGINT.

Any number of processes may run: each keeps only what it has read. While the API server or Redis is away, the page shows
its last data with their age.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

import structlog

from tjworker.base import Terminal
from tjworker.history.open import open_history
from tjworker.kube.configuration import load_configuration
from tjworker.page.access import Viewers
from tjworker.page.board import BoardReader
from tjworker.page.server import PageServer
from tjworker.page.site import OWN_NAMES, Site
from tjworker.settings import Settings, settings_or_exit
from tjworker.store.connect import client
from tjworker.store.errors import describe
from tjworker.store.redis_commands import RedisCommands
from tjworker.telemetry import metrics, scrape
from tjworker.telemetry.health import open_health
from tjworker.telemetry.logging import configure_logging

log = structlog.get_logger("page")


@dataclass(frozen=True, slots=True)
class _PageHealth:
    """The process is alive as long as it answers, and ready once it listens. An outage of Redis needs no restart."""

    ready: bool

    def problems(self) -> list[str]:
        return []

    def body(self) -> dict[str, Any]:
        return {"ready": self.ready, "problems": []}


def site_of(settings: Settings) -> Site:
    """The site of these settings. Raises Terminal if they are contradictory or unsafe."""
    own = settings.page_access == "kubeconfig"
    if settings.page_basic_auth and not own:
        raise Terminal("TJ_PAGE_BASIC_AUTH needs TJ_PAGE_ACCESS=kubeconfig: set that, or unset the password")
    # The header Host has an IPv6 address in brackets, the setting has none.
    if own and not settings.page_basic_auth and settings.page_host not in OWN_NAMES | {"::1"}:
        raise Terminal(
            f"TJ_PAGE_ACCESS=kubeconfig shows everybody who reaches TJ_PAGE_HOST={settings.page_host} what the"
            " kubeconfig may read; set TJ_PAGE_BASIC_AUTH=user:password, let it listen on 127.0.0.1, or set"
            " TJ_PAGE_ACCESS=token"
        )
    commands = RedisCommands(client(settings.redis_url), settings.key_prefix, where=describe(settings.redis_url))
    history = open_history(settings)
    return Site(
        BoardReader(commands, history),
        history,
        Viewers(load_configuration(), own=own, password=settings.page_basic_auth),
        gpu_resources=settings.gpu_resource_list,
        flower=settings.page_flower_url,
        history_seconds=settings.history_seconds,
    )


async def _serve(settings: Settings, site: Site, listening: list[bool]) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = settings.page_host, settings.page_port
    server = PageServer(site, host, port)
    try:
        server.listen()
    except OSError as error:
        log.error(f"TJ_PAGE_HOST={host} TJ_PAGE_PORT={port} cannot be opened: {error.strerror}; choose others")
        return 2
    listening.append(True)
    log.info("shows the page", host=host, port=server.port, access=settings.page_access)
    await stop.wait()
    log.info("leaving")
    await server.close()
    return 0


def main() -> int:
    settings = settings_or_exit()
    configure_logging(settings)
    listening: list[bool] = []
    try:
        site = site_of(settings)
    except Terminal as error:
        log.error(error.message)
        return 2
    try:
        health = open_health(settings, lambda: _PageHealth(bool(listening)))
    except OSError:
        return 2
    metrics.begin("page")
    scrape.serve(settings, site.samples)
    code = asyncio.run(_serve(settings, site, listening))
    if health is not None:
        health.stop()
    return code


if __name__ == "__main__":
    code = main()
    # Python would wait for its threads, and a silent Redis holds them for longer than a pod's grace period. They only
    # read, so they may be cut off.
    os._exit(code)
