#!/usr/bin/env python3
"""GOAL schedules by Ayatori's simulator and by LogGOPSim: tables for docs/compared.md. It fetches nothing.

    git clone https://github.com/spcl/LogGOPSim
    make -C LogGOPSim/src/LogGOPSim      (needs gengetopt, re2c and libgraphviz-dev)
    studies/network/loggops.py --ours target/release/ayatori --theirs LogGOPSim/src/LogGOPSim

LogGOPSim has no network: a message takes o at the sender, L, (s - 1) G, and o at the receiver. Ours is one
switch with a port for each host, whose costs are set to the same sums: send_ns and receive_ns are o, the rate
is 1 / G, and command_ns what is left of L. Headers of the network are 0; those of the library's packets (32 B
and less) remain. All messages are eager in both (S of theirs, `eager_bytes_max` of ours).

Two settings: overheads of 1 us, where LogGOPSim keeps the receiver's processor for o + (s - 1) G a message
and ours for o alone, and overheads of 10 ns. `--o-ns` tries others.
"""

import argparse
import json
import os
import subprocess
import tempfile

G_PS = 100  # a byte: 10 GB/s
L_NS = 2000
CABLE_NS = 5
FLIT_BYTES = 16

MACHINE = """
name = "logp"
[switch_models.crossbar]
ports = {hosts}
rate_gbps = 80
dialect = "json"
switching = "virtual-cut-through"
pause = false
[switch_models.crossbar.router]
virtual_channels = 1
virtual_channel_buffer_bytes = 65536
flit_bytes = {flit}
packet_max_bytes = 2048
packet_min_bytes = 1
header_bytes = 0
route_computation_ns = 0
channel_allocation_ns = 0
switch_allocation_ns = 0
switch_traversal_ns = 0
[host_models.node]
nic = [{{ name = "nic", rate_gbps = 80, command_ns = {command}, eager_bytes_max = 131072 }}]
[host_models.node.software]
send_ns = {o}
receive_ns = {o}
copy_gbytes_per_s = 1000000
[topology]
kind = "star"
switches = 1
switch_model = "crossbar"
cable_latency_ns = {cable}
[hosts]
model = "node"
per_switch = {hosts}
"""


class Rank:
    """The operations of a rank, as lines of GOAL."""

    def __init__(self):
        self.lines = []
        self.count = 0

    def add(self, text, after=None):
        self.count += 1
        self.lines.append(f"l{self.count}: {text} tag 0")
        if after:
            self.lines.append(f"l{self.count} requires l{after}")
        return self.count

    def send(self, to, size, after=None):
        return self.add(f"send {size}b to {to}", after)

    def receive(self, source, size, after=None):
        return self.add(f"recv {size}b from {source}", after)


def ping_pong(ranks, size, rounds=4):
    last = [None, None]
    for step in range(2 * rounds):
        a, b = step % 2, 1 - step % 2
        last[a] = ranks[a].send(b, size, last[a])
        last[b] = ranks[b].receive(a, size, last[b])


def ring(ranks, size, rounds=8):
    """All send to the right at once, and go on when the left one's message has come."""
    count = len(ranks)
    for me, rank in enumerate(ranks):
        last = None
        for _ in range(rounds):
            rank.send((me + 1) % count, size, last)
            last = rank.receive((me - 1) % count, size, last)


def ring_token(ranks, size):
    """One message, once around."""
    count = len(ranks)
    for me, rank in enumerate(ranks):
        if me == 0:
            rank.send(1, size)
            rank.receive(count - 1, size)
        else:
            rank.send((me + 1) % count, size, rank.receive(me - 1, size))


def broadcast(ranks, size):
    """Binomial tree."""
    for me, rank in enumerate(ranks):
        bit = 1
        last = None
        while bit < len(ranks) and not me & bit:
            bit *= 2
        if me:
            last = rank.receive(me - bit, size)
        bit //= 2
        while bit:
            if me + bit < len(ranks):
                rank.send(me + bit, size, last)
            bit //= 2


def recursive_doubling(ranks, size):
    for me, rank in enumerate(ranks):
        bit, last = 1, None
        while bit < len(ranks):
            rank.send(me ^ bit, size, last)
            last = rank.receive(me ^ bit, size, last)
            bit *= 2


def dissemination(ranks, size):
    count = len(ranks)
    for me, rank in enumerate(ranks):
        step, last = 1, None
        while step < count:
            rank.send((me + step) % count, size, last)
            last = rank.receive((me - step) % count, size, last)
            step *= 2


def incast(ranks, size):
    for me, rank in enumerate(ranks[1:], 1):
        ranks[0].receive(me, size)
        rank.send(0, size)


def scatter(ranks, size):
    for me, rank in enumerate(ranks[1:], 1):
        ranks[0].send(me, size)
        rank.receive(0, size)


def all_to_all(ranks, size):
    """Everybody's messages at once, to the right first."""
    count = len(ranks)
    for me, rank in enumerate(ranks):
        for step in range(1, count):
            rank.send((me + step) % count, size)
        for step in range(1, count):
            rank.receive((me - step) % count, size)


def pairwise(ranks, size):
    """All-to-all in steps."""
    for me, rank in enumerate(ranks):
        last = None
        for step in range(1, len(ranks)):
            rank.send(me ^ step, size, last)
            last = rank.receive(me ^ step, size, last)


def halo(ranks, size):
    """Four neighbours on a periodic 4 x 4 grid at once."""
    for me, rank in enumerate(ranks):
        x, y = me % 4, me // 4
        near = [(x + 1) % 4 + 4 * y, (x - 1) % 4 + 4 * y, x + (y + 1) % 4 * 4, x + (y - 1) % 4 * 4]
        for peer in near:
            rank.send(peer, size)
        for peer in (near[1], near[0], near[3], near[2]):
            rank.receive(peer, size)


WORKLOADS = [
    ("ping-pong, 4 times", ping_pong, 2),
    ("token around a ring", ring_token, 16),
    ("ring, 8 steps", ring, 16),
    ("binomial broadcast", broadcast, 16),
    ("recursive doubling", recursive_doubling, 16),
    ("dissemination", dissemination, 13),
    ("pairwise all-to-all", pairwise, 16),
    ("all-to-all at once", all_to_all, 16),
    ("four neighbours", halo, 16),
    ("scatter", scatter, 16),
    ("incast", incast, 16),
]


def goal(workload, count, size):
    ranks = [Rank() for _ in range(count)]
    workload(ranks, size)
    parts = [f"rank {me} {{\n" + "\n".join(rank.lines) + "\n}\n" for me, rank in enumerate(ranks)]
    return f"num_ranks {count}\n\n" + "\n".join(parts)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def theirs_us(folder, o_ns):
    source, binary = os.path.join(folder, "x.goal"), os.path.join(folder, "x.bin")
    run(os.path.join(options.theirs, "txt2bin"), "-i", source, "-o", binary)
    costs = ["-o", o_ns * 1000, "-L", L_NS * 1000, "-g", 0, "-G", G_PS, "-O", 0, "-S", 1 << 30]
    output = run(os.path.join(options.theirs, "LogGOPSim"), "-f", binary, *map(str, costs))
    assert "contains" not in output, f"messages without receives: {output}"
    return max(int(line.split(":")[1]) for line in output.splitlines() if line.startswith("Host ")) / 1e6


def ours_us(folder, hosts, o_ns):
    # The rest of L: two cables, and the first flit once more, since it is looked at before it goes on.
    command = L_NS - 2 * CABLE_NS - FLIT_BYTES * G_PS / 1000
    machine = os.path.join(folder, "logp.toml")
    with open(machine, "w") as file:
        file.write(MACHINE.format(hosts=hosts, flit=FLIT_BYTES, command=command, o=o_ns, cable=CABLE_NS))
    output = run(options.ours, "sim", "run", machine, os.path.join(folder, "x.goal"), "--json")
    return json.loads(output)["elapsed_ps"] / 1e6


def main():
    for o_ns in options.o_ns:
        print(f"\no = {o_ns} ns, L = {L_NS} ns, G = {G_PS / 1000} ns a byte, g = 0; times in us\n")
        heads = [f"{size} B: LogGOPSim | ours | " for size in options.bytes]
        print(f"| schedule | ranks | {' | '.join(heads)}|")
        print("|---" * (2 + 3 * len(options.bytes)) + "|")
        for name, workload, count in WORKLOADS:
            cells = []
            for size in options.bytes:
                with tempfile.TemporaryDirectory() as folder:
                    with open(os.path.join(folder, "x.goal"), "w") as file:
                        file.write(goal(workload, count, size))
                    theirs, mine = theirs_us(folder, o_ns), ours_us(folder, count, o_ns)
                cells += [f"{theirs:.2f}", f"{mine:.2f}", f"{100 * (mine / theirs - 1):+.1f} %"]
            print(f"| {name} | {count} | {' | '.join(cells)} |", flush=True)


parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("--ours", required=True, help="the command ayatori")
parser.add_argument("--theirs", required=True, help="the folder with LogGOPSim and txt2bin")
parser.add_argument("--o-ns", type=int, nargs="+", default=[1000, 10])
parser.add_argument("--bytes", type=int, nargs="+", default=[8, 16384])
options = parser.parse_args()
main()
