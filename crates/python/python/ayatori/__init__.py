"""Machines, network plans and simulations of MPI programs.

Everything is the libraries' that the command ``ayatori`` uses; so are the messages. Begin with
``Machine.load``::

    import ayatori

    machine = ayatori.Machine.load("machines/fx10.toml")
    print(machine.simulate("allreduce", bytes="64K"))
"""

from ._native import (
    Error,
    Machine,
    Mpi,
    Operation,
    Plan,
    Request,
    Result,
    Status,
    Sweep,
    __version__,
    algorithms,
    sweep,
    workloads,
)

__all__ = [
    "Error",
    "Machine",
    "Mpi",
    "Operation",
    "Plan",
    "Request",
    "Result",
    "Status",
    "Sweep",
    "__version__",
    "algorithms",
    "sweep",
    "workloads",
]
