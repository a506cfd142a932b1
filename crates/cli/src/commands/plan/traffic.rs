//! `ayatori plan --traffic`: what a given traffic puts on the links.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use ayatori_fabric::analysis::{ChannelLoad, Flow, LinkLoads, read_traffic};
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{Failure, ForTraffic, plan_for_traffic};
use serde::Serialize;

/// Links listed before the rest is only counted.
const LISTED_MAX: usize = 16;

/// A traffic on a plan's routes.
#[derive(Debug, Serialize)]
pub(super) struct Traffic {
    /// Where it was read from.
    file: String,
    /// Entries of the file.
    flow_count: usize,
    /// Bytes of all of them.
    bytes: u64,
    /// Bytes that cross no link between switches.
    local_bytes: u64,
    /// Whether routes were chosen for this traffic, and what no routes go below, s.
    is_planned_for: bool,
    least_time_s: Option<f64>,
    /// Channels that carry something, the slowest first.
    channels: Vec<ChannelLoad>,
    #[serde(skip)]
    loads: LinkLoads,
}

impl Traffic {
    /// Reads a traffic file and puts it on the routes of hosts' first interfaces.
    ///
    /// # Errors
    /// The file cannot be read or is wrong; a host that a failure cuts off.
    pub(super) fn read(plan: &Plan, file: &Path) -> anyhow::Result<Traffic> {
        Traffic::of(plan, file, flows(plan, file)?)
    }

    /// Plans for the traffic of a file; `plan` is the one without it.
    ///
    /// # Errors
    /// As [`Traffic::read`], and if the machine cannot be planned.
    pub(super) fn planned(
        machine: &Machine,
        lost: &[Failure],
        plan: Plan,
        file: &Path,
    ) -> anyhow::Result<(Plan, Traffic)> {
        let flows = flows(&plan, file)?;
        let ForTraffic { plan, is_other, least_s } = plan_for_traffic(machine, lost, plan, &flows)?;
        let mut traffic = Traffic::of(&plan, file, flows)?;
        (traffic.is_planned_for, traffic.least_time_s) = (is_other, least_s);
        Ok((plan, traffic))
    }

    fn of(plan: &Plan, file: &Path, flows: Vec<Flow>) -> anyhow::Result<Traffic> {
        let name = file.display().to_string();
        let switch_of = |host: ayatori_fabric::graph::HostId| plan.host(host).attachments[0].switch;
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0_u64, u64::saturating_add);
        let local = flows.iter().filter(|(from, to, _)| switch_of(*from) == switch_of(*to));
        let local_bytes = sum(&mut local.map(|flow| flow.2));
        let bytes = sum(&mut flows.iter().map(|flow| flow.2));
        let flow_count = flows.len();
        let loads =
            LinkLoads::of(plan, flows).with_context(|| format!("cannot route the traffic of {name}"))?;
        let channels = loads.busiest_first(plan);
        let (is_planned_for, least_time_s) = (false, None);
        Ok(Traffic {
            file: name,
            flow_count,
            bytes,
            local_bytes,
            is_planned_for,
            least_time_s,
            channels,
            loads,
        })
    }

    /// Where it was read from.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Its load on every link.
    pub(super) fn loads(&self) -> &LinkLoads {
        &self.loads
    }

    /// In words: the sum, and the busiest links.
    pub(super) fn describe(&self, plan: &Plan) -> String {
        let mut text = format!(
            "\n  Traffic of {}: {} {}, {} bytes, of which {} stay at their switch\n",
            self.file,
            self.flow_count,
            if self.flow_count == 1 { "entry" } else { "entries" },
            self.bytes,
            self.local_bytes
        );
        let Some(slowest) = self.channels.first() else {
            text.push_str("  no link between switches carries any of it\n");
            return text;
        };
        let time = |time_s: f64| format!("{:.3} ms", time_s * 1e3);
        let _ = writeln!(text, "  the busiest link needs {} for its share", time(slowest.time_s));
        if let Some(least_s) = self.least_time_s {
            let chosen = if self.is_planned_for { "routes were chosen for it" } else { "the routes stay" };
            let _ = writeln!(text, "  {chosen}; with no routes it needs less than {}", time(least_s));
        }
        text.push('\n');
        let _ = writeln!(text, "  {:32} {:>16}  {:>14}", "link", "bytes", "time");
        for channel in self.channels.iter().take(LISTED_MAX) {
            let [from, to] = [channel.from, channel.to].map(|id| plan.switch(id).name.as_str());
            let name = format!("{from} -> {to}");
            let _ = writeln!(text, "  {name:32} {:>16}  {:>14}", channel.bytes, time(channel.time_s));
        }
        if self.channels.len() > LISTED_MAX {
            let more = self.channels.len() - LISTED_MAX;
            let _ = writeln!(text, "  ... and {more} less busy (--json has them all)");
        }
        text
    }
}

fn flows(plan: &Plan, file: &Path) -> anyhow::Result<Vec<Flow>> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok(read_traffic(plan, &name, &text)?)
}
