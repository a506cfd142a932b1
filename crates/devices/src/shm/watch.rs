//! State of a rank, for the launcher and `ayatori why`.
//!
//! A rank writes two words at every call, on lines that no other rank writes: the function it is in, and the
//! number of its calls ([`CallWords`]). That is three stores a call. Everything else is reported on request
//! only:
//!
//! ```text
//! asker                                   rank
//!   inquiry += 1, asked = inquiry
//!   wakes it if it sleeps                   sees `asked` when it wakes, or polls
//!                                           version += 1, bytes, version += 1
//!   answered ≥ inquiry: reads bytes  ◄───   answered = inquiry, asked = 0
//!   (again if `version` is odd or changed)
//! ```
//!
//! No signal is involved, so no system call of the user's is interrupted; and a rank that neither calls MPI
//! nor wakes (it computes, or is stopped) owes no answer: its words are all that can be known. The asker
//! repeats its question, because the rank may just have fallen asleep, or have answered another asker.

use super::device::Shm;
use super::segment::{Control, STATE_DETACHED, Segment, ShmError};
use super::words::{ANSWER_BYTES, CallSet, CallWords, NAMES_BYTES, NAMES_HEAD_WORDS, Words};
use super::{sleep, sys};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The rank's side.
impl Shm {
    /// The words to be written at every call. They stay for the life of the process.
    pub fn call_words(&self) -> &'static CallWords {
        &self.own_control().words
    }

    /// Publishes the size of the job and the functions' names, a line each, unless a rank has done so
    /// already.
    pub fn announce(&self, world_count: u32, names: &str) {
        self.own_control().told.world_count.store(world_count, Ordering::Relaxed);
        self.segment.publish_names(names);
    }

    /// The functions in which a rank waits: see [`Device::is_waiting`].
    ///
    /// # Panics
    /// For a function with a number of 1024 or more.
    ///
    /// [`Device::is_waiting`]: ayatori_core::device::Device::is_waiting
    pub fn set_waiting_calls(&mut self, calls: &[u32]) {
        self.waiting_calls = CallSet::of(calls);
    }

    /// The inquiry that was made last; 0: none.
    pub fn inquiry(&self) -> u32 {
        self.inquiries().load(Ordering::Acquire)
    }

    /// Where the inquiry stands: for threads without the device.
    pub fn inquiries(&self) -> &'static AtomicU32 {
        &self.own_control().told.inquiry
    }

    /// Answers the inquiry. `false`: there is no memory for it. One thread at a time.
    pub fn answer(&self, inquiry: u32, bytes: &[u8]) -> bool {
        let Control { told, words, .. } = self.own_control();
        let at = self.segment.answer_at(self.local_rank);
        // Memory now, instead of SIGBUS later.
        if bytes.len() > ANSWER_BYTES || sys::reserve_at(self.file.as_fd(), at, ANSWER_BYTES).is_err() {
            words.asked.store(0, Ordering::Relaxed);
            return false;
        }
        told.version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.segment.words(at, ANSWER_BYTES).write(bytes);
        told.answer_bytes.store(bytes.len() as u32, Ordering::Relaxed);
        told.version.fetch_add(1, Ordering::Release);
        words.asked.store(0, Ordering::Relaxed);
        told.answered.store(inquiry, Ordering::Release);
        true
    }

    fn own_control(&self) -> &'static Control {
        &self.segment.controls()[self.local_rank as usize]
    }
}

impl Segment {
    fn publish_names(&self, names: &str) {
        let words = self.names();
        let room = (NAMES_BYTES / 8 - NAMES_HEAD_WORDS) * 8;
        let is_first = || words.0[0].compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if names.len() > room || words.0[0].load(Ordering::Relaxed) != 0 || !is_first() {
            return;
        }
        Words(&words.0[NAMES_HEAD_WORDS..]).write(names.as_bytes());
        words.0[1].store(names.len() as u64, Ordering::Relaxed);
        words.0[0].store(2, Ordering::Release);
    }

    fn read_names(&self) -> Vec<String> {
        let words = self.names();
        if words.0[0].load(Ordering::Acquire) != 2 {
            return Vec::new();
        }
        let len = (words.0[1].load(Ordering::Relaxed) as usize).min(NAMES_BYTES);
        let bytes = Words(&words.0[NAMES_HEAD_WORDS..]).read(len);
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }
}

/// How far a rank is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It has not joined the job: `MPI_Init` is still to come, or under way.
    Absent,
    /// In the job.
    Present,
    /// `MPI_Finalize` has ended.
    Left,
}

/// A rank as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    /// Its process id; 0 before it has joined.
    pub pid: i32,
    /// Its index in the job; none before it has joined.
    pub process: Option<u32>,
    /// How many processes the job has, as the rank says.
    pub world_count: Option<u32>,
    /// How far it is.
    pub stage: Stage,
    /// The function it is in; `None`: it is in none.
    pub call: Option<String>,
    /// How many it has called, modulo 2^32.
    pub calls_count: u32,
    /// Time since both last changed, in milliseconds, as far as askers have looked.
    pub unchanged_ms: Option<u64>,
}

/// Looks on at the ranks of a host. The mapping stays for the life of the process: keep an observer rather
/// than make many.
pub struct Observer {
    segment: Segment,
    _file: OwnedFd,
}

impl Observer {
    /// An observer of the segment. `None`: no rank has joined yet.
    ///
    /// # Errors
    /// It is no segment of this version, or cannot be mapped.
    pub fn open(file: OwnedFd) -> Result<Option<Self>, ShmError> {
        let segment = Segment::observe(&file)?;
        Ok(segment.map(|segment| Self { segment, _file: file }))
    }

    /// How many ranks the segment is for.
    pub fn ranks_count(&self) -> u32 {
        self.segment.controls().len() as u32
    }

    /// All ranks by local rank.
    pub fn look(&self) -> Vec<Sight> {
        let (names, now) = (self.segment.read_names(), now_ms());
        let sight = |control: &Control| {
            let Control { pid, state, words, told, .. } = control;
            let (call, calls_count) = (words.call(), words.calls_count());
            let pid = pid.load(Ordering::Relaxed) as i32;
            let (seen, at) = (told.seen.load(Ordering::Relaxed), told.seen_at_ms.load(Ordering::Relaxed));
            Sight {
                pid,
                process: told.process.load(Ordering::Relaxed).checked_sub(1),
                world_count: Some(told.world_count.load(Ordering::Relaxed)).filter(|&count| count > 0),
                stage: match (pid, state.load(Ordering::Acquire)) {
                    (0, _) => Stage::Absent,
                    (_, STATE_DETACHED) => Stage::Left,
                    _ => Stage::Present,
                },
                call: (call > 0).then(|| match names.get(call as usize - 1) {
                    Some(name) => name.clone(),
                    None => format!("function {call}"),
                }),
                calls_count,
                unchanged_ms: (at > 0 && seen == both(call, calls_count)).then(|| now.saturating_sub(at)),
            }
        };
        self.segment.controls().iter().map(sight).collect()
    }

    /// Notes what every rank is doing: called now and then, it lets later looks say since when.
    pub fn note(&self) {
        let now = now_ms();
        for Control { words, told, .. } in self.segment.controls() {
            let seen = both(words.call(), words.calls_count());
            if told.seen_at_ms.load(Ordering::Relaxed) == 0 || told.seen.load(Ordering::Relaxed) != seen {
                told.seen.store(seen, Ordering::Relaxed);
                told.seen_at_ms.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Begins to ask a rank; gives the number of the inquiry.
    ///
    /// # Panics
    /// If there is no such local rank.
    pub fn ask(&self, local: u32) -> u32 {
        let told = &self.segment.controls()[local as usize].told;
        let inquiry = told.inquiry.fetch_add(1, Ordering::AcqRel).wrapping_add(1).max(1);
        self.ask_again(local, inquiry);
        inquiry
    }

    /// Asks again what was not answered.
    ///
    /// # Panics
    /// If there is no such local rank.
    pub fn ask_again(&self, local: u32, inquiry: u32) {
        let control = &self.segment.controls()[local as usize];
        control.words.asked.store(inquiry, Ordering::SeqCst);
        sleep::rouse(control);
    }

    /// The answer to an inquiry, or to a later one, if it is there.
    ///
    /// # Panics
    /// If there is no such local rank.
    pub fn answer(&self, local: u32, inquiry: u32) -> Option<Vec<u8>> {
        let told = &self.segment.controls()[local as usize].told;
        let is_later = |answered: u32| answered.wrapping_sub(inquiry) < 1 << 31;
        if !is_later(told.answered.load(Ordering::Acquire)) {
            return None;
        }
        let words = self.segment.words(self.segment.answer_at(local), ANSWER_BYTES);
        let version = told.version.load(Ordering::Acquire);
        let len = (told.answer_bytes.load(Ordering::Relaxed) as usize).min(ANSWER_BYTES);
        let bytes = words.read(len);
        fence(Ordering::Acquire);
        (version.is_multiple_of(2) && told.version.load(Ordering::Relaxed) == version).then_some(bytes)
    }
}

fn both(call: u32, calls_count: u32) -> u64 {
    u64::from(call) << 32 | u64::from(calls_count)
}

/// Milliseconds of the host's steady clock.
fn now_ms() -> u64 {
    ms_of(clock_gettime(ClockId::Monotonic))
}

fn ms_of(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

impl Segment {
    /// Maps a segment that others have made. `None`: none has been made yet.
    fn observe(file: &OwnedFd) -> Result<Option<Self>, ShmError> {
        let fingerprint = Self::fingerprint_in(file)?;
        if fingerprint == 0 {
            return Ok(None);
        }
        let length = Self::length_of(file)?;
        Self::of_fingerprint(file, fingerprint, length).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{ShmConfig, Source};
    use ayatori_core::device::Device as _;
    use ayatori_core::ids::ProcessId;

    fn job() -> (Source, Vec<Shm>, Observer) {
        let source = Source::create().unwrap();
        let Source::File(file) = &source else { panic!("a file") };
        let file = file.try_clone().unwrap();
        assert!(Observer::open(file.try_clone().unwrap()).unwrap().is_none(), "nobody is there");
        let processes = vec![ProcessId(4), ProcessId(7)];
        let attach = |rank| Shm::attach(&source, &ShmConfig::new(rank, processes.clone())).unwrap();
        let ranks = vec![attach(0), attach(1)];
        let observer = Observer::open(file).unwrap().expect("a segment");
        (source, ranks, observer)
    }

    #[test]
    fn an_onlooker_sees_which_function_each_rank_is_in() {
        let (_source, mut ranks, observer) = job();
        ranks[0].announce(9, "MPI_A\nMPI_B\n");
        let words = ranks[0].call_words();
        words.enter(1);
        words.leave();
        assert_eq!(observer.look()[0].call, None);
        words.enter(2);
        ranks[1].detach();
        let [first, second] = &observer.look()[..] else { panic!("two ranks") };
        assert_eq!((first.call.as_deref(), first.calls_count), (Some("MPI_B"), 2));
        assert_eq!((first.process, first.world_count, first.stage), (Some(4), Some(9), Stage::Present));
        assert_eq!((second.call.as_deref(), second.process, second.stage), (None, Some(7), Stage::Left));
        assert_eq!(first.pid, std::process::id() as i32);
    }

    #[test]
    fn a_rank_that_has_left_may_come_back() {
        let (_source, mut ranks, observer) = job();
        ranks[1].detach();
        ranks[1].attach_again();
        assert_eq!(observer.look()[1].stage, Stage::Present);
    }

    #[test]
    fn a_peer_waits_in_functions_that_wait() {
        let (_source, mut ranks, _observer) = job();
        ranks[1].set_waiting_calls(&[2, 5, 64, 1023]);
        let seen = [0, 1, 2, 5, 63, 64, 1023, 1024, u32::MAX].map(|call| {
            ranks[0].call_words().enter(call);
            ranks[1].is_waiting(ProcessId(4))
        });
        assert_eq!(seen, [false, false, true, true, false, true, true, false, false]);
        assert!(!ranks[1].is_waiting(ProcessId(7)) && !ranks[1].is_waiting(ProcessId(5)), "no peer");
    }

    #[test]
    fn rank_is_unchanged_since_the_last_observed_change() {
        let (_source, ranks, observer) = job();
        assert_eq!(observer.look()[0].unchanged_ms, None);
        observer.note();
        std::thread::sleep(std::time::Duration::from_millis(20));
        observer.note();
        assert!(observer.look()[0].unchanged_ms.unwrap() >= 20);
        ranks[0].call_words().enter(1);
        assert_eq!(observer.look()[0].unchanged_ms, None);
        observer.note();
        assert!(observer.look()[0].unchanged_ms.is_some());
        ranks[0].call_words().leave();
        assert_eq!(observer.look()[0].unchanged_ms, None, "a function less is a change");
        assert_eq!(ms_of(Timespec { tv_sec: 5, tv_nsec: 7_999_999 }), 5_007);
        assert_eq!(ms_of(Timespec { tv_sec: 5, tv_nsec: 8_000_000 }), 5_008);
    }

    #[test]
    fn an_answer_comes_to_the_inquiry_it_is_for_and_to_earlier_ones() {
        let (_source, ranks, observer) = job();
        let (first, second) = (observer.ask(1), observer.ask(1));
        assert!(ranks[1].call_words().is_asked() && !ranks[0].call_words().is_asked());
        assert_eq!(observer.answer(1, first), None);
        let long: Vec<u8> = (0..ANSWER_BYTES).map(|at| at as u8).collect();
        for bytes in [&b"an answer"[..], b"", &long] {
            assert!(ranks[1].answer(ranks[1].inquiry(), bytes));
            assert_eq!(observer.answer(1, first).as_deref(), Some(bytes));
            assert_eq!(observer.answer(1, second).as_deref(), Some(bytes));
        }
        assert!(!ranks[1].call_words().is_asked());
        let third = observer.ask(1);
        assert_eq!(observer.answer(1, third), None, "the old answer is not the new one's");
        assert!(!ranks[1].answer(third, &vec![0; ANSWER_BYTES + 1]), "too long");
        assert!(!ranks[1].call_words().is_asked(), "it is not asked for what it cannot say");
        // Numbers of inquiries wrap.
        let told = &observer.segment.controls()[1].told;
        told.inquiry.store(u32::MAX - 1, Ordering::Relaxed);
        told.answered.store(u32::MAX - 1, Ordering::Relaxed);
        let last = observer.ask(1);
        assert_eq!(observer.answer(1, last), None);
        assert!(ranks[1].answer(5, b"later") && observer.answer(1, last).is_some());
        // While an answer is being written there is none.
        told.version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(observer.answer(1, last), None);
    }

    #[test]
    fn the_first_to_announce_names_the_functions() {
        let (_source, ranks, observer) = job();
        ranks[0].call_words().enter(2);
        let called = || observer.look()[0].call.clone().unwrap();
        ranks[1].announce(1, "");
        assert_eq!(observer.look()[1].world_count, Some(1));
        observer.segment.names().0[0].store(0, Ordering::Relaxed);
        assert_eq!((called(), observer.look()[0].world_count), ("function 2".to_owned(), None));
        let room = NAMES_BYTES - 8 * NAMES_HEAD_WORDS;
        let names = |second: &str, len: usize| {
            let begin = format!("MPI_A\n{second}\n");
            begin.clone() + &"x".repeat(len - begin.len())
        };
        ranks[0].announce(2, &names("MPI_Long", room + 1));
        assert_eq!(called(), "function 2", "too long");
        // Another is at it.
        let words = observer.segment.names();
        words.0[1].store(6, Ordering::Relaxed);
        words.0[NAMES_HEAD_WORDS].store(u64::from_le_bytes(*b"MPI\nC\nx\n"), Ordering::Relaxed);
        words.0[0].store(1, Ordering::Relaxed);
        ranks[0].announce(2, &names("MPI_B", room));
        assert_eq!(called(), "function 2", "nothing is read that is still written");
        words.0[0].store(0, Ordering::Relaxed);
        ranks[0].announce(2, &names("MPI_B", room));
        ranks[1].announce(2, "MPI_A\nMPI_C\n");
        assert_eq!(called(), "MPI_B");
        ranks[0].call_words().enter(1);
        assert_eq!(called(), "MPI_A");
        let all = observer.segment.read_names();
        assert_eq!(all.iter().map(|name| name.len() + 1).sum::<usize>(), room + 1, "all of them");
    }

    #[test]
    fn a_rank_that_has_not_come_is_absent() {
        let source = Source::create().unwrap();
        let Source::File(file) = &source else { panic!("a file") };
        let file = file.try_clone().unwrap();
        let config = ShmConfig::new(0, vec![ProcessId(4), ProcessId(7)]);
        let _rank = Shm::attach(&source, &config).unwrap();
        let observer = Observer::open(file).unwrap().expect("a segment");
        assert_eq!(observer.ranks_count(), 2);
        let absent = &observer.look()[1];
        assert_eq!((absent.pid, absent.process, absent.stage), (0, None, Stage::Absent));
        assert_eq!((&absent.call, absent.calls_count, absent.unchanged_ms), (&None, 0, None));
    }

    #[test]
    fn a_rank_that_sleeps_is_woken_to_answer() {
        use ayatori_core::device::{Armed, Device};
        let (_source, mut ranks, observer) = job();
        let mut sleeper = ranks.remove(0);
        let (began, asleep) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            while !sleeper.call_words().is_asked() {
                if sleeper.arm() == Armed::Armed {
                    let _ = began.send(());
                    sleeper.wait(None);
                }
                while sleeper.poll().is_some() {}
            }
            assert!(sleeper.answer(sleeper.inquiry(), b"awake"));
        });
        asleep.recv().unwrap();
        let inquiry = observer.ask(0);
        while observer.answer(0, inquiry).is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
            observer.ask_again(0, inquiry);
        }
        thread.join().unwrap();
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let file = sys::memory_file().unwrap();
        rustix::io::write(&file, &[0x5a; 8192]).unwrap();
        assert!(Observer::open(file).is_err());
        let unsigned = sys::memory_file().unwrap();
        sys::set_length(&unsigned, 4096).unwrap();
        assert!(Observer::open(unsigned).unwrap().is_none(), "its maker is at it");
        let short = sys::memory_file().unwrap();
        // A fingerprint of this version, and no room for what it says.
        let (_source, _ranks, observer) = job();
        let mut header = vec![0; 8192];
        header[..8].copy_from_slice(&observer.segment.fingerprint().to_le_bytes());
        rustix::io::write(&short, &header).unwrap();
        assert!(Observer::open(short).is_err());
    }
}
