"""The page: jobs, the cluster and the history in a browser, live and read-only.

It is a process of its own, without rights in the cluster. Lists come from Redis, whose user may only read, and show the
jobs that the viewer's own token may list. A job's object, pods, events and logs are read with that token. Tornado
serves HTTP, as for the report server.
"""
