"""DistributedDataParallel on CPUs (gloo), started by the operator: MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 40


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()}", flush=True)
    torch.manual_seed(rank)
    features = torch.randn(1024, 8)
    labels = (features @ torch.arange(-3.0, 5.0) > 0).float().unsqueeze(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(features), labels)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {number} loss {mean.item() / dist.get_world_size():.6f}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
