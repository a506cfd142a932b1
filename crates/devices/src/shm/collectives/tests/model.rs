//! The members of a room, moved on by one thread in a random order, against the plain definition of each
//! operation.
//!
//! A member whose look finds nothing sleeps until another wakes it, as it would with a device. The memory of
//! a call that has ended is overwritten at once, so that a member that still reads it is found out.

use super::*;
use crate::shm::segment::{ASLEEP, AWAKE, RingSize, Source};
use crate::shm::sleep::Sleeper;
use crate::shm::sys::{self, Mapping};
use ayatori_core::coll::Collective;
use ayatori_core::coll::select::Question;
use ayatori_core::explain::Label;
use ayatori_random::Random;
use room::{DEPTH, RoomLayout};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// An operation, the same at all members.
#[derive(Clone, Copy, Debug)]
struct Operation {
    collective: Collective,
    root: u32,
    /// Of a block, or of a vector.
    len: usize,
    element_bytes: usize,
    salt: usize,
    is_in_place: bool,
}

/// What memory holds that nothing was written to.
const UNTOUCHED: u8 = 0xee;

const COLLECTIVES: [Collective; 11] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Gather,
    Collective::Allgather,
    Collective::Scatter,
    Collective::Alltoall,
    Collective::ReduceScatter,
    Collective::Scan,
    Collective::Exscan,
];

impl Operation {
    /// One of a length that goes through the room.
    fn random(random: &mut Random, n: u32, occupancy: Occupancy) -> Self {
        let collective = COLLECTIVES[random.index(COLLECTIVES.len())];
        let element_bytes = [1, 8, 12, 24][random.index(4)];
        let area_bytes = shared_memory::area_bytes(occupancy.ranks_count);
        let most = [0, 1, 48, 64, 200, 2048, 2100, area_bytes / n as usize, area_bytes, 12_300];
        let most = most[random.index(most.len())];
        let mut len = if random.index(2) == 0 { most } else { random.index(most + 1) };
        let is_vector = matches!(collective, Collective::Reduce | Collective::Allreduce);
        while len > 0 {
            if is_vector {
                len = len / element_bytes * element_bytes;
            }
            let bytes = if collective == Collective::ReduceScatter { len * n as usize } else { len };
            let question = Question { collective, bytes, size: n, commutative: true };
            // Many members with long data show no more than few.
            if shared_memory::is_direct(&question, occupancy)
                && (!is_vector || shared_memory::operand_fits(element_bytes, len, occupancy))
                && len * n as usize <= 6 * area_bytes
            {
                break;
            }
            len /= 2;
        }
        let root = random.index(n as usize) as u32;
        let is_in_place = random.index(2) == 0;
        Self { collective, root, len, element_bytes, salt: random.index(256), is_in_place }
    }

    /// Number of blocks that a member gives.
    fn given_count(&self, n: u32) -> usize {
        match self.collective {
            Collective::Scatter | Collective::Alltoall | Collective::ReduceScatter => n as usize,
            Collective::Barrier => 0,
            _ => 1,
        }
    }

    fn given(&self, rank: u32, n: u32) -> Vec<u8> {
        block(rank, self.len * self.given_count(n), self.salt)
    }

    /// What the first `count` members give, folded in the order of their ranks.
    fn folded(&self, count: u32, n: u32) -> Vec<u8> {
        let mut folded = self.given(0, n);
        (1..count).for_each(|rank| concatenate(&mut folded, &self.given(rank, n)));
        folded
    }

    /// Bytes that a member gets.
    fn received_bytes(&self, rank: u32, n: u32) -> usize {
        match self.collective {
            // Also at the first, which gets nothing.
            Collective::Exscan => self.len,
            _ => self.result(rank, n).map_or(0, |result| result.len()),
        }
    }

    /// Lengths as algorithms are chosen by.
    fn label(&self, n: u32) -> Label {
        let bytes = match self.collective {
            Collective::Barrier => 0,
            Collective::ReduceScatter => self.len * n as usize,
            _ => self.len,
        };
        let is_rooted = matches!(
            self.collective,
            Collective::Bcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        );
        Label { collective: self.collective, bytes: bytes as u64, root: is_rooted.then_some(self.root) }
    }

    /// What a member has in the end; `None`: it gets nothing.
    fn result(&self, rank: u32, n: u32) -> Option<Vec<u8>> {
        let all = || (0..n).flat_map(|from| self.given(from, n)).collect();
        let own = |of: Vec<u8>| of[rank as usize * self.len..][..self.len].to_vec();
        match self.collective {
            Collective::Bcast => Some(self.given(self.root, n)),
            Collective::Reduce => (rank == self.root).then(|| self.folded(n, n)),
            Collective::Allreduce => Some(self.folded(n, n)),
            Collective::Gather => (rank == self.root).then(all),
            Collective::Allgather => Some(all()),
            Collective::Scatter => Some(own(self.given(self.root, n))),
            Collective::Alltoall => Some((0..n).flat_map(|from| own(self.given(from, n))).collect()),
            Collective::ReduceScatter => Some(own(self.folded(n, n))),
            Collective::Scan => Some(self.folded(rank + 1, n)),
            Collective::Exscan => (rank > 0).then(|| self.folded(rank, n)),
            _ => None,
        }
    }
}

/// A member and the memory of its call.
struct Member {
    node: Option<NodeCollectives>,
    control: &'static Control,
    /// Operations begun, and ended.
    begun_count: usize,
    ended_count: usize,
    send: Vec<u8>,
    receive: Vec<u8>,
}

impl Member {
    fn node(&mut self) -> &mut NodeCollectives {
        self.node.as_mut().expect("it has not left")
    }

    /// Begins an operation in fresh memory.
    fn begin(&mut self, operation: &Operation, rank: u32, n: u32) {
        let Operation { collective, root, element_bytes, is_in_place, .. } = *operation;
        self.send = operation.given(rank, n);
        self.receive = vec![UNTOUCHED; operation.received_bytes(rank, n)];
        let is_one_buffer = collective == Collective::Bcast
            || is_in_place
                && matches!(collective, Collective::Allreduce | Collective::Alltoall | Collective::Scan);
        if is_one_buffer && (collective != Collective::Bcast || rank == root) {
            self.receive.copy_from_slice(&self.send);
        }
        let receive = buffer(&mut self.receive);
        let send = if is_one_buffer { receive } else { buffer(&mut self.send) };
        let call = match collective {
            Collective::Barrier => Call::Barrier,
            Collective::Bcast => Call::Bcast { root, buffer: receive },
            Collective::Reduce => Call::Reduce { root, send, receive, element_bytes },
            Collective::Allreduce => Call::Allreduce { send, receive, element_bytes },
            Collective::Gather => Call::Gather { root, send, receive },
            Collective::Allgather => Call::Allgather { send, receive },
            Collective::Scatter => Call::Scatter { root, send, receive },
            Collective::Alltoall => Call::Alltoall { send, receive },
            Collective::ReduceScatter => Call::ReduceScatterBlock { send, receive },
            _ => Call::Scan { send, receive, is_inclusive: collective == Collective::Scan },
        };
        self.begun_count += 1;
        let begun_count = self.begun_count as u64;
        let node = self.node();
        node.start(call);
        assert_eq!((node.calls_count(), node.label()), (begun_count, operation.label(n)));
    }

    /// Overwrites the memory of the call that has ended.
    fn scribble(&mut self) {
        self.send.fill(0xdd);
        self.receive.fill(0xdd);
    }
}

/// The members of a room.
struct Group {
    room: Room,
    members: Vec<Member>,
}

/// The properties of a room and its members.
#[derive(Clone, Copy, Debug)]
struct Setup {
    n: u32,
    occupancy: Occupancy,
    /// Shortest broadcast that is lent.
    lent_bytes_min: usize,
    /// Members whose bit is set may use the kernel's copy.
    kernel_copies: u64,
    /// Calls before, of each kind.
    before_count: u64,
}

impl Setup {
    fn random(random: &mut Random) -> Self {
        let n = [1, 2, 2, 3, 4, 5, 8, 17][random.index(8)];
        let ranks_count = [n.max(4), 1024][random.index(2)];
        let cpus_count = [1, ranks_count][random.index(2)];
        Self {
            n,
            occupancy: Occupancy::new(ranks_count, cpus_count),
            lent_bytes_min: [100, 3000, usize::MAX][random.index(3)],
            kernel_copies: [0, u64::MAX, random.next_u64()][random.index(3)],
            before_count: [0, (1 << 32) - 1 - random.below(6)][random.index(2)],
        }
    }
}

/// Memory for one room.
fn new_room(occupancy: Occupancy) -> Room {
    let layout = RoomLayout::new(occupancy.ranks_count);
    let file = sys::memory_file().unwrap();
    sys::set_length(&file, layout.bytes()).unwrap();
    Room::new(Mapping::new(file.as_fd(), layout.bytes()).unwrap(), 0, layout)
}

impl Group {
    /// The members of a free room, which they take.
    fn new(room: Room, setup: &Setup) -> Self {
        let ring = RingSize { slots_count: 4, lines_counts: [4, 0] };
        let segment = Segment::attach(&Source::create().unwrap(), setup.n, ring).unwrap();
        let controls = segment.controls();
        assert!(room.claim(1), "the room is free");
        let member = |rank: u32| {
            controls[rank as usize].pid.store(sys::process_id() as u32, Ordering::Relaxed);
            let waker = Sleeper::new(&segment, rank, setup.occupancy.is_oversubscribed()).waker();
            let may_copy = setup.kernel_copies >> (rank % 64) & 1 == 1;
            let members = controls.iter().collect();
            let mut node = NodeCollectives::new(room, rank, members, waker, setup.occupancy, may_copy);
            node.lent_lengths = setup.lent_bytes_min..usize::MAX;
            node.round = setup.before_count;
            node.exchanges_count = setup.before_count as u32;
            let (control, send, receive) = (&controls[rank as usize], Vec::new(), Vec::new());
            Member { node: Some(node), control, begun_count: 0, ended_count: 0, send, receive }
        };
        let members = (0..setup.n).map(member).collect();
        // As the calls before have left it.
        for before in (1..=DEPTH as u64).filter(|&before| before <= setup.before_count).rev() {
            room.release(setup.before_count - before);
        }
        for rank in (0..setup.n).filter(|_| setup.before_count > 0 && setup.n <= 16) {
            room.post(rank, setup.before_count as u32 - 1, &Buffer::EMPTY);
            room.post(rank, setup.before_count as u32, &Buffer::EMPTY);
        }
        Self { room, members }
    }

    fn n(&self) -> u32 {
        self.members.len() as u32
    }

    /// Sleep words of all members.
    fn sleeps(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.control.sleep.load(Ordering::Relaxed)).collect()
    }

    /// A look of a member at its call. `true`: that has ended.
    fn look(&mut self, rank: u32, operation: &Operation) -> bool {
        let element_bytes = operation.element_bytes;
        let is_vector = matches!(operation.collective, Collective::Reduce | Collective::Allreduce);
        let mut reduce = |a: &mut [u8], b: &[u8]| {
            assert_eq!(a.len(), b.len());
            assert!(!is_vector || a.len().is_multiple_of(element_bytes), "an element is cut");
            concatenate(a, b);
        };
        let node = self.members[rank as usize].node();
        let has_ended = node.advance(&mut reduce);
        assert_eq!(has_ended, node.stage == Stage::Idle);
        has_ended
    }

    /// Moves a member on until it sleeps or its operation has ended.
    fn move_on(&mut self, rank: u32, operations: &[Operation]) {
        let n = self.n();
        let at = self.members[rank as usize].ended_count;
        let operation = &operations[at];
        let member = &mut self.members[rank as usize];
        member.control.sleep.store(AWAKE, Ordering::Relaxed);
        if member.begun_count == at {
            member.begin(operation, rank, n);
        }
        if !self.look(rank, operation) {
            // A look that finds nothing wakes no one.
            self.members[rank as usize].control.sleep.store(ASLEEP, Ordering::Relaxed);
            let before = self.sleeps();
            assert!(!self.look(rank, operation), "the look before has left something to do");
            assert_eq!(self.sleeps(), before);
            let is_one_waited_for = matches!(operation.collective, Collective::Bcast | Collective::Scatter);
            let awaited = (is_one_waited_for && rank != operation.root).then_some(operation.root);
            assert_eq!(self.members[rank as usize].node().awaited(), awaited);
            return;
        }
        let member = &mut self.members[rank as usize];
        let untouched = || vec![UNTOUCHED; member.receive.len()];
        let result = operation.result(rank, n).unwrap_or_else(untouched);
        assert!(member.receive == result, "the result of {operation:?} at {rank}");
        member.scribble();
        member.ended_count += 1;
        if operation.collective == Collective::Barrier {
            assert!(self.members.iter().all(|member| member.begun_count > at), "{rank} has left a barrier");
        }
    }

    /// All members do all operations, and leave. `is_woken_early`: now and then one wakes by itself.
    fn run(&mut self, operations: &[Operation], random: &mut Random, is_woken_early: bool) {
        let is_done = |member: &Member| member.ended_count == operations.len();
        loop {
            let undone: Vec<u32> =
                (0..self.n()).filter(|&rank| !is_done(&self.members[rank as usize])).collect();
            let is_awake =
                |rank: &u32| self.members[*rank as usize].control.sleep.load(Ordering::Relaxed) == AWAKE;
            let awake: Vec<u32> = undone.iter().copied().filter(is_awake).collect();
            let rank = match (undone.is_empty(), awake.is_empty()) {
                (true, _) => break,
                (false, true) => panic!("all that have something to do sleep: {undone:?}"),
                _ if is_woken_early && random.one_in(4) => undone[random.index(undone.len())],
                _ => awake[random.index(awake.len())],
            };
            self.move_on(rank, operations);
            // Some leave while others are still at their last operation.
            let member = &mut self.members[rank as usize];
            if is_done(member) && random.index(2) == 0 {
                member.node.take().expect("it leaves once").leave();
            }
        }
        let rest = self.members.iter_mut().filter_map(|member| member.node.take());
        rest.for_each(NodeCollectives::leave);
        assert!(self.room.is(0), "the last to leave frees the room");
    }
}

/// Names the seed if the test fails.
struct Seed(u64, String);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {}: {}", self.0, self.1);
        }
    }
}

#[test]
fn operations_are_as_defined_in_any_order_of_members() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut setup = Setup::random(&mut random);
        let room = new_room(setup.occupancy);
        // The room is used again and again, by others each time.
        for _ in 0..1 + random.index(3) {
            let count = 1 + random.index(8);
            let operations: Vec<Operation> =
                (0..count).map(|_| Operation::random(&mut random, setup.n, setup.occupancy)).collect();
            let _seed = Seed(seed, format!("{setup:?} {operations:?}"));
            let is_woken_early = random.index(2) == 0;
            Group::new(room, &setup).run(&operations, &mut random, is_woken_early);
            setup = Setup { n: 1 + random.index(setup.n as usize) as u32, before_count: 0, ..setup };
        }
    }
}

/// A broadcast of `len` bytes.
fn bcast(root: u32, len: usize) -> Operation {
    let collective = Collective::Bcast;
    Operation { collective, root, len, element_bytes: 1, salt: 5, is_in_place: false }
}

fn setup(n: u32) -> Setup {
    let occupancy = Occupancy::new(n, 1);
    Setup { n, occupancy, lent_bytes_min: usize::MAX, kernel_copies: u64::MAX, before_count: 0 }
}

#[test]
fn more_members_than_bits_of_a_word_are_lent_to() {
    let occupancy = Occupancy::new(1024, 1);
    let setup = Setup { occupancy, lent_bytes_min: 1, kernel_copies: 0, ..setup(130) };
    let operations = [bcast(0, 9_000), bcast(129, 100), bcast(64, 4_000), bcast(3, 3_968), bcast(1, 4_096)];
    Group::new(new_room(occupancy), &setup).run(&operations, &mut Random::new(1), false);
}

#[test]
fn a_root_is_ahead_of_its_readers_by_less_than_the_depth() {
    let operations = [bcast(0, 100); 2 * DEPTH];
    let mut group = Group::new(new_room(setup(3).occupancy), &setup(3));
    let moves = |group: &mut Group, rank: u32| {
        while group.members[rank as usize].control.sleep.load(Ordering::Relaxed) == AWAKE {
            group.move_on(rank, &operations);
        }
        group.members[rank as usize].ended_count
    };
    assert_eq!(moves(&mut group, 0), DEPTH - 1);
    group.move_on(1, &operations);
    group.move_on(0, &operations);
    assert_eq!(group.members[0].ended_count, DEPTH - 1, "one has not read");
    group.move_on(2, &operations);
    assert_eq!(moves(&mut group, 0), DEPTH);
}

#[test]
fn members_read_along_while_the_root_writes() {
    let len = 3 * PIECE_BYTES + 100;
    let operations = [bcast(0, len)];
    let mut group = Group::new(new_room(setup(2).occupancy), &setup(2));
    let data = operations[0].given(0, 2);
    group.move_on(1, &operations);
    let room = group.room;
    for (pieces, end) in [(1, PIECE_BYTES), (3, 3 * PIECE_BYTES)] {
        room.write(0, room.result_at(), &buffer(&mut data.clone()), 0, end);
        room.publish(0, pieces);
        group.move_on(1, &operations);
        let read = &group.members[1].receive;
        assert!(read[..end] == data[..end] && read[end..].iter().all(|&byte| byte == UNTOUCHED));
    }
    group.move_on(0, &operations);
    group.move_on(1, &operations);
    assert_eq!(group.members[1].ended_count, 1);
}

#[test]
fn a_refusal_of_the_kernel_is_remembered_not_one_of_memory() {
    let setup = Setup { lent_bytes_min: 1, kernel_copies: 6, ..setup(3) };
    let mut group = Group::new(new_room(setup.occupancy), &setup);
    let operations = [bcast(0, 500), bcast(2, 500), bcast(2, 500), bcast(2, 500), bcast(2, 500)];
    let own = sys::process_id() as u32;
    // The root lends. Gives the stage of the reader after its look, and whether it will try the kernel's copy
    // again.
    let mut look = |at: usize, root_pid: u32, lend: fn(&Group)| {
        let root = operations[at].root;
        group.members[root as usize].control.pid.store(root_pid, Ordering::Relaxed);
        group.move_on(root, &operations);
        lend(&group);
        group.move_on(1, &operations);
        let reader = group.members[1].node();
        let seen = (reader.stage, reader.kernel_copy);
        group.members[root as usize].control.pid.store(own, Ordering::Relaxed);
        for rank in [root, 1, 0, 2].repeat(3) {
            if group.members[rank as usize].ended_count == at {
                group.move_on(rank, &operations);
            }
        }
        assert!(group.members.iter().all(|member| member.ended_count == at + 1), "{at}");
        seen
    };
    let as_it_is: fn(&Group) = |_| {};
    assert_eq!(look(0, own, as_it_is), (Stage::Asked, true), "the root lets nobody copy");
    assert_eq!(look(1, own, as_it_is), (Stage::Idle, true));
    let nowhere: fn(&Group) = |group| group.room.lend(2, 8, 500);
    assert_eq!(look(2, own, nowhere), (Stage::Asked, true), "this memory cannot be copied");
    // No process has such a number.
    assert_eq!(look(3, i32::MAX as u32, as_it_is), (Stage::Asked, false));
    assert_eq!(look(4, own, as_it_is), (Stage::Asked, false), "it is not tried again");
}

#[test]
fn a_round_is_asked_for_by_those_that_ask_in_it() {
    for (members_count, ranks_count) in [(3, 3), (64, 64), (65, 65), (130, 130), (200, 1024)] {
        let room = new_room(Occupancy::new(ranks_count, 1));
        let askers = |round| room.askers(round, members_count).collect::<Vec<u32>>();
        for round in [1, 1 + DEPTH as u64] {
            room.lend(round, 0, 1 << 20);
            assert!(askers(round).is_empty(), "left from a round before");
            let asking: Vec<u32> = (round as u32..members_count).step_by(2).collect();
            asking.iter().for_each(|&rank| room.ask(round, rank));
            assert_eq!(askers(round), asking);
        }
    }
}
