"""The local stack: every process of the product on one machine, under one supervisor that leaves nothing behind.

`tj` finds its commands, `up` and `demo`, by their names (`tjworker.cli.main`). The operator imports nothing of it.
"""
