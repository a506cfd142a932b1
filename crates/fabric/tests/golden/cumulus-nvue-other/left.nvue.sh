#!/bin/sh
# left: switch of machine example (example-model)
# Cumulus Linux, NVUE. Run on the switch, any number of times.
# Written by `ayatori plan` (one VLAN per source switch). The same plan gives the same file:
# change the machine description, plan again, and diff.
# Its hosts send on VLAN 101.
set -eu

# What stood there before: on ports between switches a VLAN left over is a loop.
nv unset interface swp1 bridge
nv unset interface swp2 bridge
nv unset interface swp3 bridge
nv unset interface swp4 bridge
nv unset interface swp5 bridge
nv unset interface swp6 bridge
nv unset interface swp7 bridge
nv unset interface swp8 bridge
nv unset interface bond1 bridge
nv unset bridge domain br_default vlan

nv set bridge domain br_default type vlan-aware
nv set bridge domain br_default vlan 101-102
nv set bridge domain br_default ageing 100000
nv set interface bond1 bond mode static
nv set interface bond1 bond member swp7,swp8

# link to right swp5,swp6
nv set interface bond1 bridge domain br_default untagged none
nv set interface bond1 bridge domain br_default vlan 101-102

# host node0 eth0
nv set interface swp1 bridge domain br_default untagged 101
nv set interface swp1 bridge domain br_default vlan 101-102

# host node1 eth0
nv set interface swp2 bridge domain br_default untagged 101
nv set interface swp2 bridge domain br_default vlan 101-102

# Pause, lengths of frames, and ports that nothing is plugged into.
nv set interface swp1 link state up
nv unset interface swp1 qos link-pause
nv set interface swp1 link mtu 9000
nv set interface swp2 link state up
nv unset interface swp2 qos link-pause
nv set interface swp2 link mtu 9000
nv set interface swp3 link state down
nv set interface swp4 link state down
nv set interface swp5 link state down
nv set interface swp6 link state down
nv set interface swp7 link state up
nv unset interface swp7 qos link-pause
nv set interface swp7 link mtu 9000
nv set interface swp8 link state up
nv unset interface swp8 qos link-pause
nv set interface swp8 link mtu 9000

# No spanning tree: each VLAN is a tree by plan. Last: no port is in VLAN 1 any more.
nv set bridge domain br_default stp state down
nv config apply -y
nv config save
