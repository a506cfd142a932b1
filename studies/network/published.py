#!/usr/bin/env python3
"""The examples that BookSim2 and CAMINOS publish, beside our model of them: tables for docs/compared.md.

It fetches nothing; compare.py says how to get both.

    cargo build --release -p ayatori-sim --example compare_published
    studies/network/published.py --ours target/release/examples/compare_published \\
        --booksim booksim2/src/booksim --examples booksim2/src/examples \\
        --caminos studies/network/caminos/target/release/caminos-ring

Theirs run as published, but for longer samples, and flatflyconfig with links of one length
(use_noc_latency = 0); then with a load of 1. Ours take packets, channels, buffers, pipeline and links from
the same files (crates/sim/examples/compare_published.rs), and the arbitration that is the default for the
topology: channel-first on a torus, else round-robin; at a load of 1 both. What BookSim2's nodes send to themselves is taken off:
nobody does so here. Latency is that in the network, from the first flit's leaving the node.
"""

import argparse
import re
import subprocess

SATURATED = ["injection_rate=1.0", "injection_rate_uses_flits=1", "sim_type=throughput", "sample_period=4000",
             "max_samples=4", "warmup_periods=2", "latency_thres=1000000.0"]


class Example:
    """A file in BookSim2's src/examples; `load` is in flits, `selfish` the part of nodes' packets that go to
    themselves, `alone` the latency of such a packet."""

    def __init__(self, load, selfish, alone, sample=20000, more=(), default="round-robin", path=None):
        self.load, self.selfish, self.alone, self.sample = load, selfish, alone, sample
        self.more, self.default, self.path = list(more), default, path


EXAMPLES = {
    "mesh88_lat": Example(0.1, 8 / 64, 3 + 3 + 19),
    "torus88": Example(0.15, 1 / 64, 3 + 4, default="channel-first"),
    "fattree_config": Example(0.6, 1 / 64, 3 + 3, sample=10000),
    "flatflyconfig": Example(0.1, 1 / 64, 3 + 3, more=["use_noc_latency=0"]),
    "cmeshconfig": Example(0.1, 0, 0),
    # A packet to oneself goes through the crossbar as any other.
    "singleconfig": Example(1.0, 0, 0),
    "anynet_config": Example(0.01, 1 / 9, 3 + 4, path="anynet"),
}


def last(pattern, text):
    found = re.findall(pattern, text)
    return float(found[-1]) if found else float("nan")


def booksim(options, name, example, more):
    folder = f"{options.examples}/{example.path}" if example.path else options.examples
    text = subprocess.run([options.booksim, name, *example.more, *more], cwd=folder, capture_output=True,
                          text=True, check=False).stdout
    latency = last(r"Network latency average = ([\d.]+)", text)
    rates = re.findall(r"Accepted flit rate average\s*= ([\d.]+).*?maximum = ([\d.]+)", text, re.DOTALL)
    return latency, *(float(rate) for rate in rates[-1])


def ours(options, name, load, *more):
    output = subprocess.run([options.ours, name, f"{load:.4f}", *more], capture_output=True, text=True,
                            check=True).stdout
    return [float(number) for number in output.split()]


def deviation(mine, theirs):
    return f"{100 * (mine / theirs - 1):+.1f} %"


def published(options):
    print("| example | load | BookSim2: accepted, latency | ours | latency | BookSim2, accepted of 1 "
          "| ours, `round-robin` | `channel-first` |")
    print("|---|---|---|---|---|---|---|---|")
    for name, example in EXAMPLES.items():
        others = 1 - example.selfish
        # A permutation's nodes that send to themselves are not counted here; of uniform packets, those.
        is_permutation = name == "mesh88_lat"
        latency, accepted, _ = booksim(options, name, example, [f"sample_period={example.sample}"])
        latency = (latency - example.selfish * example.alone) / others
        accepted = accepted if is_permutation else accepted * others
        _, full, of_itself = booksim(options, name, example, SATURATED)
        full = (full - example.selfish * of_itself) / others if is_permutation else full * others
        way = [example.default] if example.default != "round-robin" else []
        mine, cycles = ours(options, name, example.load * (1 if is_permutation else others), *way)
        beyond = [ours(options, name, 1.0, *more)[0] for more in ([], ["channel-first"])]
        light = f"{accepted:.3f}, {latency:.1f}", f"{mine:.3f}, {cycles:.1f}", deviation(cycles, latency)
        if example.load == 1:
            light = "", "", ""
        cells = [name, f"{example.load:g}", *light, f"{full:.3f}",
                 *(f"{load:.3f} ({deviation(load, full)})" for load in beyond)]
        print(f"| {' | '.join(cells)} |", flush=True)


def caminos(options, pattern, load, *more):
    runs = []
    for seed in (42, 935, 128643):
        output = subprocess.run([options.caminos, "published", pattern, str(load), f"seed={seed}", *more],
                                capture_output=True, text=True, check=True).stdout
        runs.append([float(number) for number in output.strip().splitlines()[-1].split()])
    accepted, _, latency = (sum(column) / len(column) for column in zip(*runs))
    # Of the transpose an eighth sends to itself, and is not counted there.
    return accepted * (8 / 7 if pattern == "transpose" else 1), latency


def caminos_table(options):
    print("\n| CAMINOS' default, xy-DOR | load | as published (bubble) | with classes on entry | ours | to the latter |")
    print("|---|---|---|---|---|---|")
    for pattern in ("uniform", "tornado", "transpose"):
        for load in (0.1, 0.2, 0.3, 1.0):
            bubble, classes = caminos(options, pattern, load), caminos(options, pattern, load, "classes")
            mine = ours(options, f"caminos-{pattern}", load, "channel-first")
            cells = [f"{carried:.3f}, {cycles:,.0f}" for carried, cycles in (bubble, classes, mine)]
            is_light = classes[0] > 0.95 * load
            change = deviation(mine[1], classes[1]) + " latency" if is_light else deviation(mine[0], classes[0])
            print(f"| {pattern} | {load} | {' | '.join(cells)} | {change} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--booksim")
    parser.add_argument("--examples", help="booksim2/src/examples")
    parser.add_argument("--caminos")
    options = parser.parse_args()
    if options.booksim:
        published(options)
    if options.caminos:
        caminos_table(options)


if __name__ == "__main__":
    main()
