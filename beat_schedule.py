"""Every periodic task, one row each, and nothing else.

Each is single-flight (two beats do no harm) and may run twice without effect. None expires: Celery would compare the
clock of the worker with that of beat, and a worker whose clock is ahead would run none of them. A tick that comes late,
behind a long queue or after workers were away, costs one look at Redis: `once` gives the period to the first.
"""

from __future__ import annotations

from tjworker.settings import OFF, settings_or_exit

_settings = settings_or_exit()

beat_schedule = {
    "resync": {"task": "tjworker.resync", "schedule": _settings.resync_seconds},
    "collect-orphans": {"task": "tjworker.collect_orphans", "schedule": _settings.collect_orphans_seconds},
}
if _settings.autoscale_policy != OFF:
    beat_schedule["autoscale"] = {"task": "tjworker.autoscale", "schedule": _settings.autoscale_seconds}
