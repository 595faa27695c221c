"""The scheduler of the local cluster: `Scheduler` is a step machine; filters, preemption and gangs are pure."""

from localcluster.scheduler.scheduler import SCHEDULER_NAMES, Scheduler

__all__ = ["SCHEDULER_NAMES", "Scheduler"]
