"""The page: jobs, the cluster and the history in a browser, live and read-only.

A process of its own with no rights: lists come from Redis, by a user that may only read, and are shown as far as the
viewer's own token may list jobs; a job's object, pods, events and logs are read with that token. HTTP is tornado's, as
for the report server.
"""
