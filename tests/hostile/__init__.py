"""Hostile objects: of every kind that the watcher reads, what a real API server accepts and nobody sensible writes."""
