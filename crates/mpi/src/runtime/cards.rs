//! Business cards: each process publishes its own, and has those of all at hand.
//!
//! In a large job the first process of each host asks the launcher for them, and the others of its host read
//! its copy: with `n` processes on `h` hosts the launcher is asked `n * h` times, not `n * n` times. They
//! read a card when they first need it, and keep none. The first process writes the facts about all cards
//! together ([`Facts`]) beside them.
//!
//! ```text
//!   first of its host:  put card ─► fence ─► get all cards ─► put where they are ─► fence
//!   the others:         put card ─► fence ───────────────────────────────────────► fence ─► open them there
//! ```

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault};
use ayatori_devices::shared_text::SharedLines;
use ayatori_devices::tcp::{Card, CardBook};
use ayatori_launch::launcher::{Launcher, Name};
use std::collections::HashSet;
use std::sync::Arc;

/// Up to this many processes, each asks the launcher itself: that takes no longer than the second fence.
const ASKED_BY_EACH_MAX: u32 = 64;

/// A process' knowledge of the others after the exchange.
pub(super) struct Cards {
    pub(super) book: Arc<dyn CardBook>,
    /// The ranks of this host, in order.
    pub(super) here: Vec<u32>,
    pub(super) facts: Facts,
}

/// Facts about all cards together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Most rails to any process of another host.
    pub(super) rails_most: usize,
    /// The rate of the process with the slowest links, all its links together; none: no link says one.
    pub(super) slowest_mbit_per_s: Option<u64>,
    /// CPUs of all hosts.
    pub(super) processors: u32,
}

/// A process' data about itself.
pub(super) struct Own<'o> {
    /// The number of its host on its card.
    pub(super) node: u64,
    /// Processes with the same have the same rails to others.
    pub(super) profile: String,
    /// Rails to a process with this card; an error where none lead there.
    pub(super) reach: &'o dyn Fn(usize, &Card) -> Result<usize, Fault>,
}

impl Facts {
    /// From all cards by rank.
    fn of(cards: &[Card], own: &Own<'_>) -> Result<Self, Fault> {
        let rate = |card: &Card| {
            card.endpoints.iter().map(|endpoint| u64::from(endpoint.speed_mbit_per_s)).sum::<u64>()
        };
        let mut nodes = HashSet::new();
        let firsts = cards.iter().filter(|card| nodes.insert(card.node));
        let elsewhere = cards.iter().enumerate().filter(|(_, card)| card.node != own.node);
        let rails = elsewhere.map(|(rank, card)| (own.reach)(rank, card)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            rails_most: rails.into_iter().max().unwrap_or(0),
            slowest_mbit_per_s: cards.iter().map(rate).filter(|&rate| rate > 0).min(),
            processors: firsts.map(|card| card.cpus_count).sum(),
        })
    }

    fn emit(&self, profile: &str) -> String {
        let rate = self.slowest_mbit_per_s.unwrap_or(0);
        format!("{} {rate} {} {profile}", self.rails_most, self.processors)
    }

    /// `None`: of a process with other rails, or no facts.
    fn parse(text: &str, profile: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (rails_most, rate, processors) = (number()?, number()?, number()?);
        if words.next() != Some(profile) {
            return None;
        }
        Some(Self {
            rails_most: usize::try_from(rails_most).ok()?,
            slowest_mbit_per_s: (rate > 0).then_some(rate),
            processors: u32::try_from(processors).ok()?,
        })
    }
}

/// Cards as the first process of this host has got them.
struct SharedBook {
    /// A card by rank, then the facts.
    lines: SharedLines,
    here: Vec<u32>,
    count: usize,
}

impl CardBook for SharedBook {
    fn count(&self) -> usize {
        self.count
    }

    fn card(&self, rank: usize) -> Option<Card> {
        let is_here = self.here.binary_search(&(rank as u32)).is_ok();
        if is_here || rank >= self.count {
            return None;
        }
        // The first process of this host has read it without error.
        Card::parse(&self.lines.line(rank).ok()?).ok()
    }
}

fn card_key(rank: u32) -> String {
    format!("ayatori-card-{rank}")
}

/// Publishes the card of this process.
pub(super) fn publish(launcher: &mut dyn Launcher, card: &Card) -> Result<(), Fault> {
    let most = launcher.value_bytes_max();
    let text = card.emit(most).ok_or_else(|| {
        fault(
            MPI_ERR_OTHER,
            format_args!(
                "the launcher takes values of at most {most} bytes: name fewer interfaces (--rails)"
            ),
        )
    })?;
    launcher.put(&card_key(launcher.rank()), &text).map_err(failed("publish this process's addresses"))
}

/// Gets the cards of all, which have been published. `nodes`: the host of each process, where the launcher
/// says it.
pub(super) fn get(launcher: &mut dyn Launcher, nodes: Option<&[u32]>, own: &Own<'_>) -> Result<Cards, Fault> {
    match nodes {
        Some(nodes) if launcher.size() > ASKED_BY_EACH_MAX => by_first_of_host(launcher, nodes, own),
        _ => held(&ask(launcher)?, own),
    }
}

/// All in this process's memory.
fn held(texts: &[String], own: &Own<'_>) -> Result<Cards, Fault> {
    let cards = parse(texts)?;
    let here = (0u32..).zip(&cards).filter(|(_, card)| card.node == own.node).map(|(rank, _)| rank).collect();
    let facts = Facts::of(&cards, own)?;
    let book: Vec<Option<Card>> =
        cards.into_iter().map(|card| (card.node != own.node).then_some(card)).collect();
    Ok(Cards { book: Arc::new(book), here, facts })
}

fn by_first_of_host(launcher: &mut dyn Launcher, nodes: &[u32], own: &Own<'_>) -> Result<Cards, Fault> {
    let node = nodes[launcher.rank() as usize];
    let here: Vec<u32> = (0u32..).zip(nodes).filter(|(_, one)| **one == node).map(|(rank, _)| rank).collect();
    let (first, count) = (here[0], nodes.len());
    let key = format!("ayatori-cards-{node}");
    let (mut asked, mut lines) = (None, None);
    if launcher.rank() == first {
        let mut texts = ask(launcher)?;
        let cards = parse(&texts)?;
        texts.push(Facts::of(&cards, own)?.emit(&own.profile));
        let is_as_told = (0u32..)
            .zip(&cards)
            .all(|(rank, card)| (card.node == own.node) == here.binary_search(&rank).is_ok());
        // Where the system refuses, or cards and launcher contradict each other, each asks for itself.
        lines = is_as_told.then(|| SharedLines::create(&texts).ok()).flatten();
        if let Some(lines) = &lines {
            launcher.put(&key, &lines.address()).map_err(failed("publish the addresses of all"))?;
        }
        texts.pop();
        asked = Some(texts);
    }
    launcher.fence().map_err(failed("wait for the other processes"))?;
    if launcher.rank() != first {
        let address = launcher.get(first, &key).map_err(failed("ask where the addresses of all are"))?;
        lines = address.and_then(|address| SharedLines::open(&address, count + 1).ok());
    }
    let told = lines.as_ref().and_then(|lines| lines.line(count).ok());
    if let (Some(lines), Some(told)) = (lines, told) {
        let facts = match Facts::parse(&told, &own.profile) {
            Some(facts) => facts,
            // This process has other rails than the first.
            None => Facts::of(&read_all(&lines, count)?, own)?,
        };
        let book = SharedBook { lines, here: here.clone(), count };
        return Ok(Cards { book: Arc::new(book), here, facts });
    }
    let texts = asked.map_or_else(|| ask(launcher), Ok)?;
    held(&texts, own)
}

fn read_all(lines: &SharedLines, count: usize) -> Result<Vec<Card>, Fault> {
    let texts: Result<Vec<String>, _> = (0..count).map(|rank| lines.line(rank)).collect();
    parse(&texts.map_err(failed("read the addresses of all"))?)
}

/// Asks the launcher for all.
fn ask(launcher: &mut dyn Launcher) -> Result<Vec<String>, Fault> {
    let names: Vec<Name> = (0..launcher.size()).map(|rank| Name { rank, key: card_key(rank) }).collect();
    let texts = launcher.get_all(&names).map_err(failed("ask for the others' addresses"))?;
    let known = |(rank, text): (usize, Option<String>)| {
        text.ok_or_else(|| {
            fault(MPI_ERR_OTHER, format_args!("rank {rank} published no address: does it use this library?"))
        })
    };
    texts.into_iter().enumerate().map(known).collect()
}

fn parse(texts: &[String]) -> Result<Vec<Card>, Fault> {
    let card = |(rank, text): (usize, &String)| {
        Card::parse(text).map_err(|why| {
            fault(MPI_ERR_OTHER, format_args!("rank {rank} published a business card that is {}", why.0))
        })
    };
    texts.iter().enumerate().map(card).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_launch::launcher::Error;
    use ayatori_launch::pmi::spawn::Part;
    use std::collections::HashMap;
    use std::ops::ControlFlow;
    use std::sync::{Arc, Barrier, Mutex};
    use std::time::Duration;

    /// What a launcher knows, and how often it was asked for a card.
    struct Store {
        values: Mutex<HashMap<String, String>>,
        asked_count: Mutex<usize>,
        fence: Barrier,
    }

    #[derive(Clone)]
    struct Fake {
        rank: u32,
        size: u32,
        store: Arc<Store>,
    }

    impl std::fmt::Debug for Fake {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "rank {}", self.rank)
        }
    }

    impl Launcher for Fake {
        fn rank(&self) -> u32 {
            self.rank
        }
        fn size(&self) -> u32 {
            self.size
        }
        fn value_bytes_max(&self) -> usize {
            1024
        }
        fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
            self.store.values.lock().unwrap().insert(key.to_owned(), value.to_owned());
            Ok(())
        }
        fn fence(&mut self) -> Result<(), Error> {
            self.store.fence.wait();
            Ok(())
        }
        fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, Error> {
            assert!(rank < self.size, "PMIx servers crash at others");
            *self.store.asked_count.lock().unwrap() += usize::from(key.starts_with("ayatori-card-"));
            Ok(self.store.values.lock().unwrap().get(key).cloned())
        }
        fn nodes(&mut self) -> Result<Option<Vec<u32>>, Error> {
            unreachable!()
        }
        fn appnum(&mut self) -> Option<i32> {
            unreachable!()
        }
        fn universe_size(&mut self) -> Option<i32> {
            unreachable!()
        }
        fn fence_while(&mut self, _: &mut dyn FnMut() -> ControlFlow<(), Duration>) -> Result<(), Error> {
            unreachable!()
        }
        fn publish(&mut self, _: &str, _: &str) -> Result<(), Error> {
            unreachable!()
        }
        fn unpublish(&mut self, _: &str) -> Result<(), Error> {
            unreachable!()
        }
        fn lookup(&mut self, _: &str) -> Result<Option<String>, Error> {
            unreachable!()
        }
        fn job_name(&self) -> &str {
            unreachable!()
        }
        fn spawn(&mut self, _: &[Part], _: &[(&str, &str)]) -> Result<(), Error> {
            unreachable!()
        }
        fn given(&mut self, _: &str) -> Result<Option<String>, Error> {
            unreachable!()
        }
        fn on_failure(&mut self, _: Box<dyn Fn(u32) + Send>) {
            unreachable!()
        }
        fn finalize(&mut self) -> Result<(), Error> {
            unreachable!()
        }
        fn abort(&mut self, _: i32, _: Option<&str>) -> Result<(), Error> {
            unreachable!()
        }
    }

    /// Card of a process on this node.
    fn card(rank: u32, node: u32) -> Card {
        Card { node: u64::from(node), cpus_count: rank + 1, endpoints: Vec::new() }
    }

    /// Number of requests to the launcher for a card when ranks on these nodes get all, and number of cards
    /// of other hosts that a process reads before it communicates.
    fn counts(nodes: &[u32], says_nodes: bool, has_own_rails: impl Fn(u32) -> bool + Sync) -> (usize, usize) {
        let size = nodes.len() as u32;
        let (values, asked_count, looked_count) = (Mutex::default(), Mutex::default(), Mutex::new(0));
        let store = Arc::new(Store { values, asked_count, fence: Barrier::new(nodes.len()) });
        std::thread::scope(|scope| {
            for rank in 0..size {
                let mut fake = Fake { rank, size, store: Arc::clone(&store) };
                let (looked_count, has_own_rails) = (&looked_count, &has_own_rails);
                scope.spawn(move || {
                    let node = nodes[rank as usize];
                    publish(&mut fake, &card(rank, node)).unwrap();
                    fake.fence().unwrap();
                    let reach = |_: usize, _: &Card| {
                        *looked_count.lock().unwrap() += 1;
                        Ok(3)
                    };
                    let profile = if has_own_rails(rank) { format!("eth{rank}") } else { "eth".to_owned() };
                    let own = Own { node: u64::from(node), profile, reach: &reach };
                    let cards = get(&mut fake, says_nodes.then_some(nodes), &own).unwrap();
                    let expected =
                        |one: u32| (nodes[one as usize] != node).then(|| card(one, nodes[one as usize]));
                    for one in 0..size {
                        assert_eq!(cards.book.card(one as usize), expected(one));
                    }
                    assert_eq!((cards.book.count(), cards.book.card(nodes.len())), (nodes.len(), None));
                    assert!(cards.here.iter().all(|one| nodes[*one as usize] == node));
                    assert_eq!(cards.here.len(), nodes.iter().filter(|one| **one == node).count());
                    // The first of each host has as many CPUs as its rank, and one.
                    let facts = Facts { rails_most: 3, slowest_mbit_per_s: None, processors: 1 + 2 + 3 };
                    assert_eq!(cards.facts, facts);
                    // No process removes a file that another still opens.
                    fake.fence().unwrap();
                });
            }
        });
        let asked_count = *store.asked_count.lock().unwrap();
        (asked_count, looked_count.into_inner().unwrap())
    }

    #[test]
    fn in_a_large_job_the_first_of_each_host_asks_for_all() {
        let nodes: Vec<u32> = (0..90).map(|rank| rank % 3).collect();
        assert_eq!(counts(&nodes, true, |_| false), (3 * 90, 3 * 60));
        assert_eq!(counts(&nodes, false, |_| false), (90 * 90, 90 * 60));
        assert_eq!(counts(&nodes[..60], true, |_| false), (60 * 60, 60 * 40));
    }

    #[test]
    fn a_process_with_other_rails_looks_for_itself() {
        let nodes: Vec<u32> = (0..90).map(|rank| rank % 3).collect();
        assert_eq!(counts(&nodes, true, |rank| rank == 50), (3 * 90, 4 * 60));
    }
}
