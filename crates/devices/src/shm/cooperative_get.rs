//! Gets that two ranks make together: what the reader and the helper do with the words of `cooperative.rs`.

use super::active::LOCAL_SIZE_MAX;
use super::cooperative::{Awaited, Reported};
use super::device::{Shm, submitted};
use super::kernel_copy::{Direction, write_to_process};
use super::processor::Processor;
use ayatori_core::buffer::Buffer;
use ayatori_core::device::profiles::shm_piece_bytes;
use ayatori_core::device::{Event, RailBroken, Submitted, Token};
use std::sync::atomic::Ordering;

/// How often to look whether the helper has copied its last piece, a millisecond or so in all: one that takes
/// longer is not running.
const SPINS_MAX: u32 = 20_000;

/// How a copy of which no piece is left stands.
enum Outcome {
    /// The helper still copies.
    UnderWay,
    /// All is in place.
    Whole,
    /// All but this piece, which the kernel refused to the helper.
    Without(usize),
}

impl Shm {
    /// Gets `local` from a peer's memory at `from` together with the peer, if it waits and the copy is long.
    /// `None`: this rank has to do it alone.
    pub(super) fn get_together(
        &mut self,
        helper: u32,
        local: &Buffer,
        from: u64,
        token: Token,
    ) -> Option<Submitted> {
        let len = local.len();
        let piece_bytes =
            shm_piece_bytes(len).filter(|_| self.awaited.is_none() && helper != self.local_rank)?;
        let peer = &mut self.peers[helper as usize];
        let control = peer.control;
        let is_polling = self.waiting_calls.contains(control.words.call()) && !control.is_asleep();
        if !is_polling || !peer.helps.is_due() {
            return None;
        }
        let to = local.as_ptr()?.expose_provenance() as u64;
        // This rank takes what is slow another way, the peer would not.
        if Processor::here().is_slow_by_kernel(from, to) {
            return None;
        }
        let count = u16::try_from(len.div_ceil(piece_bytes)).ok()?;
        let copy = self.own_copy;
        let number = copy.open(helper, [from, to, len as u64, piece_bytes as u64], count);
        let asked = number.wrapping_mul(LOCAL_SIZE_MAX) | self.local_rank;
        control.senders.ask(asked);
        let part = |piece| {
            let at = piece * piece_bytes;
            (local.part(at, piece_bytes.min(len - at)), from + at as u64)
        };
        let mut is_sound = true;
        while let Some(piece) = copy.take() {
            let (local, from) = part(piece);
            is_sound = is_sound && self.copy_by_kernel(Direction::Read, helper, &local, from);
        }
        let awaited = Awaited { token, helper, count: u32::from(count), is_sound };
        for _ in 0..SPINS_MAX {
            match self.outcome(&awaited) {
                Outcome::UnderWay => std::hint::spin_loop(),
                Outcome::Whole => return Some(submitted(is_sound)),
                Outcome::Without(piece) => {
                    let (local, from) = part(piece);
                    let is_read = self.copy_by_kernel(Direction::Read, helper, &local, from);
                    return Some(submitted(is_sound && is_read));
                }
            }
        }
        self.awaited = Some(awaited);
        self.news_seen = !self.senders.news();
        Some(Submitted::Pending)
    }

    fn outcome(&mut self, awaited: &Awaited) -> Outcome {
        let Some(Reported { taken_count, is_refused }) = self.own_copy.reported(awaited.count) else {
            return Outcome::UnderWay;
        };
        let habit = &mut self.peers[awaited.helper as usize].helps;
        if is_refused {
            habit.never_again();
            return Outcome::Without((awaited.count - taken_count) as usize);
        }
        habit.note(taken_count > 0);
        Outcome::Whole
    }

    /// Learns who writes to this rank and who has asked it for help, and helps. The end of the get that is
    /// awaited, if it has come: until then each poll looks here.
    #[cold]
    pub(super) fn learn_news(&mut self) -> Option<Event> {
        let news = self.senders.news();
        if self.has_new_senders() {
            self.learn_senders();
        }
        let asked = self.senders.asked();
        if std::mem::replace(&mut self.asked_helped, asked) != asked {
            self.help(asked);
        }
        let event = self.end_awaited();
        self.news_seen = if self.awaited.is_some() { !news } else { news };
        event
    }

    /// The end of the get that is awaited, if it has come.
    fn end_awaited(&mut self) -> Option<Event> {
        let awaited = self.awaited.take()?;
        let is_gone = self.peers[awaited.helper as usize].is_gone;
        let result = match self.outcome(&awaited) {
            Outcome::UnderWay if !is_gone => {
                self.awaited = Some(awaited);
                return None;
            }
            Outcome::Whole if awaited.is_sound => Ok(()),
            Outcome::UnderWay => {
                // What it may still report would count for the next copy.
                self.peers.iter_mut().for_each(|peer| peer.helps.never_again());
                Err(RailBroken)
            }
            _ => Err(RailBroken),
        };
        Some(Event::Completion(awaited.token, result))
    }

    /// Whether a get that is awaited has ended, or never will.
    pub(super) fn has_awaited_ended(&self) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| {
            let is_gone = self.peers[awaited.helper as usize].is_gone;
            is_gone || self.own_copy.reported(awaited.count).is_some()
        })
    }

    /// Somebody has asked: helps, if this rank waits itself.
    fn help(&mut self, asked: u32) {
        let own = &self.segment.controls()[self.local_rank as usize];
        let Some(peer) = self.peers.get((asked % LOCAL_SIZE_MAX) as usize) else { return };
        let pid = peer.control.pid.load(Ordering::Relaxed);
        if pid == 0 || !peer.kernel_copy || !self.waiting_calls.contains(own.words.call()) {
            return;
        }
        peer.control.copy.help(self.local_rank, |from, to, len| write_to_process(pid, from, to, len));
        self.waker.wake_arrival(peer.control);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::device::tests::world;
    use ayatori_core::device::{Device, RemoteRegion};
    use ayatori_core::ids::{ProcessId, Rail};

    const RAIL: Rail = Rail(0);
    const WAITS: u32 = 3;
    const HELPER: ProcessId = ProcessId(12);

    /// A reader and a helper, with a CPU each as far as they know; the helper waits.
    fn two() -> [Shm; 2] {
        let mut world = world(2, |config| config.cpus_count = 1000);
        world.iter_mut().for_each(|device| device.set_waiting_calls(&[WAITS]));
        world[1].call_words().enter(WAITS);
        world.try_into().ok().unwrap()
    }

    fn counted(len: usize) -> Buffer {
        let buffer = Buffer::leaked(len);
        let bytes: Vec<u8> = (0..len).map(|at| (at / 13) as u8).collect();
        buffer.scatter(0, ayatori_core::buffer::Piece::Bytes(&bytes));
        buffer
    }

    fn address(buffer: &Buffer) -> u64 {
        buffer.as_ptr().unwrap().expose_provenance() as u64
    }

    /// A copy of four pieces that the reader has described and of which it has copied none.
    fn open(reader: &Shm, from: &Buffer, to: &Buffer) -> Awaited {
        let len = from.len() as u64;
        let about = [address(from), address(to), len, len.div_ceil(4)];
        reader.own_copy.open(1, about, 4);
        Awaited { token: Token(7), helper: 1, count: 4, is_sound: true }
    }

    #[test]
    fn helper_copies_what_the_reader_has_not_taken() {
        let [mut reader, mut helper] = two();
        // Both go on behind what is copied.
        let (from, all) = (counted(200_000).part(0, 100_003), Buffer::leaked(200_000));
        let to = all.part(0, 100_003);
        let awaited = open(&reader, &from, &to);
        assert_eq!(reader.own_copy.take(), Some(0));
        helper.senders.ask(LOCAL_SIZE_MAX);
        assert!(helper.poll().is_none());
        assert!(matches!(reader.outcome(&awaited), Outcome::Whole));
        assert_eq!(reader.own_copy.take(), None);
        let piece_bytes = 100_003_usize.div_ceil(4);
        let [mut want, got] = [from, to].map(|buffer| buffer.to_vec().unwrap());
        want[..piece_bytes].fill(0);
        assert!(got == want, "three pieces of four");
        assert!(all.to_vec().unwrap()[100_003..].iter().all(|&byte| byte == 0), "and nothing behind");
    }

    #[test]
    fn each_copy_has_the_next_number() {
        let [reader, _helper] = two();
        let mut before = reader.own_copy.open(1, [0; 4], 4);
        for _ in 0..5 {
            while reader.own_copy.take().is_some() {}
            let number = reader.own_copy.open(1, [0; 4], 4);
            assert_eq!(number, before + 1, "a helper that comes late takes nothing of it");
            before = number;
        }
    }

    #[test]
    fn nobody_is_asked_while_a_copy_is_awaited() {
        let [mut reader, mut helper] = two();
        let from = counted(1 << 20);
        let key = helper.register(RAIL, from).unwrap();
        reader.awaited = Some(Awaited { token: Token(7), helper: 1, count: 4, is_sound: true });
        reader.get(RAIL, HELPER, Buffer::leaked(1 << 20), RemoteRegion { key, offset: 0 }, Token(1)).unwrap();
        assert_eq!(helper.senders.asked(), 0);
    }

    #[test]
    fn helper_that_computes_or_is_not_meant_copies_nothing() {
        let [reader, mut helper] = two();
        let (from, to) = (counted(4_000), Buffer::leaked(4_000));
        open(&reader, &from, &to);
        for (call, meant) in [(0, 1), (WAITS, 0)] {
            helper.call_words().enter(call);
            reader.own_copy.helper.store(meant, Ordering::Relaxed);
            helper.senders.ask(helper.senders.asked() + LOCAL_SIZE_MAX);
            assert!(helper.poll().is_none());
            assert_eq!(reader.own_copy.take(), Some(meant as usize ^ 1), "nothing was taken");
        }
        assert!(to.to_vec().unwrap().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn get_is_whole_whether_its_peer_helps_or_not() {
        let [mut reader, mut helper] = two();
        let from = counted(3 << 20);
        let key = helper.register(RAIL, from).unwrap();
        let polls = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let thread = std::thread::spawn({
            let polls = polls.clone();
            move || {
                while polls.load(Ordering::Relaxed) {
                    assert!(helper.poll().is_none());
                }
            }
        });
        for (round, len) in
            [64 << 10, 100_001, 1 << 20, 5_000, (3 << 20) - 1].repeat(20).into_iter().enumerate()
        {
            let (to, offset) = (Buffer::leaked(len), round % 2);
            let offset = offset.min((3 << 20) - len) as u64;
            let region = RemoteRegion { key, offset };
            match reader.get(RAIL, HELPER, to, region, Token(round as u64)).unwrap() {
                Submitted::Done => {}
                Submitted::Pending => while reader.poll().is_none() {},
                Submitted::Refused => {
                    let (one, other) = (counted(8), Buffer::leaked(8));
                    let copied = write_to_process(std::process::id(), address(&one), address(&other), 8);
                    assert!(copied.is_err(), "the kernel copies, and this get is refused");
                    eprintln!("the kernel does not copy between processes here: nothing to test");
                    break;
                }
            }
            let want = &from.to_vec().unwrap()[offset as usize..][..len];
            assert!(to.to_vec().unwrap() == want, "{len} bytes, round {round}");
        }
        polls.store(false, Ordering::Relaxed);
        thread.join().unwrap();
    }

    #[test]
    fn peer_that_computes_or_sleeps_is_not_asked() {
        let [mut reader, mut helper] = two();
        let from = counted(1 << 20);
        let key = helper.register(RAIL, from).unwrap();
        let get = |reader: &mut Shm| {
            let region = RemoteRegion { key, offset: 0 };
            reader.get(RAIL, HELPER, Buffer::leaked(1 << 20), region, Token(1)).unwrap()
        };
        helper.call_words().enter(WAITS + 1);
        get(&mut reader);
        helper.call_words().enter(WAITS);
        helper.arm();
        get(&mut reader);
        assert_eq!(helper.senders.asked(), 0);
        assert!(helper.poll().is_none(), "awake");
        if get(&mut reader) == Submitted::Done {
            assert_eq!(helper.senders.asked(), LOCAL_SIZE_MAX, "the reader's first copy");
        }
    }

    #[test]
    fn helper_whom_the_kernel_refuses_is_not_asked_again() {
        let [mut reader, _helper] = two();
        let (from, to) = (counted(4_000), Buffer::leaked(4_000));
        let awaited = open(&reader, &from, &to);
        assert_eq!(reader.own_copy.take(), Some(0));
        // No process has this number.
        reader.own_copy.help(1, |from, to, len| write_to_process(i32::MAX as u32, from, to, len));
        while reader.own_copy.take().is_some() {}
        assert!(matches!(reader.outcome(&awaited), Outcome::Without(3)));
        assert!(!reader.peers[1].helps.is_due());
    }

    #[test]
    fn copy_that_its_helper_ends_late_is_reported_by_a_poll() {
        let [mut reader, mut helper] = two();
        let (from, to) = (counted(4_000), Buffer::leaked(4_000));
        for is_sound in [true, false] {
            let awaited = open(&reader, &from, &to);
            reader.own_copy.pieces.fetch_sub(1, Ordering::Relaxed);
            while reader.own_copy.take().is_some() {}
            reader.awaited = Some(Awaited { is_sound, ..awaited });
            reader.news_seen = !reader.senders.news();
            assert!(reader.poll().is_none());
            assert_eq!(reader.arm(), ayatori_core::device::Armed::Armed, "no news");
            reader.own_copy.helped.0.fetch_add(1, Ordering::Release);
            assert_eq!(reader.arm(), ayatori_core::device::Armed::NotYet);
            let Some(Event::Completion(Token(7), result)) = reader.poll() else { panic!("no end") };
            assert_eq!(result.is_ok(), is_sound);
            assert!(reader.poll().is_none() && helper.poll().is_none());
        }
    }

    #[test]
    fn copy_whose_helper_is_gone_has_failed() {
        let [mut reader, _helper] = two();
        let (from, to) = (counted(4_000), Buffer::leaked(4_000));
        let awaited = open(&reader, &from, &to);
        reader.own_copy.pieces.fetch_sub(1, Ordering::Relaxed);
        while reader.own_copy.take().is_some() {}
        reader.awaited = Some(awaited);
        reader.news_seen = !reader.senders.news();
        reader.peers[1].is_gone = true;
        assert!(matches!(reader.poll(), Some(Event::Completion(Token(7), Err(RailBroken)))));
        assert!(reader.peers.iter_mut().all(|peer| !peer.helps.is_due()), "its report may come later");
    }
}
