"""One thread for BLAS and OpenMP: tests run side by side, and would wait for each other's cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
