"""A classifier over the rows of all processes, as one computation on the devices of all of them.

`jax.distributed.initialize` finds the coordinator by JAX_COORDINATOR_ADDRESS; how many processes there are and which
one this is, the operator says in NUM_PROCESSES and PROCESS_ID.
"""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 40


def main() -> None:
    size, index = int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    jax.distributed.initialize(num_processes=size, process_id=index)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    by_rows = NamedSharding(mesh, PartitionSpec("rows"))
    features, labels = shard(index)
    x = jax.make_array_from_process_local_data(by_rows, features)
    y = jax.make_array_from_process_local_data(by_rows, labels)
    print(f"process {jax.process_index()} of {jax.process_count()}, {x.shape[0]} rows in all", flush=True)

    def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        z = x @ weights
        return jnp.mean(jnp.logaddexp(0.0, z) - y * z)

    step = jax.jit(jax.value_and_grad(loss))
    weights = jax.device_put(jnp.zeros(features.shape[1]), NamedSharding(mesh, PartitionSpec()))
    for number in range(STEPS):
        value, gradient = step(weights, x, y)
        weights = weights - 0.5 * gradient
        if index == 0:
            print(f"step {number} loss {float(value):.6f}", flush=True)


def shard(index: int) -> tuple[np.ndarray, np.ndarray]:
    """This process' own rows."""
    rng = np.random.default_rng(index)
    features = rng.normal(size=(1024, 8)).astype(np.float32)
    return features, (features @ np.arange(-3.0, 5.0) > 0).astype(np.float32)


if __name__ == "__main__":
    main()
