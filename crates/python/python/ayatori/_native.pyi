"""What the extension module offers; docs/python.md explains it."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, final, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

__version__: str

_Path: TypeAlias = str | os.PathLike[str]
_Bytes: TypeAlias = int | str
_Rank: TypeAlias = Callable[["Mpi"], Generator["Operation", "Status | None", Any] | None]
# TypedDict cannot have a key `from` in its class form.
_Load = TypedDict("_Load", {"from": str, "to": str, "bytes": int, "time_s": float})

class Error(Exception):
    """What went wrong: a machine file, a plan, a simulation. The message says what to do."""

@final
class Machine:
    """A described machine: hosts, switches and cables. It does not change; `changed` gives another."""

    @staticmethod
    def load(path: _Path) -> Machine:
        """Reads a machine file (docs/machine-file.md).

        Raises Error with file, line and what to do.
        """
    @staticmethod
    def parse(text: str, name: str = "machine") -> Machine:
        """Reads a description from text; `name` stands in errors."""
    @staticmethod
    def from_dict(description: Mapping[str, Any], name: str = "machine") -> Machine:
        """Makes a machine of a description as a dictionary: the tables and keys of a machine file."""
    def to_dict(self) -> dict[str, Any]:
        """The description as a dictionary."""
    def changed(self, changes: Mapping[str, Any]) -> Machine:
        """This machine with other values.

        Keys are dotted (``"topology.extents"``), a number is an entry of a list
        (``"host_models.node.nic.0.rate_gbps"``), None takes a key out.
        """
    def save(self, path: _Path) -> None:
        """Writes the description. Comments are those of the file it was read from, and lost by `changed`."""
    @property
    def file(self) -> str:
        """The name of the file, or what was given for it."""
    @property
    def text(self) -> str:
        """The description as TOML."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def about(self) -> str:
        """What it is, in the owner's words."""
    @property
    def switches(self) -> list[str]:
        """Names of the switches."""
    @property
    def hosts(self) -> list[str]:
        """Names of the hosts."""
    @property
    def links(self) -> list[tuple[str, str, int, int, float]]:
        """Names of both ends, cables, bits a second of each cable, latency in seconds."""
    def plan(
        self, *, without_switches: Sequence[str] = ..., without_links: Sequence[tuple[str, str]] = ...
    ) -> Plan:
        """Plans VLANs, routes and configuration, with switches and links taken out (docs/plan.md)."""
    def written_plan(self, path: _Path) -> Plan:
        """The plan that was written: its ``plan.json``, or the folder of ``ayatori plan --out``.

        One of another machine raises Error.
        """
    def simulate(
        self,
        workload: _Path | _Rank,
        *,
        plan: Plan | _Path | None = None,
        nodes: int | None = None,
        bytes: _Bytes = "64K",
        rounds: int = 1,
        per_host: int = 1,
        gap: float = 0.0,
        algorithm: str | None = None,
        start_spread_ns: int = 0,
        seed: int = 1,
        worst: int = 5,
        strict: bool = False,
        trace: _Path | None = None,
    ) -> Result:
        """Runs a workload: a name, a GOAL file, or a function that makes each rank's generator.

        On an Ethernet machine frames take the routes of ``plan``: one made or read here, or the path of a
        written one; None plans anew. Options are those of ``ayatori sim run`` (docs/simulate.md). A wrong one
        raises ValueError with the command's message, a standstill Error. Python is released meanwhile, except for generators; Ctrl-C
        ends the run.
        """

@final
class Plan:
    """A plan: VLANs, routes, verdicts."""

    @property
    def is_good(self) -> bool:
        """Whether every check holds."""
    @property
    def is_deadlock_free(self) -> bool:
        """Whether no cycle of waiting links is possible."""
    @property
    def method(self) -> str:
        """How paths were chosen."""
    @property
    def vlans(self) -> list[int]:
        """Identifiers of the VLANs."""
    @property
    def checks(self) -> list[tuple[str, Literal["holds", "warning", "fails"], str, str | None]]:
        """Name, status, what was found, what to do."""
    @property
    def figures(self) -> dict[str, Any]:
        """VLANs, paths, bisection, busiest link, price."""
    def route(self, source: str, destination: str) -> tuple[int, list[str]]:
        """VLAN and switches of frames from the first interface of one host to that of another."""
    def loads(self, traffic: _Path | Iterable[tuple[str, str, int]]) -> list[_Load]:
        """Loads of the links under a traffic, the slowest first.

        Rows are (from, to, bytes) by hosts' names; a file is read as ``ayatori plan --traffic`` does.
        """
    def to_dict(self) -> dict[str, Any]:
        """The whole plan, as ``ayatori plan --json`` prints it."""
    def html(self) -> str:
        """The plan as one page for a browser."""

@final
class Result:
    """What a simulation took and what limited it."""

    @property
    def workload(self) -> str:
        """The workload's name, file or function."""
    @property
    def process_count(self) -> int:
        """Number of processes."""
    @property
    def elapsed_ps(self) -> int:
        """Simulated time until the last rank was done, picoseconds."""
    @property
    def elapsed_s(self) -> float:
        """The same in seconds."""
    @property
    def finished_ps(self) -> npt.NDArray[np.uint64]:
        """When each rank was done, ps, by rank."""
    @property
    def busy_ps(self) -> npt.NDArray[np.uint64]:
        """How long each rank was in the library or computing, ps."""
    @property
    def computing_ps(self) -> npt.NDArray[np.uint64]:
        """How long each rank was computing, ps."""
    @property
    def memory_busy_ps(self) -> npt.NDArray[np.uint64]:
        """How long each host's memory was busy with messages within the host, ps."""
    @property
    def network_bytes(self) -> int:
        """Payload that went through the network."""
    @property
    def bandwidth_bytes_per_s(self) -> float:
        """That over the time taken."""
    @property
    def packet_hop_count(self) -> int:
        """Packets sent from switch to switch."""
    @property
    def lost_frame_count(self) -> int:
        """Frames that switches had no room for, where the machine file has pause off."""
    @property
    def timeout_count(self) -> int:
        """Times that TCP's retransmission timer ran out."""
    @property
    def bottleneck(self) -> str:
        """What limited the run, in one line."""
    @property
    def notes(self) -> list[str]:
        """What was simulated otherwise than the machine file says."""
    @property
    def wall_s(self) -> float:
        """How long the simulation itself took, seconds of this computer."""
    def to_dict(self) -> dict[str, Any]:
        """What ``ayatori sim run --json`` prints."""
    def frame(self) -> pd.DataFrame:
        """A pandas frame with a row for each rank."""

@final
class Sweep(Sequence[tuple[dict[str, Any], Result | None]]):
    """Results of a sweep, in the order of its parameters: the last varies first."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> tuple[dict[str, Any], Result | None]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[dict[str, Any], Result | None]]: ...
    @property
    def parameters(self) -> list[dict[str, Any]]:
        """Parameters of all points."""
    @property
    def results(self) -> list[Result | None]:
        """Results of all points, None where there was an error."""
    @property
    def errors(self) -> list[str | None]:
        """What went wrong at each point, None where nothing did."""
    def array(self, attribute: str) -> npt.NDArray[Any]:
        """One attribute of all results; not a number where there was an error."""
    def frame(self) -> pd.DataFrame:
        """A row for each point: its parameters, times, bandwidth, bottleneck, and errors if there are any."""

def sweep(
    machines: Machine | Iterable[Machine],
    workloads: str | Iterable[str],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    errors: Literal["raise", "keep"] = "raise",
    nodes: int | None | Iterable[int | None] = None,
    bytes: _Bytes | Iterable[_Bytes] = "64K",
    rounds: int | Iterable[int] = 1,
    per_host: int | Iterable[int] = 1,
    gap: float | Iterable[float] = 0.0,
    algorithm: str | None | Iterable[str | None] = None,
    start_spread_ns: int | Iterable[int] = 0,
    seed: int | Iterable[int] = 1,
    strict: bool = False,
) -> Sweep:
    """Simulates every combination of machines, workloads and options, each one value or several.

    All cores work (or `threads`); the order of results is that of the arguments, whatever the number of
    threads.
    `progress` is called now and then with how many are done and how many there are. Ctrl-C ends the sweep.
    With errors="keep" a point that fails leaves a message in `Sweep.errors`; else the first is raised.
    """

def workloads() -> list[str]:
    """Names of the workloads that need no file."""

def algorithms(operation: str) -> list[str]:
    """Names of the algorithms of a collective operation."""

@final
class Mpi:
    """A rank's way into the simulated library: what a rank's function is given."""

    @property
    def rank(self) -> int:
        """This rank."""
    @property
    def size(self) -> int:
        """Number of ranks."""
    @property
    def now_ps(self) -> int:
        """This process' time, ps."""
    def compute(self, nanoseconds: float) -> None:
        """Computes for so long, at once: not to be yielded."""
    def send(self, to: int, bytes: _Bytes, tag: int = 0) -> Operation:
        """Sends (MPI_Send); to be yielded."""
    def recv(self, source: int | None, bytes: _Bytes, tag: int | None = 0) -> Operation:
        """Receives (MPI_Recv); to be yielded. None is any source, any tag."""
    def sendrecv(self, to: int, source: int, bytes: _Bytes, tag: int = 0) -> Operation:
        """Sends to one and receives from another (MPI_Sendrecv); to be yielded."""
    def isend(self, to: int, bytes: _Bytes, tag: int = 0) -> Request:
        """Begins to send, at once (MPI_Isend)."""
    def irecv(self, source: int | None, bytes: _Bytes, tag: int | None = 0) -> Request:
        """Begins to receive, at once (MPI_Irecv)."""
    def wait(self, request: Request) -> Operation:
        """Waits for a request (MPI_Wait); to be yielded."""
    def wait_all(self, requests: Sequence[Request]) -> Operation:
        """Waits for all requests (MPI_Waitall); to be yielded. Answers the last one's status."""
    def collective(self, operation: str, bytes: _Bytes, algorithm: str | None = None) -> Operation:
        """Takes part in a collective operation of all ranks; to be yielded."""
    def barrier(self) -> Operation:
        """Waits until all ranks have come here (MPI_Barrier); to be yielded."""

@final
class Operation:
    """What a rank yields."""

@final
class Request:
    """An operation under way: give it to `wait` or `wait_all`."""

@final
class Status:
    """How a receive ended."""

    @property
    def source(self) -> int | None:
        """The sender; None if there was no message."""
    @property
    def tag(self) -> int | None:
        """The tag; None if there was no message."""
    @property
    def bytes(self) -> int:
        """Length received."""
