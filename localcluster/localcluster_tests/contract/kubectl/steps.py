"""One session with kubectl, step by step, on an API server without controllers. Each step's output is in `golden.txt`,
recorded from a real kube-apiserver."""

from __future__ import annotations

from dataclasses import dataclass

from localcluster_tests.contract.kubectl import manifests as m


@dataclass(frozen=True, slots=True)
class Step:
    args: str
    """After `kubectl`, split as a shell splits words."""
    stdin: str = ""


def apply(manifest: str, *flags: str) -> Step:
    return Step(" ".join(["apply", *flags, "-f", "-"]), manifest)


POD_STATUS = (
    '{"status":{"phase":"Running","podIP":"10.1.0.9","podIPs":[{"ip":"10.1.0.9"}],"hostIP":"10.0.0.1","startTime":"2024-01-01T00:00:00Z","conditions":'
    '[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"}],"containerStatuses":[{"name":"main","image":"web:1.2","imageID":"x",'
    '"ready":true,"started":true,"restartCount":2,"state":{"running":{"startedAt":"2024-01-01T00:00:00Z"}},"lastState":{"terminated":{"exitCode":1,'
    '"reason":"Error","finishedAt":"2024-01-01T00:00:00Z","startedAt":"2024-01-01T00:00:00Z"}}}]}}'
)
NODE_STATUS = (
    '{"status":{"capacity":{"cpu":"4","memory":"8Gi","pods":"110"},"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready",'
    '"status":"True","reason":"KubeletReady","message":"ok","lastHeartbeatTime":"2024-01-01T00:00:00Z","lastTransitionTime":"2024-01-01T00:00:00Z"}],'
    '"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"kubeletVersion":"v1.36.3","osImage":"Linux","kernelVersion":"6.1",'
    '"containerRuntimeVersion":"process://1","architecture":"amd64","bootID":"b","machineID":"m","systemUUID":"s","operatingSystem":"linux",'
    '"kubeProxyVersion":""}}}'
)
ROCKET_STATUS = (
    '{"status":{"phase":"Flying","message":"all '
    'well","engines":3,"conditions":[{"type":"Ready","status":"True","reason":"Lit"}]}}'
)


SESSION: tuple[Step, ...] = (
    Step("get namespaces"),
    Step("create namespace lab"),
    Step("create namespace lab"),
    Step("get all"),
    Step("get pods --namespace nowhere"),
    # -- pods
    apply(m.POD),
    apply(m.POD),
    apply(m.POD.replace("team: blue", "team: red")),
    apply(m.POD.replace("tier: front", "tier: back").replace("team: blue", "team: red")),
    Step("get pods"),
    Step("get pod web -o name"),
    Step("get pod web -o yaml"),
    Step("get pod web -o jsonpath={.spec.containers[0].image}"),
    Step("get pods -l app=web,tier!=front"),
    Step("get pods -l 'app in (a,b)'"),
    Step("get pods --field-selector status.phase=Pending,metadata.name=web"),
    Step("get pods --field-selector spec.foo=1"),
    Step("get pods -A --show-labels"),
    Step("get pod missing"),
    Step("get po/web --no-headers"),
    apply(m.NODE),
    Step(f"patch node n1 --subresource=status --type=merge -p '{NODE_STATUS}'"),
    Step("get nodes -o wide"),
    Step("create --raw /api/v1/namespaces/default/pods/web/binding -f -", m.as_json(m.BOUND)),
    Step("create --raw /api/v1/namespaces/default/pods/web/binding -f -", m.as_json(m.BOUND)),
    Step(f"patch pod web --subresource=status -p '{POD_STATUS}'"),
    apply(m.EVENT),
    Step("get pods -o wide"),
    Step("get events"),
    Step("events --for pod/web"),
    Step("describe pod web"),
    Step("describe node n1"),
    Step("label pod web size=big"),
    Step("label pod web size=small"),
    Step("label pod web size=small --overwrite"),
    Step("label pod web 'size=b d' --overwrite"),
    Step("annotate pod web note=hello"),
    Step('patch pod web -p \'{"spec":{"containers":[{"name":"main","image":"web:2"}]}}\''),
    Step('patch pod web -p \'{"spec":{"restartPolicy":"Never"}}\' --dry-run=server -o name'),
    Step('patch pod web --type=json -p \'[{"op":"replace","path":"/metadata/labels/size","value":"huge"}]\''),
    Step('patch pod web --type=merge -p \'{"metadata":{"labels":{"size":null}}}\''),
    Step("get pod web -o jsonpath={.metadata.labels}"),
    Step("wait --for=condition=Ready pod/web --timeout=60s"),
    Step("wait --for=jsonpath={.status.phase}=Running pod/web --timeout=60s"),
    Step("cordon n1"),
    Step("get nodes"),
    Step("uncordon n1"),
    Step("delete pod web --grace-period=0 --force"),
    Step("get pods"),
    # -- what people get wrong
    apply(m.POD.replace("name: web, labels", "name: Web, labels")),
    apply(m.POD.replace("image: registry.example.com/web:1.2", "imagee: x")),
    apply(m.POD.replace("    image: registry.example.com/web:1.2\n", "")),
    apply(m.POD.replace("containerPort: 80", 'containerPort: "80"')),
    apply(m.POD.replace("containerPort: 80", "containerPort: 99999")),
    apply(m.POD.replace("name: scratch, mountPath", "name: other, mountPath")),
    apply(m.POD.replace("cpu: 100m", "cpu: 3")),
    apply(m.POD.replace("cpu: 100m", "cpu: lots")),
    apply(m.POD.replace("app: web", "app: we b")),
    apply(m.POD.replace("name: web, labels", "name: web, namespace: nowhere, labels")),
    Step("create -f -", m.POD.replace("containers:", "restartPolicy: Sometimes\n  containers:")),
    # -- other kinds
    apply(m.SERVICE),
    Step("get services"),
    Step("get service web -o yaml"),
    apply(m.SERVICE.replace("ports: [{name: http, port: 80}]", "ports: [{port: 80}, {port: 81}]")),
    Step("create configmap settings --from-literal=a=1 --from-literal=b=2"),
    Step("get configmap settings -o yaml"),
    Step("get cm"),
    Step("describe configmap settings"),
    Step("create secret generic key --from-literal=token=abc"),
    Step("get secrets"),
    Step("get secret key -o jsonpath={.data.token}"),
    apply(m.REPLICASET),
    Step("get rs -o wide"),
    Step("scale rs/front --replicas=5"),
    Step("get rs"),
    apply(m.REPLICASET.replace("matchLabels: {app: front}", "matchLabels: {app: back}")),
    apply(m.JOB),
    Step("get jobs -o wide"),
    Step("get job sum -o yaml"),
    apply(m.JOB.replace("image: busybox", "image: alpine")),
    Step("create priorityclass high --value=1000 --description=first"),
    Step("get priorityclasses"),
    Step("get all"),
    # -- custom resources
    Step("get rockets"),
    apply(m.ROCKET),
    apply(m.CRD),
    Step("wait --for=condition=Established crd/rockets.space.example.com --timeout=60s"),
    Step("get crd"),
    Step("api-resources --api-group=space.example.com"),
    apply(m.ROCKET),
    apply(m.ROCKET),
    apply(m.ROCKET.replace("pilot: ann", "pilot: bob")),
    Step("get rockets"),
    Step("get rk -o wide"),
    Step("get fleet"),
    Step("get rocket falcon -o yaml"),
    Step("get rockets.v1alpha1.space.example.com falcon -o jsonpath={.apiVersion}"),
    Step(f"patch rocket falcon --subresource=status --type=merge -p '{ROCKET_STATUS}'"),
    Step("get rocket falcon -o wide"),
    Step("describe rocket falcon"),
    Step("wait --for=condition=Ready rocket/falcon --timeout=60s"),
    Step("wait --for=jsonpath={.status.phase}=Flying rocket/falcon --timeout=60s"),
    Step("wait --for=jsonpath={.status.phase}=Landed rocket/falcon --timeout=1s"),
    Step("scale rocket falcon --replicas=5"),
    Step("scale rocket falcon --replicas=12"),
    Step("get rocket falcon -o jsonpath={.spec.engines}:{.metadata.generation}"),
    apply(m.rocket(pilot="ann", foo=1)),
    apply(m.rocket(pilot="ann", engines="many")),
    apply(m.rocket(pilot="ann", engines=12)),
    apply(m.rocket(pilot="A")),
    apply(m.rocket(engines=2)),
    apply(m.rocket(pilot="ann", fuel="coal")),
    apply(m.rocket(pilot="ann", fuel="kerosene", engines=1)),
    apply(m.rocket(pilot="ann", stages=[{"name": "a"}, {"name": "a"}])),
    apply(m.rocket("Bad_Name", pilot="ann")),
    Step("create --validate=false -f -", m.rocket("loose", pilot="ann", foo=1)),
    Step("create --validate=warn -f -", m.rocket("warned", pilot="ann", foo=1)),
    Step("get rockets -o name"),
    Step("get rockets --sort-by=.metadata.name -o custom-columns=N:.metadata.name,E:.spec.engines"),
    # -- server-side apply
    apply(m.rocket("ssa", pilot="ann", engines=4), "--server-side"),
    apply(m.rocket("ssa", pilot="ann", engines=4), "--server-side"),
    apply(m.rocket("ssa", pilot="bob", engines=4), "--server-side", "--field-manager=other"),
    apply(m.rocket("ssa", pilot="bob", engines=4), "--server-side", "--field-manager=other", "--force-conflicts"),
    Step("get rocket ssa -o jsonpath={.spec.pilot}"),
    apply(m.POD, "--server-side"),
    apply(m.POD.replace("team: blue", "team: red"), "--server-side"),
    # -- the rest
    Step("explain rocket"),
    Step("explain pod.spec.containers.ports"),
    Step("create job once --image=busybox -- sleep 5"),
    Step("create service clusterip plain --tcp=80:8080"),
    Step("create serviceaccount robot"),
    Step("create role reader --verb=get,list --resource=pods"),
    Step("create rolebinding reads --role=reader --serviceaccount=default:robot"),
    Step("get role,rolebinding,serviceaccount"),
    Step("run shell --image=busybox --restart=Never -- sleep 5"),
    Step("get pod shell"),
    Step('patch rocket ssa --type=merge -p \'{"spec":{"foo":1}}\''),
    Step('patch pod shell -p \'{"spec":{"foo":1}}\''),
    Step("auth whoami"),
    Step("auth can-i create pods"),
    Step("apply -f - --dry-run=server", m.rocket("dry", pilot="ann")),
    Step("diff -f -", m.ROCKET.replace("pilot: ann", "pilot: zoe")),
    Step("replace -f -", m.ROCKET.replace("pilot: ann", "pilot: zoe")),
    Step("get events -n lab"),
    Step("delete rocket falcon missing"),
    Step("delete rockets -l tier=gold"),
    Step("delete rocket loose --cascade=foreground --wait=false"),
    Step("get rocket loose -o jsonpath={.metadata.finalizers}"),
    Step('patch rocket loose --type=merge -p \'{"metadata":{"finalizers":null}}\''),
    Step("wait --for=delete rocket/loose --timeout=60s"),
    Step("delete rockets --all"),
    Step("delete job sum --cascade=background"),
    Step("delete service,configmap --all"),
    Step("delete crd rockets.space.example.com"),
    Step("get rockets"),
    Step("delete pod web --wait=false"),
    Step("delete node n1"),
    Step("delete namespace default --wait=false"),
)
