//! One self-contained page that shows a plan: the switches and links, a VLAN's tree, the routes between two
//! hosts both ways, the load on every link, and what a failure breaks. Opened from a file, it asks nothing of
//! any network.
//!
//! Owns the page's data, and the places of switches (`layout`); `page.js` decides what is drawn, and when.
//! `routes.js` computes the routes and loads from the trees, as the switches do it: nothing of them is copied
//! from the planner.

mod layout;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::LinkLoads;
use crate::description::Machine;
use crate::graph::{LinkId, SwitchId};
use crate::plan::{Check, Plan, Tagging, VlanChoice};
use crate::vlan::Failure;
use layout::Group;

/// What the page shows beside the plan.
#[derive(Debug, Default)]
pub struct Extras<'a> {
    /// A name, and the bytes that this traffic puts on the links, to be shown in the place of one flow from
    /// each host to each other.
    pub traffic: Option<(&'a str, &'a LinkLoads)>,
    /// Repairs of failures, which the page then shows, too.
    pub repairs: &'a [Repair],
}

/// The plan after a failure.
#[derive(Debug)]
pub struct Repair {
    /// The failure.
    pub failure: Failure,
    /// The plan without it.
    pub plan: Plan,
    /// Switches to be configured again, in the order in which no VLAN has a loop in between; `None` where
    /// there is no such order.
    pub order: Option<Vec<SwitchId>>,
}

/// Data of the page. Short names: there may be a million of some.
#[derive(Serialize)]
struct Data<'a> {
    machine: &'a str,
    method: &'a str,
    tagging: Tagging,
    pause: bool,
    /// Trees heal by themselves.
    mstp: bool,
    switches: Vec<Switch<'a>>,
    groups: Vec<Group>,
    links: Vec<Link<'a>>,
    vlans: Vec<Vlan>,
    /// Name, switch, and with a VLAN by source its index.
    hosts: Vec<(&'a str, u32, Option<usize>)>,
    choice: Choice<'a>,
    checks: &'a [Check],
    cycle: Vec<String>,
    /// In the place of one flow from each host to each other.
    traffic: Option<Traffic<'a>>,
    repairs: Vec<Repaired<'a>>,
}

/// A repair, as it differs from the plan.
#[derive(Serialize)]
struct Repaired<'a> {
    link: Option<u32>,
    switch: Option<u32>,
    vlans: Vec<RepairedVlan>,
    /// Hosts that send on another VLAN: index, and index of the VLAN in `vlans`.
    moved: Vec<(usize, Option<usize>)>,
    method: &'a str,
    free: bool,
    order: Option<Vec<u32>>,
}

#[derive(Serialize)]
struct RepairedVlan {
    vid: u16,
    /// Links that the VLAN of this number has no longer, and has in addition.
    without: Vec<u32>,
    with: Vec<u32>,
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
struct Link<'a> {
    a: u32,
    b: u32,
    /// At both ends, as printed on the switch; as many as cables.
    ports: [&'a [u16]; 2],
    lags: [Option<u16>; 2],
    /// Rate of one cable, Gbit/s.
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

/// The page. `machine`, from which the plan was made, gives the switches' places.
pub fn html(plan: &Plan, machine: &Machine, extras: &Extras<'_>) -> String {
    let layout = layout::layout(plan, machine);
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
        mstp: plan.mstp.is_some(),
        switches: plan
            .switches
            .iter()
            .zip(layout.places)
            .map(|(switch, (x, y))| Switch { name: &switch.name, x, y })
            .collect(),
        groups: layout.groups,
        links: plan
            .links
            .iter()
            .map(|link| Link {
                a: link.ends[0].switch.0,
                b: link.ends[1].switch.0,
                ports: [&link.ends[0].ports, &link.ends[1].ports],
                lags: link.ends.each_ref().map(|end| end.lag),
                gbps: link.rate_bits_per_s as f64 / 1e9,
            })
            .collect(),
        vlans: plan
            .vlans
            .iter()
            .map(|vlan| Vlan { vid: vlan.vid.get(), tree: vlan.tree.iter().map(|link| link.0).collect() })
            .collect(),
        hosts: hosts(plan).map(|(name, switch, vlan)| (name, switch.0, vlan)).collect(),
        choice,
        checks: &plan.verdicts.checks,
        cycle: plan
            .verdicts
            .deadlock
            .cycle
            .iter()
            .map(|step| format!("{} to {} (VLAN {})", name_of(step.from), name_of(step.to), step.vid))
            .collect(),
        traffic: extras
            .traffic
            .map(|(name, loads)| Traffic { name, bytes: loads.channel_bytes.chunks(2).collect() }),
        repairs: extras.repairs.iter().map(|repair| repaired(plan, repair)).collect(),
    };
    // In a script element only `</` and `<!--` would end or change it.
    let json = serde_json::to_string(&data).expect("a plan can be written").replace('<', "\\u003c");
    include_str!("page.html")
        .replace("@TITLE@", &escaped(&plan.machine))
        .replace("@STYLE@", include_str!("page.css"))
        .replace("@ROUTES@", include_str!("routes.js"))
        .replace("@PAGE@", include_str!("page.js"))
        .replace("@DATA@", &json)
}

/// By host that has an interface: its name, its first interface's switch, and with a VLAN by source its
/// index.
fn hosts(plan: &Plan) -> impl Iterator<Item = (&str, SwitchId, Option<usize>)> {
    plan.hosts.iter().filter_map(|host| {
        let own = host.attachments.first()?;
        let vlan = match plan.choice {
            VlanChoice::BySource(_) => plan.choice.vlan_index(own, own),
            VlanChoice::ByPair { .. } => None,
        };
        Some((host.name.as_str(), own.switch, vlan))
    })
}

fn repaired<'a>(whole: &Plan, repair: &'a Repair) -> Repaired<'a> {
    let trees: BTreeMap<u16, &[LinkId]> =
        whole.vlans.iter().map(|vlan| (vlan.vid.get(), vlan.tree.as_slice())).collect();
    let beyond = |of: &[LinkId], others: &[LinkId]| -> Vec<u32> {
        of.iter().filter(|link| !others.contains(link)).map(|link| link.0).collect()
    };
    let vlans = repair.plan.vlans.iter().map(|vlan| {
        let vid = vlan.vid.get();
        let before = trees.get(&vid).copied().unwrap_or_default();
        RepairedVlan { vid, without: beyond(before, &vlan.tree), with: beyond(&vlan.tree, before) }
    });
    let vid_of = |plan: &Plan, vlan: Option<usize>| vlan.map(|vlan| plan.vlans[vlan].vid);
    let both = hosts(whole).zip(hosts(&repair.plan)).enumerate();
    let moved = both.filter(|(_, (before, after))| vid_of(whole, before.2) != vid_of(&repair.plan, after.2));
    let (link, switch) = match repair.failure {
        Failure::Link(link) => (Some(link.0), None),
        Failure::Switch(switch) => (None, Some(switch.0)),
    };
    Repaired {
        link,
        switch,
        vlans: vlans.collect(),
        moved: moved.map(|(index, (_, after))| (index, after.2)).collect(),
        method: &repair.plan.method,
        free: repair.plan.verdicts.deadlock.is_free(),
        order: repair.order.as_ref().map(|order| order.iter().map(|switch| switch.0).collect()),
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // Text between two of them is replaced.
    text.replace('@', "&#64;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vlan::{InUse, Reach, plan, repaired_from};

    fn torus() -> (Machine, Plan) {
        let text = "name = \"m\"\n[switch_models.s]\nports = 16\nrate_gbps = 1\n[host_models.h]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"torus\"\nextents = [3, 3]\n\
             switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 2\n";
        let machine = Machine::parse("m.toml", text).expect("a machine");
        let plan = plan(&machine).expect("a plan");
        (machine, plan)
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let (machine, plan) = torus();
        let page = html(&plan, &machine, &Extras::default());
        for foreign in ["http://", "https://", "src=", "@import", "url(", "<link", "fetch("] {
            // Names of a namespace and of a marker of the page itself; neither is fetched.
            let page = page.replace("http://www.w3.org/2000/svg", "").replace("url(#arrow", "");
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let (machine, mut plan) = torus();
        plan.machine = "</script><b>&@DATA@".into();
        plan.hosts[0].name = "</script><script>alert(1)</script>@TITLE@".into();
        let loads = LinkLoads { channel_bytes: vec![1, 2], bottleneck: None };
        let extras = Extras { traffic: Some(("</script>", &loads)), ..Extras::default() };
        let page = html(&plan, &machine, &extras);
        assert_eq!(page.matches("</script>").count(), 1, "the page's own");
        assert!(page.contains("<title>&lt;/script&gt;&lt;b&gt;&amp;&#64;DATA&#64; - plan</title>"));
        assert!(page.contains("alert(1)\\u003c/script>@TITLE@"));
    }

    fn data(page: &str) -> serde_json::Value {
        let text = page.split_once("const data = ").expect("data").1.lines().next().expect("one line");
        serde_json::from_str(text.trim_end_matches(';')).expect("JSON")
    }

    #[test]
    fn the_page_knows_ports_rates_and_loads_of_links() {
        let text = "name = \"m\"\n[switch_models.s]\nports = 8\nrate_gbps = 2.5\n[host_models.h]\n\
             nic = [{ name = \"eth0\", rate_gbps = 1 }]\n[topology]\nkind = \"tree\"\narity = 1\n\
             switches = 3\ncables = 2\nswitch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = 2\n";
        let machine = Machine::parse("m.toml", text).expect("a machine");
        let plan = plan(&machine).expect("a plan");
        let loads = LinkLoads { channel_bytes: vec![1, 2, 3, 4], bottleneck: None };
        let page = html(&plan, &machine, &Extras { traffic: Some(("t", &loads)), ..Extras::default() });
        let data = data(&page);
        let lag = |switch: usize, port: u16| {
            plan.switches[switch].lags.iter().find(|lag| lag.members.contains(&port)).map(|lag| lag.number)
        };
        let link = |[a, b]: [usize; 2], ports: [[u16; 2]; 2]| {
            let lags = [lag(a, ports[0][0]), lag(b, ports[1][0])];
            json!({"a": a, "b": b, "ports": ports, "lags": lags, "gbps": 2.5})
        };
        // Links take the last ports of the three switches: those of the middle one are two LAGs.
        assert_eq!(data["links"], json!([link([0, 1], [[7, 8], [5, 6]]), link([1, 2], [[7, 8], [7, 8]])]));
        assert_ne!(lag(1, 5), lag(1, 7));
        assert_eq!(data["traffic"], json!({"name": "t", "bytes": [[1, 2], [3, 4]]}));
    }

    #[test]
    fn hosts_that_tag_have_a_vlan_by_pair() {
        let (machine, mut plan) = torus();
        let told = |plan: &Plan| {
            let data = data(&html(plan, &machine, &Extras::default()));
            (data["choice"].clone(), data["hosts"][17].clone())
        };
        let own = &plan.hosts[17].attachments[0];
        let vlan = plan.choice.vlan_index(own, own);
        assert!(vlan.is_some());
        assert_eq!(told(&plan), (json!({"by": "source", "vlans": []}), json!(["h17", 8, vlan])));
        let vlans: Vec<Option<u16>> = (0..81).map(|pair| (pair > 0).then_some(0)).collect();
        plan.choice = VlanChoice::ByPair { switch_count: 9, vlans: vlans.clone() };
        assert_eq!(told(&plan), (json!({"by": "pair", "vlans": vlans}), json!(["h17", 8, null])));
    }

    /// The page's data about a repair gives the repaired plan's trees and hosts' VLANs.
    #[test]
    fn a_repair_is_told_by_its_difference() {
        let (machine, whole) = torus();
        let in_use = InUse::of(&whole).expect("it can be continued");
        for failure in crate::vlan::single_failures(&machine) {
            let after = repaired_from(&machine, &in_use, &[failure], Reach::Trees).expect("a repair");
            let repair = Repair { failure, plan: after, order: Some(vec![SwitchId(0)]) };
            let told = repaired(&whole, &repair);
            let moved: BTreeMap<usize, Option<usize>> = told.moved.iter().copied().collect();
            for (index, vlan) in repair.plan.vlans.iter().enumerate() {
                let own = &told.vlans[index];
                assert_eq!(own.vid, vlan.vid.get());
                let before = whole.vlans.iter().find(|before| before.vid == vlan.vid);
                let mut tree: Vec<u32> =
                    before.map_or(Vec::new(), |before| before.tree.iter().map(|l| l.0).collect());
                tree.retain(|link| !own.without.contains(link));
                tree.extend(&own.with);
                tree.sort_unstable();
                assert_eq!(tree, vlan.tree.iter().map(|link| link.0).collect::<Vec<u32>>(), "{failure:?}");
            }
            for (index, (before, after)) in hosts(&whole).zip(hosts(&repair.plan)).enumerate() {
                let stayed = before.2.and_then(|vlan| {
                    repair.plan.vlans.iter().position(|own| own.vid == whole.vlans[vlan].vid)
                });
                assert_eq!(moved.get(&index).copied().unwrap_or(stayed), after.2, "{failure:?} {}", before.0);
            }
        }
    }
}
