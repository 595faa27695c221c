"""The scheduler of the local cluster: `Scheduler` is a step machine; filters, preemption and gangs are pure.

Serves: the line "The scheduler" of docs/local-cluster.md, and the simulation.
"""

from localcluster.scheduler.scheduler import SCHEDULER_NAMES, Scheduler

__all__ = ["SCHEDULER_NAMES", "Scheduler"]
