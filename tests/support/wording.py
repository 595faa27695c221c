"""A word list against prose that reads as translated. `make check` holds it in the rooms that are rewritten.

Looks at docstrings, comments and messages, and at names that are one of the words. To add a room, rewrite it and add
its path to ROOMS.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.paths import ROOT

ROOMS = (
    "tjstack/src/tjstack/__init__.py",
    "tjstack/src/tjstack/demo.py",
    "tjstack/src/tjstack/flower.py",
    "tjstack/src/tjstack/live.py",
    "tjstack/src/tjstack/local.py",
    "tjstack/src/tjstack/lock.py",
    "tjstack/src/tjstack/logfile.py",
    "tjstack/src/tjstack/options.py",
    "tjstack/src/tjstack/overview.py",
    "tjstack/src/tjstack/paths.py",
    "tjstack/src/tjstack/ports.py",
    "tjstack/src/tjstack/probes.py",
    "tjstack/src/tjstack/processes.py",
    "tjstack/src/tjstack/redis_server.py",
    "tjstack/src/tjstack/reporter.py",
    "tjstack/src/tjstack/services.py",
    "tjstack/src/tjstack/story.py",
    "tjstack/src/tjstack/summary.py",
    "tjstack/src/tjstack/supervisor.py",
    "tjstack/src/tjstack/up.py",
    "tjstack/src/tjstack/warden.py",
    "tjworker/api/needs.py",
    "tjworker/app.py",
    "tjworker/autoscale/__init__.py",
    "tjworker/autoscale/choice.py",
    "tjworker/autoscale/cluster.py",
    "tjworker/autoscale/decide.py",
    "tjworker/autoscale/donors.py",
    "tjworker/autoscale/dryrun.py",
    "tjworker/autoscale/fitting.py",
    "tjworker/autoscale/fleet.py",
    "tjworker/autoscale/jobs.py",
    "tjworker/autoscale/obstacle.py",
    "tjworker/autoscale/outlook.py",
    "tjworker/autoscale/policies/__init__.py",
    "tjworker/autoscale/policies/by_speed.py",
    "tjworker/autoscale/policies/fair.py",
    "tjworker/autoscale/policies/fulfillment.py",
    "tjworker/autoscale/policies/goodput.py",
    "tjworker/autoscale/policies/throughput.py",
    "tjworker/autoscale/policies/words.py",
    "tjworker/autoscale/problem.py",
    "tjworker/autoscale/resources.py",
    "tjworker/autoscale/roles.py",
    "tjworker/autoscale/rules.py",
    "tjworker/autoscale/sharing.py",
    "tjworker/autoscale/size_words.py",
    "tjworker/autoscale/speed.py",
    "tjworker/autoscale/state.py",
    "tjworker/autoscale/step_time.py",
    "tjworker/autoscale/together.py",
    "tjworker/autoscale/trial.py",
    "tjworker/base.py",
    "tjworker/beat.py",
    "tjworker/broker.py",
    "tjworker/child.py",
    "tjworker/clock.py",
    "tjworker/collector.py",
    "tjworker/consumer.py",
    "tjworker/controllers/autoscaler.py",
    "tjworker/controllers/concurrent.py",
    "tjworker/controllers/facts.py",
    "tjworker/controllers/isolation.py",
    "tjworker/controllers/jobs.py",
    "tjworker/controllers/live_children.py",
    "tjworker/controllers/live_nodes.py",
    "tjworker/controllers/observing.py",
    "tjworker/controllers/optional_objects.py",
    "tjworker/controllers/orphans.py",
    "tjworker/controllers/pass_end.py",
    "tjworker/controllers/release.py",
    "tjworker/controllers/resync.py",
    "tjworker/executor.py",
    "tjworker/history/__init__.py",
    "tjworker/history/migrations/__init__.py",
    "tjworker/history/migrations/env.py",
    "tjworker/history/migrations/versions/v0001_jobs_and_parts.py",
    "tjworker/history/open.py",
    "tjworker/history/parts.py",
    "tjworker/history/records.py",
    "tjworker/history/redis_history.py",
    "tjworker/history/sql_history.py",
    "tjworker/history/store.py",
    "tjworker/history/tables.py",
    "tjworker/kube/client.py",
    "tjworker/kube/configuration.py",
    "tjworker/kube/connections.py",
    "tjworker/kube/decode.py",
    "tjworker/kube/errors.py",
    "tjworker/kube/http1.py",
    "tjworker/kube/list_backoff.py",
    "tjworker/kube/port.py",
    "tjworker/kube/rbac.py",
    "tjworker/kube/reflector.py",
    "tjworker/kube/resources.py",
    "tjworker/kube/transport.py",
    "tjworker/lease.py",
    "tjworker/mpi_agent.py",
    "tjworker/namespace_policies.py",
    "tjworker/page/__init__.py",
    "tjworker/page/__main__.py",
    "tjworker/page/access.py",
    "tjworker/page/board.py",
    "tjworker/page/places.py",
    "tjworker/page/server.py",
    "tjworker/page/shared.py",
    "tjworker/page/site.py",
    "tjworker/page/streams.py",
    "tjworker/page/views.py",
    "tjworker/priorities.py",
    "tjworker/publisher.py",
    "tjworker/reconcile/__init__.py",
    "tjworker/reconcile/addons/__init__.py",
    "tjworker/reconcile/addons/addon.py",
    "tjworker/reconcile/addons/hostnetwork.py",
    "tjworker/reconcile/addons/reports.py",
    "tjworker/reconcile/addons/tensorboard.py",
    "tjworker/reconcile/children.py",
    "tjworker/reconcile/conditions.py",
    "tjworker/reconcile/confirm.py",
    "tjworker/reconcile/converge.py",
    "tjworker/reconcile/core.py",
    "tjworker/reconcile/ending.py",
    "tjworker/reconcile/failures.py",
    "tjworker/reconcile/first_status.py",
    "tjworker/reconcile/frameworks/__init__.py",
    "tjworker/reconcile/frameworks/any.py",
    "tjworker/reconcile/frameworks/framework.py",
    "tjworker/reconcile/frameworks/jax.py",
    "tjworker/reconcile/frameworks/mars.py",
    "tjworker/reconcile/frameworks/mpi.py",
    "tjworker/reconcile/frameworks/mpi_guest.py",
    "tjworker/reconcile/frameworks/paddle.py",
    "tjworker/reconcile/frameworks/pytorch.py",
    "tjworker/reconcile/frameworks/tensorflow.py",
    "tjworker/reconcile/frameworks/xdl.py",
    "tjworker/reconcile/frameworks/xgboost.py",
    "tjworker/reconcile/gangs/__init__.py",
    "tjworker/reconcile/gangs/gang.py",
    "tjworker/reconcile/gangs/kubernetes.py",
    "tjworker/reconcile/gangs/room.py",
    "tjworker/reconcile/gangs/scheduler_plugins.py",
    "tjworker/reconcile/gangs/volcano.py",
    "tjworker/reconcile/large_spec.py",
    "tjworker/reconcile/nodes.py",
    "tjworker/reconcile/one_pass.py",
    "tjworker/reconcile/orphans.py",
    "tjworker/reconcile/outcome.py",
    "tjworker/reconcile/peers.py",
    "tjworker/reconcile/phase.py",
    "tjworker/reconcile/plan.py",
    "tjworker/reconcile/policies/annotations.py",
    "tjworker/reconcile/policies/backoff.py",
    "tjworker/reconcile/policies/clean.py",
    "tjworker/reconcile/policies/completion.py",
    "tjworker/reconcile/policies/controller_managed.py",
    "tjworker/reconcile/policies/creating.py",
    "tjworker/reconcile/policies/died_passes.py",
    "tjworker/reconcile/policies/late_failures.py",
    "tjworker/reconcile/policies/limits.py",
    "tjworker/reconcile/policies/restart/__init__.py",
    "tjworker/reconcile/policies/restart/always.py",
    "tjworker/reconcile/policies/restart/exit_code.py",
    "tjworker/reconcile/policies/restart/never.py",
    "tjworker/reconcile/policies/restart/on_failure.py",
    "tjworker/reconcile/policies/restart/on_node_fail.py",
    "tjworker/reconcile/policies/restart/on_node_fail_with_exit_code.py",
    "tjworker/reconcile/policies/restart/rule.py",
    "tjworker/reconcile/policies/stuck_deletion.py",
    "tjworker/reconcile/refusals.py",
    "tjworker/reconcile/replicas.py",
    "tjworker/reconcile/rests.py",
    "tjworker/reconcile/rules.py",
    "tjworker/reconcile/slots.py",
    "tjworker/reconcile/spec_errors.py",
    "tjworker/reconcile/suspend.py",
    "tjworker/reconcile/unusable.py",
    "tjworker/reconcile/views.py",
    "tjworker/reconcile/volumes.py",
    "tjworker/reconcile/workloads/__init__.py",
    "tjworker/reconcile/workloads/environment.py",
    "tjworker/reconcile/workloads/files.py",
    "tjworker/reconcile/workloads/job.py",
    "tjworker/reconcile/workloads/jobwide.py",
    "tjworker/reconcile/workloads/owner.py",
    "tjworker/reconcile/workloads/podbody.py",
    "tjworker/reconcile/workloads/replacements.py",
    "tjworker/reconcile/workloads/replicaset.py",
    "tjworker/references.py",
    "tjworker/reports/__init__.py",
    "tjworker/reports/__main__.py",
    "tjworker/reports/desk.py",
    "tjworker/reports/rights.py",
    "tjworker/reports/server.py",
    "tjworker/reports/tokens.py",
    "tjworker/runtime.py",
    "tjworker/scope.py",
    "tjworker/secret_content.py",
    "tjworker/settings.py",
    "tjworker/simulate/__init__.py",
    "tjworker/simulate/cluster.py",
    "tjworker/simulate/pollux.py",
    "tjworker/simulate/results.py",
    "tjworker/simulate/run.py",
    "tjworker/simulate/speed.py",
    "tjworker/simulate/traces.py",
    "tjworker/store/projection.py",
    "tjworker/store/redis_commands.py",
    "tjworker/store/redis_projection.py",
    "tjworker/store/redis_work_queue.py",
    "tjworker/store/scripts/acquire.lua",
    "tjworker/store/scripts/add.lua",
    "tjworker/store/scripts/add_after.lua",
    "tjworker/store/scripts/apply.lua",
    "tjworker/store/scripts/apply_node_requests.lua",
    "tjworker/store/scripts/apply_nodes.lua",
    "tjworker/store/scripts/children.lua",
    "tjworker/store/scripts/common.lua",
    "tjworker/store/scripts/distrust.lua",
    "tjworker/store/scripts/finish.lua",
    "tjworker/store/scripts/free.lua",
    "tjworker/store/scripts/lead.lua",
    "tjworker/store/scripts/mark_children.lua",
    "tjworker/store/scripts/mark_synced.lua",
    "tjworker/store/scripts/note_rest.lua",
    "tjworker/store/scripts/raise_min_observed.lua",
    "tjworker/store/scripts/renew.lua",
    "tjworker/store/scripts/repair.lua",
    "tjworker/store/scripts/repair_queue.lua",
    "tjworker/store/scripts/reset.lua",
    "tjworker/store/scripts/resync.lua",
    "tjworker/store/scripts/stats.lua",
    "tjworker/store/scripts/take_due.lua",
    "tjworker/store/seal.py",
    "tjworker/store/sealed_store.py",
    "tjworker/store/work_queue.py",
    "tjworker/stragglers.py",
    "tjworker/tasks.py",
    "tjworker/telemetry/events.py",
    "tjworker/telemetry/flower_link.py",
    "tjworker/telemetry/health.py",
    "tjworker/telemetry/job_metrics.py",
    "tjworker/telemetry/logging.py",
    "tjworker/telemetry/redis_outage.py",
    "tjworker/telemetry/scrape.py",
    "tjworker/telemetry/worker_health.py",
    "tjworker/threads.py",
    "watcher/books.py",
    "watcher/cluster_id.py",
    "watcher/delay_queue.py",
    "watcher/event_queue.py",
    "watcher/feed.py",
    "watcher/gauges.py",
    "watcher/health.py",
    "watcher/historian.py",
    "watcher/isolation.py",
    "watcher/known_objects.py",
    "watcher/leader.py",
    "watcher/node_requests.py",
    "watcher/node_wakeups.py",
    "watcher/outage.py",
    "watcher/progress.py",
    "watcher/projection/__init__.py",
    "watcher/projection/base.py",
    "watcher/projection/jobs.py",
    "watcher/projection/nodes.py",
    "watcher/projection_writer.py",
    "watcher/projector.py",
    "watcher/redis_retry.py",
    "watcher/repairs.py",
    "watcher/resume.py",
    "watcher/sweep.py",
    "watcher/term.py",
)
WORDS: Mapping[str, str] = {
    r"told|tells?": "reported, says, shows; or name what is returned",
    r"nobody": "no + the noun: no worker, no watcher",
    r"whoever": "the noun: the caller, the user, the executor",
    r"anew": "again; or say what starts from zero",
    r"of ours|of theirs": "the owner: the operator's own, the job's",
    r"beside": "concurrently, besides, optional, next to",
    r"stands?": "is, means, applies",
    r"let be": "left alone, not deleted",
    r"who has": "the noun and a verb",
    r"for so long|so many a|so old": "the number's name: the seconds, the limit",
    r"one a (process|pass|term|task|job)": "one per",
    r"hangs? on": "depends on",
    r"keeps? (the|no) others?": "block, hold back",
    r"comes? of it|becomes? of": "say what happens",
}
_WORD = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
_OPENING = re.compile(r"(Of|As|Where|Such|Those|Whose|Whether) ")
"""A docstring that opens so lacks its subject: "Of the plan." """


def find_old_manner(name: str, source: str) -> list[str]:
    """`FILE:LINE: what is found, and what to write instead` for each place in a Python or Lua file."""
    prose = _lua_comments(source) if name.endswith(".lua") else _python_prose(source)
    found = []
    for line, text, is_docstring in prose:
        for match in _WORD.finditer(text):
            better = next(b for word, b in WORDS.items() if re.fullmatch(word, match[0], re.IGNORECASE))
            found.append(f"{name}:{line}: {match[0]!r} -> {better}")
        if is_docstring and (opening := _OPENING.match(text)):
            found.append(f"{name}:{line}: a docstring opens with {opening[1]!r} -> begin with the subject, or a verb")
    return found


def _lua_comments(source: str) -> Iterator[tuple[int, str, bool]]:
    for line, text in enumerate(source.splitlines(), 1):
        _, dashes, comment = text.partition("--")
        if dashes:
            yield line, comment, False


def _python_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a docstring): comments, docstrings, strings of several words, and whole names."""
    documented = {
        node.value.lineno: node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for line, text in documented.items():
        # Names of code in a docstring are checked where they are defined.
        yield line, re.sub(r"`[^`]*`", "", text), True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        is_message = token.type == tokenize.STRING and line not in documented and " " in token.string
        if is_message or token.type in (tokenize.COMMENT, tokenize.NAME):
            yield line, token.string, False


def check(root: Path = ROOT) -> list[str]:
    return [place for room in ROOMS for place in find_old_manner(room, (root / room).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    places = check()
    sys.exit("\n".join(("wording:", *places)) if places else 0)
