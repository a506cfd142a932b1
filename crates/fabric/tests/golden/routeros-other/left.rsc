# left: switch of machine example (example-model)
# MikroTik RouterOS. Upload, then: /import file-name=THIS.rsc
# Written by `ayatori plan` (one VLAN per source switch). The same plan gives the same file:
# change the machine description, plan again, and diff.
# Its hosts send on VLAN 101.
#
# One bridge of the plan's own; each VLAN is a tree by plan, so no spanning tree. What is not listed is
# on no port: ports leave every other bridge.
/interface bridge remove [find name=ayatori]
/interface bridge add name=ayatori protocol-mode=none vlan-filtering=no ageing-time=100000s
#
# link to right ether5,ether6
/interface bridge port remove [find interface=bond1]
/interface bonding remove [find name=bond1]
/interface bonding add name=bond1 mode=balance-xor transmit-hash-policy=layer-3-and-4 slaves=ether7,ether8
/interface bridge port remove [find interface=ether1]
/interface bridge port remove [find interface=ether2]
/interface bridge port remove [find interface=ether3]
/interface bridge port remove [find interface=ether4]
/interface bridge port remove [find interface=ether5]
/interface bridge port remove [find interface=ether6]
/interface bridge port remove [find interface=ether7]
/interface bridge port remove [find interface=ether8]
/interface bridge port add bridge=ayatori interface=bond1 frame-types=admit-only-vlan-tagged ingress-filtering=yes comment="link to right ether5,ether6"
/interface bridge port add bridge=ayatori interface=ether1 pvid=101 frame-types=admit-only-untagged-and-priority-tagged ingress-filtering=yes comment="host node0 eth0"
/interface bridge port add bridge=ayatori interface=ether2 pvid=101 frame-types=admit-only-untagged-and-priority-tagged ingress-filtering=yes comment="host node1 eth0"
#
# The VLANs, with their ports.
/interface bridge vlan add bridge=ayatori vlan-ids=101 tagged=bond1 untagged=ether1,ether2
/interface bridge vlan add bridge=ayatori vlan-ids=102 tagged=bond1 untagged=ether1,ether2
#
# 802.3x, lengths of frames, and ports that nothing is plugged into.
/interface ethernet set [find name=ether1] disabled=no rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether2] disabled=no rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether3] disabled=yes rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether4] disabled=yes rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether5] disabled=yes rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether6] disabled=yes rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether7] disabled=no rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
/interface ethernet set [find name=ether8] disabled=no rx-flow-control=off tx-flow-control=off l2mtu=9004 mtu=9000
#
/interface bridge set [find name=ayatori] vlan-filtering=yes
