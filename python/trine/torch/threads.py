"""How many threads a rank computes with: its share of the processors that it and the other ranks of its host may run on."""

import os

COUNTS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")  # torchrun's, Open MPI's, MPICH's


def ranks():
    """Processes that a launcher started on this machine; 1 without one."""
    try:
        return int(next((os.environ[name] for name in COUNTS if name in os.environ), 1))
    except ValueError:
        return 1


def take():
    """Says so to the pool, unless TRINE_THREADS does; before the pool is made, at the first op."""
    if ranks() > 1 and "TRINE_THREADS" not in os.environ:
        os.environ["TRINE_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // ranks()))
