//! When is a plan to be left for one that was repaired ahead, and when to be taken up again?
//!
//! [`Watch`] takes, round by round, the port states that the switches show, and answers with [`Action`]s. It
//! queries no switch, applies nothing and has no clock: the caller does that, and passes the time.
//! Deliberately absent: how a repair is found (`vlan`), and what is entered into switches.
//!
//! ```text
//!              a link or switch is lost,                 applied
//!              confirm_rounds rounds alike
//!   standing ──────────────────────────────▶ changing ─────────────▶ standing
//!       ▲      everything is back,               │ failed: tried again while
//!       └────  restore_rounds rounds alike       ▼ changes_max allows
//!                                              held: told once, nothing is changed
//! ```
//!
//! A change that fails in the middle leaves some switches in either state. The next state is then applied
//! even if it is the previous one.
//!
//! Invariants: at most one change is under way; a change is asked for only to what the last rounds agreed on;
//! there are at most `changes_max` changes in any `changes_period_s`, so a cable that flaps does not keep the
//! network moving.

mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::check::{FarEnd, Shown, far_end};
use crate::graph::{LinkId, SwitchId};
use crate::plan::{LinkPlan, Plan};
use crate::vlan::Failure;

pub use order::{OrderedRepair, absent, ordered_repair, safe_order};

/// Observations of one round, by switch name. A switch that does not answer is missing.
pub type Round = BTreeMap<String, Shown>;

/// When something is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Rounds that have to agree before a repair, from 1.
    pub confirm_rounds: u32,
    /// Rounds that have to agree before what is back is used again, from 1.
    pub restore_rounds: u32,
    /// Changes in a period, failed ones included.
    pub changes_max: usize,
    /// That period, s.
    pub changes_period_s: u64,
}

impl Default for Settings {
    /// Two rounds, five to restore, six changes an hour.
    fn default() -> Settings {
        Settings { confirm_rounds: 2, restore_rounds: 5, changes_max: 6, changes_period_s: 3_600 }
    }
}

/// A request to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Something has changed that a person wants to know; nothing else is done about it.
    Tell(String),
    /// Apply the plan without these; without any: the plan itself. The caller then calls [`Watch::applied`].
    Apply(Vec<Failure>),
}

/// How an [`Action::Apply`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All switches have taken it.
    Done,
    /// It failed before any switch was touched.
    NotBegun,
    /// Some switches have taken it, or may have.
    Partly,
}

/// The machine. See the module's documentation.
#[derive(Debug)]
pub struct Watch {
    settings: Settings,
    /// What the plan on the switches does without.
    standing: Vec<Failure>,
    /// The failures of the plan being applied.
    changing: Option<Vec<Failure>>,
    /// Some switches may stand otherwise.
    is_partly: bool,
    /// What the last rounds agreed on, and how many did.
    agreed: (Vec<Failure>, u32),
    /// When changes began, s.
    changes: VecDeque<u64>,
    is_held: bool,
    /// The last message about each cable or switch.
    told: BTreeMap<String, String>,
}

impl Watch {
    /// On switches that stand as planned without `standing`: at first, as a rule, nothing.
    pub fn new(settings: Settings, standing: Vec<Failure>) -> Watch {
        Watch {
            settings,
            standing,
            changing: None,
            is_partly: false,
            agreed: (Vec::new(), 0),
            changes: VecDeque::new(),
            is_held: false,
            told: BTreeMap::new(),
        }
    }

    /// What the plan on the switches does without.
    pub fn standing(&self) -> &[Failure] {
        &self.standing
    }

    /// Takes what was seen at a time, s since any moment. Times do not go back.
    pub fn observe(&mut self, plan: &Plan, now_s: u64, round: &Round) -> Vec<Action> {
        let mut actions: Vec<Action> = self.news(plan, round).into_iter().map(Action::Tell).collect();
        let lost = lost(plan, round, &self.standing);
        if self.agreed.0 == lost {
            self.agreed.1 = self.agreed.1.saturating_add(1);
        } else {
            self.agreed = (lost, 1);
        }
        let lost = &self.agreed.0;
        if self.changing.is_some() {
            return actions;
        }
        if *lost == self.standing && !self.is_partly {
            self.is_held = false;
            return actions;
        }
        let is_less = lost.iter().all(|failure| self.standing.contains(failure));
        let wanted = if is_less { self.settings.restore_rounds } else { self.settings.confirm_rounds };
        if self.agreed.1 < wanted {
            return actions;
        }
        let period_s = self.settings.changes_period_s;
        while self.changes.front().is_some_and(|&begun_s| now_s.saturating_sub(begun_s) >= period_s) {
            self.changes.pop_front();
        }
        if self.changes.len() >= self.settings.changes_max {
            if !self.is_held {
                let count = self.changes.len();
                actions.push(Action::Tell(format!(
                    "held: {count} changes in {period_s} s, nothing is changed now; look at what flaps"
                )));
            }
            self.is_held = true;
            return actions;
        }
        self.is_held = false;
        self.changes.push_back(now_s);
        self.changing = Some(lost.clone());
        actions.push(Action::Apply(lost.clone()));
        actions
    }

    /// How the last [`Action::Apply`] ended. A failed one is requested again.
    pub fn applied(&mut self, outcome: Outcome) {
        let Some(changed) = self.changing.take() else { return };
        match outcome {
            Outcome::Done => {
                self.standing = changed;
                self.is_partly = false;
            }
            Outcome::NotBegun => {}
            Outcome::Partly => self.is_partly = true,
        }
        // Earlier observations say nothing about the present state.
        self.agreed.1 = 0;
    }

    /// Lines about cables and switches whose state differs from the last message.
    fn news(&mut self, plan: &Plan, round: &Round) -> Vec<String> {
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        for switch in plan.switches.iter().filter(|switch| !round.contains_key(&switch.name)) {
            now.insert(switch.name.clone(), "does not answer".into());
        }
        for link in &plan.links {
            for (cable, state) in cables(plan, link, round).into_iter().enumerate() {
                let what = match state {
                    Cable::Unknown | Cable::Up => continue,
                    Cable::Down => "has no link".to_owned(),
                    Cable::Elsewhere(found) => {
                        format!("is plugged in elsewhere: {found}; a loop is possible")
                    }
                };
                now.insert(format!("cable {}", cable_name(plan, link, cable)), what);
            }
        }
        let is_new = |(name, what): &(&String, &String)| self.told.get(*name) != Some(what);
        let news = now.iter().filter(is_new).map(|(name, what)| format!("{name} {what}"));
        let over = self.told.keys().filter(|name| !now.contains_key(*name));
        let lines = news.chain(over.map(|name| format!("{name} is as planned again"))).collect();
        self.told = now;
        lines
    }
}

/// State of a cable, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cable {
    Unknown,
    Up,
    Down,
    /// One end sees another neighbour than planned: the end and the neighbour.
    Elsewhere(String),
}

/// A link's cables: one end that knows better than the other is enough.
fn cables(plan: &Plan, link: &LinkPlan, round: &Round) -> Vec<Cable> {
    let cable = |place: usize| {
        let mut best = Cable::Unknown;
        for end in &link.ends {
            let switch = plan.switch(end.switch);
            let port = switch.ports.iter().find(|port| end.ports.get(place) == Some(&port.number));
            let (Some(port), Some(shown)) = (port, round.get(&switch.name)) else { continue };
            match far_end(plan, switch, port, shown) {
                FarEnd::NoLink => return Cable::Down,
                FarEnd::Elsewhere(who) => {
                    best = Cable::Elsewhere(format!("{} {} sees {who}", switch.name, port.name));
                }
                FarEnd::AsPlanned if best == Cable::Unknown => best = Cable::Up,
                FarEnd::AsPlanned | FarEnd::Unknown => {}
            }
        }
        best
    };
    (0..link.cable_count()).map(cable).collect()
}

/// `s0.0 swp22 - s1.0 swp21`.
fn cable_name(plan: &Plan, link: &LinkPlan, cable: usize) -> String {
    let [a, b] = link.ends.each_ref().map(|end| {
        let switch = plan.switch(end.switch);
        let number = end.ports.get(cable).copied();
        let port = switch.ports.iter().find(|port| Some(port.number) == number);
        format!("{} {}", switch.name, port.map_or("?", |port| port.name.as_str()))
    });
    format!("{a} - {b}")
}

/// What the plan has to do without: switches that do not answer and whose links are all down, and links of
/// which no cable is up. A link or switch of which nothing is known counts as before.
fn lost(plan: &Plan, round: &Round, standing: &[Failure]) -> Vec<Failure> {
    // The way to the switches is broken, not the switches.
    if round.is_empty() {
        return standing.to_vec();
    }
    let is_down = |link: &LinkPlan| {
        let states = cables(plan, link, round);
        if states.iter().all(|state| *state == Cable::Unknown) {
            let ends = link.ends.each_ref().map(|end| Failure::Switch(end.switch));
            return standing.contains(&Failure::Link(link.id))
                || ends.iter().any(|end| standing.contains(end));
        }
        states.iter().all(|state| matches!(state, Cable::Down | Cable::Elsewhere(_)))
    };
    let down: BTreeSet<LinkId> = plan.links.iter().filter(|link| is_down(link)).map(|link| link.id).collect();
    let answers = |switch: SwitchId| round.contains_key(&plan.switch(switch).name);
    // The state of a link between two silent switches is unknown.
    let is_unseen = |link: &LinkPlan| !link.ends.iter().any(|end| answers(end.switch));
    let is_dead = |switch: &SwitchId| {
        let own = || plan.links.iter().filter(|link| link.ends.iter().any(|end| end.switch == *switch));
        let is_seen_down = own().any(|link| down.contains(&link.id) && !is_unseen(link));
        let is_known = is_seen_down || standing.contains(&Failure::Switch(*switch));
        !answers(*switch) && is_known && own().all(|link| down.contains(&link.id) || is_unseen(link))
    };
    let dead: BTreeSet<SwitchId> = plan.switches.iter().map(|switch| switch.id).filter(is_dead).collect();
    let of_dead = |link: &LinkId| plan.links[link.index()].ends.iter().any(|end| dead.contains(&end.switch));
    let links = down.iter().filter(|link| !of_dead(link)).copied().map(Failure::Link);
    let mut lost: Vec<Failure> = links.chain(dead.iter().copied().map(Failure::Switch)).collect();
    lost.sort_unstable();
    lost
}
