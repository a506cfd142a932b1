"""The module as its users call it. `cargo xtask wheel` runs this in an environment with NumPy and pytest."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ayatori

ROOT = pathlib.Path(__file__).resolve().parents[3]
FX10 = ROOT / "machines" / "fx10.toml"
SUPERNOVA = ROOT / "machines" / "supernova.toml"


@pytest.fixture(scope="module")
def fx10() -> ayatori.Machine:
    return ayatori.Machine.load(FX10)


@pytest.fixture(scope="module")
def supernova() -> ayatori.Machine:
    return ayatori.Machine.load(SUPERNOVA)


def test_a_machine_is_loaded_changed_and_saved(fx10: ayatori.Machine, tmp_path: pathlib.Path) -> None:
    assert (len(fx10.hosts), len(fx10.switches)) == (64, 64)
    larger = fx10.changed({"topology.extents": [4, 4, 8]})
    assert len(larger.hosts) == 128 and len(fx10.hosts) == 64
    larger.save(tmp_path / "larger.toml")
    again = ayatori.Machine.load(tmp_path / "larger.toml")
    assert again.to_dict() == larger.to_dict()
    assert ayatori.Machine.from_dict(larger.to_dict()).links == larger.links


def test_what_is_wrong_with_a_machine_is_told() -> None:
    with pytest.raises(ayatori.Error, match="no-such.toml"):
        ayatori.Machine.load("no-such.toml")
    with pytest.raises(ayatori.Error, match="to do: "):
        ayatori.Machine.parse("name = 3")
    with pytest.raises(ayatori.Error, match="what is before y is no table"):
        ayatori.Machine.load(FX10).changed({"name.y": 1})


def test_a_plan_has_vlans_routes_loads_and_verdicts(supernova: ayatori.Machine) -> None:
    plan = supernova.plan()
    assert plan.vlans and plan.is_good == all(status != "fails" for _, status, _, _ in plan.checks)
    first, last = supernova.hosts[0], supernova.hosts[-1]
    vlan, way = plan.route(first, last)
    assert vlan in plan.vlans and len(way) >= 2 and set(way) <= set(supernova.switches)
    loads = plan.loads([(first, last, 1_000_000)])
    assert [load["bytes"] for load in loads] == [1_000_000] * (len(way) - 1)
    assert plan.to_dict()["vlans"] and plan.figures and "<html" in plan.html()
    with pytest.raises(ValueError, match='has no host "nobody"'):
        plan.route("nobody", last)
    with pytest.raises(ValueError, match="the machine has no switch"):
        supernova.plan(without_switches=["nobody"])


def test_results_are_arrays_and_frames(fx10: ayatori.Machine) -> None:
    result = fx10.simulate("allreduce", bytes="64K", per_host=2)
    assert result.process_count == 128 and result.finished_ps.dtype == np.uint64
    assert result.finished_ps.shape == (128,) and int(result.finished_ps.max()) >= result.elapsed_ps > 0
    frame = result.frame()
    assert list(frame.columns) == ["finished_ps", "busy_ps", "computing_ps"] and len(frame) == 128
    assert "bottleneck: " in str(result) and result.to_dict()["processes"] == 128
    assert fx10.simulate("allreduce", bytes=65536, per_host=2).elapsed_ps == result.elapsed_ps


def test_the_command_gives_the_same(fx10: ayatori.Machine) -> None:
    command = os.environ.get("AYATORI_COMMAND")
    if not command:
        pytest.skip("AYATORI_COMMAND names no command")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [command, "sim", "run", str(FX10), *arguments]
        return subprocess.run(whole, capture_output=True, text=True, timeout=120, check=False)

    told = run("random-ring", "--bytes", "16K", "--seed", "7", "--json").stdout
    result = fx10.simulate("random-ring", bytes="16K", seed=7)
    assert f'"elapsed_ps": {result.elapsed_ps},' in told
    for arguments, options in [
        (["ping-pong", "--nodes", "1"], {"workload": "ping-pong", "nodes": 1}),
        (["no-such"], {"workload": "no-such"}),
        (["barrier", "--gap", "-1"], {"workload": "barrier", "gap": -1.0}),
        (["alltoall", "--algorithm", "x"], {"workload": "alltoall", "algorithm": "x"}),
        (["barrier", "--bytes", "many"], {"workload": "barrier", "bytes": "many"}),
        (["barrier", "--nodes", "65"], {"workload": "barrier", "nodes": 65}),
    ]:
        with pytest.raises(ValueError) as raised:
            fx10.simulate(**options)
        assert run(*arguments).stderr.strip() == f"ayatori: {raised.value}"


@pytest.mark.parametrize("options", [{"rounds": 0}, {"per_host": -1}, {"nodes": 2**40}, {"seed": -1}])
def test_numbers_out_of_bounds_are_refused(fx10: ayatori.Machine, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="is not in "):
        fx10.simulate("barrier", **options)


def test_arguments_of_other_types_are_refused(fx10: ayatori.Machine) -> None:
    for wrong in [{"rounds": 1.5}, {"rounds": True}, {"bytes": None}, {"nonsense": 1}]:
        with pytest.raises(TypeError):
            fx10.simulate("barrier", **wrong)


def test_generators_are_ranks(fx10: ayatori.Machine) -> None:
    seen: list[tuple[int, int | None, int]] = []

    def ring(mpi: ayatori.Mpi):
        left, right = (mpi.rank - 1) % mpi.size, (mpi.rank + 1) % mpi.size
        request = mpi.irecv(left, "1M")
        yield mpi.send(right, "512K")
        status = yield mpi.wait(request)
        assert status is not None
        seen.append((mpi.rank, status.source, status.bytes))
        mpi.compute(1000)
        yield mpi.collective("allreduce", 8)

    result = fx10.simulate(ring, nodes=8)
    assert sorted(seen) == [(rank, (rank - 1) % 8, 512 << 10) for rank in range(8)]
    assert result.workload == "ring" and set(result.computing_ps.tolist()) == {1_000_000}
    # 512 KiB at 5 GB/s, and what is computed.
    assert result.elapsed_ps > 105_000_000 + 1_000_000


def test_a_generator_does_what_the_built_in_workload_does(fx10: ayatori.Machine) -> None:
    def allreduce(mpi: ayatori.Mpi):
        yield mpi.collective("allreduce", "4K")

    built_in = fx10.simulate("allreduce", bytes="4K", rounds=2)
    assert fx10.simulate(allreduce, rounds=2).finished_ps.tolist() == built_in.finished_ps.tolist()


def test_a_written_plan_is_simulated(fx10: ayatori.Machine, tmp_path: pathlib.Path) -> None:
    torus = ayatori.Machine.load(ROOT / "machines" / "lab-torus.toml")
    one_tree = torus.changed({"plan.routing": "spanning-tree"})
    plan = one_tree.plan()
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    assert torus.written_plan(tmp_path).to_dict() == plan.to_dict()
    own = torus.simulate("alltoall", bytes="16K")
    expected = one_tree.simulate("alltoall", bytes="16K")
    assert own.elapsed_ps < expected.elapsed_ps
    for given in (plan, tmp_path, str(tmp_path / "plan.json"), torus.written_plan(tmp_path)):
        result = torus.simulate("alltoall", bytes="16K", plan=given)
        assert result.finished_ps.tolist() == expected.finished_ps.tolist()
    assert torus.simulate("alltoall", bytes="16K", plan=torus.plan()).elapsed_ps == own.elapsed_ps

    def exchange(mpi):
        yield mpi.collective("alltoall", "16K")

    of_own_ranks = torus.simulate(exchange, plan=plan).elapsed_ps
    assert of_own_ranks == one_tree.simulate(exchange).elapsed_ps != torus.simulate(exchange).elapsed_ps
    for wrong in (plan, tmp_path):
        with pytest.raises(ayatori.Error, match="was not written for this machine"):
            fx10.simulate("barrier", plan=wrong)
    with pytest.raises(ayatori.Error, match="cannot read the plan .*nowhere"):
        torus.simulate("barrier", plan=tmp_path / "nowhere")
    with pytest.raises(TypeError):
        torus.simulate("barrier", plan=3)


def test_what_a_generator_raises_is_raised(fx10: ayatori.Machine) -> None:
    def wrong(mpi: ayatori.Mpi):
        yield mpi.barrier()
        raise KeyError("mine")

    def nonsense(mpi: ayatori.Mpi):
        yield 3

    def stuck(mpi: ayatori.Mpi):
        yield mpi.recv(0, 8)

    def short(mpi: ayatori.Mpi):
        if mpi.rank == 0:
            yield mpi.send(1, 1000)
        elif mpi.rank == 1:
            with pytest.raises(ayatori.Error, match="rank 1"):
                yield mpi.recv(0, 10)

    with pytest.raises(KeyError, match="mine"):
        fx10.simulate(wrong, nodes=4)
    with pytest.raises(TypeError, match="yielded int"):
        fx10.simulate(nonsense, nodes=4)
    with pytest.raises(ayatori.Error, match="wait for messages that nobody sends"):
        fx10.simulate(stuck, nodes=4)
    fx10.simulate(short, nodes=4)


def test_goal_files_and_traces(fx10: ayatori.Machine, tmp_path: pathlib.Path) -> None:
    goal = tmp_path / "two.goal"
    goal.write_text("num_ranks 2\nrank 0 {\nsend 1000b to 1\n}\nrank 1 {\nrecv 1000b from 0\n}\n")
    trace = tmp_path / "trace.json"
    assert fx10.simulate(goal, trace=trace).process_count == 2
    assert "traceEvents" in trace.read_text()
    with pytest.raises(ayatori.Error, match="cannot write"):
        fx10.simulate("barrier", trace=tmp_path / "nowhere" / "trace.json")


def test_sweeps_have_one_order_at_every_number_of_threads(fx10: ayatori.Machine) -> None:
    def swept(threads: int) -> ayatori.Sweep:
        options = {"nodes": 16, "bytes": ["1K", "64K"], "seed": range(1, 6)}
        return ayatori.sweep(fx10, "random-ring", threads=threads, **options)

    one, four = swept(1), swept(4)
    assert one.array("elapsed_ps").tolist() == four.array("elapsed_ps").tolist()
    assert len(four) == 10 and four[7][0] == {
        "machine": fx10.name, "workload": "random-ring", "nodes": 16, "bytes": "64K", "seed": 3
    }
    frame = four.frame()
    assert list(frame["seed"]) == [1, 2, 3, 4, 5] * 2 and (frame["elapsed_s"] > 0).all()


def test_errors_of_a_sweep_are_raised_or_kept(fx10: ayatori.Machine) -> None:
    with pytest.raises(ValueError, match="no workload 'no-such'"):
        ayatori.sweep(fx10, ["barrier", "no-such"])
    kept = ayatori.sweep(fx10, ["barrier", "no-such"], errors="keep")
    assert kept.results[1] is None and "no workload" in str(kept.errors[1]) and kept.errors[0] is None
    assert np.isnan(kept.array("elapsed_s")[1]) and "error" in kept.frame().columns


def test_a_thousand_simulations_end_at_ctrl_c(fx10: ayatori.Machine) -> None:
    done: list[int] = []

    def progress(count: int, of: int) -> None:
        done.append(count)
        if len(done) == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ayatori.sweep(fx10, "alltoall", bytes="64K", seed=range(1, 1001), progress=progress)
    assert done[-1] < 1000


def test_other_threads_run_during_a_simulation(fx10: ayatori.Machine) -> None:
    began, ended = threading.Event(), threading.Event()
    counted = [0]

    def count() -> None:
        began.set()
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    began.wait()
    before = counted[0]
    fx10.simulate("alltoall", bytes="64K")
    ended.set()
    thread.join()
    assert counted[0] > before


def test_names_are_given() -> None:
    assert "ping-pong" in ayatori.workloads() and "recursive_doubling" in ayatori.algorithms("allreduce")
    with pytest.raises(ValueError, match="no collective operation"):
        ayatori.algorithms("no-such")


def test_the_stubs_name_what_there_is() -> None:
    stub = pathlib.Path(ayatori.__file__).with_name("_native.pyi").read_text()
    for name in ayatori.__all__:
        thing = getattr(ayatori, name)
        assert name in stub
        if isinstance(thing, type):
            members = [member for member in vars(thing) if not member.startswith("_")]
            missing = [member for member in members if f"def {member}(" not in stub]
            assert not missing, f"{name}: {missing}"
            assert thing.__doc__


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
