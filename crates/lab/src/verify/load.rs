//! Priming while hosts send: nothing is lost, nothing is flooded, and links carry no more for it than
//! the plan says.

use std::collections::BTreeMap;

use ayatori_fabric::graph::{LinkId, SwitchId};
use ayatori_fabric::plan::{Attachment, Plan};

use super::{Check, NOISE_MAX, Verifier, frames, host_ends, name_of, switch_pairs};
use crate::report::Traffic;
use crate::wire::{End, HostAddress};

/// Datagrams of each pair before the hosts prime, and after it.
const LOAD_COUNT: u32 = 100;

impl<F: FnMut(&Check)> Verifier<'_, F> {
    /// A host of each switch sends to one of the next switch, all at once, while every host primes.
    pub(super) fn priming_under_load(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "priming under load";
        let plan = self.lab.plan().clone();
        let flows = ring(&plan);
        if flows.is_empty() {
            self.say(NAME, true, "no occasion: all hosts are at one switch".into());
            return Ok(());
        }
        let address = |own: &Attachment| HostAddress { node: name_of(&plan, own), address: own.address };
        let addresses: Vec<(HostAddress, HostAddress)> =
            flows.iter().map(|&(from, to)| (address(from), address(to))).collect();
        // Both know each other's address first: ARP is no part of the measurement.
        for (from, to) in &addresses {
            self.lab.send(from, to, 1)?;
        }
        let before = self.lab.counters()?;
        let counts = self.lab.send_while_priming(addresses, LOAD_COUNT)?;
        let traffic = Traffic::between(&before, &self.lab.counters()?);
        let sent: u32 = counts.iter().map(|(sent, _)| sent).sum();
        let lost: u32 = counts.iter().map(|(sent, received)| sent.saturating_sub(*received)).sum();
        let sent_by_flow: Vec<u64> = counts.iter().map(|(sent, _)| u64::from(*sent)).collect();
        let (on_a_link, too_much) = self.beside_flows(&plan, &flows, &sent_by_flow, &traffic);
        let flooded = self.flooded(&plan, &flows, &sent_by_flow, &traffic);
        let planned = plan.priming.link_frames_max;
        let mut detail = format!(
            "{sent} datagrams of {} pairs, {lost} lost; at most {on_a_link} frames beside them on a link, \
             {planned} planned for priming",
            flows.len()
        );
        for wrong in too_much.iter().chain(&flooded) {
            detail += &format!("; {wrong}");
        }
        let is_good = lost == 0 && too_much.is_none() && flooded.is_none();
        self.say(NAME, is_good, detail);
        Ok(())
    }

    /// The most frames on a link, one way, beside those of the flows; and where that is more than planned.
    fn beside_flows(
        &self,
        plan: &Plan,
        flows: &[(&Attachment, &Attachment)],
        sent: &[u64],
        traffic: &Traffic,
    ) -> (u64, Option<String>) {
        let expected = on_links(plan, flows, sent);
        let (mut most, mut too_much) = (0, None);
        for link in &plan.links {
            for (index, end) in link.ends.iter().enumerate() {
                let cables = 0..end.ports.len();
                let ends: Vec<End> =
                    cables.map(|cable| self.lab.link_end(link.id.index(), index, cable)).collect();
                let flowing = expected.get(&(link.id, end.switch)).copied().unwrap_or(0);
                let beside = frames(traffic, &ends).saturating_sub(flowing);
                most = most.max(beside);
                if beside > plan.priming.link_frames_max + NOISE_MAX * ends.len() as u64 {
                    let to = &plan.switch(link.ends[1 - index].switch).name;
                    too_much = Some(format!("{beside} from {} to {to}", plan.switch(end.switch).name));
                }
            }
        }
        (most, too_much)
    }

    /// A host at whose port more came than priming and what was for it.
    fn flooded(
        &self,
        plan: &Plan,
        flows: &[(&Attachment, &Attachment)],
        sent: &[u64],
        traffic: &Traffic,
    ) -> Option<String> {
        let priming = (plan.attachments().count() * plan.vlans.len()) as u64;
        let own = |number: u32| -> u64 {
            let to_it = flows.iter().zip(sent).filter(|((_, to), _)| to.number == number);
            to_it.map(|(_, sent)| sent).sum()
        };
        let ends = host_ends(plan, self.lab);
        let mut too_much = ends.iter().filter_map(|(number, ends)| {
            let count = frames(traffic, ends);
            let most = priming + own(*number) + NOISE_MAX * ends.len() as u64;
            (count > most).then_some((number, count))
        });
        let (number, count) = too_much.next()?;
        let attachment = plan.attachments().find(|own| own.number == *number)?;
        Some(format!("{count} frames reached {}", name_of(plan, attachment)))
    }
}

/// Per switch with hosts, a host that sends to one of the next switch.
fn ring(plan: &Plan) -> Vec<(&Attachment, &Attachment)> {
    let mut next: BTreeMap<SwitchId, (&Attachment, &Attachment)> = BTreeMap::new();
    for (from, to) in switch_pairs(plan) {
        // The first pair of a switch leads to the lowest other one, which the next higher one replaces.
        let is_next =
            |now: &(&Attachment, &Attachment)| now.1.switch < from.switch && to.switch > from.switch;
        if next.get(&from.switch).is_none_or(is_next) {
            next.insert(from.switch, (from, to));
        }
    }
    next.into_values().collect()
}

/// Datagrams that cross each link from each of its switches.
fn on_links(
    plan: &Plan,
    flows: &[(&Attachment, &Attachment)],
    sent: &[u64],
) -> BTreeMap<(LinkId, SwitchId), u64> {
    let mut counts = BTreeMap::new();
    for (&(from, to), sent) in flows.iter().zip(sent) {
        let Some(route) = plan.route(from, to) else { continue };
        let mut at = route.from;
        for hop in &route.hops {
            *counts.entry((hop.link, at)).or_default() += sent;
            at = hop.to;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_fabric::plan::two_switches_and_four_hosts;

    #[test]
    fn each_switch_sends_to_the_next_and_the_last_to_the_first() {
        let plan = two_switches_and_four_hosts();
        let flows = ring(&plan);
        let switches: Vec<[u32; 2]> = flows.iter().map(|(a, b)| [a.switch.0, b.switch.0]).collect();
        assert_eq!(switches, [[0, 1], [1, 0]]);
        let counts = on_links(&plan, &flows, &[3, 5]);
        let counts: Vec<u64> = counts.into_values().collect();
        assert_eq!(counts, [3, 5], "each way of the only link");
    }
}
