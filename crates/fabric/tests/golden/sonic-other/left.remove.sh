#!/bin/sh
# left: switch of machine example (example-model)
# SONiC. Run on the switch as root before `config load`, any number of times.
# Written by `ayatori plan` (one VLAN per source switch). The same plan gives the same file:
# change the machine description, plan again, and diff.
# Its hosts send on VLAN 101.
set -eu

# INTERFACE VLANS: what each of the plan's ports keeps.
planned='
PortChannel0001 101 102
Ethernet0 101 102
Ethernet1 101 102
'
sonic-db-cli CONFIG_DB KEYS 'VLAN_MEMBER|*' | while IFS='|' read -r _ vlan port; do
	vid=${vlan#Vlan}
	echo "$planned" | while read -r name vlans; do
		[ "$name" = "$port" ] || continue
		case " $vlans " in *" $vid "*) ;; *) config vlan member del "$vid" "$port" </dev/null ;; esac
	done
done
