//! What the switches of each dialect can and cannot do: one row a dialect. The description's checks and the
//! planner go by it, so it is known even before a configuration is written.

/// Capabilities of a dialect's switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Several untagged VLANs on one port: what [`crate::plan::Tagging::Switch`] needs.
    pub many_untagged_vlans_per_port: bool,
    /// Flow control in both directions (IEEE 802.3x); `false` where the switch only obeys pause frames.
    pub sends_pause: bool,
    /// Why frames are lost although pause is on, where that is so: after the model's name and a colon.
    pub without_pause: &'static str,
    /// Longest payload of a frame that its words can ask for, bytes.
    pub mtu_max_bytes: u32,
    /// Longest aging time of learned addresses, s.
    pub aging_time_max_s: Option<u32>,
    /// Whether learned addresses can be kept for ever.
    pub aging_can_be_off: bool,
    /// MSTP instances beside the common one that switches of the make take as far as is known, the
    /// fewest of its models; 0 where the dialect has no words for MSTP.
    pub mstp_instances_max: u16,
    /// Port name pattern where the model gives none: `{port}` counts from 1, `{port0}` from 0.
    pub port_name: &'static str,
    /// In a sentence for the user, with what it cannot do.
    pub statement: &'static str,
}

const SWITCH_TAGGED: Capabilities = Capabilities {
    many_untagged_vlans_per_port: true,
    sends_pause: true,
    without_pause: "",
    mtu_max_bytes: 65_535,
    aging_time_max_s: Some(1_000_000),
    aging_can_be_off: false,
    mstp_instances_max: 0,
    port_name: "{port}",
    statement: "",
};

/// What a NIC's pause frames protect is its ring, which a bridge empties whatever its output queues hold.
const LINUX_WITHOUT_PAUSE: &str =
    "a Linux bridge forwards in software and drops what its output queues cannot hold";

const HOST_TAGGED: Capabilities = Capabilities { many_untagged_vlans_per_port: false, ..SWITCH_TAGGED };

/// Every dialect by name.
pub const KNOWN: &[(&str, Capabilities)] = &[
    (
        "dell-os6",
        Capabilities {
            // Assumed.
            mstp_instances_max: 15,
            // "Aging Time … 100000" is the most a PowerConnect 6248 takes (the paper, section 3.2).
            aging_time_max_s: Some(100_000),
            // Frames of 9,216 bytes with header, tag and checksum.
            mtu_max_bytes: 9_194,
            port_name: "1/g{port}",
            statement: "Dell PowerConnect and OS6: general mode puts several untagged VLANs on a port. 100 static MAC \
                        entries: addresses are learned.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "comware",
        Capabilities {
            // "ranging from 0 to 48" (3Com 8807, command reference, `display stp`).
            mstp_instances_max: 48,
            mtu_max_bytes: 9_194,
            port_name: "GigabitEthernet1/0/{port}",
            statement: "HPE and H3C Comware: hybrid ports put several untagged VLANs on a port.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "linux-bridge",
        Capabilities {
            sends_pause: false,
            without_pause: LINUX_WITHOUT_PAUSE,
            aging_can_be_off: true,
            port_name: "swp{port}",
            statement: "Linux bridge by iproute2: several untagged VLANs on a port; drops frames under load.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "systemd-networkd",
        Capabilities {
            sends_pause: false,
            without_pause: LINUX_WITHOUT_PAUSE,
            aging_can_be_off: true,
            port_name: "swp{port}",
            statement: "Linux bridge by systemd-networkd: as linux-bridge.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "arista-eos",
        Capabilities {
            // Assumed: 802.1Q's.
            mstp_instances_max: 64,
            mtu_max_bytes: 9_192,
            port_name: "Ethernet{port}",
            statement: "Arista EOS: a trunk has one native VLAN, so hosts must tag.",
            ..HOST_TAGGED
        },
    ),
    (
        "cisco-nxos",
        Capabilities {
            // Nexus 3164Q, verified scalability guide, "MST instances".
            mstp_instances_max: 64,
            aging_time_max_s: Some(918_000),
            mtu_max_bytes: 9_216,
            port_name: "Ethernet1/{port}",
            statement: "Cisco NX-OS: a trunk has one native VLAN, so hosts must tag; pause and PFC exclude each other.",
            ..HOST_TAGGED
        },
    ),
    (
        "cisco-ios",
        Capabilities {
            // 65 "including instance 0" (Catalyst 4500, configuration guide, "MST Instances").
            mstp_instances_max: 64,
            sends_pause: false,
            without_pause: "Cisco IOS obeys pause frames and sends none",
            mtu_max_bytes: 9_198,
            aging_can_be_off: true,
            port_name: "GigabitEthernet1/0/{port}",
            statement: "Cisco IOS: a trunk has one native VLAN, so hosts must tag; pause frames are obeyed, not sent.",
            ..HOST_TAGGED
        },
    ),
    (
        "sonic",
        Capabilities {
            sends_pause: false,
            without_pause: "SONiC has priority flow control and sends no pause frames",
            mtu_max_bytes: 9_216,
            port_name: "Ethernet{port0}",
            statement: "SONiC: a port cannot have more than one untagged VLAN, so hosts must tag; PFC instead of pause.",
            ..HOST_TAGGED
        },
    ),
    (
        "routeros",
        Capabilities {
            mtu_max_bytes: 9_196,
            port_name: "ether{port}",
            statement: "MikroTik RouterOS 7: bridge VLAN filtering puts several untagged VLANs on a port.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "cumulus-nvue",
        Capabilities {
            mtu_max_bytes: 9_216,
            port_name: "swp{port}",
            statement: "Cumulus Linux 5 by NVUE: a port has one untagged VLAN, so hosts must tag.",
            ..HOST_TAGGED
        },
    ),
    (
        "openwrt",
        Capabilities {
            sends_pause: false,
            without_pause: "whether OpenWrt's switch chip sends pause frames depends on its driver",
            aging_can_be_off: true,
            port_name: "lan{port}",
            statement: "OpenWrt with DSA: several untagged VLANs on a port.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "huawei-vrp",
        Capabilities {
            // Assumed. The Quidway S3000 of old takes 16 (its operation manual, "Configure the MST region").
            mstp_instances_max: 48,
            aging_can_be_off: true,
            mtu_max_bytes: 9_194,
            port_name: "GigabitEthernet0/0/{port}",
            statement: "Huawei VRP: hybrid ports put several untagged VLANs on a port.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "aruba-os-s",
        Capabilities {
            // "spanning-tree instance < 1..16 >" (advanced traffic management guide); stacked 2920s take 4.
            mstp_instances_max: 16,
            aging_time_max_s: Some(999_960),
            mtu_max_bytes: 9_194,
            statement: "ArubaOS-Switch (ProCurve): a port has one untagged VLAN, so hosts must tag.",
            ..HOST_TAGGED
        },
    ),
    (
        "junos-els",
        Capabilities {
            // "numbered 1 through 64" (layer 2 guide, "Configuring the MSTP MSTI Instance Identifier").
            mstp_instances_max: 64,
            mtu_max_bytes: 9_198,
            port_name: "ge-0/0/{port0}",
            statement: "Juniper Junos with ELS: a trunk has one native VLAN, so hosts must tag.",
            ..HOST_TAGGED
        },
    ),
    (
        "dell-os10",
        Capabilities {
            // 0 to 63, on one platform 0 to 61 (OS10 user guide, `spanning-tree mst`).
            mstp_instances_max: 61,
            aging_can_be_off: true,
            mtu_max_bytes: 9_194,
            port_name: "ethernet1/1/{port}",
            statement: "Dell OS10: a trunk has one untagged VLAN, so hosts must tag.",
            ..HOST_TAGGED
        },
    ),
    (
        "edgeswitch",
        Capabilities {
            mtu_max_bytes: 9_194,
            port_name: "0/{port}",
            statement: "Ubiquiti EdgeSwitch: several untagged VLANs on a port.",
            ..SWITCH_TAGGED
        },
    ),
    (
        "json",
        Capabilities {
            mstp_instances_max: 64,
            aging_can_be_off: true,
            statement: "The plan as data, for tools of your own: no limit of its own.",
            ..SWITCH_TAGGED
        },
    ),
];

/// A dialect's row of [`KNOWN`].
pub fn capabilities_of(name: &str) -> Option<Capabilities> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|&(_, capabilities)| capabilities)
}
