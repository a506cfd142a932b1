#!/usr/bin/env python3
"""Ayatori's torus beside BookSim2's and CAMINOS': tables for docs/compared.md. It fetches nothing.

    git clone https://github.com/booksim/booksim2 && make -C booksim2/src      (needs flex and bison)
    cargo build --release -p ayatori-sim --example compare_torus
    cargo build --release --manifest-path studies/network/caminos/Cargo.toml
    studies/network/compare.py --ours target/release/examples/compare_torus \\
        --booksim booksim2/src/booksim \\
        --caminos studies/network/caminos/target/release/caminos-ring

Cargo gets CAMINOS, a crate. Leave --booksim or --caminos out, and its columns say nan.

All have input queues, two virtual channels with a buffer of four packets each, virtual cut-through, credits,
dimension order, a pipeline of four cycles, links of one cycle, packets of 128 flits, and one node a router.
Left as they are: BookSim2 lets a packet go on when one flit has room (its `vct` is read by another router of
its than this one), has the flit's own cycle in that of the link, allocates channels and switch by iSLIP,
draws ties at half a ring, sends also to itself (corrected for), and injects into both channels. CAMINOS has a buffer of one packet more for each
channel at each output (without it, its router Basic forgets grants and stands still), no pipeline, draws
among inputs, and injects into both channels; caminos/src/main.rs has the routing.
"""

import argparse
import os
import re
import subprocess
import tempfile

PACKETS = 100
BASE = """
topology = torus; num_vcs = 2; vc_buf_size = 512; packet_size = 128; vct = 1; hold_switch_for_packet = 1;
use_noc_latency = 0; routing_delay = 1; vc_alloc_delay = 1; sw_alloc_delay = 1; st_final_delay = 1; credit_delay = 1;
injection_rate_uses_flits = 1; seed = 1; deadlock_warn_timeout = 1000000; warmup_periods = 2;
"""


def booksim(program, extents, inputs, more):
    if not program:
        return ""
    k, n = extents[0], len(extents)
    with tempfile.NamedTemporaryFile("w", suffix=".cfg", delete=False) as config:
        config.write(f"{BASE} k = {k}; n = {n}; input_speedup = {inputs}; {more}\n")
    try:
        return subprocess.run([program, config.name], capture_output=True, text=True, check=False).stdout
    finally:
        os.unlink(config.name)


def caminos(program, *arguments):
    """The numbers of its last line."""
    if not program:
        return [float("nan")] * 2
    output = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    return [float(number) for number in output.strip().splitlines()[-1].split()[:2]]


def last(pattern, text):
    found = re.findall(pattern, text)
    return float(found[-1]) if found else float("nan")


def ours(program, *arguments):
    output = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    return [float(number) for number in output.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--booksim")
    parser.add_argument("--caminos")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--small", action="store_true", help="rings only")
    options = parser.parse_args()
    sizes = [[8], [12], [16]] + ([] if options.small else [[8, 8], [12, 12], [16, 16], [8, 8, 8]])

    print("tornado, 100 packets of each node, cycles\n")
    print("| torus | BookSim2, one crossbar input a port | two | CAMINOS, three seeds "
          "| ours, `per-port` | `per-channel` | `at-wrap` | `channel-first` |")
    print("|---|---|---|---|---|---|---|---|")
    for extents in sizes:
        name = "x".join(map(str, extents))
        batch = f"traffic = tornado; routing_function = dim_order; sim_type = batch; batch_size = {PACKETS};"
        theirs = [
            last(r"Overall min batch duration = ([\d.]+)",
                 booksim(options.booksim, extents, inputs, batch))
            for inputs in (1, 2)
        ]
        seeds = [f"seed={seed}" for seed in (1, 2, 3)]
        random = [caminos(options.caminos, "tornado", name, str(PACKETS), seed)[0] for seed in seeds]
        ways = (["per-port"], [], ["at-wrap"], ["channel-first"])
        mine = [ours(options.ours, "tornado", name, str(PACKETS), *more)[0] for more in ways]
        row = [f"{time:,.0f}" for time in theirs] + [f"{min(random):,.0f} to {max(random):,.0f}"]
        others = [*theirs, theirs[1], theirs[1]]
        row += [f"{time:,.0f} ({100 * (time / other - 1):+.1f} %)" for time, other in zip(mine, others)]
        print(f"| {name} | {' | '.join(row)} |", flush=True)

    print("\nuniform traffic, accepted at an offered load of 0.95\n")
    print("| torus | BookSim2, `dim_order` | `dim_order_bal` | CAMINOS "
          "| ours, `per-port` | `per-channel` | `at-wrap` | `channel-first` |")
    print("|---|---|---|---|---|---|---|---|")
    for extents in sizes:
        name = "x".join(map(str, extents))
        nodes = 1
        for extent in extents:
            nodes *= extent
        theirs = []
        for routing in ("dim_order", "dim_order_bal"):
            more = f"traffic = uniform; routing_function = {routing}; injection_rate = 0.95; sim_type = throughput; " \
                   f"sample_period = {20000 if nodes < 100 else 6000}; max_samples = 4;"
            # What a node sends to itself crosses no link.
            accepted = last(r"Accepted flit rate average\s*= ([\d.]+)", booksim(options.booksim, extents, 2, more))
            theirs.append(accepted * (nodes - 1) / nodes)
        theirs.append(caminos(options.caminos, "uniform", name, "0.95")[0])
        mine = [ours(options.ours, "uniform", name, "0.95", *more)[0] for more in ways]
        print(f"| {name} | {' | '.join(f'{load:.3f}' for load in theirs + mine)} |", flush=True)

    print("\nuniform traffic on rings up to saturation: accepted load, latency in cycles\n")
    print("| ring | offered | BookSim2 | CAMINOS | ours | `channel-first` |")
    print("|---|---|---|---|---|---|")
    for extent, loads in ((8, (0.2, 0.4, 0.5, 0.55, 0.6)), (12, (0.1, 0.2, 0.3, 0.35, 0.4)),
                          (16, (0.1, 0.2, 0.25, 0.3, 0.32))):
        for load in loads:
            # So that as much is offered to others as ours offers.
            rate = load * extent / (extent - 1)
            more = f"traffic = uniform; routing_function = dim_order_bal; injection_rate = {rate}; " \
                   "sim_type = latency; latency_thres = 1000000.0; sample_period = 20000; max_samples = 6;"
            text = booksim(options.booksim, [extent], 2, more)
            accepted = last(r"Accepted flit rate average\s*= ([\d.]+)", text) * (extent - 1) / extent
            latency = last(r"Packet latency average = ([\d.]+)", text)
            mine = [ours(options.ours, "uniform", str(extent), str(load), *way)
                    for way in ([], ["channel-first"])]
            random = caminos(options.caminos, "uniform", str(extent), str(load))
            pairs = [(accepted, latency), random, *mine]
            cells = [f"{carried:.3f}, {cycles:,.0f}" for carried, cycles in pairs]
            print(f"| {extent} | {load} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
