"""Every periodic task, one row each, and nothing else.

Each is single-flight (two beats do no harm), expires before its next run, and may run twice without effect.
"""

from __future__ import annotations

from tjworker.settings import OFF, settings_or_exit

_settings = settings_or_exit()

beat_schedule = {
    "resync": {
        "task": "tjworker.resync",
        "schedule": _settings.resync_seconds,
        "options": {"expires": 0.9 * _settings.resync_seconds},
    },
    "collect-orphans": {
        "task": "tjworker.collect_orphans",
        "schedule": _settings.collect_orphans_seconds,
        "options": {"expires": 0.9 * _settings.collect_orphans_seconds},
    },
}
if _settings.autoscale_policy != OFF:
    beat_schedule["autoscale"] = {
        "task": "tjworker.autoscale",
        "schedule": _settings.autoscale_seconds,
        "options": {"expires": 0.9 * _settings.autoscale_seconds},
    }
