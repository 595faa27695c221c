"""Redis' users: which keys, channels and commands each process needs there, and no other. The only place that says so.

`tj up` and docker-compose.yml take their users from here; those of k8s/secrets.sh, which runs without Python, are
compared with it by a test, and docs/redis.md shows it. That it is enough, and nothing else allowed, is measured on
a real Redis (tests/integration/test_redis_users.py).

    REDIS_PASSWORD=... REDIS_TASKS_PASSWORD=... REDIS_PAGE_PASSWORD=... python -m tjworker.store.users
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

DATABASE = 0
"""Channels, other than keys, have the number of the database in their names (kombu's)."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    keys: tuple[str, ...]
    """`{p}` is the setting `key_prefix`. `%R~` begins a pattern of keys that may be read and not written."""
    channels: tuple[str, ...]
    commands: tuple[str, ...]

    def rule(self, password: str, prefix: str) -> str:
        """The line of an ACL file. `password`: `>plain`, `#sha256` or `nopass`."""
        keys = [key if key.startswith("%") else f"~{key}" for key in self.keys] or ["resetkeys"]
        channels = [f"&{channel}" for channel in self.channels]
        # Said first, whatever the server's default for new users is.
        words = ["user", self.name, "on", password, *keys, "resetchannels", *channels, *self.commands]
        return " ".join(words).replace("{p}", prefix)


_MESSAGES = ("{p}", "{p}???", "{p}.*", "_kombu*", "*.{p}.control.pidbox*")
"""kombu's queues (one more for each priority, with three characters behind the name), its bindings, and the mailboxes
of the remote control."""
_CONTROL, _EVENTS = f"/{DATABASE}.{{p}}.control.pidbox", f"/{DATABASE}.{{p}}.events/*"
_NEVER = ("-@admin", "-@dangerous", "-randomkey", "-client|tracking")
"""Tracking tells the names of all keys that change, whatever a user may read."""

OPERATOR = User(
    "tj",
    (*_MESSAGES, "{p}:*"),
    # Whoever listens to a pattern needs a rule that is that pattern, letter by letter.
    (_CONTROL, _EVENTS, f"/{DATABASE}.{{p}}.events/worker.*"),
    ("+@all", *_NEVER, "-script", "-function", "-fcall", "-fcall_ro", "+script|load", "+script|exists", "+info"),
)
"""Watcher and workers."""

TASKS = User(
    "tj-tasks",
    _MESSAGES,
    (_CONTROL, _EVENTS),
    (
        *("-@all", "+@connection", "+@transaction", "+@pubsub", "+@list", "+@set", "+@sortedset"),
        *("+del", "+exists", "+time", "+evalsha", "+script|load", "+script|exists", *_NEVER),
    ),
)
"""Beat and Flower: messages alone. kombu's bindings need a script, so that they cannot do without any."""

PAGE = User(
    "tj-page",
    ("%R~{p}:*",),
    (),
    (
        *("-@all", "+@connection", "+time", "+evalsha", "+script|load", "+script|exists"),
        *("+get", "+mget", "+hget", "+hmget", "+hgetall", "+hlen", "+sscan", "+scard"),
        *("+zrange", "+zrangebyscore", "+zcard", "+zcount", *_NEVER),
    ),
)
"""The page reads the projection, the queue's numbers and the history, and writes nothing."""

PASSWORDS = ("REDIS_PASSWORD", "REDIS_TASKS_PASSWORD", "REDIS_PAGE_PASSWORD")
"""Environment variables of docker-compose.yml's users."""

PROBE = User("probe", (), (), ("-@all", "+ping"))


def acl(prefix: str, operator: str, tasks: str, page: str = "") -> list[str]:
    """An ACL file, with these passwords. `page` '': without a user for the page."""
    return [
        "user default off",
        PROBE.rule("nopass", prefix),
        OPERATOR.rule(operator, prefix),
        TASKS.rule(tasks, prefix),
        *([PAGE.rule(page, prefix)] if page else []),
    ]


def acl_of_environment(environment: Mapping[str, str]) -> list[str]:
    """The ACL file for the passwords in PASSWORDS. Raises ValueError for a password that is missing, or that an ACL
    file or a URL would read as something else."""
    passwords = []
    for name in PASSWORDS:
        password = environment.get(name, "")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", password):
            problem = "holds other characters" if password else "is not set"
            raise ValueError(f"{name} {problem}: set it in .env, to letters and digits only")
        passwords.append(f">{password}")
    return acl("tj", *passwords)


if __name__ == "__main__":
    try:
        lines = acl_of_environment(os.environ)
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write("\n".join(lines) + "\n")
