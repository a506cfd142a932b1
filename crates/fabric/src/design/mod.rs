//! Network design: the cheapest networks for a number of hosts and a bisection bandwidth, from a price list.
//!
//! Owns: the list of topologies that are looked at ([`shapes`]), the search for the cheapest ([`designs`]),
//! rack positions
//! and the list of cables ([`racks`]). Deliberately absent: simulating a design, and reading prices
//! ([`crate::description::Prices`]).
//!
//! The search takes shapes in the order of the least they can cost: switches, and one of the shortest
//! cables a link. A
//! shape gets as many cables a link as the bisection needs, a machine description, cables with lengths, and
//! its price.
//! When nothing cheaper can come any more, the cheapest is planned; it is a design if no check of its plan
//! fails.

mod racks;
mod shapes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::analysis::bisection::bisected;
use crate::description::{Machine, Prices};
use crate::graph::LinkSpec;
use crate::plan::{Plan, Status};
use crate::vlan::{self, Network};

pub use racks::{CableItem, cable_list};

pub use shapes::SWITCHES_MAX;

use shapes::Shape;

/// Most hosts of a design.
pub const HOSTS_MAX: u32 = 16_384;
/// Machines that are put together before the search ends with what it has.
pub const MACHINES_MAX: usize = 400;

/// The requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Hosts, 1 to [`HOSTS_MAX`].
    pub host_count: u32,
    /// Least bandwidth between two halves of the machine, each way, bit/s. It counts the cabling; a single
    /// switch is assumed to carry all traffic of its hosts.
    pub bisection_bits_per_s: u64,
    /// How many designs.
    pub design_count: usize,
}

/// A network that can be bought.
#[derive(Debug)]
pub struct Design {
    /// In short: `torus 4x2 of powerconnect-6248, 2 cables a link`.
    pub name: String,
    /// Its machine file.
    pub description: String,
    /// The machine.
    pub machine: Machine,
    /// Its plan; no check fails.
    pub plan: Plan,
    /// Every cable, those to hosts too.
    pub cables: Vec<CableItem>,
    /// As [`Wanted::bisection_bits_per_s`].
    pub bisection_bits_per_s: u64,
    /// What the switches cost.
    pub switches_price: f64,
    /// What the cables cost.
    pub cables_price: f64,
}

impl Design {
    /// Total price.
    pub fn price(&self) -> f64 {
        self.switches_price + self.cables_price
    }
}

/// Result of the search.
#[derive(Debug)]
pub struct Designs {
    /// The cheapest first.
    pub designs: Vec<Design>,
    /// Cheaper networks than the last of them, with the reason why they are excluded.
    pub left_out: Vec<LeftOut>,
    /// Shapes of topologies that hold the hosts.
    pub shape_count: usize,
    /// Whether the search ended after [`MACHINES_MAX`] machines, with shapes left that may be cheaper.
    pub is_cut_short: bool,
}

/// A network that is no design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// As [`Design::name`].
    pub name: String,
    /// Why.
    pub why: String,
}

/// Why there is no design.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DesignError {
    /// A number out of its range.
    #[error("{0}")]
    Wanted(String),
    /// Too few ports.
    #[error(
        "no network of at most {SWITCHES_MAX} of these switches holds {0} hosts: add a model \
         with more ports"
    )]
    TooManyHosts(u32),
    /// Too little bandwidth.
    #[error("no network has {wanted:.1} Gbit/s between its halves; the most is {most:.1}, by {name}")]
    TooMuchBisection {
        /// Gbit/s.
        wanted: f64,
        /// Gbit/s.
        most: f64,
        /// Which.
        name: String,
    },
    /// Each has a fault.
    #[error("none of {count} networks passes all checks; the cheapest, {name}: {why}")]
    NoneIsGood {
        /// How many were tried.
        count: usize,
        /// The cheapest.
        name: String,
        /// Its fault.
        why: String,
    },
}

/// The cheapest designs.
///
/// # Errors
/// If there is none; says what is in the way.
pub fn designs(prices: &Prices, wanted: &Wanted) -> Result<Designs, DesignError> {
    let host_count = wanted.host_count;
    if !(1..=HOSTS_MAX).contains(&host_count) {
        return Err(DesignError::Wanted(format!(
            "{host_count} hosts: from 1 to {HOSTS_MAX} can be asked for"
        )));
    }
    let mut shapes = shapes::shapes(prices, host_count);
    if shapes.is_empty() {
        return Err(DesignError::TooManyHosts(host_count));
    }
    shapes.sort_by(|a, b| a.price_min.total_cmp(&b.price_min).then_with(|| a.name.cmp(&b.name)));
    let mut search = Search::new(prices, wanted);
    let mut is_cut_short = false;
    for shape in &shapes {
        search.finish(Some(shape.price_min));
        is_cut_short = !search.has_all() && search.machine_count >= MACHINES_MAX;
        if search.has_all() || is_cut_short {
            break;
        }
        search.consider(shape);
    }
    search.finish(None);
    let Search { designs, left_out, most, machine_count, .. } = search;
    if designs.is_empty() {
        return Err(match (left_out.into_iter().next(), most) {
            (Some(LeftOut { name, why }), _) => DesignError::NoneIsGood { count: machine_count, name, why },
            (None, (most, name)) => DesignError::TooMuchBisection {
                wanted: wanted.bisection_bits_per_s as f64 / 1e9,
                most: most as f64 / 1e9,
                name,
            },
        });
    }
    Ok(Designs { designs, left_out, shape_count: shapes.len(), is_cut_short })
}

/// A machine with its price, not yet planned.
struct Offer {
    name: String,
    description: String,
    machine: Machine,
    cables: Vec<CableItem>,
    bisection_bits_per_s: u64,
    switches_price: f64,
    cables_price: f64,
}

struct Search<'a> {
    prices: &'a Prices,
    wanted: &'a Wanted,
    offers: Vec<Option<Offer>>,
    /// Price in hundredths, and index into the offers: the cheapest first, of equal ones the first.
    open: BinaryHeap<Reverse<(u64, usize)>>,
    designs: Vec<Design>,
    left_out: Vec<LeftOut>,
    /// The most bisection that was too little, and whose it is.
    most: (u64, String),
    machine_count: usize,
}

impl<'a> Search<'a> {
    fn new(prices: &'a Prices, wanted: &'a Wanted) -> Search<'a> {
        Search {
            prices,
            wanted,
            offers: Vec::new(),
            open: BinaryHeap::new(),
            designs: Vec::new(),
            left_out: Vec::new(),
            most: (0, String::new()),
            machine_count: 0,
        }
    }

    fn has_all(&self) -> bool {
        self.designs.len() >= self.wanted.design_count
    }

    /// Plans what is cheaper than anything that can still come.
    fn finish(&mut self, price_min: Option<f64>) {
        while let Some(&Reverse((price, index))) = self.open.peek() {
            let is_open = price_min.is_some_and(|least| hundredths(least) < price);
            if is_open || self.has_all() {
                return;
            }
            self.open.pop();
            let Some(offer) = self.offers[index].take() else { continue };
            self.plan(offer);
        }
    }

    fn plan(&mut self, offer: Offer) {
        let Offer { name, description, machine, cables, bisection_bits_per_s, .. } = offer;
        let (switches_price, cables_price) = (offer.switches_price, offer.cables_price);
        match vlan::plan(&machine) {
            Err(error) => self.left_out.push(LeftOut { name, why: error.problem.into() }),
            Ok(plan) => {
                let fault = plan.verdicts.checks.iter().find(|check| check.status == Status::Fails);
                if let Some(fault) = fault {
                    let why = format!("{}: {}", fault.name, fault.detail);
                    return self.left_out.push(LeftOut { name, why });
                }
                self.designs.push(Design {
                    name,
                    description,
                    machine,
                    plan,
                    cables,
                    bisection_bits_per_s,
                    switches_price,
                    cables_price,
                });
            }
        }
    }

    /// As few cables a link as the bisection takes.
    fn consider(&mut self, shape: &Shape<'_>) {
        let wanted = self.wanted.bisection_bits_per_s;
        let crossing_count = links_across(shape);
        let mut refused = None;
        for cable_count in 1..=shape.cables_max {
            let most = bisection_max(shape, crossing_count, cable_count);
            if most < wanted {
                self.note_too_little(most, shape, cable_count);
                continue;
            }
            self.machine_count += 1;
            match self.offer(shape, cable_count) {
                Ok(offer) if offer.bisection_bits_per_s >= wanted => {
                    let price = hundredths(offer.switches_price + offer.cables_price);
                    self.open.push(Reverse((price, self.offers.len())));
                    self.offers.push(Some(offer));
                    return;
                }
                Ok(offer) => self.note_too_little(offer.bisection_bits_per_s, shape, cable_count),
                Err(why) => {
                    refused.get_or_insert(LeftOut { name: shape.named(cable_count), why });
                    // Where ports differ in their rates, a LAG of more cables may have ports of one rate.
                    if shape.model.fast_ports.is_none() {
                        break;
                    }
                }
            }
        }
        self.left_out.extend(refused);
    }

    fn note_too_little(&mut self, bits_per_s: u64, shape: &Shape<'_>, cable_count: u32) {
        if bits_per_s >= self.most.0 {
            self.most = (bits_per_s, shape.named(cable_count));
        }
    }

    fn offer(&self, shape: &Shape<'_>, cable_count: u32) -> Result<Offer, String> {
        let name = shape.named(cable_count);
        let host_count = self.wanted.host_count;
        let description = shape.description(self.prices, host_count, cable_count);
        let machine = Machine::parse(&name, &description)
            .map_err(|error| format!("{} ({})", error.problem, error.key))?;
        let cables = cable_list(&machine, self.prices).map_err(|longest_m| {
            let last = self.prices.cables.last().map_or(0.0, |cable| cable.length_m);
            format!("needs a cable of {longest_m:.1} m, and the longest is of {last} m")
        })?;
        let bisection_bits_per_s = match shape.switch_count {
            1 => one_switch(&machine),
            _ => bisected(&Network::of(&machine, &[])).0.bits_per_s,
        };
        Ok(Offer {
            name,
            description,
            bisection_bits_per_s,
            switches_price: f64::from(shape.switch_count) * shape.model.price.unwrap_or(0.0),
            cables_price: cables.iter().map(|cable| cable.price).sum(),
            machine,
            cables,
        })
    }
}

fn hundredths(price: f64) -> u64 {
    (price * 100.0).round() as u64
}

/// Traffic of half of the hosts of a switch: a switch that cannot carry it is no candidate.
fn one_switch(machine: &Machine) -> u64 {
    let mut rates: Vec<u64> =
        machine.graph.links().map(|(_, link)| link.spec.total_rate_bits_per_s()).collect();
    rates.sort_unstable();
    rates[..(rates.len() / 2).max(1)].iter().sum()
}

/// Links across the bisection of a shape.
fn links_across(shape: &Shape<'_>) -> u64 {
    let link = LinkSpec { rate_bits_per_s: 1, latency_ps: 0, cable_count: 1 };
    let Ok(graph) = shape.topology.build(link) else { return 0 };
    let generator = shape.topology.generator();
    let weights = graph.switches().map(|switch| u32::from(generator.carries_hosts(switch.0))).collect();
    bisected(&Network::new(&graph, graph.link_count(), weights, &[])).0.bits_per_s
}

/// The most bisection with so many cables a link. Of one switch it is known when the machine is put together.
fn bisection_max(shape: &Shape<'_>, crossing_count: u64, cable_count: u32) -> u64 {
    if shape.switch_count == 1 {
        return u64::MAX;
    }
    let slow = shape.model.rate_bits_per_s;
    // All ports of a LAG have one rate.
    let rate_bits_per_s = match shape.model.fast_ports {
        Some(fast) if cable_count <= u32::from(fast.last - fast.first) + 1 => fast.rate_bits_per_s.max(slow),
        _ => slow,
    };
    crossing_count * u64::from(cable_count) * rate_bits_per_s
}

#[cfg(test)]
mod tests;
