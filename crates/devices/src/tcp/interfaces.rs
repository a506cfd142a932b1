//! This host's network interfaces: which may be rails, and why others may not.
//!
//! An interface that is up, has a carrier and an address is a candidate; only an attempt shows whether it is
//! a rail to a given peer (`acceptor.rs`). So the code need not know docker0 and virbr0 by name: an interface
//! that cannot be reached from elsewhere fails in bounded time, while the others are in use.

use super::sys;
use ayatori_core::device::{RailCapabilities, profiles};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::num::NonZero;
use std::time::Duration;

/// Most interfaces used by one process.
pub const INTERFACES_MAX: usize = 8;
/// Most addresses used of one interface.
pub(super) const ADDRESSES_MAX: usize = 4;
/// Assumed speed of an interface that does not know its own: 10 Gbit/s.
const SPEED_UNKNOWN_MBIT_PER_S: u32 = 10_000;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits name the network.
    pub prefix_bits: u8,
}

impl Address {
    /// Whether `other` is in this address' network.
    pub fn network_contains(&self, other: IpAddr) -> bool {
        match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let shift = 32 - u32::from(self.prefix_bits.min(32));
                u64::from(a.to_bits() ^ b.to_bits()) >> shift == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let different = (a.to_bits() ^ b.to_bits()).leading_zeros();
                different >= u32::from(self.prefix_bits.min(128))
            }
            _ => false,
        }
    }

    /// Valid on its own wire only.
    pub(super) fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }

    /// Whether the address is of a private network.
    pub(super) fn is_private(&self) -> bool {
        match self.ip {
            IpAddr::V4(ip) => ip.is_private() || ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix_bits)
    }
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's number.
    pub index: u32,
    /// Whether the administrator has it up.
    pub is_up: bool,
    /// Whether there is a carrier: a cable with something alive at its end.
    pub is_running: bool,
    /// Whether it leads back to this host.
    pub is_loopback: bool,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// Its nominal speed in Mbit/s, where it knows it.
    pub speed_mbit_per_s: Option<u32>,
    /// Its longest frame less the Ethernet header, in bytes, where known.
    pub mtu_bytes: Option<u32>,
    /// The NUMA node it hangs on, where known.
    pub numa_node: Option<u16>,
}

impl Interface {
    /// Its speed in bytes a second, or a guess.
    pub fn bandwidth_bytes_per_s(&self) -> u64 {
        u64::from(self.speed_mbit_per_s.unwrap_or(SPEED_UNKNOWN_MBIT_PER_S)) * 1_000_000 / 8
    }

    /// Capabilities of a rail over it.
    pub fn capabilities(&self) -> RailCapabilities {
        // One small string per interface, for the life of the process.
        let name = String::leak(self.name.clone());
        profiles::tcp(name, self.mtu_bytes, self.bandwidth_bytes_per_s(), self.numa_node)
    }

    /// The interfaces of this host (of this network namespace), by the kernel's number.
    ///
    /// # Errors
    /// The system does not answer.
    pub fn list() -> io::Result<Vec<Self>> {
        Ok(Self::of_entries(sys::entries()?))
    }

    fn of_entries(entries: Vec<sys::Entry>) -> Vec<Self> {
        let mut list: Vec<Self> = Vec::new();
        for mut entry in entries {
            // An address with a label (`eth0:1`) is listed under that: it is one of `eth0`, whose name has no
            // colon.
            entry.name.truncate(entry.name.find(':').unwrap_or(entry.name.len()));
            let place = list.iter().position(|known| known.name == entry.name).unwrap_or_else(|| {
                list.push(Self {
                    speed_mbit_per_s: fact(&entry.name, "speed").map(NonZero::<u32>::get),
                    mtu_bytes: fact(&entry.name, "mtu"),
                    numa_node: fact(&entry.name, "device/numa_node"),
                    name: entry.name,
                    index: entry.index,
                    is_up: entry.is_up,
                    is_running: entry.is_running,
                    is_loopback: entry.is_loopback,
                    addresses: Vec::new(),
                });
                list.len() - 1
            });
            let address = entry.address.map(|(ip, prefix_bits)| Address { ip, prefix_bits });
            list[place].addresses.extend(address);
        }
        for interface in &mut list {
            // A link-local address serves where there is no other.
            if interface.addresses.iter().any(|address| !address.is_link_local()) {
                interface.addresses.retain(|address| !address.is_link_local());
            }
        }
        list.sort_by_key(|interface| interface.index);
        list
    }
}

/// A number that the kernel says about an interface, if it is one.
fn fact<T: std::str::FromStr>(name: &str, what: &str) -> Option<T> {
    std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok()?.trim().parse().ok()
}

/// A user's choice: an interface, or a network.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    Name(String),
    Network(Address),
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, RailsError> {
        let bad = |why: &str| RailsError::Pattern { text: text.to_owned(), why: why.to_owned() };
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        match ip.parse::<IpAddr>() {
            Ok(ip) => {
                let most = if ip.is_ipv4() { 32 } else { 128 };
                let prefix_bits = match bits.map(str::parse::<u8>) {
                    None => most,
                    Some(Ok(bits)) if bits <= most => bits,
                    _ => return Err(bad(&format!("a prefix length is a number from 0 to {most}"))),
                };
                Ok(Self::Network(Address { ip, prefix_bits }))
            }
            Err(_) if bits.is_some() => Err(bad("before the '/' there is no IP address")),
            Err(_) if text.is_empty() || text.contains(char::is_whitespace) => {
                Err(bad("an interface's name has no spaces and is not empty"))
            }
            Err(_) => Ok(Self::Name(text.to_owned())),
        }
    }

    fn matches_address(&self, address: &Address) -> bool {
        matches!(self, Self::Network(network) if network.network_contains(address.ip))
    }

    fn names(&self, interface: &Interface) -> bool {
        matches!(self, Self::Name(name) if *name == interface.name)
    }
}

/// Which interfaces may be rails, as the user says: `--rails`, `--no-rails`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RailFilter {
    only: Option<Vec<Pattern>>,
    not: Vec<Pattern>,
}

/// Why there are no rails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RailsError {
    /// The pattern is neither an interface nor a network.
    Pattern {
        /// As typed.
        text: String,
        /// The reason.
        why: String,
    },
    /// No interface matches the pattern.
    Nothing {
        /// As typed.
        wanted: String,
        /// The interfaces present, with the reasons.
        found: String,
    },
}

impl fmt::Display for RailsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { text, why } => {
                write!(
                    f,
                    "'{text}' names no rail: {why}; give interfaces (eth1) or networks (10.1.0.0/16), separated by commas"
                )
            }
            Self::Nothing { wanted, found } => {
                write!(f, "no interface can be a rail{wanted}; this host has: {found}")
            }
        }
    }
}

impl std::error::Error for RailsError {}

/// Why an interface is not used, in words.
pub type Reason = &'static str;
const NO_CARRIER: Reason = "no carrier";
const NO_ADDRESS: Reason = "no IP address";

impl RailFilter {
    /// From what the user typed: comma-separated interfaces and networks. Empty text is as none.
    ///
    /// # Errors
    /// A word is neither.
    pub fn new(only: Option<&str>, not: Option<&str>) -> Result<Self, RailsError> {
        let list = |text: &str| -> Result<Vec<Pattern>, RailsError> {
            text.split(',').map(|word| Pattern::parse(word.trim())).collect()
        };
        let given = |text: Option<&str>| text.map(str::to_owned).filter(|text| !text.trim().is_empty());
        Ok(Self {
            only: given(only).map(|text| list(&text)).transpose()?,
            not: given(not).map(|text| list(&text)).transpose()?.unwrap_or_default(),
        })
    }

    /// The addresses of `interface` that may be used, or why there are none.
    pub fn judge(&self, interface: &Interface) -> Result<Vec<Address>, Reason> {
        if self.not.iter().any(|pattern| pattern.names(interface)) {
            return Err("excluded by --no-rails");
        }
        let is_named =
            self.only.as_ref().is_none_or(|only| only.iter().any(|pattern| pattern.names(interface)));
        let is_wanted = |address: &&Address| {
            let is_in = |pattern: &Pattern| pattern.matches_address(address);
            (is_named || self.only.iter().flatten().any(is_in)) && !self.not.iter().any(is_in)
        };
        let wanted: Vec<Address> = interface.addresses.iter().filter(is_wanted).copied().collect();
        if interface.is_loopback && self.only.is_none() {
            return Err("loopback: leads to this host only");
        }
        if !interface.is_up {
            return Err("down");
        }
        if !interface.is_running {
            return Err(NO_CARRIER);
        }
        if interface.addresses.is_empty() {
            return Err(NO_ADDRESS);
        }
        if wanted.is_empty() {
            return Err(if self.only.is_some() { "not among --rails" } else { "excluded by --no-rails" });
        }
        Ok(wanted.into_iter().take(ADDRESSES_MAX).collect())
    }

    /// Whether the interface is one that the user asks for and only has no carrier or no address yet.
    fn may_come_up(&self, interface: &Interface) -> bool {
        let fits = |pattern: &Pattern| match pattern {
            Pattern::Name(name) => *name == interface.name,
            Pattern::Network(network) => {
                let mut addresses = interface.addresses.iter();
                interface.addresses.is_empty() || addresses.any(|a| network.network_contains(a.ip))
            }
        };
        let is_asked_for = self.only.as_ref().is_none_or(|only| only.iter().any(fits));
        is_asked_for && matches!(self.judge(interface), Err(NO_CARRIER | NO_ADDRESS))
    }

    /// The interfaces to use, with the addresses to use of each.
    ///
    /// # Errors
    /// There is none.
    pub fn choose(&self, interfaces: &[Interface]) -> Result<Vec<Interface>, RailsError> {
        let chosen: Vec<Interface> = interfaces
            .iter()
            .filter_map(|interface| {
                let addresses = self.judge(interface).ok()?;
                Some(Interface { addresses, ..interface.clone() })
            })
            .take(INTERFACES_MAX)
            .collect();
        if chosen.is_empty() {
            let found: Vec<String> = interfaces
                .iter()
                .map(|i| format!("{} ({})", i.name, self.judge(i).err().unwrap_or("usable")))
                .collect();
            let wanted = if *self == Self::default() { "" } else { " as --rails and --no-rails say" };
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(RailsError::Nothing { wanted: wanted.to_owned(), found });
        }
        Ok(chosen)
    }
}

/// How long to wait for an interface that is coming up: a cable needs a second or two, an address by DHCP
/// somewhat more.
pub(super) const RAILS_PATIENCE: Duration = Duration::from_secs(5);
/// From one look at the interfaces to the next.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The interfaces to use: waits for one where there is none yet but one may come up (it is set up and has no
/// carrier or no address), for [`RAILS_PATIENCE`] at most. `list` says what there is; `sleep` waits.
///
/// # Errors
/// There is none; or as `list`.
pub(super) fn await_rails<E: From<RailsError>>(
    filter: &RailFilter,
    mut list: impl FnMut() -> Result<Vec<Interface>, E>,
    mut sleep: impl FnMut(Duration),
) -> Result<Vec<Interface>, E> {
    let mut waited = Duration::ZERO;
    loop {
        let all = list()?;
        match filter.choose(&all) {
            Ok(chosen) => return Ok(chosen),
            Err(error) if waited >= RAILS_PATIENCE || !all.iter().any(|i| filter.may_come_up(i)) => {
                return Err(error.into());
            }
            Err(_) => {}
        }
        sleep(LOOK_INTERVAL);
        waited += LOOK_INTERVAL;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn interface(name: &str, index: u32, addresses: &[&str]) -> Interface {
        let address = |text: &&str| {
            let (ip, bits) = text.split_once('/').expect("address/bits");
            Address { ip: ip.parse().expect("ip"), prefix_bits: bits.parse().expect("bits") }
        };
        Interface {
            name: name.into(),
            index,
            is_up: true,
            is_running: true,
            is_loopback: name == "lo",
            addresses: addresses.iter().map(address).collect(),
            speed_mbit_per_s: None,
            mtu_bytes: None,
            numa_node: None,
        }
    }

    #[test]
    fn an_interface_has_all_its_addresses_the_labelled_too() {
        let entry = |name: &str, index, address: Option<&str>| sys::Entry {
            name: name.to_owned(),
            index,
            is_up: true,
            is_running: true,
            is_loopback: false,
            address: address.map(|text| (text.parse().unwrap(), 24)),
        };
        let listed = Interface::of_entries(vec![
            entry("test9", 9, None),
            entry("test2", 2, None),
            entry("test2", 2, Some("10.2.0.1")),
            entry("test9", 9, Some("fe80::9")),
            entry("test2:vip", 2, Some("10.2.0.9")),
            entry("test2", 2, Some("fe80::2")),
        ]);
        let seen: Vec<(&str, u32, Vec<String>)> = listed
            .iter()
            .map(|one| {
                (&*one.name, one.index, one.addresses.iter().map(|address| address.ip.to_string()).collect())
            })
            .collect();
        let both = ["10.2.0.1", "10.2.0.9"].map(str::to_owned).to_vec();
        // By number. A link-local address serves where there is no other.
        assert_eq!(seen, [("test2", 2, both), ("test9", 9, vec!["fe80::9".to_owned()])]);
    }

    #[test]
    fn the_loopback_of_this_host_is_listed_as_it_is() {
        let all = Interface::list().expect("a list");
        let loopback = all.iter().find(|one| one.name == "lo").expect("tests use it");
        assert!(loopback.is_loopback && loopback.is_up && loopback.is_running && loopback.index > 0);
        assert!(loopback.addresses.iter().any(|address| address.to_string() == "127.0.0.1/8"));
        assert!(all.iter().all(|one| one.name == "lo" || !one.is_loopback), "there is no other");
    }

    fn host() -> Vec<Interface> {
        let mut dead = interface("eth3", 5, &["10.3.0.1/24"]);
        dead.is_running = false;
        vec![
            interface("lo", 1, &["127.0.0.1/8", "::1/128"]),
            interface("eth1", 2, &["10.1.0.1/24", "fd00:1::1/64"]),
            interface("eth2", 3, &["10.2.0.1/24", "192.168.7.1/24"]),
            interface("docker0", 4, &["172.17.0.1/16"]),
            dead,
            interface("wlan0", 6, &[]),
        ]
    }

    fn names(only: Option<&str>, not: Option<&str>) -> Vec<String> {
        let filter = RailFilter::new(only, not).expect("filter");
        filter.choose(&host()).expect("rails").into_iter().map(|i| i.name).collect()
    }

    #[test]
    fn without_a_word_every_live_interface_is_worth_a_try() {
        assert_eq!(names(None, None), ["eth1", "eth2", "docker0"]);
        assert_eq!(names(Some(""), Some(" ")), ["eth1", "eth2", "docker0"]);
    }

    #[test]
    fn rails_may_be_named_by_interface_and_by_network() {
        assert_eq!(names(Some("eth2, eth1"), None), ["eth1", "eth2"]);
        assert_eq!(names(Some("10.1.0.0/16"), None), ["eth1"]);
        assert_eq!(names(Some("fd00:1::/32"), None), ["eth1"]);
        assert_eq!(names(Some("lo"), None), ["lo"]);
        assert_eq!(names(None, Some("docker0,10.1.0.0/16,fd00:1::/64")), ["eth2", "docker0"][..1]);
    }

    #[test]
    fn a_network_selects_addresses_and_not_whole_interfaces() {
        let filter = RailFilter::new(Some("192.168.0.0/16"), None).expect("filter");
        let chosen = filter.choose(&host()).expect("rails");
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].addresses.len(), 1);
        assert_eq!(chosen[0].addresses[0].to_string(), "192.168.7.1/24");
    }

    #[test]
    fn every_interface_left_out_has_its_reason() {
        let filter = RailFilter::new(None, Some("docker0")).expect("filter");
        let reasons: Vec<_> =
            host().iter().filter_map(|i| Some(format!("{}: {}", i.name, filter.judge(i).err()?))).collect();
        let want = [
            "lo: loopback: leads to this host only",
            "docker0: excluded by --no-rails",
            "eth3: no carrier",
            "wlan0: no IP address",
        ];
        assert_eq!(reasons, want);
        let error = RailFilter::new(Some("eth9"), None).expect("filter").choose(&host()).expect_err("none");
        assert!(error.to_string().contains("eth1 (not among --rails)"), "{error}");
    }

    /// Result of waiting for an interface that is usable from look `ready_at` on, and the time it took.
    fn wait_for(only: Option<&str>, ready_at: u32) -> (Result<Vec<Interface>, RailsError>, Duration) {
        let filter = RailFilter::new(only, None).expect("filter");
        let (mut looks_count, mut waited) = (0, Duration::ZERO);
        let list = || {
            let mut late = interface("eth1", 2, &["10.1.0.1/24"]);
            late.is_running = looks_count >= ready_at;
            looks_count += 1;
            let mut never = interface("docker0", 3, &["172.17.0.1/16"]);
            never.is_running = false;
            Ok(vec![interface("lo", 1, &["127.0.0.1/8"]), late, never])
        };
        let chosen = await_rails(&filter, list, |time| waited += time);
        (chosen, waited)
    }

    #[test]
    fn an_interface_that_comes_up_is_waited_for() {
        let (chosen, waited) = wait_for(None, 30);
        assert_eq!(chosen.expect("rails")[0].name, "eth1");
        assert_eq!(waited, 30 * LOOK_INTERVAL);
        assert_eq!(wait_for(None, 0).1, Duration::ZERO);
    }

    #[test]
    fn waiting_for_rails_ends_with_the_reason() {
        let (chosen, waited) = wait_for(None, u32::MAX);
        let error = chosen.expect_err("no carrier for ever").to_string();
        assert!(error.contains("eth1 (no carrier)"), "{error}");
        assert_eq!(waited, RAILS_PATIENCE);
        // An absent or excluded interface does not come up.
        for only in ["eth9", "10.9.0.0/16"] {
            let (chosen, _) = wait_for(Some(only), 0);
            assert!(chosen.is_err());
            assert_eq!(wait_for(Some(only), 0).1, Duration::ZERO, "{only}");
        }
    }

    #[test]
    fn only_what_lacks_a_carrier_or_an_address_may_come_up() {
        let coming_up = |only: Option<&str>| {
            let filter = RailFilter::new(only, None).expect("filter");
            let mut down = interface("eth4", 7, &["10.4.0.1/24"]);
            (down.is_up, down.is_running) = (false, false);
            let interfaces = [host(), vec![down]].concat();
            let names = interfaces.iter().filter(|one| filter.may_come_up(one)).map(|one| one.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(coming_up(None), ["eth3", "wlan0"]);
        assert_eq!(coming_up(Some("eth3,eth4")), ["eth3"]);
        // An address that is still to come may be of any network.
        assert_eq!(coming_up(Some("10.9.0.0/16")), ["wlan0"]);
        assert_eq!(coming_up(Some("10.3.0.0/16")), ["eth3", "wlan0"]);
        let says_why = |only: Option<&str>| {
            let none = RailFilter::new(only, None).expect("filter").choose(&[]).expect_err("none");
            none.to_string().contains("--rails")
        };
        assert_eq!([None, Some("eth9")].map(says_why), [false, true], "whether the user asked for some");
    }

    #[test]
    fn nonsense_is_named() {
        for bad in ["10.0.0.0/33", "eth0/24", "", "a b", "::/129", "1.2.3.4/x"] {
            let error = RailFilter::new(Some(&format!("{bad},eth1")), None).expect_err(bad);
            assert!(error.to_string().contains(&format!("'{bad}'")), "{error}");
        }
    }

    #[test]
    fn prefixes_of_every_length_compare() {
        let address = |text: &str, bits| Address { ip: text.parse().expect("ip"), prefix_bits: bits };
        assert!(address("10.0.0.1", 0).network_contains("192.168.0.1".parse().expect("ip")));
        assert!(address("10.0.0.1", 32).network_contains("10.0.0.1".parse().expect("ip")));
        assert!(!address("10.0.0.1", 32).network_contains("10.0.0.2".parse().expect("ip")));
        assert!(address("fd00::1", 128).network_contains("fd00::1".parse().expect("ip")));
        assert!(!address("fd00::1", 128).network_contains("fd00::2".parse().expect("ip")));
        assert!(!address("fd00::1", 0).network_contains("10.0.0.1".parse().expect("ip")));
        assert!(!address("10.0.0.1", 31).network_contains("10.0.0.2".parse().expect("ip")));
        // Longer ones are as long as an address.
        assert!(address("10.0.0.1", 40).network_contains("10.0.0.1".parse().expect("ip")));
        assert!(!address("10.0.0.1", 40).network_contains("10.0.0.0".parse().expect("ip")));
    }

    #[test]
    fn a_rails_bandwidth_is_its_speed_in_bytes() {
        let unknown = interface("e", 1, &[]);
        let known = Interface { speed_mbit_per_s: Some(1_000), ..unknown.clone() };
        // 10 Gbit/s are assumed where the driver says nothing.
        let all = [known, unknown].map(|one| one.bandwidth_bytes_per_s());
        assert_eq!(all, [125_000_000, 1_250_000_000]);
    }

    #[test]
    fn this_host_has_a_loopback() {
        let list = Interface::list().expect("interfaces");
        assert!(list.iter().any(|i| i.is_loopback && i.index > 0), "{list:?}");
    }
}
