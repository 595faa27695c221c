"""The report server: training programs report their progress, and it writes the progress into the status of their job.

It is a process of its own, since the pods of all users may talk to it. Its service account may review tokens, read pods
and jobs, and patch the status of jobs. It has access to neither Redis nor the record keys.
"""
