#!/usr/bin/env python3
"""A plan's MSTP, elected by somebody else's program: mstpd, which Linux' bridges use.

    python3 studies/mstp/mstpd.py MACHINE --mstpd DIR [--ayatori PROGRAM] [--cuts N]

Plans MACHINE with `spanning_tree = "mstp"` and automatic routes, its switches as Cisco IOS, and reads
priorities and costs from the files written for the switches. Then boots the lab's virtual machine
(`ayatori lab`, docs/lab.md), makes a bridge for every switch and a veth pair for every link, and lets mstpd
elect. Every instance's tree must be the planned one; after each of N cut links every instance must be a tree
that reaches every switch again, and the planned one when the link is back. What is elected is read from
mstpd: kernels of today do not apply the states of instances, so no frame of a VLAN is sent.

DIR has `mstpd` and `mstpctl`, built from https://github.com/mstpd/mstpd (`./autogen.sh && ./configure &&
make`); this script fetches nothing.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

def with_mstp(text):
    """A machine file's text with IOS switches, MSTP, and routes that are free of deadlock whatever it is."""
    text = re.sub(r"^dialect = .*$", 'dialect = "cisco-ios"', text, flags=re.M)
    text = re.sub(r"^(routing|dimension_order|vlans|spanning_tree) = .*\n", "", text, flags=re.M)
    plan = '[plan]\nspanning_tree = "mstp"\n'
    return text.replace("[plan]\n", plan) if "[plan]\n" in text else f"{text}\n{plan}"


def planned(machine, program, folder):
    """Region, instances with their trees, links, and what the switches' files say of them."""
    copy = pathlib.Path(folder) / "machine.toml"
    copy.write_text(with_mstp(pathlib.Path(machine).read_text()))
    ended = subprocess.run([program, "plan", str(copy), "--out", folder], capture_output=True, text=True)
    if ended.returncode:
        sys.exit(ended.stderr.strip() or ended.stdout.strip())
    plan = json.loads((pathlib.Path(folder) / "plan.json").read_text())
    links = []
    for link in plan["links"]:
        ends = [(end["switch"], end["ports"][0]) for end in link["ends"]]
        if any(len(end["ports"]) > 1 for end in link["ends"]):
            sys.exit(f"{machine}: LAGs are not built here")
        links.append(ends)
    switches = []
    for switch in plan["switches"]:
        text = (pathlib.Path(folder) / f"{switch['name']}.cfg").read_text()
        names = {port["name"]: port["number"] for port in switch["ports"]}
        found = re.findall(r"^spanning-tree mst (\d+) priority (\d+)", text, re.M)
        priorities = {int(at): int(value) for at, value in found}
        costs, port = [], None
        for line in text.splitlines():
            if line.startswith("interface "):
                port = names.get(line.split()[1])
            found = re.match(r" spanning-tree mst (\d+) cost (\d+)", line)
            if found:
                costs.append((port, int(found[1]), int(found[2])))
        switches.append({"priorities": priorities, "costs": costs})
    return {"links": links, "switches": switches, "mstp": plan["mstp"]}


class Bridges:
    """Inside the virtual machine, in its first network namespace: only there the kernel asks a program."""

    def __init__(self, plan, tools):
        self.plan, self.tools = plan, tools
        self.instances = plan["mstp"]["instances"]
        self.ports = {}
        for number, ends in enumerate(plan["links"]):
            for side, (switch, port) in enumerate(ends):
                self.ports[switch, port] = (f"l{number}{'ab'[side]}", number)

    def ctl(self, lines, must=True):
        """What mstpctl prints for these commands."""
        ended = subprocess.run([f"{self.tools}/mstpctl", "-f", "json", "-s"], input="\n".join(lines) + "\n",
                               capture_output=True, text=True)
        if must and ended.returncode:
            sys.exit(f"mstpctl: {ended.stdout[-300:]} {ended.stderr[-300:]}")
        return ended.stdout

    def start(self):
        # The kernel starts this program in its first root folder; a success says that user space elects.
        helper = pathlib.Path("/proc/1/root/sbin/bridge-stp")
        helper.parent.mkdir(exist_ok=True)
        helper.write_text("#!/bin/busybox sh\nexit 0\n")
        helper.chmod(0o755)
        commands = []
        for number, ends in enumerate(self.plan["links"]):
            commands.append(f"link add l{number}a type veth peer name l{number}b")
        for at in range(len(self.plan["switches"])):
            commands.append(f"link add b{at} address 02:00:00:00:01:{at:02x} type bridge")
        for (switch, _), (name, _) in self.ports.items():
            commands.append(f"link set {name} master b{switch} up")
        self.ip(commands)
        subprocess.Popen([f"{self.tools}/mstpd", "-d", "-s", "-v", "0"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        time.sleep(1)
        for at in range(len(self.plan["switches"])):
            self.ip([f"link set b{at} up type bridge stp_state 1"])
        bridges = [f"b{at}" for at in range(len(self.plan["switches"]))]
        self.ctl([f"addbridge {bridge}" for bridge in bridges])
        # It learns of bridges and ports by and by.
        end, known = time.monotonic() + 60, ""
        while not all(f'"{name}"' in known for name, _ in self.ports.values()):
            if time.monotonic() > end:
                sys.exit(f"mstpd does not know all ports: {known[:300]}")
            time.sleep(1)
            known = self.ctl([f"showport {bridge}" for bridge in bridges], must=False)
        self.configure()

    def configure(self):
        region = self.plan["mstp"]
        lines = []
        for at, switch in enumerate(self.plan["switches"]):
            lines += [f"setforcevers b{at} mstp", f"setmaxhops b{at} 40",
                      f"setmstconfid b{at} {region['revision']} {region['region']}"]
            for instance in self.instances:
                number, vlans = instance["number"], ",".join(map(str, instance["vlans"]))
                lines += [f"createtree b{at} {number}", f"setvid2fid b{at} {number}:{vlans}",
                          f"setfid2mstid b{at} {number}:{number}",
                          f"settreeprio b{at} {number} {switch['priorities'][str(number)] // 4096}"]
            for port, instance, cost in switch["costs"]:
                if (at, port) in self.ports:
                    lines.append(f"settreeportcost b{at} {self.ports[at, port][0]} {instance} {cost}")
        self.ctl(lines)

    def ip(self, commands):
        subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, check=True)

    def elected(self):
        """By instance: the links both ends of which forward."""
        asked = [(switch, name, link, instance["number"])
                 for (switch, _), (name, link) in self.ports.items() for instance in self.instances]
        text = self.ctl([f"showtreeport b{switch} {name} {number}" for switch, name, _, number in asked])
        states = re.findall(r'"state":\s*"(\w+)"', text)
        if len(states) != len(asked):
            sys.exit(f"mstpctl answered {len(states)} of {len(asked)} questions: {text[:300]}")
        forwarding = {}
        for (_, _, link, number), state in zip(asked, states):
            forwarding.setdefault((number, link), []).append(state == "forwarding")
        return {instance["number"]: {link for (number, link), both in forwarding.items()
                                     if number == instance["number"] and all(both)}
                for instance in self.instances}

    def settle(self, is_right, what, seconds=240):
        """Waits until the elected trees are right; the last that was wrong if they never are."""
        end, begin = time.monotonic() + seconds, time.monotonic()
        while True:
            wrong = is_right(self.elected())
            if wrong is None:
                print(f"ok   {what} ({time.monotonic() - begin:.0f} s)", flush=True)
                return
            if time.monotonic() > end:
                sys.exit(f"FAILED {what}: {wrong}")
            time.sleep(1)

    def as_planned(self, elected):
        for instance in self.instances:
            tree = set(instance["tree"])
            found = elected[instance["number"]]
            # Links to switches that the plan's tree leaves out may be elected, too: they close no circle.
            if not tree <= found or self.fault(found):
                return f"instance {instance['number']}: planned {sorted(tree)}, elected {sorted(found)}"
        return None

    def fault(self, links, cut=None):
        """What is wrong with these links as a tree of all switches that can be reached."""
        group = list(range(len(self.plan["switches"])))

        def root(at):
            while group[at] != at:
                at = group[at]
            return at

        for link in links:
            low, high = (root(switch) for switch, _ in self.plan["links"][link])
            if low == high:
                return "a circle"
            group[low] = high
        for link, ends in enumerate(self.plan["links"]):
            if link != cut and len({root(switch) for switch, _ in ends}) > 1:
                return "not all are reached"
        return None

    def heals(self, cut):
        def wrong(elected):
            for number, links in elected.items():
                fault = "the cut link is in it" if cut in links else self.fault(links, cut)
                if fault:
                    return f"instance {number}: {sorted(links)}: {fault}"
            return None

        self.ip([f"link set l{cut}a down", f"link set l{cut}b down"])
        self.settle(wrong, f"link {cut} cut: every instance is a tree that reaches every switch")
        self.ip([f"link set l{cut}a up", f"link set l{cut}b up"])
        self.settle(self.as_planned, f"link {cut} put back: the planned trees")


def inside(folder, tools, cuts):
    bridges = Bridges(json.loads((pathlib.Path(folder) / "election.json").read_text()), tools)
    bridges.start()
    switch_count, link_count = len(bridges.plan["switches"]), len(bridges.plan["links"])
    what = f"{len(bridges.instances)} instances on {switch_count} switches, {link_count} links"
    bridges.settle(bridges.as_planned, f"{what}: mstpd elects the planned trees")
    trees = [instance["tree"] for instance in bridges.instances]
    used = [link for link in range(link_count) if any(link in tree for tree in trees)]
    for at in range(min(cuts, len(used))):
        bridges.heals(used[at * len(used) // cuts])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("machine")
    parser.add_argument("--mstpd", required=True, metavar="DIR")
    parser.add_argument("--ayatori", default="ayatori", metavar="PROGRAM")
    parser.add_argument("--cuts", type=int, default=4)
    options = parser.parse_args()
    tools = str(pathlib.Path(options.mstpd).resolve())
    # Not under /tmp, which the virtual machine hides.
    with tempfile.TemporaryDirectory(dir=os.environ.get("HOME", "/var")) as folder:
        plan = planned(options.machine, options.ayatori, folder)
        (pathlib.Path(folder) / "election.json").write_text(json.dumps(plan))
        lab = pathlib.Path(__file__).resolve().parents[2] / "machines" / "lab-ring.toml"
        this = str(pathlib.Path(__file__).resolve())
        # /sys shows the network namespace in which it was mounted.
        again = f"{sys.executable} {this} --inside {folder} {tools} {options.cuts}"
        inside = f"mount -t sysfs sysfs /sys && exec {again}"
        command = f"exec nsenter --net=/proc/1/ns/net unshare --mount sh -c '{inside}'"
        lab_of_one = [options.ayatori, "lab", str(lab), "--no-prime", "--host", "a"]
        sys.exit(subprocess.run([*lab_of_one, "--", "sh", "-c", command]).returncode)


if sys.argv[1:2] == ["--inside"]:
    inside(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    main()
