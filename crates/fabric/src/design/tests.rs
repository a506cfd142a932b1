use crate::vlan::plan;

use super::*;

const PRICES: &str = include_str!("../../../../examples/prices-2009.toml");

fn prices(text: &str) -> Prices {
    Prices::parse("prices.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn wanted(host_count: u32, gigabits: u64) -> Wanted {
    Wanted { host_count, bisection_bits_per_s: gigabits * 1_000_000_000, design_count: 5 }
}

#[test]
fn the_papers_cluster_costs_what_its_table_says() {
    let found = designs(&prices(PRICES), &wanted(225, 8)).unwrap();
    assert_eq!(found.designs.len(), 5);
    let ascending = found.designs.windows(2).all(|pair| pair[0].price() <= pair[1].price());
    assert!(ascending, "the cheapest first");
    // With 225 hosts on 48-port switches five are the fewest: no design has less, and the one large switch
    // costs
    // twenty-five times the paper's eight.
    assert!(found.designs.iter().all(|design| design.switches_price < 16_000.0));
    let large = PRICES.replace("price = 400_000", "price = 4_000");
    let found = designs(&prices(&large), &wanted(225, 8)).unwrap();
    assert_eq!(found.designs[0].name, "one e1200");
    assert_eq!(found.designs[0].bisection_bits_per_s, 112_000_000_000);
}

#[test]
fn a_design_is_what_its_machine_file_plans() {
    for design in designs(&prices(PRICES), &wanted(100, 12)).unwrap().designs {
        let machine = Machine::parse("design.toml", &design.description).unwrap();
        let again = plan(&machine).unwrap();
        assert_eq!(again.figures.bisection, design.plan.figures.bisection);
        assert!(again.verdicts.are_good(), "{}", design.name);
        assert!(design.bisection_bits_per_s >= 12_000_000_000, "{}", design.name);
        // Every cable once, no port twice.
        let cable_count = machine.graph.switch_cable_count() as usize + 100;
        assert_eq!(design.cables.len(), cable_count, "{}", design.name);
        let mut ports: Vec<&(String, String)> =
            design.cables.iter().flat_map(|cable| [&cable.from, &cable.to]).collect();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), 2 * cable_count, "{}", design.name);
        let sum: f64 = design.cables.iter().map(|cable| cable.price).sum();
        assert_eq!(sum, design.cables_price);
    }
}

/// One model of small switches.
const SMALL: &str = "[switch_models.small]\nports = 8\nrate_gbps = 1\nprice = 100\n[host_models.h]\n\
                     nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[[cable]]\nlength_m = 2\nprice = 4\n\
                     [[cable]]\nlength_m = 20\nprice = 30\n[racks]\nhosts_per_rack = 4\n";

/// Every shape with every number of cables, without the search's order and bounds.
fn cheapest_by_force(prices: &Prices, wanted: &Wanted) -> Option<u64> {
    let mut cheapest = None;
    for shape in shapes::shapes(prices, wanted.host_count) {
        for cable_count in 1..=shape.cables_max {
            let text = shape.description(prices, wanted.host_count, cable_count);
            let Ok(machine) = Machine::parse("x.toml", &text) else { continue };
            let Ok(cables) = cable_list(&machine, prices) else { continue };
            let switches = f64::from(shape.switch_count) * shape.model.price.unwrap();
            let price = hundredths(switches + cables.iter().map(|cable| cable.price).sum::<f64>());
            if cheapest.is_some_and(|least| least <= price) {
                continue;
            }
            let Ok(plan) = plan(&machine) else { continue };
            // NICs have 1 Gbit/s.
            let bits_per_s = match shape.switch_count {
                1 => u64::from(wanted.host_count / 2) * 1_000_000_000,
                _ => plan.figures.bisection.bits_per_s,
            };
            let is_enough = bits_per_s >= wanted.bisection_bits_per_s;
            if plan.verdicts.are_good() && is_enough {
                cheapest = Some(price);
            }
        }
    }
    cheapest
}

#[test]
fn nothing_cheaper_is_found_by_trying_everything() {
    let large = "[switch_models.large]\nports = 16\nrate_gbps = 1\nprice = 260\n";
    let prices = prices(&(large.to_owned() + SMALL));
    for (host_count, gigabits) in [(5, 1), (10, 2), (14, 4), (18, 4), (18, 8)] {
        let wanted = wanted(host_count, gigabits);
        let found = designs(&prices, &wanted).map(|found| {
            let first = &found.designs[0];
            hundredths(first.price())
        });
        assert_eq!(found.ok(), cheapest_by_force(&prices, &wanted), "{host_count} hosts, {gigabits} Gbit/s");
    }
}

#[test]
fn every_shape_gets_as_few_cables_as_its_bisection_takes() {
    let mixed = "ports = 20\nfast_ports = { first = 13, last = 20, rate_gbps = 10 }";
    let prices = prices(&SMALL.replace("ports = 8", mixed));
    let wanted = [0, 12, 45, 85].map(|gigabits| wanted(16, gigabits));
    let mut gaps = 0;
    for shape in shapes::shapes(&prices, 16) {
        let all = Search::new(&prices, &wanted[0]);
        let offers: Vec<Option<Offer>> =
            (1..=shape.cables_max).map(|count| all.offer(&shape, count).ok()).collect();
        for wanted in &wanted {
            let mut search = Search::new(&prices, wanted);
            search.consider(&shape);
            let is_enough = |offer: &&Offer| offer.bisection_bits_per_s >= wanted.bisection_bits_per_s;
            let first = offers.iter().flatten().find(is_enough).map(|offer| &offer.name);
            let found: Vec<&String> = search.offers.iter().flatten().map(|offer| &offer.name).collect();
            assert_eq!(found, first.into_iter().collect::<Vec<_>>());
            gaps += usize::from(first.is_some() && search.machine_count > 1);
        }
    }
    // Three cables a link may be LAGs of ports of two rates, where four are not.
    assert!(gaps > 0);
}

/// Two models of one rate, without a limit of ports in a LAG.
fn two_models() -> String {
    let model = |name: &str, price: u32| {
        format!("[switch_models.{name}]\nports = 48\nrate_gbps = 1\nprice = {price}\n")
    };
    let (_, parts) = SMALL.split_once("price = 100\n").unwrap();
    model("a", 2_000) + &model("b", 2_100) + parts
}

#[test]
fn a_switch_that_is_too_narrow_does_not_use_up_the_search() {
    // 12 of 24 hosts send 12 Gbit/s at most: one switch is too little, whatever number of cables is tried.
    let found = designs(&prices(&two_models()), &wanted(24, 20)).unwrap();
    assert_eq!(found.designs[0].name, "complete 2 of a, 20 cables a link");
    assert!(!found.is_cut_short);
}

#[test]
fn what_cannot_be_had_is_tried_once() {
    let short = SMALL.replace("length_m = 20", "length_m = 2.5");
    let (prices, far, near) = (prices(&short), wanted(12, 1), wanted(12, 1000));
    let mut refused = 0;
    for shape in shapes::shapes(&prices, 12).iter().filter(|shape| shape.cables_max > 1) {
        let mut search = Search::new(&prices, &far);
        search.consider(shape);
        // No cable is long enough, however many there are.
        if !search.left_out.is_empty() {
            assert_eq!((search.machine_count, search.left_out.len()), (1, 1), "{}", shape.name);
            refused += 1;
        }
        // What is too narrow by its number of links is not put together.
        let mut search = Search::new(&prices, &near);
        search.consider(shape);
        assert_eq!((search.machine_count, search.offers.len()), (0, 0), "{}", shape.name);
        assert!(search.most.1.contains(&shape.name), "{:?}", search.most);
    }
    assert!(refused > 0);
}

#[test]
fn a_link_has_no_more_cables_than_a_description_takes() {
    let prices = prices(&SMALL.replace("ports = 8", "ports = 300"));
    let most = shapes::shapes(&prices, 16).iter().map(|shape| shape.cables_max).max();
    assert_eq!(most, Some(256));
}

#[test]
fn prices_are_told_apart_by_hundredths() {
    assert_eq!([1.23, 1.0, 0.005, 0.0].map(hundredths), [123, 100, 1, 0]);
}

/// The cables of half of the NICs, the slower ones.
#[test]
fn one_switch_is_as_wide_as_its_slower_half() {
    let nics = "rate_gbps = 10 }, { name = \"eth1\", rate_gbps = 1 }]";
    let mixed = SMALL
        .replace("ports = 8\nrate_gbps = 1", "ports = 8\nrate_gbps = 10")
        .replace("rate_gbps = 1 }]", nics);
    let found = designs(&prices(&mixed), &wanted(4, 4)).unwrap();
    let design = &found.designs[0];
    assert_eq!((design.name.as_str(), design.bisection_bits_per_s), ("one small", 4_000_000_000));
}

#[test]
fn one_switch_carries_what_its_hosts_can_send() {
    let fast = SMALL.replace("ports = 8\nrate_gbps = 1", "ports = 8\nrate_gbps = 10");
    let found = designs(&prices(&fast), &wanted(7, 3)).unwrap();
    assert_eq!(found.designs[0].name, "one small");
    assert_eq!(found.designs[0].bisection_bits_per_s, 3_000_000_000);
    let two_nics = SMALL.replace("rate_gbps = 1 }]", "rate_gbps = 1 }, { name = \"eth1\", rate_gbps = 1 }]");
    let found = designs(&prices(&two_nics), &wanted(4, 4)).unwrap();
    assert_eq!(
        (found.designs[0].name.as_str(), found.designs[0].bisection_bits_per_s),
        ("one small", 4_000_000_000)
    );
    let alone = designs(&prices(SMALL), &wanted(1, 1)).unwrap();
    assert_eq!(alone.designs[0].bisection_bits_per_s, 1_000_000_000);
}

#[test]
fn a_search_that_ends_early_says_so() {
    // The cheapest cable is too short for all: what a shape costs at least is far below what it costs, and
    // no design is sure to be the cheapest before all shapes have been looked at.
    let short = "[[cable]]\nlength_m = 1\nprice = 0\n";
    let models: String = (0..8)
        .map(|n| format!("[switch_models.m{n}]\nports = 16\nrate_gbps = 1\nprice = {}\n", 10 + n))
        .collect();
    let all = models
        + &SMALL.replace("price = 30", "price = 30000").replace("length_m = 2\n", "length_m = 1.5\n")
        + short;
    let found = designs(&prices(&all), &wanted(30, 1)).unwrap();
    assert_eq!((found.designs.len(), found.is_cut_short), (5, true));
    assert!(!designs(&prices(SMALL), &wanted(10, 1)).unwrap().is_cut_short);
}

#[test]
fn cables_are_as_long_as_their_racks_are_apart() {
    let text = PRICES.replace("hosts_per_rack = 20", "hosts_per_rack = 8");
    let designs = designs(&prices(&text), &wanted(60, 1)).unwrap().designs;
    let design = designs.iter().find(|design| design.plan.switches.len() == 2).unwrap();
    // 60 hosts in racks of 8: two switches with 30 each, at racks 1 and 5 of a row of six; hosts 56 on are
    // in rack 7.
    let first = &design.cables[0];
    assert_eq!((first.needed_m, first.length_m, first.price), (2.0 + 4.0 * 0.6, 5.0, 4.0));
    let far = design.cables.last().unwrap();
    assert_eq!(far.from.0, "h59");
    assert!((far.needed_m - (2.0 + 4.0 * 0.6 + 2.4)).abs() < 1e-9, "{far:?}");
    assert!(first.label().starts_with("1 s0:1/g"), "{}", first.label());
}

#[test]
fn what_cannot_be_had_is_told() {
    let refusal =
        |text: &str, wanted: Wanted| designs(&prices(text), &wanted).map(drop).unwrap_err().to_string();
    let small = PRICES.replace("[switch_models.e1200]\nports = 336", "[switch_models.e1200]\nports = 48");
    let cases = [
        (PRICES.to_owned(), wanted(0, 1), "0 hosts: from 1 to 16384"),
        (PRICES.to_owned(), wanted(16_385, 1), "16385 hosts: from 1 to 16384"),
        (small.clone(), wanted(16_000, 1), "holds 16000 hosts: add a model with more ports"),
        (small, wanted(200, 1000), "no network has 1000.0 Gbit/s between its halves; the most is"),
        // 14 switches with a host each have 15 ports left, and 13 links: 7 times 7 lead to the other half.
        (
            SMALL.replace("ports = 8", "ports = 16"),
            wanted(14, 100),
            "the most is 49.0, by complete 14 of small, 1 cable a link",
        ),
        (SMALL.replace("price = 100", "price = 100\nmac_table_max = 3"), wanted(12, 1), "mac table: s"),
        (SMALL.replace("length_m = 20", "length_m = 2.5"), wanted(12, 1), "needs a cable of"),
    ];
    for (text, wanted, expected) in cases {
        let error = refusal(&text, wanted);
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
