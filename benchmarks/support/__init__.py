"""What benchmarks and tests share: a Redis to kill, the operator in one process, a pass that does nothing."""
