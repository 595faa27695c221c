"""Boosted trees over the rows of all replicas: the master runs the tracker and trains as worker 0.

The operator says where the tracker is in DMLC_TRACKER_URI and DMLC_TRACKER_PORT, and who this is in DMLC_TASK_ID.
"""

from __future__ import annotations

import os
import socket
import time

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

ROUNDS = 20


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = wait_for(os.environ["DMLC_TRACKER_URI"])
    tracker = None
    if rank == 0:
        port = int(os.environ["DMLC_TRACKER_PORT"])
        tracker = RabitTracker(n_workers=size, host_ip=address, port=port, sortby="task")
        tracker.start()
    # XGBoost 3 no longer reads the variables itself.
    where = {
        "dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"],
        "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"]),
        "dmlc_task_id": os.environ["DMLC_TASK_ID"],
    }
    with collective.CommunicatorContext(**where, dmlc_retry=100):
        told: dict[str, dict[str, list[float]]] = {}
        rows = xgb.DMatrix(*shard(collective.get_rank()))
        params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "nthread": 1}
        xgb.train(params, rows, ROUNDS, evals=[(rows, "all")], evals_result=told, verbose_eval=False)
        print(f"worker {collective.get_rank()} of {collective.get_world_size()}", flush=True)
        if rank == 0:
            for number, loss in enumerate(told["all"]["logloss"]):
                print(f"step {number} loss {loss:.6f}", flush=True)
    if tracker is not None:
        tracker.wait_for()


def shard(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """This replica's own rows."""
    rng = np.random.default_rng(rank)
    features = rng.normal(size=(2000, 8))
    return features, (features[:, 0] * features[:, 1] + features[:, 2] > 0).astype(np.float32)


def wait_for(host: str) -> str:
    """Its address: the name is there when the pod is."""
    while True:
        try:
            return socket.gethostbyname(host)
        except OSError:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
