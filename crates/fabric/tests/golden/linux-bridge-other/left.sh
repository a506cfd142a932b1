#!/bin/sh
# left: switch of machine example (example-model)
# Run as root on the switch, any number of times; it changes only what differs.
# Written by `ayatori plan` (one VLAN per source switch). The same plan gives the same file:
# change the machine description, plan again, and diff.
# Its hosts send on VLAN 101.
set -eu

# What is there now: `exists NAME`, `is_in NAME MASTER`. Changes are collected and made in one go, because a switch with
# hundreds of ports would otherwise start hundreds of programs.
links=$(ip -o link show)
exists() { case "$links" in *": $1: "* | *": $1@"*) ;; *) return 1 ;; esac; }
newline='
'
is_in() {
	rest=${links#*": $1"[:@]}
	case "${rest%%"$newline"*}" in *" master $2 "*) ;; *) return 1 ;; esac
}
# join NAME BRIDGE, join_lag NAME LAG: a LAG takes members only while they are down.
join() { is_in "$1" "$2" || echo "link set dev $1 master $2"; }
join_lag() { is_in "$1" "$2" || printf 'link set dev %s down\nlink set dev %s master %s\n' "$1" "$1" "$2"; }

# 1. The bridge. No VLAN by default: a port that joins carries nothing until told to, so nothing loops meanwhile.
#    No spanning tree: it would block the very links the VLANs are to use; each VLAN is a tree by plan.
#    Addresses are kept as long as can be (100000 s): priming, not traffic, teaches them.
{
exists br0 || echo link add name br0 type bridge vlan_filtering 1 vlan_default_pvid 0
echo link set dev br0 type bridge vlan_filtering 1 vlan_default_pvid 0 stp_state 0 ageing_time 10000000

# 2. Link aggregation, hashed over addresses and ports so that several connections spread.
# bond1: link to right swp5,swp6
exists bond1 || echo link add name bond1 type bond mode balance-xor miimon 100
echo link set dev bond1 type bond xmit_hash_policy layer3+4
join_lag swp7 bond1
join_lag swp8 bond1

# 3. Ports of the bridge. Unused ones are taken out and down.
join bond1 br0 # link to right swp5,swp6
join swp1 br0 # host node0 eth0
join swp2 br0 # host node1 eth0
for port in swp3 swp4 swp5 swp6; do
	if exists $port; then echo link set dev $port nomaster down; fi
done
} | ip -batch -

# 4. VLANs. Frames from a host enter the VLAN of its port (pvid) and leave to any host untagged, whatever VLAN they
#    came by; between switches they keep their tag. What is not listed is deleted first: with no spanning tree a
#    leftover membership is a loop.
bridge -batch - <<'VLANS'
# link to right swp5,swp6
vlan del vid 1-100 dev bond1
vlan del vid 103-4094 dev bond1
vlan add vid 101-102 dev bond1
# host node0 eth0
vlan del vid 1-100 dev swp1
vlan del vid 103-4094 dev swp1
vlan add vid 101 dev swp1 pvid untagged
vlan add vid 102 dev swp1 untagged
# host node1 eth0
vlan del vid 1-100 dev swp2
vlan del vid 103-4094 dev swp2
vlan add vid 101 dev swp2 pvid untagged
vlan add vid 102 dev swp2 untagged
VLANS

# 6. Up. What was learned before may point along links a VLAN no longer uses: forget it, and prime from the hosts.
ip -batch - <<'UP'
link set dev swp1 mtu 9000 up
link set dev swp2 mtu 9000 up
link set dev swp7 mtu 9000 up
link set dev swp8 mtu 9000 up
link set dev bond1 mtu 9000 up
link set dev br0 mtu 9000 up
link set dev br0 type bridge fdb_flush
UP
