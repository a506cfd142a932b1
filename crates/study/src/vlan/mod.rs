//! Tables 2 and 7 and figure 2 of the VLAN routing paper (T. Hiroyasu et al., IPSJ ACS 2009), planned from
//! machines/supernova.toml and machines/misc.toml with their `[topology]` replaced.
//!
//! All-to-all and random ring are simulated on each of them ([`Variants`]) and held against what the paper
//! says of HPL and the NAS parallel benchmarks.
//!
//! Every value in the column "planned" comes from a plan, and every plan is made for each number of links
//! that fits the switches' 48 ports; the paper's values stand beside it and are compared, nothing else.

mod clusters;
mod orders;
mod times;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use ayatori_fabric::plan::{Plan, PortRole, VlanId};
use ayatori_fabric::vlan::plan;

use crate::report::{Table, Tally};
use crate::sweep::Control;
use clusters::{Cluster, LINKS_MAX, tree_of, with_links};
use times::Variant;

/// The paper's tables, planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    tables: Vec<Table>,
    /// How many figures that the paper prints are the planner's.
    same_count: usize,
    /// The others.
    differing: Vec<String>,
}

impl Report {
    /// Whether every figure that the paper prints is the planner's.
    pub fn agrees(&self) -> bool {
        self.differing.is_empty()
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let tables = self.tables.iter().map(|table| format!("{}\n", table.text()));
        format!("{}{}\n", tables.collect::<String>(), self.verdict())
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let tables: String = self.tables.iter().map(Table::markdown).collect();
        format!(
            "# VLAN routing: topologies of Ethernet switches\n\nThe paper's two clusters, planned in all of its \
             topologies from machines/supernova.toml and misc.toml. n is the number of links between two \
             switches. `ayatori study vlan` also simulates all-to-all and random ring on each, which takes half \
             a minute of all cores.\n{tables}\n{}\n",
            self.verdict()
        )
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            same_count: self.same_count,
            differ_count: self.differing.len(),
            worst: self.differing.iter().take(3).cloned().collect(),
            ..Tally::default()
        }
    }

    fn verdict(&self) -> String {
        let count = self.same_count + self.differing.len();
        match &self.differing[..] {
            [] => format!("All {count} figures that the paper prints are the planner's."),
            differing => {
                format!("{} of {count} figures DIFFER: {}.", differing.len(), differing.join("; "))
            }
        }
    }

    /// Compares a figure, and answers what it comes to.
    fn compare(&mut self, what: &str, paper: &str, planned: &str) -> &'static str {
        if paper == planned {
            self.same_count += 1;
            "same"
        } else {
            self.differing.push(format!("{what}: {planned}, the paper has {paper}"));
            "differs"
        }
    }
}

/// What the paper says of a topology with n links.
struct Printed {
    diameter_switches: u32,
    /// Bisection, Gbit/s, for each of the n links.
    bisection_per_link: u64,
    vlan_count: usize,
}

struct Row {
    name: &'static str,
    /// The `[topology]` but for the model and the number of cables.
    topology: String,
    /// The `[plan]`.
    options: &'static str,
    /// `None`: the paper measures it but does not print its figures.
    printed: Option<Printed>,
}

fn row(name: &'static str, topology: &str, printed: Option<(u32, u64, usize)>) -> Row {
    let printed = printed.map(|(diameter_switches, bisection_per_link, vlan_count)| Printed {
        diameter_switches,
        bisection_per_link,
        vlan_count,
    });
    Row { name, topology: topology.into(), options: "", printed }
}

/// What the planner says.
struct Planned {
    diameter_switches: u32,
    bisection_per_link: u64,
    vlan_count: usize,
    links_max: u64,
    cable_count: u64,
    is_free: bool,
    method: String,
    /// VLANs with `vlans = "fewest"`, and with hosts that tag.
    fewest: usize,
    host_tagged: usize,
}

/// Plans the paper's two clusters in all of its topologies, from supernova.toml and misc.toml in `folder`, or
/// as built in.
///
/// # Errors
/// A machine that cannot be read or planned.
pub fn run(folder: Option<&Path>) -> anyhow::Result<Report> {
    let (supernova, misc) = clusters(folder)?;
    let mut report = Report::default();
    let torus = plan(&supernova.with("", "")?)?;
    table(&mut report, "SuperNova (table 2)", &supernova, &supernova_rows(&torus))?;
    table(&mut report, "Misc (table 7)", &misc, &misc_rows())?;
    figure_2(&mut report, &torus);
    Ok(report)
}

fn clusters(folder: Option<&Path>) -> anyhow::Result<(Cluster, Cluster)> {
    let built_in = include_str!("../../../../machines/supernova.toml");
    let supernova = Cluster::read(folder, "supernova.toml", built_in)?;
    let misc = Cluster::read(folder, "misc.toml", include_str!("../../../../machines/misc.toml"))?;
    Ok((supernova, misc))
}

fn supernova_rows(torus: &Plan) -> [Row; 6] {
    [
        row("tree (VLAN 101)", &tree_of(torus, &torus.vlans[0]), Some((6, 1, 1))),
        row("complete", "kind = \"complete\"\nswitches = 8", Some((2, 16, 8))),
        row("mesh 4x2", "kind = \"mesh\"\nextents = [4, 2]", Some((5, 2, 4))),
        row("torus 4x2", "kind = \"torus\"\nextents = [4, 2]", Some((4, 4, 4))),
        // The paper measures the ring and prints no figures of it; shortest paths around it can deadlock.
        Row {
            options: "routing = \"minimal\"",
            ..row("ring 8x1, shortest", "kind = \"ring\"\nswitches = 8", None)
        },
        row("ring 8x1, safe", "kind = \"ring\"\nswitches = 8", None),
    ]
}

fn misc_rows() -> [Row; 2] {
    [
        row("tree (star)", "kind = \"star\"\nswitches = 6", Some((3, 3, 1))),
        row("complete", "kind = \"complete\"\nswitches = 6", Some((2, 9, 6))),
    ]
}

/// How the simulations are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simulations {
    /// Length of a message, bytes.
    pub bytes: u64,
    /// Simulations at a time.
    pub threads_count: usize,
}

/// The paper's clusters in all of its topologies, with each number of links that fits and, on Misc, one and
/// two NICs a host: ready to be simulated.
#[derive(Debug)]
pub struct Variants {
    supernova: Vec<Variant>,
    misc: Vec<Variant>,
}

impl Variants {
    /// Plans them all.
    ///
    /// # Errors
    /// A machine that cannot be read or planned.
    pub fn plan(folder: Option<&Path>) -> anyhow::Result<Variants> {
        let (supernova, misc) = clusters(folder)?;
        let torus = plan(&supernova.with("", "")?)?;
        let one_nic = misc.with_one_nic()?;
        let rows = misc_rows();
        let misc = {
            let mut all = variants(&one_nic, &rows, ",1")?;
            all.extend(variants(&misc, &rows, ",2")?);
            all
        };
        Ok(Variants { supernova: variants(&supernova, &supernova_rows(&torus), "")?, misc })
    }

    /// How many simulations there are.
    pub fn run_count(&self) -> usize {
        times::run_count(&self.supernova) + times::run_count(&self.misc)
    }

    /// Simulates all-to-all and random ring on each, and holds the order of topologies against the paper's.
    ///
    /// # Errors
    /// A machine that cannot be simulated.
    pub fn simulate(&self, how: Simulations, control: &Control) -> anyhow::Result<String> {
        let mut text = String::new();
        let clusters = [
            ("SuperNova", &self.supernova, orders::SUPERNOVA),
            ("Misc (links, NICs)", &self.misc, orders::MISC),
        ];
        for (name, variants, paper) in clusters {
            let times = times::simulate(variants, how.bytes, how.threads_count, control)?;
            let count = variants.first().map_or(0, |variant| variant.machine.hosts.len());
            let title =
                format!("{name}, simulated: {count} processes, one a host, messages of {} bytes", how.bytes);
            let _ = writeln!(text, "{}", times::table(&title, &times).text());
            let _ = writeln!(text, "{}", orders::beside(&paper, &times));
        }
        Ok(text)
    }
}

/// A cluster in the topologies of `rows` with each number of links that fits.
fn variants(cluster: &Cluster, rows: &[Row], nics: &str) -> anyhow::Result<Vec<Variant>> {
    let mut all = Vec::new();
    for row in rows {
        for n in 1..=LINKS_MAX {
            let Some(variant) = variant(cluster, row, n, nics)? else { break };
            all.push(variant);
        }
    }
    Ok(all)
}

/// `None`: more links than the ports allow.
fn variant(cluster: &Cluster, row: &Row, n: u64, nics: &str) -> anyhow::Result<Option<Variant>> {
    let Ok(machine) = cluster.with(&with_links(&row.topology, n), row.options) else { return Ok(None) };
    let kind = row.name.split(' ').next().unwrap_or(row.name);
    let kind = if row.options.is_empty() { kind.to_owned() } else { format!("{kind}, shortest ") };
    let (label, file) = (format!("{kind}({n}{nics})"), cluster.file.clone());
    let plan = plan(&machine)?;
    Ok(Some(Variant { label, file, machine, plan }))
}

fn planned(cluster: &Cluster, row: &Row) -> anyhow::Result<Planned> {
    let mut planned: Option<Planned> = None;
    for n in 1..=LINKS_MAX {
        let topology = with_links(&row.topology, n);
        // More links than the ports allow: the paper stopped there too.
        let Ok(machine) = cluster.with(&topology, row.options) else { break };
        let plan = plan(&machine)?;
        let gigabits = plan.figures.bisection.bits_per_s / 1_000_000_000;
        ensure!(gigabits.is_multiple_of(n), "{}: bisection {gigabits} with {n} links", row.name);
        let first = planned.get_or_insert_with(|| Planned {
            diameter_switches: plan.figures.diameter_switches,
            bisection_per_link: gigabits / n,
            vlan_count: plan.vlans.len(),
            links_max: n,
            cable_count: plan.figures.cable_count,
            is_free: plan.verdicts.deadlock.is_free(),
            method: plan.method.clone(),
            fewest: 0,
            host_tagged: 0,
        });
        let same = (first.diameter_switches, first.bisection_per_link, first.vlan_count)
            == (plan.figures.diameter_switches, gigabits / n, plan.vlans.len());
        ensure!(same, "{}: the figures with {n} links are not those with one link times {n}", row.name);
        first.links_max = n;
    }
    let mut planned = planned.with_context(|| format!("{}: does not fit with one link", row.name))?;
    let one_link = with_links(&row.topology, 1);
    let count = |options: &str| {
        let options = format!("{}\n{options}", row.options);
        anyhow::Ok(plan(&cluster.with(&one_link, &options)?)?.vlans.len())
    };
    planned.fewest = count("vlans = \"fewest\"")?;
    planned.host_tagged = count("tagging = \"host\"")?;
    Ok(planned)
}

const HEAD: [&str; 13] = [
    "topology, n links",
    "diameter",
    "paper",
    "bisection, Gbit/s",
    "paper",
    "VLANs",
    "paper",
    "cables, n = 1",
    "n at most",
    "VLANs, fewest",
    "VLANs, hosts tag",
    "deadlock",
    "routes",
];

/// Plans the rows of a table and compares what the paper prints.
fn table(report: &mut Report, title: &str, cluster: &Cluster, rows: &[Row]) -> anyhow::Result<()> {
    let times = |k: u64| if k == 1 { "n".to_owned() } else { format!("{k} n") };
    let mut table = Table::new(title, &HEAD);
    for row in rows {
        let planned = planned(cluster, row)?;
        let ours = [
            planned.diameter_switches.to_string(),
            times(planned.bisection_per_link),
            planned.vlan_count.to_string(),
        ];
        let printed = row.printed.as_ref().map(|printed| {
            [
                printed.diameter_switches.to_string(),
                times(printed.bisection_per_link),
                printed.vlan_count.to_string(),
            ]
        });
        let mut cells = vec![row.name.to_owned()];
        for (index, own) in ours.into_iter().enumerate() {
            let paper = printed.as_ref().map(|printed| printed[index].clone());
            if let Some(paper) = &paper {
                report.compare(&format!("{title}, {}, {}", row.name, HEAD[1 + 2 * index]), paper, &own);
            }
            cells.extend([own, paper.unwrap_or_else(|| "–".into())]);
        }
        cells.extend(
            [planned.cable_count, planned.links_max, planned.fewest as u64, planned.host_tagged as u64]
                .map(|count| count.to_string()),
        );
        cells.extend([if planned.is_free { "free" } else { "CYCLE" }.into(), planned.method]);
        table.rows.push(cells);
    }
    report.tables.push(table);
    Ok(())
}

/// The paper's example: "hosts 1 to 28 ... 101, hosts 29 to 56 ... 102" (section 3.1); the switches of a
/// column, which are four numbers apart, share a VLAN.
fn figure_2(report: &mut Report, torus: &Plan) {
    let head = ["switch", "hosts", "VLAN", "paper", ""];
    let mut table = Table::new("Torus 4x2, hosts and their VLANs (figure 2)", &head);
    for switch in &torus.switches {
        let host_ports: Vec<(u32, Option<VlanId>)> = switch
            .ports
            .iter()
            .filter_map(|port| match port.role {
                PortRole::Host { host, .. } => Some((host.0 + 1, port.membership.pvid)),
                _ => None,
            })
            .collect();
        // The paper's hosts of one switch are on one VLAN.
        let mut vids: Vec<u16> = host_ports.iter().map(|(_, vid)| vid.map_or(0, VlanId::get)).collect();
        vids.dedup();
        let vid = if let [vid] = vids[..] { vid } else { 0 };
        let host = |at: Option<&(u32, Option<VlanId>)>| at.map_or(0, |port| port.0);
        let hosts = format!("{} to {}", host(host_ports.first()), host(host_ports.last()));
        let column = 101 + switch.id.0 % 4;
        let (ours, paper) = match switch.id.0 {
            0 => (format!("hosts {hosts} on {vid}"), "hosts 1 to 28 on 101".to_owned()),
            1 => (format!("hosts {hosts} on {vid}"), "hosts 29 to 56 on 102".to_owned()),
            _ => (vid.to_string(), column.to_string()),
        };
        let verdict = report.compare(&format!("figure 2, {}", switch.name), &paper, &ours);
        let name = format!("{} ({})", switch.id.0, switch.name);
        table.rows.push(vec![name, hosts, vid.to_string(), paper, verdict.into()]);
    }
    let vlans = torus.vlan_set().to_string();
    let verdict = report.compare("figure 2, VLANs", "101-104", &vlans);
    table.rows.push(vec!["all".into(), String::new(), vlans, "101-104".into(), verdict.into()]);
    report.tables.push(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_paper_is_reproduced() {
        let report = run(None).unwrap();
        assert!(report.agrees(), "{}", report.text());
        // Tables 2 and 7: three figures for each of six topologies; figure 2: eight switches and the VLANs.
        assert_eq!(report.same_count, 3 * 6 + 8 + 1);
    }

    #[test]
    fn machines_that_are_not_there_are_named() {
        let error = run(Some(Path::new("/no/such"))).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot read /no/such/supernova.toml"), "{error:#}");
    }

    /// Figures 7 and 8: more links are faster, and a complete graph is faster than a tree of as many.
    #[test]
    fn simulated_misc_has_the_papers_order() {
        let (_, misc) = clusters(None).unwrap();
        let (misc, rows) = (misc.with_one_nic().unwrap(), misc_rows());
        let cases = [(0, 1), (0, 5), (1, 5)];
        let variants = cases.map(|(row, n)| variant(&misc, &rows[row], n, ",1").unwrap().unwrap());
        assert!(
            variants.iter().all(|variant| variant.machine.hosts.iter().all(|h| h.attachments.len() == 1))
        );
        let simulate = |threads| times::simulate(&variants, 1024, threads, &Control::default()).unwrap();
        let times = simulate(2);
        let labels: Vec<&str> = times.iter().map(|times| &*times.label).collect();
        assert_eq!(labels, ["tree(1,1)", "tree(5,1)", "complete(5,1)"]);
        for (name, of) in orders::MEASURES {
            for (faster, slower) in [("tree(5,1)", "tree(1,1)"), ("complete(5,1)", "tree(5,1)")] {
                let ratio = orders::speedup(&times, of, faster, slower).unwrap();
                assert!(ratio > 1.0, "{name}: {faster} {ratio} times as fast as {slower}");
            }
        }
        assert_eq!(simulate(1), times);
        let text = orders::beside(&orders::MISC, &times);
        assert!(text.contains("FT.128") && text.contains("complete(5,1)"), "{text}");
    }

    #[test]
    fn a_deadlock_is_told_and_not_timed() {
        let (supernova, _) = clusters(None).unwrap();
        let torus = plan(&supernova.with("", "").unwrap()).unwrap();
        let shortest = &supernova_rows(&torus)[4];
        let ring = variant(&supernova, shortest, 1, "").unwrap().unwrap();
        assert_eq!(ring.label, "ring, shortest (1)");
        let times = times::simulate(&[ring], 4096, 2, &Control::default()).unwrap();
        assert!(times::table("", &times).text().contains("deadlock"), "{times:?}");
    }
}
