"""The simulation: nothing that crashes, lags or vanishes changes the end.

`scenarios.py` has what is played, `world.py` the operator and a cluster in virtual time (with `transport.py`,
`store.py` and `watcher.py`, by which its processes meet them), `points.py` where something can go wrong, `oracles.py`
what counts as the same end, `faults/` one module for each thing that goes wrong. The figures stand in
`docs/internals/robustness.md`.

    make test                                         the first tier: a sample of every row, in under a minute
    make sim-all [SHARE=0.1] [ROW=1]                  every run of every row (or a share of them), as a table
    make sim SEED=1/ai-pod-restarts/12-before         one run again, exactly, with its trace

To add a row: a module in `faults/` with `ROW = Row(...)` (`row.py`; most are one call of `on_scenarios`, which wants
the points at which a fault can strike and the fault of each), and its line in `faults/__init__.py`. A row that needs no
scenario gives `runs` and `play` itself. A run's name must say all that decides how it goes: its number seeds whatever
is random in it. To add a job kind or a workload: one line in `scenarios.MAKES`.
"""
