//! The hosts' side of a plan: interfaces and addresses on every VLAN, and the MAC learning procedure.
//!
//! Applications keep using the host's one address ([`crate::plan::Attachment::address`]). With
//! [`Tagging::Switch`] the VLAN interfaces only teach switches (the paper, section 3.2): a switch learns a
//! host in the VLANs the host sends on, so each host broadcasts one frame on every VLAN, again before
//! switches forget. With [`Tagging::Host`] the VLAN interfaces also carry the traffic: a route to each other
//! host's address leads over the VLAN of the pair.
//!
//! Owns the texts for the hosts; what is written for the switches is in [`crate::dialect`].

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};

use crate::broadcast::has_static_neighbours;
use crate::dialect::{ConfigFile, flow_control};
use crate::plan::{Attachment, HostPlan, Plan, Tagging, VlanInterface};

/// Port the learning frames are sent to: discard (RFC 863). No listener is needed; only the frame's source
/// address matters.
const PRIMING_PORT: u16 = 9;

/// Path of the priming script on hosts.
const PRIME_PATH: &str = "/usr/local/sbin/ayatori-prime";
/// Path of a host's own script.
const HOST_PATH: &str = "/usr/local/sbin/ayatori-host";
/// Time after a host's start until it primes: its links and LAGs are up by then, s.
const PRIME_AFTER_BOOT_S: u32 = 30;
/// Where addresses never age, a daily round still repairs what a restarted switch has forgotten, s.
const PRIME_PERIOD_WITHOUT_AGING_S: u32 = 86_400;
/// How late systemd may start a round, s. Unless told, it takes a minute: more than short aging times allow.
const PRIME_ACCURACY_S: u32 = 1;

/// The script that sets up a host's interfaces, addresses and (with [`Tagging::Host`]) routes:
/// `hosts/node0.sh`.
pub fn interfaces(plan: &Plan, host: &HostPlan) -> ConfigFile {
    let mut script = format!(
        "#!/bin/sh\n# {}: host of machine {}\n# Run as root on the host, any number of times.\n\
         # Written by `ayatori plan`.\nset -eu\n\nlinks=$(ip -o link show)\n\
         exists() {{ case \"$links\" in *\": $1: \"* | *\": $1@\"*) ;; *) return 1 ;; esac; }}\n",
        host.name, plan.machine
    );
    for attachment in &host.attachments {
        write_attachment(&mut script, plan, attachment);
        write_vlan_interfaces(&mut script, plan, attachment);
        if plan.tagging == Tagging::Host {
            write_routes(&mut script, plan, attachment);
        }
    }
    if host.attachments.len() > 1 {
        write_arp_filter(&mut script, plan, host);
    }
    ConfigFile { name: format!("hosts/{}.sh", host.name), text: script, executable: true }
}

/// The learning procedure, the same for every host: script, service and timer.
pub fn priming(plan: &Plan) -> Vec<ConfigFile> {
    let file =
        |name: &str, text: String, executable| ConfigFile { name: format!("hosts/{name}"), text, executable };
    vec![
        file("ayatori-prime", prime_script(plan), true),
        file("ayatori-prime.service", prime_service(), false),
        file("ayatori-prime.timer", prime_timer(plan), false),
    ]
}

/// Sends the learning frame from one of this host's addresses: a broadcast, because only its source counts.
///
/// The kernel sends to 255.255.255.255 through the interface that has the socket's address. To the subnet's
/// broadcast address it would send through the first of two rails on one VLAN, whichever was meant.
///
/// # Errors
/// As the system says, [`std::io::ErrorKind::AddrNotAvailable`] if no interface has the address.
pub fn prime(address: Ipv4Addr) -> std::io::Result<()> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_broadcast(true)?;
    socket.send_to(b"ayatori", (Ipv4Addr::BROADCAST, PRIMING_PORT))?;
    Ok(())
}

/// The unit that runs a host's script at each start, the same for every host.
pub fn boot_unit(plan: &Plan) -> ConfigFile {
    let text = format!(
        "# Written by `ayatori plan` for the hosts of machine {}. Install the host's script as {HOST_PATH} \
        and this\n\
         # file as /etc/systemd/system/ayatori-host.service; then: systemctl enable \
         ayatori-host.service\n[Unit]\n\
         Description=Interfaces, addresses and routes of the plan\nWants=network-pre.target\n\
         After=network-pre.target systemd-udevd.service\nBefore=network-online.target \
         ayatori-prime.service\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={HOST_PATH}\n\
         Restart=on-failure\nRestartSec=5\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        plan.machine
    );
    ConfigFile { name: "hosts/ayatori-host.service".into(), text, executable: false }
}

/// One line a host: its address and name, for `/etc/hosts`.
pub fn names(plan: &Plan) -> ConfigFile {
    let mut text =
        format!("# Hosts of machine {}, for /etc/hosts. Written by `ayatori plan`.\n", plan.machine);
    for host in &plan.hosts {
        for attachment in &host.attachments {
            let suffix = if attachment.rail == 0 { String::new() } else { format!("-{}", attachment.rail) };
            let _ = writeln!(text, "{} {}{suffix}", attachment.address, host.name);
        }
    }
    ConfigFile { name: "hosts/hosts".into(), text, executable: false }
}

fn write_attachment(script: &mut String, plan: &Plan, attachment: &Attachment) {
    let Attachment { interface, nics, address, prefix_bits, .. } = attachment;
    let switch = plan.switch(attachment.switch);
    let _ = writeln!(script, "\n# {interface}: at switch {}, on the address applications use.", switch.name);
    if nics.len() > 1 {
        let is_lag =
            |lag: &&crate::plan::LagPlan| attachment.ports.iter().all(|port| lag.members.contains(port));
        let lacp = switch.lags.iter().find(is_lag).is_none_or(|lag| lag.lacp);
        let mode = if lacp { "802.3ad lacp_rate fast" } else { "balance-xor" };
        let _ = writeln!(
            script,
            "exists {interface} || ip link add name {interface} type bond mode {mode} miimon 100\n\
             ip link set dev {interface} type bond xmit_hash_policy layer3+4\n\
             for nic in {}; do\n\
             \tcase \"$(ip -o link show dev $nic)\" in *\" master {interface} \"*) ;;\n\
             \t*) ip link set dev $nic down; ip link set dev $nic master {interface}; ip link set dev $nic up ;; esac\n\
             done",
            nics.join(" ")
        );
    }
    if plan.pause && !attachment.ports.is_empty() {
        *script += &flow_control("nic", &nics.join(" "));
    }
    let _ = writeln!(script, "{{");
    let mtu_bytes = attachment.mtu_bytes;
    if nics.len() > 1 {
        let _ = writeln!(
            script,
            "for nic in {}; do echo link set dev $nic mtu {mtu_bytes}; done",
            nics.join(" ")
        );
    }
    let _ = writeln!(script, "echo link set dev {interface} mtu {mtu_bytes} up");
    let _ = writeln!(script, "echo address replace {address}/{prefix_bits} brd + dev {interface}");
}

fn write_vlan_interfaces(script: &mut String, plan: &Plan, attachment: &Attachment) {
    let interface = &attachment.interface;
    let prefix = attachment.vlan_interface_prefix();
    let why = match plan.tagging {
        Tagging::Switch => "to teach the switches where we are on every VLAN; no traffic uses them",
        Tagging::Host => "one for each VLAN",
    };
    let vids: Vec<String> = plan.vlans.iter().map(|vlan| vlan.vid.to_string()).collect();
    let _ = writeln!(script, "\n# Interfaces on the VLANs: {why}.");
    let _ = writeln!(script, "for vid in {}; do", vids.join(" "));
    let _ = writeln!(
        script,
        "\texists {prefix}.$vid || echo link add link {interface} name {prefix}.$vid type vlan id $vid\ndone"
    );
    *script += "cat <<'ADDRESSES'\n";
    for VlanInterface { name, address, subnet, .. } in plan.vlan_interfaces(attachment) {
        if let Some(address) = address {
            let prefix = subnet.prefix_bits;
            let _ =
                writeln!(script, "address replace {address}/{prefix} brd {} dev {name}", subnet.broadcast());
        }
        let _ = writeln!(script, "link set dev {name} mtu {} up", attachment.mtu_bytes);
    }
    *script += "ADDRESSES\n} | ip -batch -\n";
}

/// With host tagging a pair of switches has its VLAN; both directions use it.
fn write_routes(script: &mut String, plan: &Plan, own: &Attachment) {
    *script +=
        "\n# The VLAN of each pair of hosts. Both directions use the same one.\nip -batch - <<'ROUTES'\n";
    for host in &plan.hosts {
        let peers = host.attachments.iter().filter(|peer| peer.rail == own.rail && peer.number != own.number);
        for peer in peers {
            let Some(vid) = plan.vlan_between(own, peer) else { continue };
            let _ = writeln!(
                script,
                "route replace {}/32 dev {}.{vid} src {}",
                peer.address,
                own.vlan_interface_prefix(),
                own.address
            );
        }
    }
    *script += "ROUTES\n";
    if has_static_neighbours(plan) {
        write_neighbours(script, plan, own);
    }
}

/// Writes static neighbours, so that no host sends ARP requests: if hosts tag, these would take turns that no
/// route takes, and so close cycles.
fn write_neighbours(script: &mut String, plan: &Plan, own: &Attachment) {
    *script += "\n# The neighbours, so that no question (ARP) floods a tree.\nip -batch - <<'NEIGHBOURS'\n";
    for peer in plan.attachments().filter(|peer| peer.rail == own.rail && peer.number != own.number) {
        if let (Some(vid), Some(mac)) = (plan.vlan_between(own, peer), peer.mac) {
            let prefix = own.vlan_interface_prefix();
            let _ = writeln!(
                script,
                "neigh replace {} lladdr {mac} nud permanent dev {prefix}.{vid}",
                peer.address
            );
        }
    }
    *script += "NEIGHBOURS\n";
}

/// Rails are in the same VLANs, so each hears the questions for the others' addresses.
fn write_arp_filter(script: &mut String, plan: &Plan, host: &HostPlan) {
    let names: Vec<String> = host
        .attachments
        .iter()
        .flat_map(|own| match plan.tagging {
            Tagging::Switch => vec![own.interface.clone()],
            Tagging::Host => plan.vlan_interfaces(own).map(|on_vlan| on_vlan.name).collect(),
        })
        .collect();
    let _ = write!(
        script,
        "\n# Every rail is in every VLAN and hears every question: it is to answer for its own address only.\n\
         for name in {}; do\n\techo 1 >/proc/sys/net/ipv4/conf/$name/arp_filter\ndone\n",
        names.join(" ")
    );
}

fn prime_script(plan: &Plan) -> String {
    let vids: Vec<String> = plan.vlans.iter().map(|vlan| vlan.vid.to_string()).collect();
    PRIME_SCRIPT
        .replace("@MACHINE@", &plan.machine)
        .replace("@VLANS@", &vids.join(" "))
        .replace("@PORT@", &PRIMING_PORT.to_string())
        .replace("@GAP@", &format!("{}.{:03}", plan.priming.gap_ms / 1_000, plan.priming.gap_ms % 1_000))
}

const PRIME_SCRIPT: &str = r#"#!/bin/sh
# Teaches the switches of machine @MACHINE@ where this host is: one broadcast frame on each VLAN.
# Switches learn a host only in the VLANs it sends on, and frames to a host come on the VLANs of the others; without
# this they would be flooded to every port. Installed as /usr/local/sbin/ayatori-prime; run by ayatori-prime.timer.
# `ayatori plan prime` does the same.
set -u
vlans="@VLANS@"
# Between two frames: by then every link has passed on one of each host, so switches need not pause for them.
gap_s=@GAP@

# The interfaces on these VLANs: name, address, broadcast address, a line each.
interfaces() {
	ip -o -4 address show | while read -r _ name _ address _ broadcast _; do
		case " $vlans " in *" ${name##*.} "*) echo "$name ${address%/*} $broadcast" ;; esac
	done
}
list=$(interfaces)
if [ -z "$list" ]; then
	echo "$0: no interface on VLANs $vlans has an address; run this host's script of the plan first" >&2
	exit 1
fi

# Runs "$@ NAME ADDRESS BROADCAST" for all interfaces, one after the other begun. 1 means that nobody
# answered, which is right.
each() {
	processes=
	while read -r name address broadcast; do
		"$@" "$name" "$address" "$broadcast" >/dev/null 2>&1 &
		processes="$processes $!"
		sleep $gap_s 2>/dev/null || sleep 1
	done <<LIST
$list
LIST
	failed=0
	for process in $processes; do
		wait "$process" || [ $? -eq 1 ] || failed=1
	done
	[ $failed -eq 0 ] || echo "$0: could not send on every VLAN" >&2
	exit $failed
}

by_ping() { ping -b -n -c 1 -w 1 -I "$1" "$3"; }
by_arping() { busybox arping -q -U -c 1 -w 1 -I "$1" "$2"; }

if command -v python3 >/dev/null 2>&1; then
	# Frames to 255.255.255.255 leave by the interface that has the address, also where two are on one VLAN.
	echo "$list" | python3 -I -S -c 'import socket, sys, time
for line in sys.stdin:
    _, address, _ = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.bind((address, 0))
    s.sendto(b"ayatori", ("255.255.255.255", @PORT@))
    time.sleep(@GAP@)'
elif command -v ping >/dev/null 2>&1; then
	each by_ping
elif busybox arping --help >/dev/null 2>&1; then
	each by_arping
else
	echo "$0: needs python3, ping (iputils) or busybox with arping; or run 'ayatori plan prime'" >&2
	exit 1
fi
"#;

fn prime_service() -> String {
    format!(
        "# Written by `ayatori plan`. Started by ayatori-prime.timer.\n[Unit]\n\
         Description=Teach switches where this host is on every VLAN\nAfter=network-online.target \
         ayatori-host.service\n\
         Wants=network-online.target\n\n[Service]\nType=oneshot\nExecStart={PRIME_PATH}\n"
    )
}

fn prime_timer(plan: &Plan) -> String {
    let (period_s, why) = match plan.priming.period_s {
        Some(period_s) => (period_s, "half the shortest aging time, so that one lost round does no harm"),
        None => {
            (PRIME_PERIOD_WITHOUT_AGING_S, "addresses never age; a daily round repairs a restarted switch")
        }
    };
    // Hosts that start together would broadcast together.
    let spread_s = (period_s / 10).clamp(1, 600);
    let least_s = period_s.saturating_sub(spread_s + PRIME_ACCURACY_S).max(1);
    format!(
        "# Written by `ayatori plan`. At most {period_s} s between two rounds: {why}.\n[Unit]\n\
         Description=Teach switches where this host is, again before they forget\n\n[Timer]\n\
         OnBootSec={PRIME_AFTER_BOOT_S}s\nOnUnitActiveSec={least_s}s\nRandomizedDelaySec={spread_s}s\n\
         AccuracySec={PRIME_ACCURACY_S}s\n\n\
         [Install]\nWantedBy=timers.target\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    /// Least time from one round to the next, what may be added at random, and how late it may begin, s.
    fn times_s(period_s: Option<u32>) -> [u32; 3] {
        let mut plan = two_switches_and_four_hosts();
        plan.priming.period_s = period_s;
        let timer = priming(&plan).remove(2).text;
        ["OnUnitActiveSec=", "RandomizedDelaySec=", "AccuracySec="].map(|key| {
            let line = timer.lines().find_map(|line| line.strip_prefix(key)?.strip_suffix('s'));
            line.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{key}: {timer}"))
        })
    }

    #[test]
    fn a_lost_round_of_priming_is_made_up_for_in_time() {
        for aging_time_s in [10, 20, 60, 300, 600, 100_000, 1_000_000] {
            let times_s = times_s(Some(aging_time_s / 2));
            assert!(2 * times_s.iter().sum::<u32>() <= aging_time_s, "{times_s:?} of {aging_time_s} s");
            assert!(times_s.iter().all(|&time_s| time_s > 0), "{times_s:?}");
        }
        assert_eq!(times_s(Some(150)), [134, 15, 1]);
        assert_eq!(times_s(Some(5)), [3, 1, 1]);
        assert_eq!(times_s(None), [86_400 - 601, 600, 1]);
        // Less than there can be: not at once, again and again.
        assert_eq!(times_s(Some(2)), [1, 1, 1]);
    }

    /// Programs that the script asks for, and nothing else of this machine's network.
    #[test]
    fn the_priming_script_runs_without_a_complaint() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let addresses = "3: eth0    inet 192.168.0.1/24 brd 192.168.0.255 scope global eth0\n\
                         4: eth0.101    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0.101\n\
                         5: eth0.7    inet 10.9.0.1/24 brd 10.9.0.255 scope global eth0.7\n";
        put("ip", &format!("#!/bin/sh\ncat <<'END'\n{addresses}END\n"));
        put("python3", "#!/bin/sh\ncat\n");
        put("ayatori-prime", &priming(&two_switches_and_four_hosts())[0].text);
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let script = folder.path().join("ayatori-prime");
        let ran = std::process::Command::new("sh").arg(script).env("PATH", path).output().unwrap();
        let [out, errors] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!((ran.status.code(), errors.as_str()), (Some(0), ""));
        assert_eq!(out, "eth0.101 10.0.0.1 10.0.0.255\n");
    }

    #[test]
    fn a_bond_is_as_its_lag_at_the_switch_is() {
        let mut plan = two_switches_and_four_hosts();
        let own = &mut plan.hosts[0].attachments[0];
        (own.interface, own.nics, own.ports) =
            ("bond0".into(), vec!["eth0".into(), "eth1".into()], vec![1, 2]);
        let mut lag = plan.switches[0].lags[0].clone();
        (lag.number, lag.members) = (2, vec![1, 2]);
        plan.switches[0].lags.push(lag);
        for (lacp, mode) in [(true, "802.3ad lacp_rate fast"), (false, "balance-xor")] {
            plan.switches[0].lags[1].lacp = lacp;
            let text = interfaces(&plan, &plan.hosts[0]).text;
            assert!(text.contains(&format!("name bond0 type bond mode {mode} miimon 100\n")), "{text}");
        }
    }

    #[test]
    fn nics_at_a_switch_pause_where_the_plan_does() {
        let mut plan = two_switches_and_four_hosts();
        let has = |plan: &Plan| interfaces(plan, &plan.hosts[0]).text.contains("ethtool");
        assert!(plan.pause && has(&plan));
        plan.pause = false;
        assert!(!has(&plan));
        // A bridge inside the host is set up by its own script.
        plan.pause = true;
        plan.hosts[0].attachments[0].ports.clear();
        assert!(!has(&plan));
    }

    #[test]
    fn priming_from_an_address_of_no_interface_is_an_error() {
        let error = prime(Ipv4Addr::new(192, 0, 2, 1)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
        // Where there is a way for it, the system lets a broadcast go.
        let from_here = prime(Ipv4Addr::LOCALHOST);
        let kind = from_here.as_ref().map_err(std::io::Error::kind);
        assert_ne!(kind, Err(std::io::ErrorKind::PermissionDenied), "{from_here:?}");
    }

    #[test]
    fn of_two_rails_each_answers_for_its_own_address_only() {
        let mut plan = two_switches_and_four_hosts();
        assert!(!interfaces(&plan, &plan.hosts[0]).text.contains("arp_filter"), "one rail");
        let first = plan.hosts[0].attachments[0].clone();
        plan.hosts[0].attachments.push(Attachment { rail: 1, interface: "eth1".into(), number: 4, ..first });
        let text = interfaces(&plan, &plan.hosts[0]).text;
        assert!(text.contains("for name in eth0 eth1; do\n\techo 1 >"), "{text}");
        plan.tagging = Tagging::Host;
        let text = interfaces(&plan, &plan.hosts[0]).text;
        assert!(text.contains("for name in eth0.101 eth0.102 eth1.101 eth1.102; do\n\techo 1 >"), "{text}");
    }

    #[test]
    fn host_tagging_routes_each_host_over_the_pairs_vlan() {
        let mut plan = two_switches_and_four_hosts();
        assert!(!interfaces(&plan, &plan.hosts[0]).text.contains("route replace"));
        plan.tagging = Tagging::Host;
        let text = interfaces(&plan, &plan.hosts[0]).text;
        assert_eq!(text.matches("route replace").count(), 3);
        assert!(text.contains("route replace 192.168.0.3/32 dev eth0.101 src 192.168.0.1"), "{text}");
    }
}
