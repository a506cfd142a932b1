//! The paper's two clusters with other topologies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::{Plan, VlanPlan};

/// Links between two switches that the paper went up to.
pub(super) const LINKS_MAX: u64 = 8;

/// A machine file whose topology can be replaced.
pub(super) struct Cluster {
    pub(super) file: String,
    text: String,
}

impl Cluster {
    pub(super) fn read(folder: Option<&Path>, name: &str, built_in: &str) -> anyhow::Result<Cluster> {
        let Some(folder) = folder else {
            return Ok(Cluster { file: name.to_owned(), text: built_in.to_owned() });
        };
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {} (--machines names its folder)", path.display()))?;
        Ok(Cluster { file: path.display().to_string(), text })
    }

    /// The same with the first NIC of every host only.
    pub(super) fn with_one_nic(&self) -> anyhow::Result<Cluster> {
        let mut table: toml::Table = self.text.parse()?;
        let models = table.get_mut("host_models").and_then(toml::Value::as_table_mut);
        for (_, model) in models.into_iter().flatten() {
            if let Some(nics) = model.get_mut("nic").and_then(toml::Value::as_array_mut) {
                nics.truncate(1);
            }
        }
        Ok(Cluster { file: self.file.clone(), text: table.to_string() })
    }

    /// The machine with another topology and options; empty ones leave the file's.
    pub(super) fn with(&self, topology: &str, options: &str) -> anyhow::Result<Machine> {
        let mut sections = String::new();
        if !topology.is_empty() {
            let model = "switch_model = \"powerconnect-6248\"";
            let at = topology.find("[[").unwrap_or(topology.len());
            let (own, lists) = topology.split_at(at);
            let _ = writeln!(sections, "{lists}\n[topology]\n{model}\n{own}");
            let _ = writeln!(sections, "[plan]\n{options}");
        }
        let merged = Machine::overlay(&self.file, &self.text, &sections)?;
        Ok(Machine::parse(&self.file, &merged)?)
    }
}

/// A VLAN's tree as a topology of its own: switches and cables one by one, with `PORTS` where their ports
/// go.
pub(super) fn tree_of(plan: &Plan, vlan: &VlanPlan) -> String {
    let mut text = String::new();
    for switch in &plan.switches {
        let _ = writeln!(text, "[[switch]]\nname = \"{}\"", switch.name);
    }
    for link in &vlan.tree {
        let [a, b] =
            plan.links[link.index()].ends.each_ref().map(|end| plan.switch(end.switch).name.as_str());
        let _ = writeln!(text, "[[cable]]\nfrom = \"{a}:PORTS\"\nto = \"{b}:PORTS\"");
    }
    text
}

/// The topology with `cables` links between neighbours.
pub(super) fn with_links(topology: &str, cables: u64) -> String {
    if !topology.starts_with("[[") {
        return format!("{topology}\ncables = {cables}");
    }
    // Ports from the last downwards, each switch its own.
    let mut next = BTreeMap::new();
    let mut text = String::new();
    for line in topology.lines() {
        match line.split_once(":PORTS") {
            None => text.push_str(line),
            Some((name, _)) => {
                let switch = name.rsplit('"').next().unwrap_or("").to_owned();
                let last: &mut u64 = next.entry(switch).or_insert(48);
                let first = (*last + 1).saturating_sub(cables);
                let _ = write!(text, "{name}:{first}-{last}\"");
                *last = first.saturating_sub(1);
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_listed_tree_take_ports_from_the_last_down() {
        let cable = |to| format!("[[cable]]\nfrom = \"a:PORTS\"\nto = \"{to}:PORTS\"\n");
        let tree = &(cable("b") + &cable("c"));
        let text = with_links(tree, 2);
        assert!(text.contains("from = \"a:47-48\"\nto = \"b:47-48\""), "{text}");
        assert!(text.contains("from = \"a:45-46\"\nto = \"c:47-48\""), "{text}");
    }
}
