//! Faults of a network in use: a cable is cut and `ayatori_fabric::watch` repairs it; everything is
//! restarted.

use std::time::Instant;

use anyhow::{Context as _, bail};
use ayatori_fabric::check::Shown;
use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::{Failure, InUse};
use ayatori_fabric::watch::{Action, Outcome, Round, Settings, Watch, ordered_repair, safe_order};

use super::{Check, IDLE_ROUND_COUNT_MAX, Verifier, spare_link};

/// Rounds until a change must have been asked for: five that agree, and some for links that come up late.
const WATCH_ROUNDS_MAX: u32 = 20;

impl<F: FnMut(&Check)> Verifier<'_, F> {
    /// The cables of a link are cut: hosts lose each other until the watching machine has seen it and its
    /// repair is applied, switch by switch, and stand as before when the link is back.
    pub(super) fn watched_cable(&mut self, machine: &Machine, in_use: &InUse) -> anyhow::Result<()> {
        const NAME: &str = "watch heals a cut cable";
        let plan = self.lab.plan().clone();
        let Some((link, _)) = spare_link(machine, &plan)? else {
            self.say(NAME, true, "no occasion: no link can be spared".into());
            return Ok(());
        };
        let ends = self.ends_of(link.index(), plan.links[link.index()].cable_count());
        let mut watch = Watch::new(Settings::default(), Vec::new());
        let cut = Instant::now();
        for end in &ends {
            self.lab.set_link(end, false)?;
        }
        let broken = self.lab.all_pairs(1)?;
        let lost = self.until_asked(&plan, &mut watch)?;
        let target = ordered_repair(machine, &plan, in_use, &lost)?.plan;
        let changed = self.take(&plan, &target)?;
        watch.applied(Outcome::Done);
        let healed_s = cut.elapsed().as_secs_f64();
        let after = self.lab.all_pairs(IDLE_ROUND_COUNT_MAX)?;
        for end in &ends {
            self.lab.set_link(end, true)?;
        }
        let back = self.until_asked(&plan, &mut watch)?;
        self.take(&target, &plan)?;
        watch.applied(Outcome::Done);
        let restored = self.lab.all_pairs(IDLE_ROUND_COUNT_MAX)?;
        let [a, b] = [0, 1].map(|end| &plan.switch(plan.links[link.index()].ends[end].switch).name);
        let is_right = lost == [Failure::Link(link)] && back.is_empty();
        let detail = format!(
            "{a} - {b} cut: {} pairs lost; {changed} changed, {healed_s:.1} s after the cut \
             {} lost; put back {} lost",
            broken.missing.len(),
            after.missing.len(),
            restored.missing.len()
        );
        let is_whole = after.missing.is_empty() && restored.missing.is_empty();
        self.say(NAME, is_right && !broken.missing.is_empty() && is_whole, detail);
        self.learned("learned again", "")
    }

    /// Everything that was set up is gone, as after a power cut; what the boot units run brings it back.
    pub(super) fn restarted(&mut self) -> anyhow::Result<()> {
        self.lab.restart()?;
        let left = self.lab.left_after_restart()?;
        let detail = match left.first() {
            None => "switches and hosts have no bridge, VLAN interface or address left".to_owned(),
            Some(first) => format!("{} interfaces are left; the first: {first}", left.len()),
        };
        self.say("restart forgets", left.is_empty(), detail);
        self.lab.apply()?;
        let scripted_count = self.lab.prime_by_script()?;
        self.learned("learned after a restart", &format!("; {scripted_count} hosts primed by their script"))?;
        self.reach("reach after a restart")
    }

    /// What the watching machine asks to be done without, after as many rounds as it wants to see.
    fn until_asked(&mut self, plan: &Plan, watch: &mut Watch) -> anyhow::Result<Vec<Failure>> {
        for now_s in 0..WATCH_ROUNDS_MAX {
            let mut round = Round::new();
            for switch in &plan.switches {
                let node = self.lab.switch_node(switch.id).to_owned();
                let links = self.lab.shell(&node, "ip -j link show")?;
                let shown = Shown::parse(&links).map_err(anyhow::Error::msg).context("ip -j link show")?;
                round.insert(switch.name.clone(), shown);
            }
            for action in watch.observe(plan, u64::from(now_s), &round) {
                if let Action::Apply(lost) = action {
                    return Ok(lost);
                }
            }
        }
        bail!("nothing is asked for after {WATCH_ROUNDS_MAX} rounds")
    }

    /// Brings another plan onto the switches, one by one, then onto the hosts, and primes; in words, what was
    /// changed.
    fn take(&mut self, from: &Plan, to: &Plan) -> anyhow::Result<String> {
        let order: Vec<SwitchId> = safe_order(from, to, &[]).context("every order has a loop in between")?;
        let host_count = self.lab.change_to(to, &order)?;
        self.lab.prime()?;
        let hosts = if host_count > 0 { format!(" and {host_count} hosts") } else { String::new() };
        Ok(format!("{} switches{hosts}", order.len()))
    }
}
