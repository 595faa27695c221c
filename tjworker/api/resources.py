"""Names of the resources that decisions are about, as Kubernetes' GroupResource prints them: `pods`, `jobs.batch`.

Pure data. The group distinguishes resources of one plural; `tjworker.kube.resources` has the versions. The names of the
job kinds are with the kinds (`tjworker.api.kinds`).
"""

from __future__ import annotations

from tjworker.base import GroupResource

PODS = GroupResource("pods")
SERVICES = GroupResource("services")
REPLICASETS = GroupResource("replicasets.apps")
BATCH_JOBS = GroupResource("jobs.batch")
NODES = GroupResource("nodes")
SECRETS = GroupResource("secrets")
CLAIMS = GroupResource("persistentvolumeclaims")
EVENTS = GroupResource("events")
NAMESPACES = GroupResource("namespaces")
LEASES = GroupResource("leases.coordination.k8s.io")
PRIORITYCLASSES = GroupResource("priorityclasses.scheduling.k8s.io")
POD_GROUPS = GroupResource("podgroups.scheduling.k8s.io")
"""The PodGroups of Kubernetes' own scheduler."""
VOLCANO_POD_GROUPS = GroupResource("podgroups.scheduling.volcano.sh")
COSCHEDULING_POD_GROUPS = GroupResource("podgroups.scheduling.x-k8s.io")
"""The PodGroups of the scheduler-plugins' coscheduling."""
ALL_POD_GROUPS = (POD_GROUPS, VOLCANO_POD_GROUPS, COSCHEDULING_POD_GROUPS)
"""A setting chooses one of them, or none."""
