//! One self-contained page that shows a plan: the switches and links, a VLAN's tree, the routes between two hosts both
//! ways, the load on every link. Opened from a file, it asks nothing of any network.
//!
//! Owns where switches are drawn and what the page is told; what is drawn, and when, is in `page.html`. The routes and
//! loads are computed there from the trees, as the switches do it: nothing of them is copied from the planner.

use std::collections::VecDeque;

use serde::Serialize;

use crate::analysis::LinkLoads;
use crate::graph::Graph;
use crate::plan::{Check, Plan, Tagging, VlanChoice};

/// What the page is told. Short names: there may be a million of some.
#[derive(Serialize)]
struct Data<'a> {
    machine: &'a str,
    method: &'a str,
    tagging: Tagging,
    pause: bool,
    switches: Vec<Switch<'a>>,
    links: Vec<Link>,
    vlans: Vec<Vlan>,
    /// Name, switch, and with a VLAN by source its index.
    hosts: Vec<(&'a str, u32, Option<usize>)>,
    choice: Choice<'a>,
    checks: &'a [Check],
    cycle: Vec<String>,
    /// In the place of one flow from each host to each other.
    traffic: Option<Traffic<'a>>,
}

#[derive(Serialize)]
struct Traffic<'a> {
    name: &'a str,
    /// Bytes of each link: leaving its first end, leaving its second.
    bytes: Vec<&'a [u64]>,
}

#[derive(Serialize)]
struct Switch<'a> {
    name: &'a str,
    x: f64,
    y: f64,
}

#[derive(Serialize)]
struct Link {
    a: u32,
    b: u32,
    cables: usize,
    /// Of one cable, Gbit/s.
    gbps: f64,
}

#[derive(Serialize)]
struct Vlan {
    vid: u16,
    tree: Vec<u32>,
}

#[derive(Serialize)]
struct Choice<'a> {
    by: &'static str,
    vlans: &'a [Option<u16>],
}

/// The page. `graph` gives the switches' places where the topology has coordinates; `traffic` a name and what it puts on
/// the links, to be shown in the place of one flow from each host to each other.
pub fn html(plan: &Plan, graph: &Graph, traffic: Option<(&str, &LinkLoads)>) -> String {
    let places = places(plan, graph);
    let name_of = |id: crate::graph::SwitchId| plan.switch(id).name.as_str();
    let choice = match &plan.choice {
        VlanChoice::BySource(_) => Choice { by: "source", vlans: &[] },
        VlanChoice::ByPair { vlans, .. } => Choice { by: "pair", vlans },
    };
    let data = Data {
        machine: &plan.machine,
        method: &plan.method,
        tagging: plan.tagging,
        pause: plan.pause,
        switches: plan
            .switches
            .iter()
            .zip(places)
            .map(|(switch, (x, y))| Switch { name: &switch.name, x, y })
            .collect(),
        links: plan
            .links
            .iter()
            .map(|link| Link {
                a: link.ends[0].switch.0,
                b: link.ends[1].switch.0,
                cables: link.cable_count(),
                gbps: link.rate_bits_per_s as f64 / 1e9,
            })
            .collect(),
        vlans: plan
            .vlans
            .iter()
            .map(|vlan| Vlan { vid: vlan.vid.get(), tree: vlan.tree.iter().map(|link| link.0).collect() })
            .collect(),
        hosts: plan
            .hosts
            .iter()
            .filter_map(|host| {
                let own = host.attachments.first()?;
                let vlan = match plan.choice {
                    VlanChoice::BySource(_) => plan.choice.vlan_index(own, own),
                    VlanChoice::ByPair { .. } => None,
                };
                Some((host.name.as_str(), own.switch.0, vlan))
            })
            .collect(),
        choice,
        checks: &plan.verdicts.checks,
        cycle: plan
            .verdicts
            .deadlock
            .cycle
            .iter()
            .map(|step| format!("{} to {} (VLAN {})", name_of(step.from), name_of(step.to), step.vid))
            .collect(),
        traffic: traffic
            .map(|(name, loads)| Traffic { name, bytes: loads.channel_bytes.chunks(2).collect() }),
    };
    // In a script element only `</` and `<!--` would end or change it.
    let json = serde_json::to_string(&data).expect("a plan can be written").replace('<', "\\u003c");
    include_str!("page.html").replace("@TITLE@", &escaped(&plan.machine)).replace("@DATA@", &json)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Where each switch is drawn, both coordinates in 0 to 1.
fn places(plan: &Plan, graph: &Graph) -> Vec<(f64, f64)> {
    let count = plan.switches.len();
    let coordinates: Vec<&[u32]> = if graph.switch_count() == count {
        graph.switches().map(|id| graph.coordinates(id)).collect()
    } else {
        Vec::new()
    };
    let dimension_count = coordinates.first().map_or(0, |own| own.len());
    let is_grid = dimension_count >= 2 && coordinates.iter().all(|own| own.len() == dimension_count);
    let raw: Vec<(f64, f64)> = if is_grid {
        on_grid(&coordinates, dimension_count)
    } else if plan.links.len() + 1 == count && count > 2 {
        on_layers(plan)
    } else {
        on_circle(count)
    };
    scaled(&raw)
}

/// Dimensions 0, 2, 4 … go right, 1, 3, 5 … down; each further one in steps as wide as all before.
fn on_grid(coordinates: &[&[u32]], dimension_count: usize) -> Vec<(f64, f64)> {
    let mut steps = vec![1.0; dimension_count];
    for dimension in 2..dimension_count {
        let before = dimension - 2;
        let extent = coordinates.iter().map(|own| own[before]).max().unwrap_or(0) + 1;
        steps[dimension] = steps[before] * (f64::from(extent) + 0.6);
    }
    let along = |own: &[u32], first: usize| -> f64 {
        (first..dimension_count)
            .step_by(2)
            .map(|dimension| f64::from(own[dimension]) * steps[dimension])
            .sum()
    };
    coordinates.iter().map(|own| (along(own, 0), along(own, 1))).collect()
}

/// A tree: by distance from the switch that is nearest to all.
fn on_layers(plan: &Plan) -> Vec<(f64, f64)> {
    let count = plan.switches.len();
    let mut next_to = vec![Vec::new(); count];
    for link in &plan.links {
        let [a, b] = [0, 1].map(|end| link.ends[end].switch.index());
        next_to[a].push(b);
        next_to[b].push(a);
    }
    let depths = |root: usize| {
        let mut depths = vec![usize::MAX; count];
        depths[root] = 0;
        let mut queue = VecDeque::from([root]);
        while let Some(at) = queue.pop_front() {
            for &to in &next_to[at] {
                if depths[to] == usize::MAX {
                    depths[to] = depths[at] + 1;
                    queue.push_back(to);
                }
            }
        }
        depths
    };
    let root = (0..count).min_by_key(|&root| depths(root).into_iter().max()).unwrap_or(0);
    let depths = depths(root);
    let mut width_at = vec![0_u32; count + 1];
    let mut places = Vec::with_capacity(count);
    for &depth in &depths {
        let depth = depth.min(count);
        places.push((f64::from(width_at[depth]), depth as f64));
        width_at[depth] += 1;
    }
    // Each layer in the middle.
    for (place, &depth) in places.iter_mut().zip(&depths) {
        let width = f64::from(width_at[depth.min(count)]);
        place.0 = (place.0 + 0.5) / width;
    }
    places
}

fn on_circle(count: usize) -> Vec<(f64, f64)> {
    let angle = |index: usize| std::f64::consts::TAU * index as f64 / count.max(1) as f64;
    (0..count).map(|index| (angle(index).sin(), -angle(index).cos())).collect()
}

fn scaled(raw: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let range = |values: Vec<f64>| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high - low)
    };
    let (x_low, width) = range(raw.iter().map(|place| place.0).collect());
    let (y_low, height) = range(raw.iter().map(|place| place.1).collect());
    // Three digits are finer than a pixel.
    let to_unit = |value: f64, low: f64, size: f64| {
        let unit = if size > 0.0 { (value - low) / size } else { 0.5 };
        (unit * 1000.0).round() / 1000.0
    };
    raw.iter().map(|&(x, y)| (to_unit(x, x_low, width), to_unit(y, y_low, height))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::two_switches_and_four_hosts;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = html(&two_switches_and_four_hosts(), &Graph::new(), None);
        for foreign in ["http://", "https://", "src=", "@import", "url(", "<link", "fetch("] {
            // Names of a namespace and of a marker of the page itself; neither is fetched.
            let page = page.replace("http://www.w3.org/2000/svg", "").replace("url(#arrow", "");
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let mut plan = two_switches_and_four_hosts();
        plan.machine = "</script><b>&".into();
        plan.hosts[0].name = "</script><script>alert(1)</script>".into();
        let loads = LinkLoads { channel_bytes: vec![1, 2], bottleneck: None };
        let page = html(&plan, &Graph::new(), Some(("</script>", &loads)));
        assert_eq!(page.matches("</script>").count(), 1, "the page's own");
        assert!(page.contains("&lt;/script&gt;&lt;b&gt;&amp;"));
    }

    #[test]
    fn switches_are_drawn_in_the_unit_square_and_apart() {
        let plan = two_switches_and_four_hosts();
        assert_eq!(places(&plan, &Graph::new()).len(), 2);
        let coordinates: Vec<Vec<u32>> = (0..24).map(|i| vec![i % 4, i / 4 % 2, i / 8]).collect();
        let borrowed: Vec<&[u32]> = coordinates.iter().map(Vec::as_slice).collect();
        let places = scaled(&on_grid(&borrowed, 3));
        for (index, place) in places.iter().enumerate() {
            assert!((0.0..=1.0).contains(&place.0) && (0.0..=1.0).contains(&place.1));
            assert!(!places[..index].contains(place), "two switches at {place:?}");
        }
    }
}
