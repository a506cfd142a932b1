//! Which plan is brought onto the switches, and what is remembered of it from one start to the next.

use std::fs;

use anyhow::{Context as _, bail};
use ayatori_fabric::dialect::ConfigFile;
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{Failure, single_failures};
use ayatori_fabric::watch::{absent, safe_order};

use super::{Agent, STANDING, files};
use crate::commands::plan::repairs::{MORE_VLANS, Whole};

/// A plan for what is left.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The failures that it leaves out; empty: it is the plan itself.
    pub(super) failures: Vec<Failure>,
    /// Whether it is the repair with more VLANs.
    pub(super) has_more_vlans: bool,
    pub(super) plan: Plan,
}

/// A plan to bring onto the switches, and the switches that change, in their order.
pub(super) struct Chosen {
    pub(super) target: Target,
    pub(super) order: Vec<SwitchId>,
    /// An alternative.
    pub(super) advice: Option<String>,
}

impl Target {
    pub(super) fn whole(whole: &Whole) -> Target {
        Target { failures: Vec::new(), has_more_vlans: false, plan: whole.plan.clone() }
    }

    pub(super) fn name(&self, whole: &Whole) -> String {
        let names: Vec<String> = self.failures.iter().map(|&failure| whole.name(failure)).collect();
        let more = if self.has_more_vlans { ", with more VLANs" } else { "" };
        match &names[..] {
            [] => "the plan itself".into(),
            names => format!("without {}{more}", names.join(", ")),
        }
    }
}

impl Agent<'_> {
    /// The plan to apply when these have failed. The repair with more VLANs is taken if hosts may be changed
    /// and an order of the switches without a loop leads there and back to the plan itself.
    pub(super) fn choose(&self, failures: &[Failure]) -> anyhow::Result<Chosen> {
        let mut target = self.without(failures)?;
        let more = self.with_more_vlans(&target)?;
        let mut advice = None;
        if let Some(more) = more {
            let [busy, less_busy] = [&target.plan, &more.plan].map(|plan| plan.figures.load_over_least());
            if self.args.apply_host.is_none() {
                advice = Some(format!(
                    "with more VLANs the busiest link would have {less_busy:.2} instead of {busy:.2} times \
                     the least of what is left; --apply-host lets that be applied"
                ));
            } else if self.order(&more).is_some() && self.leads_back(&more) {
                target = more;
            }
        }
        let order = self.order(&target).context(
            "every order of the switches has a loop in between: unplug what closes loops, apply by hand",
        )?;
        Ok(Chosen { target, order, advice })
    }

    /// The switches to change. Those that are back have their old files, and get the new ones first.
    fn order(&self, target: &Target) -> Option<Vec<SwitchId>> {
        let [gone, was_gone] = [absent(&target.failures), absent(&self.now.failures)];
        let unknown: Vec<SwitchId> = gone.iter().chain(&was_gone).copied().collect();
        let order = safe_order(&self.now.plan, &target.plan, &unknown)?;
        let back = was_gone.iter().filter(|switch| !gone.contains(switch)).copied();
        Some(back.chain(order).collect())
    }

    fn leads_back(&self, target: &Target) -> bool {
        safe_order(&target.plan, &self.whole.plan, &absent(&target.failures)).is_some()
    }

    /// The plan without these: as it was computed ahead, or computed now.
    fn without(&self, failures: &[Failure]) -> anyhow::Result<Target> {
        let ahead = self.ahead(failures, "plan.json")?;
        let plan = match ahead {
            _ if failures.is_empty() => self.whole.plan.clone(),
            Some(plan) => plan,
            None => self.whole.repair(failures)?.plan,
        };
        Ok(Target { failures: failures.to_vec(), has_more_vlans: false, plan })
    }

    /// The repair with more VLANs beside another one, if there is any.
    fn with_more_vlans(&self, target: &Target) -> anyhow::Result<Option<Target>> {
        if target.failures.is_empty() {
            return Ok(None);
        }
        let is_ahead = self.ahead(&target.failures, "plan.json")?.is_some();
        let plan = if is_ahead {
            self.ahead(&target.failures, &format!("{MORE_VLANS}/plan.json"))?
        } else {
            self.whole.less_busy_with_more_vlans(&target.failures, &target.plan)
        };
        Ok(plan.map(|plan| Target { has_more_vlans: true, plan, ..target.clone() }))
    }

    /// The plan that `ayatori plan repairs` wrote for a single failure.
    fn ahead(&self, failures: &[Failure], name: &str) -> anyhow::Result<Option<Plan>> {
        let &[failure] = failures else { return Ok(None) };
        let file = self.args.repairs.join(self.whole.folder(failure)).join(name);
        let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
        Ok(Some(Plan::parse(&text).with_context(|| file.display().to_string())?))
    }

    pub(super) fn keep_standing(&self, target: &Target) -> anyhow::Result<()> {
        let names = target.failures.iter().map(|&failure| self.whole.name(failure));
        let more = target.has_more_vlans.then(|| MORE_VLANS.to_owned());
        let text = names.chain(more).map(|name| name + "\n").collect();
        let file = ConfigFile { name: STANDING.into(), text, executable: false };
        files::write_file(&self.args.repairs, &file)
    }

    /// The plan on the switches, from what was kept.
    pub(super) fn standing(&self) -> anyhow::Result<Target> {
        let file = self.args.repairs.join(STANDING);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let all = single_failures(&self.whole.machine);
        let named = |name: &str| all.iter().copied().find(|&failure| self.whole.name(failure) == name);
        let mut failures = Vec::new();
        for name in text.lines().filter(|name| *name != MORE_VLANS) {
            let unknown = || format!("{}: {name:?} is nothing that this machine has", file.display());
            failures.push(named(name).with_context(unknown)?);
        }
        failures.sort_unstable();
        let target = self.without(&failures)?;
        if !text.lines().any(|line| line == MORE_VLANS) {
            return Ok(target);
        }
        if self.args.apply_host.is_none() {
            bail!(
                "{}: the hosts have scripts with more VLANs; --apply-host is needed to go back",
                file.display()
            );
        }
        let more = self.with_more_vlans(&target)?;
        more.with_context(|| format!("{}: no repair with more VLANs is there for it", file.display()))
    }
}
