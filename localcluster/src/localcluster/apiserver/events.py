"""core/v1 Events seen through events.k8s.io/v1, and back: the same objects under other names. Pure."""

from __future__ import annotations

from localcluster.apiserver.errors import Causes
from localcluster.wire import Json

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_TO_CORE = {new: old for old, new in _TO_NEW.items()}


def from_core(event: Json) -> Json:
    renamed = {_TO_NEW.get(name, name): value for name, value in event.items()}
    shown = {
        name: value
        for name, value in renamed.items()
        if value != "" or name not in ("reportingController", "reportingInstance")
    }
    return shown | {"kind": "Event", "apiVersion": "events.k8s.io/v1"}


def to_core(event: Json) -> Json:
    renamed = {_TO_CORE.get(name, name): value for name, value in event.items()}
    return renamed | {"kind": "Event", "apiVersion": "v1"}


_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_LONGEST_NOTE_BYTES = 1024


def validate_new(event: Json, causes: Causes) -> None:
    """What events.k8s.io demands on top of core/v1. `event` is in its core form."""
    if not event.get("eventTime"):
        causes.required("eventTime")
    else:
        for name, shown in (("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")):
            if not event.get(name):
                causes.required(shown)
        for name in ("action", "reason"):
            if not event.get(name):
                causes.required(name)
        if len(event.get("message", "").encode()) > _LONGEST_NOTE_BYTES:
            causes.invalid("message", "", f"can have at most {_LONGEST_NOTE_BYTES} characters")
    if event.get("type") not in ("Normal", "Warning"):
        causes.invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(name):
            causes.invalid(name, "", "needs to be unset")


def validate_update(event: Json, old: Json, causes: Causes) -> None:
    """Allows a series to grow. What the event reports is immutable."""
    for name in _FIXED:
        if event.get(name) != old.get(name):
            causes.invalid(name, event.get(name), "field is immutable")
