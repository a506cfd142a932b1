//! Business cards: each process publishes its own, and gets those of all.
//!
//! In a large job the first process of each host asks the launcher for them, and the others of its host read
//! what it got: with `n` processes on `h` hosts the launcher is asked `n * h` times, not `n * n` times.
//!
//! ```text
//!   first of its host:  put card ─► fence ─► get all cards ─► put where they are ─► fence
//!   the others:         put card ─► fence ───────────────────────────────────────► fence ─► read them there
//! ```

use crate::abi::MPI_ERR_OTHER;
use crate::fault::{Fault, failed, fault};
use ayatori_devices::shared_text::{self, SharedText};
use ayatori_devices::tcp::Card;
use ayatori_launch::launcher::{Launcher, Name};

/// Up to so many processes each asks the launcher itself: that takes no longer than the second fence.
const ASKED_BY_EACH_MAX: u32 = 64;

/// The cards of all processes.
pub(super) struct Cards {
    /// By rank.
    pub(super) all: Vec<Card>,
    /// What others of this host read: to be kept until they have.
    pub(super) shared: Option<SharedText>,
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
pub(super) fn get(launcher: &mut dyn Launcher, nodes: Option<&[u32]>) -> Result<Cards, Fault> {
    match nodes {
        Some(nodes) if launcher.size() > ASKED_BY_EACH_MAX => by_first_of_host(launcher, nodes),
        _ => Ok(Cards { all: parse(ask(launcher)?.iter().map(String::as_str))?, shared: None }),
    }
}

fn by_first_of_host(launcher: &mut dyn Launcher, nodes: &[u32]) -> Result<Cards, Fault> {
    let rank = launcher.rank();
    let node = nodes[rank as usize];
    let first = nodes.iter().position(|one| *one == node).unwrap_or_default() as u32;
    let key = format!("ayatori-cards-{node}");
    let (mut asked, mut shared) = (None, None);
    if rank == first {
        let texts = ask(launcher)?;
        // Where the system refuses, the others ask themselves.
        shared = SharedText::create(&texts.join("\n")).ok();
        if let Some(shared) = &shared {
            launcher.put(&key, &shared.address()).map_err(failed("publish the addresses of all"))?;
        }
        asked = Some(texts);
    }
    launcher.fence().map_err(failed("wait for the other processes"))?;
    let texts = match asked {
        Some(texts) => texts,
        None => {
            let address = launcher.get(first, &key).map_err(failed("ask where the addresses of all are"))?;
            let text = address.and_then(|address| shared_text::read(&address).ok());
            match text.map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
                Some(texts) if texts.len() == nodes.len() => texts,
                _ => ask(launcher)?,
            }
        }
    };
    Ok(Cards { all: parse(texts.iter().map(String::as_str))?, shared })
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

fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Card>, Fault> {
    let card = |(rank, text)| {
        Card::parse(text).map_err(|why| {
            fault(MPI_ERR_OTHER, format_args!("rank {rank} published a business card that is {}", why.0))
        })
    };
    texts.enumerate().map(card).collect()
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
        fn finalize(self: Box<Self>) -> Result<(), Error> {
            unreachable!()
        }
        fn abort(&mut self, _: i32, _: Option<&str>) -> Result<(), Error> {
            unreachable!()
        }
    }

    fn card(rank: u32) -> Card {
        Card { node: u64::from(rank), cpus_count: rank + 1, endpoints: Vec::new() }
    }

    /// How often the launcher is asked for a card when ranks on these nodes get all.
    fn asked_count(nodes: &[u32], says_nodes: bool) -> usize {
        let size = nodes.len() as u32;
        let (values, asked_count) = (Mutex::default(), Mutex::default());
        let store = Arc::new(Store { values, asked_count, fence: Barrier::new(nodes.len()) });
        std::thread::scope(|scope| {
            for rank in 0..size {
                let mut fake = Fake { rank, size, store: Arc::clone(&store) };
                scope.spawn(move || {
                    publish(&mut fake, &card(rank)).unwrap();
                    fake.fence().unwrap();
                    let cards = get(&mut fake, says_nodes.then_some(nodes)).unwrap();
                    assert_eq!(cards.all, (0..size).map(card).collect::<Vec<_>>());
                    // Nobody takes away what another still reads.
                    fake.fence().unwrap();
                });
            }
        });
        *store.asked_count.lock().unwrap()
    }

    #[test]
    fn in_a_large_job_the_first_of_each_host_asks_for_all() {
        let nodes: Vec<u32> = (0..90).map(|rank| rank % 3).collect();
        assert_eq!(asked_count(&nodes, true), 3 * 90);
        assert_eq!(asked_count(&nodes, false), 90 * 90);
        assert_eq!(asked_count(&nodes[..60], true), 60 * 60);
    }
}
