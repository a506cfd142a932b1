//! Business cards: the contact data that a process gives to the others of its job through the launcher.
//!
//! One line without spaces, as PMI values are:
//!
//! ```text
//! ayatori1|node|CPUs|name,Mbit/s,address,bits,port,address,bits,port|name,…
//! ```
//!
//! A card comes from a launcher, and under some launchers over a network: it is parsed as a stranger's, every
//! count and length bounded.

use super::interfaces::{ADDRESSES_MAX, Address, INTERFACES_MAX, Interface};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// Longest card that is looked at, in bytes: 8 interfaces × (16 name + 8 speed + 4 × 52 address).
const CARD_BYTES_MAX: usize = 4096;
/// Linux' own limit (`IFNAMSIZ`).
const NAME_BYTES_MAX: usize = 16;

/// Where a process listens on one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The interface's name, for messages.
    pub name: String,
    /// Its nominal speed in Mbit/s; 0 where unknown.
    pub speed_mbit_per_s: u32,
    /// Addresses with their prefix lengths, and the port at each.
    pub addresses: Vec<(Address, u16)>,
}

/// Contact data of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Processes with the same number may share memory.
    pub node: u64,
    /// CPUs of its host.
    pub cpus_count: u32,
    /// Where it listens, by interface.
    pub endpoints: Vec<Endpoint>,
}

/// The cards of a world's processes. Each is asked for when its process is first needed, from any thread.
pub trait CardBook: Send + Sync {
    /// Processes of the world.
    fn count(&self) -> usize;

    /// The card of the process of this rank. `None`: it is not to be reached over the network.
    fn card(&self, rank: usize) -> Option<Card>;
}

impl CardBook for Vec<Option<Card>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn card(&self, rank: usize) -> Option<Card> {
        self.get(rank).cloned().flatten()
    }
}

/// Why text is not a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCard(pub &'static str);

impl Endpoint {
    /// Describes an interface and the ports that its addresses got.
    pub(super) fn new(interface: &Interface, ports: Vec<(Address, u16)>) -> Self {
        let is_plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '|' | ',');
        Self {
            name: interface.name.chars().filter(is_plain).take(NAME_BYTES_MAX).collect(),
            speed_mbit_per_s: interface.speed_mbit_per_s.unwrap_or(0),
            addresses: ports,
        }
    }

    /// The addresses to dial.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.addresses.iter().map(|(address, port)| SocketAddr::new(address.ip, *port))
    }
}

impl Card {
    /// The card as text, at most `bytes_max` long: interfaces with many addresses lose the last of them
    /// first. `None`: it does not fit.
    pub fn emit(&self, bytes_max: usize) -> Option<String> {
        (1..=ADDRESSES_MAX).rev().map(|most| self.emit_all(most)).find(|text| text.len() <= bytes_max)
    }

    fn emit_all(&self, addresses_max: usize) -> String {
        let mut text = format!("ayatori1|{:x}|{}", self.node, self.cpus_count);
        for endpoint in &self.endpoints {
            let _ = write!(text, "|{},{}", endpoint.name, endpoint.speed_mbit_per_s);
            for (address, port) in endpoint.addresses.iter().take(addresses_max) {
                let _ = write!(text, ",{},{},{port}", address.ip, address.prefix_bits);
            }
        }
        text
    }

    /// Reads a card.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<Self, NotCard> {
        if text.len() > CARD_BYTES_MAX {
            return Err(NotCard("too long"));
        }
        let mut fields = text.split('|');
        if fields.next() != Some("ayatori1") {
            return Err(NotCard("of another library or version"));
        }
        let node = fields.next().and_then(|node| u64::from_str_radix(node, 16).ok());
        let cpus_count = fields.next().and_then(|count| count.parse().ok());
        let (Some(node), Some(cpus_count)) = (node, cpus_count) else {
            return Err(NotCard("without node and CPUs"));
        };
        let endpoints = fields.map(parse_endpoint).collect::<Result<Vec<_>, _>>()?;
        if endpoints.len() > INTERFACES_MAX {
            return Err(NotCard("more interfaces than a process uses"));
        }
        Ok(Self { node, cpus_count, endpoints })
    }
}

fn parse_endpoint(text: &str) -> Result<Endpoint, NotCard> {
    let mut words = text.split(',');
    let name = words.next().unwrap_or_default();
    if name.len() > NAME_BYTES_MAX || !name.chars().all(|c| c.is_ascii_graphic()) {
        return Err(NotCard("an interface's name is none"));
    }
    let speed = words.next().and_then(|speed| speed.parse().ok()).ok_or(NotCard("no speed"))?;
    let mut addresses = Vec::new();
    while let Some(ip) = words.next() {
        let ip: IpAddr = ip.parse().map_err(|_| NotCard("no address"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = words.next().and_then(|bits| bits.parse().ok()).filter(|&bits| bits <= most);
        let port = words.next().and_then(|port| port.parse().ok()).filter(|&port| port != 0);
        let (Some(prefix_bits), Some(port)) = (bits, port) else {
            return Err(NotCard("an address without prefix or port"));
        };
        addresses.push((Address { ip, prefix_bits }, port));
        if addresses.len() > ADDRESSES_MAX {
            return Err(NotCard("more addresses than an interface uses"));
        }
    }
    Ok(Endpoint { name: name.to_owned(), speed_mbit_per_s: speed, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unknown_speed_is_0() {
        let interface = crate::tcp::interfaces::tests::interface("eth0", 2, &["10.0.0.1/24"]);
        assert_eq!(Endpoint::new(&interface, Vec::new()).speed_mbit_per_s, 0);
        let fast = Interface { speed_mbit_per_s: Some(10_000), ..interface };
        assert_eq!(Endpoint::new(&fast, Vec::new()).speed_mbit_per_s, 10_000);
    }

    #[test]
    fn what_separates_the_parts_of_a_card_is_in_no_name() {
        let odd = crate::tcp::interfaces::tests::interface("e|t,h \u{e9}0", 2, &["10.0.0.1/24"]);
        assert_eq!(Endpoint::new(&odd, Vec::new()).name, "eth0");
    }

    fn address() -> impl Strategy<Value = (Address, u16)> {
        let v4 =
            (any::<[u8; 4]>(), 0u8..=32).prop_map(|(ip, bits)| Address { ip: ip.into(), prefix_bits: bits });
        let v6 = (any::<[u8; 16]>(), 0u8..=128)
            .prop_map(|(ip, bits)| Address { ip: ip.into(), prefix_bits: bits });
        (prop_oneof![v4, v6], 1u16..)
    }

    fn card() -> impl Strategy<Value = Card> {
        let endpoint =
            ("[a-z0-9.@_-]{1,16}", any::<u32>(), proptest::collection::vec(address(), 0..=ADDRESSES_MAX))
                .prop_map(|(name, speed_mbit_per_s, addresses)| Endpoint {
                    name,
                    speed_mbit_per_s,
                    addresses,
                });
        (any::<u64>(), any::<u32>(), proptest::collection::vec(endpoint, 0..=INTERFACES_MAX))
            .prop_map(|(node, cpus_count, endpoints)| Card { node, cpus_count, endpoints })
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(card in card()) {
            let text = card.emit(CARD_BYTES_MAX).expect("fits");
            prop_assert!(!text.contains(char::is_whitespace) && !text.contains('='));
            prop_assert_eq!(Card::parse(&text), Ok(card));
        }

        #[test]
        fn a_card_fits_the_launchers_limit_or_is_refused(card in card(), bytes_max in 0usize..2048) {
            if let Some(text) = card.emit(bytes_max) {
                prop_assert!(text.len() <= bytes_max);
                let count = card.endpoints.len();
                prop_assert_eq!(Card::parse(&text).map(|card| card.endpoints.len()), Ok(count));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(ayatori1\\|)?[0-9a-f|,.:/ -~]{0,200}") {
            let _ = Card::parse(&text);
        }
    }

    #[test]
    fn a_card_names_no_more_interfaces_than_a_process_uses() {
        let named = |count: usize| Card::parse(&("ayatori1|0|1".to_owned() + &"|e,1".repeat(count)));
        assert_eq!(named(INTERFACES_MAX).map(|card| card.endpoints.len()), Ok(INTERFACES_MAX));
        assert_eq!(named(INTERFACES_MAX + 1), Err(NotCard("more interfaces than a process uses")));
        let at =
            |count: usize| Card::parse(&("ayatori1|0|1|e,1".to_owned() + &",10.0.0.1,24,5".repeat(count)));
        assert_eq!(at(ADDRESSES_MAX).map(|card| card.endpoints[0].addresses.len()), Ok(ADDRESSES_MAX));
        assert_eq!(at(ADDRESSES_MAX + 1), Err(NotCard("more addresses than an interface uses")));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for bad in [
            "",
            "ayatori2|0|1",
            "ayatori1|x|1",
            "ayatori1|0",
            "ayatori1|0|1|eth0",
            "ayatori1|0|1|eth0,1,10.0.0.1,33,5",
            "ayatori1|0|1|eth0,1,10.0.0.1,24,0",
            "ayatori1|0|1|eth0,1,10.0.0.1,24",
            "ayatori1|0|1|eth0,1,fd00::1,129,5",
            "ayatori1|0|1|eth0,1,host,24,1",
            "ayatori1|0|1|eth 0,1",
        ] {
            assert!(Card::parse(bad).is_err(), "{bad}");
        }
        let named = |length: usize| Card::parse(&format!("ayatori1|0|1|{},1", "e".repeat(length)));
        assert!(named(NAME_BYTES_MAX).is_ok());
        assert_eq!(named(NAME_BYTES_MAX + 1), Err(NotCard("an interface's name is none")));
        assert_eq!(named(CARD_BYTES_MAX), Err(NotCard("too long")));
        let zeros = "0".repeat(CARD_BYTES_MAX - "ayatori1|0|1".len());
        assert!(Card::parse(&format!("ayatori1|0|{zeros}1")).is_ok(), "as long as may be");
    }

    #[test]
    fn a_card_that_does_not_fit_loses_addresses_to_the_last_but_one() {
        let addresses = |host: u8| {
            let address = |net: u8| (Address { ip: [10, net, 0, host].into(), prefix_bits: 24 }, 40_000);
            (0..ADDRESSES_MAX as u8).map(address).collect()
        };
        let endpoint = |host: u8| {
            let name = format!("eth{host}");
            Endpoint { name, speed_mbit_per_s: 1_000, addresses: addresses(host) }
        };
        let card = Card { node: 1, cpus_count: 1, endpoints: vec![endpoint(1), endpoint(2)] };
        for most in 1..=ADDRESSES_MAX {
            let text = card.emit_all(most);
            assert_eq!(card.emit(text.len()).as_ref(), Some(&text));
            let less = card.emit(text.len() - 1);
            assert_eq!(less, (most > 1).then(|| card.emit_all(most - 1)), "each keeps one");
        }
    }
}
