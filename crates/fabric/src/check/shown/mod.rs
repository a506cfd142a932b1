//! Port states shown by a switch or a host: whether there is a link, and the neighbour at the far end (LLDP,
//! IEEE 802.1AB).
//!
//! [`Shown::parse`] takes what lldpd and the makers' systems print. Deliberately absent: asking for it, and
//! what the plan says about it ([`super::cables`]).

mod lldp;
mod port;
mod table;

pub use port::{Neighbour, Shown, ShownPort};

impl Shown {
    /// Reads `lldpcli -f json show neighbors` (also `-f json0`) and `ip -j link show`, one or both in any
    /// order; or the table of `show lldp neighbors` as EOS, IOS, NX-OS, Junos, Comware, VRP, OS6, OS10,
    /// EdgeSwitch, ArubaOS-S and SONiC print it.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Shown, String> {
        if text.trim_start().starts_with(['{', '[']) { lldp::read(text) } else { table::read(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str, port: &str) -> (String, Vec<String>) {
        let shown = Shown::parse(text).unwrap_or_else(|problem| panic!("{problem}: {text}"));
        let neighbour = &shown.port(port).unwrap_or_else(|| panic!("{port}: {shown:?}")).neighbours[0];
        (neighbour.system.clone(), neighbour.ports.clone())
    }

    #[test]
    fn lldpds_json_is_read_with_one_neighbour_and_with_several() {
        let one = r#"{"lldp": {"interface": {"swp1": {"via": "LLDP", "rid": "1", "age": "0 day, 00:01:02",
            "chassis": {"right": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}, "descr": "Linux",
            "capability": [{"type": "Bridge", "enabled": true}]}},
            "port": {"id": {"type": "mac", "value": "02:00:00:00:00:07"},
            "descr": "swp7", "ttl": "120"}}}}}"#;
        let ports = ["02:00:00:00:00:07".to_owned(), "swp7".to_owned()];
        assert_eq!(heard(one, "swp1"), ("right".into(), ports.to_vec()));
        let several = r#"{"lldp": {"interface": [
            {"swp1": {"chassis": {"id": {"type": "mac", "value": "02:00:00:00:00:09"}},
                      "port": {"id": {"type": "ifname", "value": "swp2"}}}},
            {"swp1": {"chassis": {"b": {}}, "port": {"id": {"type": "ifname", "value": "x"}}}},
            {"swp3": {"chassis": {"c": {}}, "port": {"id": {"type": "ifname", "value": "swp4"}}}}]}}"#;
        assert_eq!(heard(several, "swp1"), ("02:00:00:00:00:09".into(), vec!["swp2".into()]));
        assert_eq!(heard(several, "swp3"), ("c".into(), vec!["swp4".into()]));
        assert_eq!(Shown::parse(several).unwrap().ports["swp1"].neighbours.len(), 2);
        assert_eq!(Shown::parse(r#"{"lldp": {}}"#).unwrap(), Shown::default());
    }

    #[test]
    fn lldpds_json0_is_read() {
        let text = r#"{"lldp": [{"interface": [{"name": "swp1", "via": "LLDP",
            "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:00:01"}],
            "name": [{"value": "right"}]}],
            "port": [{"id": [{"type": "ifname", "value": "swp7"}], "descr": [{"value": "to left"}]}]}]}]}"#;
        assert_eq!(heard(text, "swp1"), ("right".into(), vec!["swp7".into(), "to left".into()]));
    }

    #[test]
    fn neighbours_and_links_are_read_from_one_text() {
        let text = r#"{"lldp": {"interface": {"swp1": {"chassis": {"b": {}},
            "port": {"id": {"value": "swp1"}}}}}}
            [{"ifname": "swp1", "flags": ["BROADCAST", "UP", "LOWER_UP"]}, {},
             {"ifname": "swp2", "flags": ["NO-CARRIER", "BROADCAST", "UP"]}]"#;
        let shown = Shown::parse(text).unwrap();
        assert_eq!(shown.ports["swp1"].is_up, Some(true));
        assert_eq!(shown.ports["swp1"].neighbours.len(), 1);
        assert_eq!(shown.ports["swp2"], ShownPort { is_up: Some(false), neighbours: Vec::new() });
    }

    /// As the makers' references print them.
    #[test]
    fn the_makers_tables_are_read() {
        let tables = [
            // EOS
            "Last table change time   : 0:01:02 ago\nNumber of table inserts  : 4\n\n\
             Port          Neighbor Device ID       Neighbor Port ID    TTL\n\
             ---------- ------------------------ ---------------------- ---\n\
             Et1           right                    Ethernet7           120\n",
            // IOS, NX-OS
            "Capability codes:\n    (R) Router, (B) Bridge\n\n\
             Device ID           Local Intf     Hold-time  Capability      Port ID\n\
             right               Et1            120        B               Ethernet7\n\n\
             Total entries displayed: 1\n",
            // Junos
            "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n\
             Et1                -                   02:00:00:00:00:01   Ethernet7          right\n",
            // Comware
            "Chassis ID : * -- -- Nearest nontpmr bridge neighbor\n\
             System Name          Local Interface Chassis ID      Port ID\n\
             right                Et1             0200-0000-0001  Ethernet7\n",
            // VRP
            "Local Intf       Neighbor Dev             Neighbor Intf             Exptime(s)\n\
             Et1              right                    Ethernet7                 107\n",
            // OS6, EdgeSwitch
            "LLDP Remote Device Summary\n\n\
             Interface RemID   Chassis ID          Port ID           System Name\n\
             --------- ------- ------------------- ----------------- -----------------\n\
             Et1       1       02:00:00:00:00:01   Ethernet7         right\nEt2\n",
            // OS10
            "Loc PortID          Rem Host Name        Rem Port Id                    Rem Chassis Id\n\
             ------------------------------------------------------------------------------------\n\
             Et1                 right                Ethernet7                      02:00:00:00:00:01\n",
            // ArubaOS-S
            " LLDP Remote Devices Information\n\n\
             \x20 LocalPort | ChassisId                 PortId     PortDescr SysName\n\
             \x20 --------- + ------------------------- ---------- --------- -------\n\
             \x20 Et1       | 02 00 00 00 00 01         Ethernet7  up        right\n",
            // SONiC
            "Capability codes: (R) Router, (B) Bridge, (O) Other\n\
             LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr\n\
             -----------  --------------  --------------  ------------  -----------------\n\
             Et1          right           Ethernet7       BR            to left\n\
             --------------------------------------------------\nTotal entries displayed:  1\n",
        ];
        for table in tables {
            assert_eq!(heard(table, "Ethernet1"), ("right".into(), vec!["Ethernet7".into()]), "{table}");
            assert_eq!(Shown::parse(table).unwrap().ports.len(), 1, "{table}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "swp1 is up",
            "{}",
            "[1]",
            "[{\"ifname\": \"a\"}]",
            "{\"lldp\": {\"interface\": 3}}",
            "{\"lldp\"",
        ] {
            assert!(Shown::parse(text).is_err_and(|problem| !problem.is_empty()), "{text}");
        }
    }
}
