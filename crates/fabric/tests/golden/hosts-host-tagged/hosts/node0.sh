#!/bin/sh
# node0: host of machine example
# Run as root on the host, any number of times.
# Written by `ayatori plan`.
set -eu

links=$(ip -o link show)
exists() { case "$links" in *": $1: "* | *": $1@"*) ;; *) return 1 ;; esac; }

# eth0: at switch left, on the address applications use.
if command -v ethtool >/dev/null 2>&1; then
	for nic in eth0; do
		ethtool -A $nic rx on tx on >/dev/null 2>&1 ||
			echo "$0: $nic: flow control not changed (already on, or not offered by the NIC)" >&2
	done
else
	echo "$0: flow control not changed: ethtool is not installed" >&2
fi
{
echo link set dev eth0 mtu 1500 up
echo address replace 192.168.0.1/24 brd + dev eth0

# Interfaces on the VLANs: one for each VLAN.
for vid in 101 102; do
	exists eth0.$vid || echo link add link eth0 name eth0.$vid type vlan id $vid
done
cat <<'ADDRESSES'
address replace 10.0.0.1/24 brd 10.0.0.255 dev eth0.101
link set dev eth0.101 mtu 1500 up
address replace 10.0.1.1/24 brd 10.0.1.255 dev eth0.102
link set dev eth0.102 mtu 1500 up
ADDRESSES
} | ip -batch -

# The VLAN of each pair of hosts. Both directions use the same one.
ip -batch - <<'ROUTES'
route replace 192.168.0.2/32 dev eth0.101 src 192.168.0.1
route replace 192.168.0.3/32 dev eth0.102 src 192.168.0.1
route replace 192.168.0.4/32 dev eth0.102 src 192.168.0.1
ROUTES

# The neighbours, so that no question (ARP) floods a tree.
ip -batch - <<'NEIGHBOURS'
neigh replace 192.168.0.2 lladdr 02:00:00:00:00:01 nud permanent dev eth0.101
neigh replace 192.168.0.3 lladdr 02:00:00:00:00:02 nud permanent dev eth0.102
neigh replace 192.168.0.4 lladdr 02:00:00:00:00:03 nud permanent dev eth0.102
NEIGHBOURS
