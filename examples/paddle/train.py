"""A classifier whose gradients all trainers share, under `python -m paddle.distributed.launch`: the launcher of each
pod finds the others by PADDLE_MASTER and tells its trainer who it is."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.distributed as dist

STEPS = 40


def main() -> None:
    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"trainer {rank} of {size}", flush=True)
    features, labels = (paddle.to_tensor(part) for part in shard(rank))
    weights = paddle.zeros([features.shape[1], 1])
    weights.stop_gradient = False
    for number in range(STEPS):
        loss = paddle.nn.functional.binary_cross_entropy_with_logits(features @ weights, labels)
        loss.backward()
        gradient, mean = weights.grad.detach(), loss.detach()
        dist.all_reduce(gradient)
        dist.all_reduce(mean)
        weights = (weights - 0.5 * gradient / size).detach()
        weights.stop_gradient = False
        if rank == 0:
            print(f"step {number} loss {float(mean) / size:.6f}", flush=True)


def shard(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """This trainer's own rows."""
    rng = np.random.default_rng(rank)
    features = rng.normal(size=(1024, 8)).astype(np.float32)
    return features, (features @ np.arange(-3.0, 5.0) > 0).astype(np.float32)[:, None]


if __name__ == "__main__":
    main()
