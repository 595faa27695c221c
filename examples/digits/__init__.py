"""Elastic asynchronous training of a digit classifier, with parameter servers.

Importing this package keeps numerical libraries to one thread each, and must stay the first thing a role does: they
read these variables when numpy is loaded, and a handful of trainers with a thread pool each would fight over the cores.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")
