"""A classifier under tf.distribute.MultiWorkerMirroredStrategy, which finds the other workers by TF_CONFIG."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

STEPS = 40


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
    print(f"{strategy.cluster_resolver.task_type} {index}, {strategy.num_replicas_in_sync} replicas", flush=True)
    chief = strategy.cluster_resolver.task_type == "chief"
    features, labels = (tf.constant(part) for part in shard(0 if chief else index + 1))
    with strategy.scope():
        weights = tf.Variable(tf.zeros([features.shape[1], 1]))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            with tf.GradientTape() as tape:
                logits = features @ weights
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
            gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
            weights.assign_sub(0.5 * gradient)
            return loss

        return strategy.reduce("mean", strategy.run(replica), axis=None)

    for number in range(STEPS):
        loss = float(step())
        if chief:
            print(f"step {number} loss {loss:.6f}", flush=True)


def shard(index: int) -> tuple[np.ndarray, np.ndarray]:
    """This worker's own rows."""
    rng = np.random.default_rng(index)
    features = rng.normal(size=(1024, 8)).astype(np.float32)
    return features, (features @ np.arange(-3.0, 5.0) > 0).astype(np.float32)[:, None]


if __name__ == "__main__":
    main()
