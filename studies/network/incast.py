#!/usr/bin/env python3
"""Many senders to one receiver over a switch that drops frames: simulated, in ns-3, and over Linux' own TCP.

    python3 studies/network/incast.py [--ns3 PYTHON] [--linux] [--runs N] [SENDERS:BYTES:FRAMES:MBPS ...]

The simulated runs need `cargo build --release -p ayatori-sim --example incast`. ns-3 comes from PyPI
(`python3 -m venv V && V/bin/pip install ns3 cppyy`, then `--ns3 V/bin/python`); this script fetches nothing.
`--linux` needs root: it makes network namespaces with a bridge and token buckets as its ports, and removes
them. Linux' times are real ones: run it on a machine that does nothing else. All three speak NewReno.
"""

import argparse
import ctypes
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

CASES = ["1:1000000:100:100", "4:1000000:32:100", "4:1000000:100:100", "8:256000:64:100", "16:64000:32:100",
         "32:32000:64:100"]
RELEASE = os.environ.get("CARGO_TARGET_DIR", "target") + "/release/examples/incast"

NS3 = r"""
import sys
from ns import ns
senders, size, frames, rate, seed = map(int, sys.argv[1:])
default = ns.Config.SetDefault
reno = ns.TypeIdValue(ns.TypeId.LookupByName("ns3::TcpNewReno"))
default("ns3::TcpL4Protocol::SocketType", reno)
numbers = {"SegmentSize": 1448, "InitialCwnd": 10, "DelAckCount": 2}
numbers |= {"SndBufSize": 1 << 23, "RcvBufSize": 1 << 23}
for key, value in numbers.items():
    default("ns3::TcpSocket::" + key, ns.UintegerValue(value))
default("ns3::TcpSocket::DelAckTimeout", ns.TimeValue(ns.MilliSeconds(40)))
default("ns3::TcpSocketBase::MinRto", ns.TimeValue(ns.MilliSeconds(200)))
nodes = ns.NodeContainer()
nodes.Create(senders + 2)
ns.InternetStackHelper().Install(nodes)
link, address, traffic = ns.PointToPointHelper(), ns.Ipv4AddressHelper(), ns.TrafficControlHelper()
# A frame is 1,502 B there and 1,538 B on Ethernet.
link.SetDeviceAttribute("DataRate", ns.StringValue("%dbps" % (rate * 976593)))
link.SetChannelAttribute("Delay", ns.StringValue("5ns"))
kept, receiver = [], None
for node in range(1, senders + 2):
    length = ns.QueueSizeValue(ns.QueueSize("%dp" % (frames if node == 1 else 1000)))
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", length)
    pair = ns.NodeContainer()
    pair.Add(nodes.Get(0))
    pair.Add(nodes.Get(node))
    devices = link.Install(pair)
    address.SetBase(ns.Ipv4Address("10.1.%d.0" % node), ns.Ipv4Mask("255.255.255.0"))
    interfaces = address.Assign(devices)
    traffic.Uninstall(devices)
    receiver = receiver or interfaces.GetAddress(1)
    kept.append((devices, interfaces))
ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
ns.cppyy.cppdef('''
#include "ns3/packet-sink.h"
double done[4096]; unsigned long got[4096];
void Rx(int at, unsigned long size, ns3::Ptr<const ns3::Packet> packet, const ns3::Address &) {
  got[at] += packet->GetSize();
  if (got[at] >= size && done[at] == 0) done[at] = ns3::Simulator::Now().GetSeconds();
}
void watch(ns3::Ptr<ns3::Application> sink, int at, unsigned long size) {
  sink->TraceConnectWithoutContext("Rx", ns3::MakeBoundCallback(&Rx, at, size));
}
''')
for sender in range(senders):
    sink = ns.PacketSinkHelper(
        "ns3::TcpSocketFactory", ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9000 + sender).ConvertTo())
    sinks = sink.Install(nodes.Get(1))
    sinks.Start(ns.Seconds(0))
    ns.cppyy.gbl.watch(sinks.Get(0), sender, size)
    bulk = ns.BulkSendHelper(
        "ns3::TcpSocketFactory", ns.InetSocketAddress(receiver, 9000 + sender).ConvertTo())
    bulk.SetAttribute("MaxBytes", ns.UintegerValue(size))
    bulk.SetAttribute("SendSize", ns.UintegerValue(1448))
    applications = bulk.Install(nodes.Get(2 + sender))
    applications.Start(ns.NanoSeconds(1_000_000_000 + (sender + 1) * 7919 * seed % 1000 * 1000))
    kept.append((sinks, applications))
ns.Simulator.Stop(ns.Seconds(300))
ns.Simulator.Run()
done = sorted(1e3 * (ns.cppyy.gbl.done[sender] - 1) for sender in range(senders))
print("first %f ms median %f last %f" % (done[0], done[len(done) // 2], done[-1]))
"""


def simulated(command, case, seed):
    """Times of the first, median and last message, ms, as a program prints them."""
    ended = subprocess.run([*command, *map(str, case), str(seed)], capture_output=True, text=True)
    found = re.search(r"first ([\d.]+) ms,? median ([\d.]+),? last ([\d.]+)", ended.stdout)
    if not found:
        sys.exit(f"{command[0]}: {ended.stderr.strip()}")
    return [float(text) for text in found.groups()]


def shell(command):
    ended = subprocess.run(command, shell=True, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{command}: {ended.stderr.strip()}")


class Namespaces:
    """A bridge, a receiver and senders, each in a network namespace, with Linux' NewReno."""

    def __init__(self, senders, frames, rate):
        prefix = f"incast{os.getpid()}"
        self.names = [f"{prefix}-switch", f"{prefix}-receiver", *(f"{prefix}-{at}" for at in range(senders))]
        self.senders, self.frames, self.rate = senders, frames, rate

    def __enter__(self):
        switch = self.names[0]
        # A frame is 1,514 B for a token bucket and 1,538 B on Ethernet.
        bucket = f"tbf rate {self.rate * 1514 / 1538:.3f}mbit burst 1600 limit"
        for name in self.names:
            shell(f"ip netns add {name}")
        shell(f"ip -n {switch} link add bridge type bridge && ip -n {switch} link set bridge up")
        for at, name in enumerate(self.names[1:]):
            shell(f"ip link add p{at} netns {switch} type veth peer name e netns {name}")
            shell(f"ip -n {switch} link set p{at} master bridge up && ip -n {name} link set e up")
            shell(f"ip -n {name} addr add 10.9.0.{at + 1}/24 dev e")
            for space, device in ((switch, f"p{at}"), (name, "e")):
                shell(f"ip netns exec {space} ethtool -K {device} tso off gso off gro off")
            reno = "net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_no_metrics_save=1"
            shell(f"ip netns exec {name} sysctl -qw {reno}")
            limit = (self.frames if at == 0 else 1000) * 1514
            shell(f"ip netns exec {switch} tc qdisc add dev p{at} root {bucket} {limit}")
            shell(f"ip netns exec {name} tc qdisc add dev e root {bucket} 20000000")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(f"ip netns del {name}", shell=True, capture_output=True)

    def child(self, name, body):
        """Runs `body` in a process of a namespace; its id."""
        pid = os.fork()
        if pid == 0:
            libc = ctypes.CDLL("libc.so.6", use_errno=True)
            with open(f"/run/netns/{name}") as space:
                code = libc.setns(space.fileno(), 0x40000000)
            if code == 0:
                body()
            os._exit(code)
        return pid

    def receive(self, size, port, report):
        listener = socket.create_server(("10.9.0.1", port), backlog=self.senders)
        os.write(report, b"listens")
        peers = [listener.accept()[0] for _ in range(self.senders)]
        time.sleep(0.3)
        begin, done = time.monotonic(), []

        def take(peer):
            left = size
            while left > 0:
                left -= len(peer.recv(1 << 20)) or left
            done.append(1e3 * (time.monotonic() - begin))

        threads = [threading.Thread(target=take, args=[peer]) for peer in peers]
        for thread, peer in zip(threads, peers):
            thread.start()
            peer.sendall(b"go")
        for thread in threads:
            thread.join()
        os.write(report, " ".join(f"{time_ms:.3f}" for time_ms in sorted(done)).encode())

    def send(self, size, port):
        peer = socket.create_connection(("10.9.0.1", port))
        peer.recv(2)
        peer.sendall(bytes(size))
        peer.shutdown(socket.SHUT_WR)
        peer.recv(1)

    def run(self, size, port):
        reader, writer = os.pipe()
        children = [self.child(self.names[1], lambda: self.receive(size, port, writer))]
        os.read(reader, 16)
        children += [self.child(name, lambda: self.send(size, port)) for name in self.names[2:]]
        done = [float(text) for text in os.read(reader, 1 << 16).split()]
        for child in children:
            os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        return [done[0], done[len(done) // 2], done[-1]]


def line(name, runs):
    first, median, last = (statistics.median(run[at] for run in runs) for at in range(3))
    lasts = [run[2] for run in runs]
    range_ms = f"({min(lasts):.1f} to {max(lasts):.1f})"
    print(f"  {name:6} first {first:8.1f}  median {median:8.1f}  last {last:8.1f}  {range_ms}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ns3", metavar="PYTHON", help="a Python that has ns-3")
    parser.add_argument("--linux", action="store_true", help="also over namespaces of this machine (root)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("cases", nargs="*", default=CASES)
    options = parser.parse_args()
    for text in options.cases:
        case = [int(number) for number in text.split(":")]
        senders, size, frames, rate = case
        what = f"{senders} senders of {size} B, {frames} frames of queue, {rate} Mbit/s"
        print(f"{what}; ms, medians of {options.runs}")
        seeds = range(1, options.runs + 1)
        line("ours", [simulated([RELEASE], case, seed) for seed in seeds])
        if options.ns3:
            line("ns-3", [simulated([options.ns3, "-c", NS3], case, seed) for seed in seeds])
        if options.linux:
            with Namespaces(senders, frames, rate) as namespaces:
                line("Linux", [namespaces.run(size, 5000 + seed) for seed in seeds])


main()
