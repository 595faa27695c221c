"""The objects that the kubectl sessions work on."""

from __future__ import annotations

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rockets.space.example.com}
spec:
  group: space.example.com
  names: {kind: Rocket, plural: rockets, shortNames: [rk], categories: [fleet]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: Engines, type: integer, jsonPath: .spec.engines, description: How many engines.}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    - {name: Message, type: string, jsonPath: .status.message, priority: 1}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.engines, statusReplicasPath: .status.engines, labelSelectorPath: .status.selector}
    schema: &schema
      openAPIV3Schema:
        type: object
        description: Rocket flies.
        required: [spec]
        properties:
          spec:
            type: object
            description: What to build.
            required: [pilot]
            properties:
              pilot: {type: string, minLength: 2, pattern: "^[a-z]+$", description: Who flies it.}
              engines: {type: integer, format: int32, minimum: 1, maximum: 9, default: 3, description: How many engines.}
              fuel: {type: string, enum: [kerosene, methane], default: methane}
              stages:
                type: array
                maxItems: 3
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, thrust: {type: integer}}}
              notes: {type: object, additionalProperties: {type: string}}
            x-kubernetes-validations:
            - {rule: "self.engines >= 2 || self.fuel == 'methane'", message: "a single engine burns methane"}
          status:
            type: object
            properties:
              phase: {type: string}
              message: {type: string}
              engines: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}, reason: {type: string}}}
  - name: v1alpha1
    served: true
    storage: false
    subresources: {status: {}}
    schema: *schema
"""  # noqa: E501

ROCKET = """
apiVersion: space.example.com/v1
kind: Rocket
metadata: {name: falcon, labels: {tier: gold}}
spec: {pilot: ann, stages: [{name: one, thrust: 5}, {name: two}]}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, tier: front}, annotations: {team: blue}}
spec:
  containers:
  - name: main
    image: registry.example.com/web:1.2
    command: [serve, --port=80]
    ports: [{name: http, containerPort: 80}]
    env: [{name: MODE, value: fast}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "0.5", memory: 128Mi}}
    readinessProbe: {httpGet: {port: http}}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
"""

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80}]}
"""

REPLICASET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: front}
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec: {containers: [{name: main, image: web}]}
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  parallelism: 3
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [sum]}]}
"""

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, node-role.kubernetes.io/worker: ""}}
spec: {taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
"""

EVENT = """
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: default}
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: default}
reason: Scheduled
message: Successfully assigned default/web to n1
type: Normal
count: 1
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-01T00:00:00Z"
source: {component: default-scheduler}
"""

BOUND = """
apiVersion: v1
kind: Binding
metadata: {name: web, namespace: default}
target: {apiVersion: v1, kind: Node, name: n1}
"""


def rocket(name: str = "bad", **spec: object) -> str:
    import json

    return json.dumps(
        {"apiVersion": "space.example.com/v1", "kind": "Rocket", "metadata": {"name": name}, "spec": spec}
    )


def as_json(manifest: str) -> str:
    import json

    import yaml

    return json.dumps(yaml.safe_load(manifest))
