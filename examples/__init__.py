"""Real jobs to run under the operator. Nothing of the operator imports this, and this imports nothing of it."""
