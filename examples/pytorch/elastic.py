"""The same under an elastic torchrun: processes are started anew whenever a pod comes or goes, and go on from the step
that the one of them that has come furthest has kept.

Each pod keeps the state in its own /tmp, so nothing is lost while one pod of the last round is left. torchrun stays,
the processes are new: what is to survive is in the file.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "60"))
PAUSE_SECONDS = float(os.environ.get("PAUSE_SECONDS", "0.5"))
"""Stands for a bigger model: of each step, however many processes there are."""
SHARED_SECONDS = float(os.environ.get("SHARED_SECONDS", "0"))
"""Stands for a bigger batch: of each step, divided among the processes."""
REPORT_SECONDS = 5.0
KEPT = Path(os.environ.get("STATE_FOLDER", "/tmp")) / f"{os.environ['TRAININGJOB_SERVICE']}.pt"  # noqa: S108 - of the pod


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    features = torch.randn(4096, 8)[rank::size]
    labels = (features @ torch.arange(-3.0, 5.0) > 0).float().unsqueeze(1)
    net = torch.nn.Linear(8, 1)
    begin = restore(net, rank, size)
    print(f"rank {rank} of {size} goes on from step {begin}", flush=True)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    started = reported = time.monotonic()
    for number in range(begin, STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(features), labels)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        keep(net, number + 1)
        if rank == 0:
            print(f"step {number} loss {mean.item() / size:.6f} of {size}", flush=True)
            if (now := time.monotonic()) - reported >= REPORT_SECONDS and number > begin:
                reported, step = now, (now - started) / (number - begin)
                metrics = {"loss": mean.item() / size, "samples_per_second": 4096 / step, "replicas": size}
                report(100 * (number + 1) // STEPS, round(step * (STEPS - number - 1)), metrics)
        time.sleep(PAUSE_SECONDS + SHARED_SECONDS / size)
    dist.barrier()


def report(percentage: int, remaining_seconds: int, metrics: dict[str, float]) -> None:
    """To the operator, if it has said where to: docs/jobs.md, "Reporting progress"."""
    if url := os.environ.get("KUBEFLOW_TRAINER_SERVER_URL"):
        with suppress(OSError):  # the training goes on, whoever hears of it
            told = [{"name": name, "value": str(value)} for name, value in metrics.items()]
            status = {"progressPercentage": percentage, "estimatedRemainingSeconds": remaining_seconds, "metrics": told}
            body = json.dumps({"trainerStatus": status}).encode()
            token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
            tls = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
            request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})  # noqa: S310
            urllib.request.urlopen(request, timeout=2, context=tls).close()  # noqa: S310


def restore(net: torch.nn.Module, rank: int, size: int) -> int:
    """The step to go on from, with the parameters of whoever has kept the latest."""
    begin = 0
    if KEPT.exists():
        state = torch.load(KEPT)
        net.load_state_dict(state["net"])
        begin = int(state["step"])
    steps = [torch.zeros(1, dtype=torch.long) for _ in range(size)]
    dist.all_gather(steps, torch.tensor([begin]))
    furthest = max(range(size), key=lambda each: int(steps[each]))
    for parameter in net.parameters():
        dist.broadcast(parameter.data, furthest)
    return int(steps[furthest])


def keep(net: torch.nn.Module, step: int) -> None:
    """All of it or nothing, whenever the process ends."""
    new = KEPT.with_suffix(".new")
    torch.save({"net": net.state_dict(), "step": step}, new)
    new.replace(KEPT)


if __name__ == "__main__":
    main()
