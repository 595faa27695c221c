"""A real node beside the real control plane: containerd, runc, Debian's CNI plug-ins and a kubelet, for root on Linux.

Several nodes share one machine: each has its own folder, containerd, network bridge, node address and root cgroup.
Nothing is left: `stop` kills what runs in the cgroup, unmounts what lies below the folder and removes bridge and rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from controlplane import ControlPlane
from controlplane.credentials import User
from controlplane.process import Process
from tests.cluster import network
from tests.cluster.images import PAUSE, Archive
from tests.e2e.control_plane.install import kubectl
from tests.support.waiting import until

Json = dict[str, Any]
CGROUPS = Path("/sys/fs/cgroup")
PLUGINS = Path("/usr/lib/cni")
NEEDED_PLUGINS = ("bridge", "host-local", "loopback")
NEEDED_PROGRAMS = ("containerd", "ctr", "runc", "ip", "iptables")
LOGS = Path("/var/log/containers")
"""Where every kubelet puts links to logs, whatever its folder is."""
JOIN_SECONDS = 300.0
LEAST_FREE = "5%"
"""Of the disk; a node with less evicts pods."""
FREE_AT_START = 0.15
"""The images of the tests take some of it."""
_PACKAGES = "apt-get install containerd runc containernetworking-plugins iproute2 iptables"


class NoNodeError(Exception):
    """What this machine lacks for a node, and how to get it."""


def check_machine() -> None:
    """Raises NoNodeError."""
    if os.geteuid() != 0:
        raise NoNodeError("a kubelet needs root: run it again as root")
    lacking = [name for name in NEEDED_PROGRAMS if shutil.which(name) is None]
    lacking += [name for name in NEEDED_PLUGINS if not (PLUGINS / name).exists()]
    if lacking:
        raise NoNodeError(f"{', '.join(lacking)} not found: {_PACKAGES}")
    if not any(os.access(path, os.W_OK) for path in _hierarchies()):
        raise NoNodeError(f"{CGROUPS} is not writable: a container without its own cgroups cannot run a node")
    disk = shutil.disk_usage(tempfile.gettempdir())
    if disk.free < FREE_AT_START * disk.total:
        share = f"{100 * disk.free // disk.total} % of the disk of {tempfile.gettempdir()}"
        raise NoNodeError(f"only {share} are free, and the images of the tests take much: make room, or set TMPDIR")
    probe = subprocess.run(["iptables", "-w", "-S", "FORWARD"], capture_output=True, text=True, check=False)
    if probe.returncode:
        raise NoNodeError(f"iptables does not work here: {probe.stderr.strip()[-200:]}")


def user(name: str) -> User:
    """Whom the control plane must know (ControlPlane(users=...)) before a node of this name can join."""
    return User(f"system:node:{name}", ("system:nodes",))


class Node:
    """`start`, use, `stop`. `number` (0 to 99) tells the nodes of one machine apart: it is in the address."""

    def __init__(self, plane: ControlPlane, folder: Path, kubelet: Path, number: int, **settings: Any) -> None:
        """`settings`: more of the KubeletConfiguration."""
        self.name = f"node-{number}"
        self.address = f"10.244.{number}.1"
        self.bridge = f"tjnode{number}"
        self._plane = plane
        self._folder = folder
        self._cgroup = f"tj-node-{os.getpid()}-{number}"
        self._config = folder / "kubelet.json"
        self._settings = settings
        folder.mkdir(parents=True)
        self.static_pods = folder / "static"
        socket = f"{folder}/containerd.sock"
        self._ctr = ("ctr", "--address", socket, "--namespace", "k8s.io")
        containerd = [str(shutil.which("containerd")), "--config", str(folder / "containerd.toml")]
        self.containerd = Process("containerd", containerd, folder / "containerd.log")
        options = ["--hostname-override", self.name, "--node-ip", self.address, "--root-dir", str(folder / "kubelet")]
        options += ["--kubeconfig", str(plane.kubeconfig_for(user(self.name).name)), "--config", str(self._config)]
        options += ["--cert-dir", str(folder / "pki")]
        self.bus = f"unix:path={folder}/bus"
        """Where the kubelet looks for logind, instead of at this machine's."""
        env = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": self.bus}
        self.kubelet = Process("kubelet", [str(kubelet), *options], folder / "kubelet.log", env)

    def start(self, images: Sequence[Archive]) -> None:
        """Returns when the node is Ready. `images`: those that its pods may use; one holds PAUSE."""
        self._make_cgroup()
        self._make_network()
        self._write_files()
        self.containerd.start()
        self.until("containerd answers", lambda: self._run(*self._ctr, "version"))
        for image in images:
            self.load(image)
        self.kubelet.start()
        self.until("the node is Ready", self.is_ready)

    def restart_kubelet(self, **settings: Any) -> None:
        """`settings`: of the KubeletConfiguration, beside those that the node was made with, until the next restart."""
        self.kubelet.stop(3.0)
        self._configure(settings)
        self.kubelet.start()

    @contextlib.contextmanager
    def on_a_disk_of(self, mebibytes: int, **settings: Any) -> Iterator[Path]:
        """The kubelet has a file system of its own meanwhile, in which no other program of this machine writes: its
        folder. No pod of the node may run before or after. `settings`: as in `restart_kubelet`."""
        folder = self._folder / "kubelet"
        self.kubelet.stop(3.0)
        size = f"size={mebibytes}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True, capture_output=True)
        try:
            self.restart_kubelet(**settings)
            yield folder
        finally:
            self.kubelet.stop(3.0)
            self._run("umount", "--recursive", "--lazy", str(folder))
            self.restart_kubelet()

    def cut_power(self) -> None:
        """Nothing of the node runs any more. What its containers did is not known when `power_on` starts it again."""
        self.kubelet.stop(0)
        self.containerd.stop(0)
        self._kill_shims()
        self.kill_containers()

    def power_on(self) -> None:
        self.containerd.start()
        until("containerd answers", lambda: self._run(*self._ctr, "version"), JOIN_SECONDS, look_seconds=0.2)
        self.kubelet.start()

    def load(self, image: Archive) -> None:
        subprocess.run([*self._ctr, "images", "import", str(image.path)], check=True, capture_output=True, timeout=900)
        for name, other in image.also.items():
            subprocess.run([*self._ctr, "images", "tag", "--force", name, other], check=True, capture_output=True)

    def stop(self) -> None:
        """Safe to call twice, and after a start that has failed."""
        self.kubelet.stop(3.0)
        self.kill_containers()
        self.containerd.stop(3.0)
        self._kill_shims()
        self._unmount()
        for rule in self._rules():
            self._run("iptables", "-w", "-D", *rule)
        self._run("ip", "link", "delete", self.bridge)
        self._remove_cgroup()
        for link in LOGS.glob("*") if LOGS.is_dir() else ():
            if link.is_symlink() and link.readlink().is_relative_to(self._folder):
                link.unlink(missing_ok=True)
        # Some 100,000 files of images.
        self._run("rm", "-rf", str(self._folder))

    def is_ready(self) -> bool:
        done = self._kubectl("get", "node", self.name, "-o", "json")
        conditions = json.loads(done)["status"].get("conditions", ()) if done else ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def kill_containers(self) -> None:
        """Every process of every pod, as a power cut would."""
        deadline = time.monotonic() + 10
        while (pids := set(self._pids())) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def until(self, what: str, condition: Any, within_seconds: float = JOIN_SECONDS) -> None:
        def holds() -> object:
            for process in (self.containerd, self.kubelet):
                assert not process.ended(), f"{process.name} ended: {process.ended()}\n{process.last_words()}"
            return condition()

        until(f"{self.name}: {what}", holds, within_seconds, context=self.kubelet.last_words, look_seconds=0.2)

    # -- how it is made ------------------------------------------------------------------------------
    def _write_files(self) -> None:
        at = self._folder
        (at / "cni").mkdir()
        self.static_pods.mkdir()
        runc = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'
        (at / "containerd.toml").write_text(
            "version = 2\n"
            f'root = "{at}/containerd"\nstate = "{at}/run"\n'
            f'[grpc]\naddress = "{at}/containerd.sock"\n'
            '[plugins."io.containerd.grpc.v1.cri"]\n'
            # Without the right to lower it (a machine that lacks CAP_SYS_RESOURCE) no sandbox would start.
            f'sandbox_image = "{PAUSE}"\nnetns_mounts_under_state_dir = true\nrestrict_oom_score_adj = true\n'
            f'[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "{PLUGINS}"\nconf_dir = "{at}/cni"\n'
            f'[{runc}]\nruntime_type = "io.containerd.runc.v2"\n[{runc}.options]\nSystemdCgroup = false\n',
            encoding="utf-8",
        )
        bridge = {
            "cniVersion": "0.4.0",
            "name": self.bridge,
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": f"{at}/addresses",
                "ranges": [[{"subnet": f"{self.address.removesuffix('.1')}.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        (at / "cni/10-bridge.conf").write_text(json.dumps(bridge), encoding="utf-8")
        self._configure({})

    def _configure(self, settings: Json) -> None:
        at, layout = self._folder, self._plane.layout
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzPort": 0,
            "containerRuntimeEndpoint": f"unix://{at}/containerd.sock",
            "staticPodPath": str(self.static_pods),
            "podLogsDir": str(at / "logs"),
            "volumePluginDir": str(at / "volume-plugins"),
            "clusterDNS": [network.ADDRESS],
            "clusterDomain": network.DOMAIN,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            # A machine with cgroups of version 1 is refused by default since 1.35.
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": True,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}}
            | {"x509": {"clientCAFile": str(layout.internal_certificate)}},
            "authorization": {"mode": "AlwaysAllow"},
            # Sooner than by default: tests wait for them.
            "nodeStatusUpdateFrequency": "4s",
            "volumeStatsAggPeriod": "5s",
            "evictionPressureTransitionPeriod": "5s",
            "registryPullQPS": 0,
            # Images of the tests fill the disk of the machine: no node may delete those of another test, or evict.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi"}
            | {f"{of}.available": LEAST_FREE for of in ("nodefs", "imagefs")},
            **self._settings,
            **settings,
        }
        self._config.write_text(json.dumps(config, indent=1), encoding="utf-8")

    def _make_network(self) -> None:
        for words in (
            ("ip", "link", "add", self.bridge, "type", "bridge"),
            ("ip", "address", "add", f"{self.address}/24", "dev", self.bridge),
            ("ip", "link", "set", self.bridge, "up"),
            *(("iptables", "-w", "-I", *rule) for rule in self._rules()),
        ):
            subprocess.run(words, check=True, capture_output=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")

    def _rules(self) -> list[tuple[str, ...]]:
        """Between the bridges, also where a container engine has closed the FORWARD chain."""
        return [("FORWARD", side, self.bridge, "-j", "ACCEPT") for side in ("-i", "-o")]

    def _make_cgroup(self) -> None:
        for root in _hierarchies():
            made = root / self._cgroup
            made.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # of version 1: empty, and no process may enter
                if (made / name).exists():
                    (made / name).write_text((root / name).read_text(encoding="ascii"), encoding="ascii")

    def _pids(self) -> Iterator[int]:
        for folder in self._cgroups():
            with contextlib.suppress(OSError):
                yield from map(int, (folder / "cgroup.procs").read_text(encoding="ascii").split())

    def _remove_cgroup(self) -> None:
        for folder in sorted(self._cgroups(), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _cgroups(self) -> Iterator[Path]:
        """The node's own and those below. `os.walk`, unlike `rglob`, bears that they go meanwhile."""
        for root in _hierarchies():
            yield from (Path(folder) for folder, _, _ in os.walk(root / self._cgroup))

    def _kill_shims(self) -> None:
        for pid in self._shims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _shims(self) -> Iterator[int]:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"containerd-shim-runc-v2") and f"{self._folder}/".encode() in b" ".join(words):
                    yield int(process.name)

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        for mount in reversed(mounts):
            if Path(mount).is_relative_to(self._folder):
                self._run("umount", "--lazy", mount)

    def _kubectl(self, *words: str) -> str:
        return kubectl(self._plane.kubeconfig, *words, "--ignore-not-found")

    @staticmethod
    def _run(*words: str) -> bool:
        return subprocess.run(words, capture_output=True, check=False, timeout=300).returncode == 0


def _hierarchies() -> list[Path]:
    """Version 1: one folder a controller. Version 2: one for all."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in sorted(CGROUPS.iterdir()) if path.is_dir() and not path.is_symlink()]
