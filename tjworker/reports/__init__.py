"""The report server: training programs tell it how far they have come, and it writes that into the status of their job.

A process of its own, as everybody's pods may talk to it: its service account may review tokens, read pods and jobs, and
patch the status of jobs, and nothing else. It knows neither Redis nor the record keys.
"""
