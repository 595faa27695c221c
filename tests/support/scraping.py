"""A page of metrics as Prometheus reads it: with the client library's own parser."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.support.waiting import PATIENCE_SECONDS


@dataclass(frozen=True)
class Scraped:
    name: str
    labels: Mapping[str, str]
    value: float


def scrape(port: int) -> list[Scraped]:
    """The metrics; empty while no process listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, f"/metrics of port {port} answers {answer.status}: {text[:2000]}"
        return list(parse(text))
    except OSError:
        return []
    finally:
        connection.close()


def parse(text: str) -> Iterator[Scraped]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield Scraped(sample.name, sample.labels, sample.value)


def value(found: list[Scraped], name: str, **labels: str) -> float:
    """The sum of those that have these labels."""
    return sum(one.value for one in found if one.name == name and labels.items() <= one.labels.items())
