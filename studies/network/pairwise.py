#!/usr/bin/env python3
"""NSIM's run of the packet pacing paper in BookSim2 and in Ayatori: one-sided pairwise exchange on 4x2x8.

It fetches nothing.

    git clone https://github.com/booksim/booksim2 && make -C booksim2/src      (needs flex and bison)
    make -C studies/network/booksim BOOKSIM=$PWD/booksim2/src OUT=/tmp/ayatori-booksim
    cargo build --release -p ayatori-sim --example compare_torus
    studies/network/pairwise.py --ours target/release/examples/compare_torus \\
        --booksim /tmp/ayatori-booksim/pairwise

runs what pairwise.csv does not have yet, adds it there, and prints the tables of docs/compared.md. Without
either program it runs none of that one's; without both it prints only. A run of BookSim2 takes some 15 s
with 34 packets a message (64 KiB) and flits of 64 B, and half an hour with 547 (1 MiB) and flits of 16 B: --flits,
--packets, --seeds, --gaps and --only take a part.

Both run the paper's table 3: links of 5 GB/s, packets of 2 KiB, two virtual channels of four packets,
virtual cut-through, dimension order, RC, VA, SA and ST of a cycle, which is a flit's time: 3.2 ns for 16 B.
A cable takes no time beyond a flit's (`cable` 0, as BookSim2 has it) or the 5 ns of machines/nsim.toml. Each
of 64 nodes puts a message to rank XOR 1 to 63; the next is set up for 350 ns when the last flit has left;
starts are drawn below 1.56 cycles (5 ns for 16 B).
"""

import argparse
import csv
import os
import statistics
import subprocess
import tempfile
from collections import namedtuple

FOLDER = os.path.dirname(os.path.abspath(__file__))
Point = namedtuple("Point", "simulator switch dateline crossbar flit_bytes cable_ns packets gap seed")
GAPS = [0.0, 0.125, 0.25, 0.5, 0.75, 1.0]
# Of the table: a byte's time at 5 GB/s, and the time to set up a message.
BYTE_NS, SET_UP_NS = 0.2, 350
PACKET_BYTES = 2048
START_CYCLES = 1.5625
BASE = """
num_vcs = 2; vc_busy_when_full = 1; use_noc_latency = 0;
routing_delay = 1; vc_alloc_delay = 1; sw_alloc_delay = 1; st_final_delay = 1; credit_delay = 1;
deadlock_warn_timeout = 1000000; extents = {4,2,8}; inject = message;
"""
# Bytes of a flit, packets of a message.
SIZES = [(64, 8), (64, 34), (64, 68), (64, 547), (16, 34), (16, 547)]
# Dateline and crossbar: what the table says, and one of them otherwise.
SETTINGS = [("entry", "per-channel"), ("entry", "per-port"), ("wrap", "per-channel")]
NAMES = {
    "flit": "BookSim2, flit by flit",
    "packet": "BookSim2, packet by packet",
    "channel-first": "ours, `channel-first`",
    "round-robin": "ours, `round-robin`",
}


def set_up(flit):
    return round(SET_UP_NS / BYTE_NS / flit)


def booksim(program, point):
    length = PACKET_BYTES // point.flit_bytes
    with tempfile.NamedTemporaryFile("w", suffix=".cfg", delete=False) as config:
        config.write(f"{BASE} hold_switch_for_packet = {int(point.switch == 'packet')}; "
                     f"dateline = {point.dateline}; "
                     f"input_speedup = {2 if point.crossbar == 'per-channel' else 1}; "
                     f"packets = {point.packets}; packet_size = {length}; vc_buf_size = {4 * length}; "
                     f"head_room = {length}; set_up = {set_up(point.flit_bytes)}; spread = {START_CYCLES}; "
                     f"gap = {point.gap:.3f}; seed = {point.seed};\n")
    try:
        output = subprocess.run([program, config.name], capture_output=True, text=True, check=True).stdout
    finally:
        os.unlink(config.name)
    return int(output.split()[-1])


def ours(program, point):
    options = {"channel-first": ["channel-first"], "wrap": ["at-wrap"], "per-port": ["per-port"]}
    words = [word for key in (point.switch, point.dateline, point.crossbar) for word in options.get(key, [])]
    output = subprocess.run(
        [program, "pairwise", "4x2x8", str(point.packets), f"flit={point.flit_bytes}", f"gap={point.gap}",
         f"seed={point.seed}", f"cable={point.cable_ns / BYTE_NS / point.flit_bytes}",
         f"set-up={set_up(point.flit_bytes)}", f"starts={START_CYCLES}", *words],
        capture_output=True, text=True, check=True).stdout
    return int(output)


def points():
    """All runs, the quickest and most telling first."""
    for flit, packets in SIZES:
        for seed in range(1, 9):
            for setting in SETTINGS:
                for switch in ("channel-first", "round-robin"):
                    for gap in GAPS:
                        yield Point("ours", switch, *setting, flit, 0, packets, gap, seed)
    for seed in range(1, 25):
        for switch in ("channel-first", "round-robin"):
            for gap in GAPS:
                yield Point("ours", switch, *SETTINGS[0], 16, 5, 547, gap, seed)
    for flit, packets in SIZES:
        for setting in SETTINGS:
            for seed in range(1, 9):
                for gap in GAPS:
                    for switch in ("flit", "packet"):
                        yield Point("booksim", switch, *setting, flit, 0, packets, gap, seed)


def read(path):
    if not os.path.exists(path):
        return {}
    kinds = {"flit_bytes": int, "cable_ns": int, "packets": int, "seed": int, "gap": float}
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {Point(*(kinds.get(key, str)(row[key]) for key in Point._fields)): int(row["cycles"]) for row in rows}


def append(path, point, cycles):
    is_new = not os.path.exists(path)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([*Point._fields, "cycles"])
        writer.writerow([*point._replace(gap=f"{point.gap:g}"), cycles])


def curves(done):
    """Of each kind of run, its times by gap: {(kind): {gap: {seed: cycles}}}, those with gap 0 only."""
    found = {}
    for point, cycles in done.items():
        kind = point._replace(gap=0.0, seed=0)
        found.setdefault(kind, {}).setdefault(point.gap, {})[point.seed] = cycles
    return {kind: gaps for kind, gaps in found.items() if 0.0 in gaps and len(gaps) > 1}


def effects(gaps):
    """At each gap, the mean over seeds and its least and most, all over the mean without gap."""
    base = statistics.mean(gaps[0.0].values())
    for gap in sorted(gaps):
        if gap > 0:
            times = [cycles / base for cycles in gaps[gap].values()]
            yield gap, statistics.mean(times), min(times), max(times)


def report(done):
    found = curves(done)
    order = list(NAMES)
    shown = sorted(found, key=lambda kind: (kind.flit_bytes, kind.packets, kind.cable_ns, kind.dateline,
                                            kind.crossbar, order.index(kind.switch)))
    print("| flit, packets | | dateline, crossbar | seeds | without gap, ms | "
          + " | ".join(f"at {gap:g}" for gap in GAPS[1:]) + " |")
    print("|---|---|---|---|---|" + "---|" * (len(GAPS) - 1))
    for kind in shown:
        gaps = found[kind]
        to_ms = kind.flit_bytes * BYTE_NS / 1e6
        unpaced = [cycles * to_ms for cycles in gaps[0.0].values()]
        at = {gap: f"{mean:.3f} ({low:.2f} to {high:.2f})" for gap, mean, low, high in effects(gaps)}
        cells = [
            f"{kind.flit_bytes} B, {kind.packets}" + (f", cables of {kind.cable_ns} ns" if kind.cable_ns else ""),
            NAMES[kind.switch], f"{kind.dateline}, {kind.crossbar}", str(len(unpaced)),
            f"{statistics.mean(unpaced):.3f} ({min(unpaced):.2f} to {max(unpaced):.2f})",
            *(at.get(gap, "") for gap in GAPS[1:]),
        ]
        print(f"| {' | '.join(cells)} |")
    print("\nDraws of start times whose own curve is more than 2 % below 1 at some gap below 1:")
    for kind in shown:
        gaps = found[kind]
        seeds = set.intersection(*(set(gaps[gap]) for gap in gaps))
        gains = [min(gaps[gap][seed] for gap in gaps if 0 < gap < 1) / gaps[0.0][seed] for seed in seeds]
        gained = sum(gain < 0.98 for gain in gains)
        print(f"- {kind.flit_bytes} B, {kind.packets} packets, cable {kind.cable_ns} ns, {NAMES[kind.switch]}, "
              f"{kind.dateline}, {kind.crossbar}: {gained} of {len(gains)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--booksim")
    parser.add_argument("--ours")
    parser.add_argument("--csv", default=os.path.join(FOLDER, "pairwise.csv"))
    parser.add_argument("--flits", type=int, nargs="+", help="bytes")
    parser.add_argument("--packets", type=int, nargs="+")
    parser.add_argument("--cables", type=int, nargs="+", help="ns")
    parser.add_argument("--seeds", type=int, default=24, help="at most so many")
    parser.add_argument("--gaps", type=float, nargs="+")
    parser.add_argument("--only", nargs="+", help="flit, packet, entry, wrap, per-port …")
    options = parser.parse_args()
    done = read(options.csv)
    programs = {"booksim": (booksim, options.booksim), "ours": (ours, options.ours)}
    for point in points():
        run, program = programs[point.simulator]
        is_wanted = (not options.flits or point.flit_bytes in options.flits) \
            and (not options.packets or point.packets in options.packets) \
            and (not options.cables or point.cable_ns in options.cables) \
            and (not options.gaps or point.gap in options.gaps) \
            and point.seed <= options.seeds and set(options.only or ()) <= set(point)
        if program and is_wanted and point not in done:
            done[point] = run(program, point)
            append(options.csv, point, done[point])
    report(done)


if __name__ == "__main__":
    main()
