"""The model: a second, small and slow description of what the operator promises, from its pages alone
(`docs/lifecycle.md`, `docs/jobs.md`), by which the tests judge what it did.

`chronicle.py` holds what the API server has held, write by write, each with its time and its author. `reader.py`
reads from it what became of each job, pod and node (`lives.py`), `losses.py` why a pod was lost. `contract.py` has
the tables of docs/lifecycle.md. Each module in `rules/` has rules: functions that go through one job's life and, for
each case that they come upon, say nothing or what is wrong. `judge.py` plays all of them.

Where the contract leaves room (which of two failures is seen first, what a view that is late may miss) a rule allows
every answer: it flags what no reading of the contract allows. It shares nothing with the product but the parsed job and
names of labels (`tjworker.api`); `test_model.py` holds that.
"""
