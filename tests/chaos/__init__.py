"""Chaos with real processes: the operator as it is deployed, on a real control plane and a real Redis, and what may
happen to each of them while jobs begin, run, restart and end (`make chaos`). Not in the default suite: it takes many
minutes."""
