#!/bin/sh
# left: switch of machine example (example-model)
# OpenWrt. Run as root on the switch beside the .network file, any number of times.
# Written by `ayatori plan` (one VLAN per source switch). The same plan gives the same file:
# change the machine description, plan again, and diff.
# Its hosts send on VLAN 101.
set -eu

# A VLAN that an earlier configuration left is a loop: all go. A port is in one bridge only.
while uci -q delete network.@bridge-vlan[0]; do :; done
for port in lan1 lan2 lan3 lan4 lan5 lan6 lan7 lan8; do
	for device in $(uci -q show network | sed -n "s/^\(network[.][^.]*\)=device$/\1/p"); do
		uci -q del_list "$device.ports=$port" || :
	done
done
for section in $(uci -q show network | sed -n "s/^network[.]\(ayatori[^.=]*\)=.*/\1/p"); do
	uci -q delete "network.$section" || :
done
uci -m import network <"$(dirname "$0")/left.network"
uci commit network
service network reload
