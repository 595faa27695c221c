"""The users of Redis: the keys, channels and commands that each process needs, and no others.

`tj up` and docker-compose.yml take their users from here. k8s/secrets.sh runs without Python; a test compares its users
with these, and docs/redis.md shows them. Tests on a real Redis show that they suffice and allow nothing else
(tests/integration/test_redis_users.py, test_deployment_compose.py).

    REDIS_PASSWORD=... REDIS_TASKS_PASSWORD=... REDIS_PAGE_PASSWORD=... python -m tjworker.store.users
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

DATABASE = 0
"""kombu's channels, unlike keys, have the number of the database in their names."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    keys: tuple[str, ...]
    """`{p}` is the setting `key_prefix`. `%R~` begins a pattern of keys that may be read and not written."""
    channels: tuple[str, ...]
    commands: tuple[str, ...]

    def rule(self, password: str, prefix: str) -> str:
        """The line of an ACL file. `password`: `>plain`, `#sha256` or `nopass`."""
        # Rules for reading alone (`%R~`) came with Redis 7.0, which is the oldest version that is supported.
        keys = [key if key.startswith("%") else f"~{key}" for key in self.keys] or ["resetkeys"]
        channels = [f"&{channel}" for channel in self.channels]
        # With `resetchannels`, because the server's default for new users may allow every channel.
        words = ["user", self.name, "on", password, *keys, "resetchannels", *channels, *self.commands]
        return " ".join(words).replace("{p}", prefix)


_MESSAGES = ("{p}", "{p}???", "{p}.*", "_kombu*", "*.{p}.control.pidbox*")
"""kombu's queues (for each priority another one, whose name has three more characters), its bindings, and the mailboxes
of the remote control."""
_CONTROL, _EVENTS = f"/{DATABASE}.{{p}}.control.pidbox", f"/{DATABASE}.{{p}}.events/*"
_NEVER = ("-@admin", "-@dangerous", "-randomkey", "-client|tracking")
"""Client tracking would send a user the names of all keys that change, also of those it may not read."""

OPERATOR = User(
    "tj",
    (*_MESSAGES, "{p}:*"),
    # PSUBSCRIBE needs a rule that equals its pattern, letter by letter.
    (_CONTROL, _EVENTS, f"/{DATABASE}.{{p}}.events/worker.*"),
    # Redis counts INFO as @dangerous, but the history reads maxmemory with it, and `tj doctor` the version. SCRIPT KILL
    # and FLUSH would let a leaked password stop the scripts of all others.
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
"""Beat and Flower, which only send and read messages. kombu's bindings need EVALSHA."""

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
"""The page. It reads the projection, the queue's numbers and the history, and writes nothing."""

PASSWORDS = ("REDIS_PASSWORD", "REDIS_TASKS_PASSWORD", "REDIS_PAGE_PASSWORD")
"""Environment variables of docker-compose.yml's users."""

# A probe's command is in the pod's spec, where each reader of pods would see a password.
PROBE = User("probe", (), (), ("-@all", "+ping"))


def acl(prefix: str, operator: str, tasks: str, page: str = "") -> list[str]:
    """The lines of an ACL file with these passwords. `page` '': without a user for the page."""
    return [
        "user default off",
        PROBE.rule("nopass", prefix),
        OPERATOR.rule(operator, prefix),
        TASKS.rule(tasks, prefix),
        *([PAGE.rule(page, prefix)] if page else []),
    ]


def acl_of_environment(environment: Mapping[str, str]) -> list[str]:
    """The ACL file for the passwords in PASSWORDS. Raises ValueError if one is missing or has other characters than
    letters, digits, `-` and `_`."""
    passwords = []
    for name in PASSWORDS:
        password = environment.get(name, "")
        # An ACL file splits at blanks, and a URL at `@`, `/` and others.
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
