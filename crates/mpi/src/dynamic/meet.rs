//! Two groups get to know each other. See the [folder's docs](super).
//!
//! ```text
//!   members: card -- gather --> leader == introduction == leader of the others
//!   members <-- broadcast -- the others' cards and a key;  -- gather --> all have them == ready ==
//!   members <-- broadcast -- that the others have ours
//! ```
//!
//! A failure at a leader is broadcast, so that no member waits for it.

use super::poll_until;
use super::ports::{self, Side, settings};
use crate::abi::*;
use crate::collective::{Mode, run};
use crate::fault::{Fault, fault};
use crate::file::Scratch;
use crate::lock::locked;
use crate::operation::{Operation, Parts};
use crate::runtime::launch::WorldName;
use crate::staging::Staging;
use crate::state::process;
use ayatori_core::group::Group;
use ayatori_core::ids::{ProcessId, Rank};
use ayatori_core::introduction::{Failure, Introduction, Member, Stage, TOKEN_BYTES, Table};
use ayatori_devices::tcp::port::{Call, Stream};
use ayatori_devices::tcp::{Card, Key};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

/// A member's message to its leader: number, world, length, card.
const CARD_BYTES_MAX: usize = 1008;
pub(super) const BLOCK_BYTES: usize = 16 + CARD_BYTES_MAX;

/// The other group, and what the two are called.
pub(crate) struct Others {
    pub(crate) group: Group,
    pub(crate) leader: Rank,
    /// The same on both sides and of no other two groups.
    pub(crate) name: [u8; TOKEN_BYTES],
}

/// A leader's message to its group: the key of connections, the name, the others.
pub(super) struct Found {
    pub(super) key: [u8; TOKEN_BYTES],
    pub(super) name: [u8; TOKEN_BYTES],
    pub(super) others: Table,
}

/// A meeting that the leader has begun: what is left to say to the other one.
struct Talk {
    stream: Stream,
    introduction: Introduction,
}

/// The members of `comm` meet another group. All of them call; `side` is given at `root`, or why it has none.
pub(crate) fn meet(comm: MPI_Comm, root: Rank, side: Option<Result<Side, Fault>>) -> Result<Others, Fault> {
    let circle = Circle::of(comm, root)?;
    let own = own_block();
    let (own, own_fault) = match own {
        Ok(own) => (own, None),
        Err(fault) => (vec![0; BLOCK_BYTES], Some(fault)),
    };
    let blocks = circle.gather(own)?;
    let begun = side.map(|side| {
        let members = members_of(&blocks)?;
        begin(side?, members, root)
    });
    let (mut talk, found, begin_fault) = match begun {
        None => (None, Vec::new(), None),
        Some(Ok((talk, found))) => (Some(talk), found.to_bytes(), None),
        Some(Err(fault)) => (None, Vec::new(), Some(fault)),
    };
    let code = begin_fault.as_ref().map_or(MPI_SUCCESS, Fault::code);
    // If the meeting has not begun, the leader tells its group the reason.
    let told = begin_fault.as_ref().map_or(found, |fault| fault.detail().as_bytes().to_vec());
    let [code, length] = circle.tell([code as u64, told.len() as u64])?;
    let told = circle.tell_bytes(told, length as usize)?;
    if code != 0 {
        let why = String::from_utf8_lossy(&told);
        let of_leader = || fault(code as c_int, format_args!("at rank {root}, the root: {why}"));
        return Err(begin_fault.or(own_fault).unwrap_or_else(of_leader));
    }
    let known = own_fault.map_or(Ok(()), Err).and_then(|()| {
        let found = Found::parse(&told).ok_or_else(nonsense)?;
        get_to_know(&found)?;
        Ok(found)
    });
    let code = known.as_ref().err().map_or(MPI_SUCCESS, Fault::code);
    let codes = circle.gather((code as u64).to_le_bytes().to_vec())?;
    let mut end_fault = None;
    if let Some(talk) = &mut talk {
        let codes = codes.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])));
        let failed = codes.map(|code| code as c_int).find(|code| *code != MPI_SUCCESS);
        end_fault = finish(talk, failed).err();
    }
    let [code] = circle.tell([end_fault.as_ref().map_or(MPI_SUCCESS, Fault::code) as u64])?;
    if code != 0 {
        return Err(end_fault.or(known.err()).unwrap_or_else(|| leader_failed(code as c_int, root)));
    }
    let Found { name, others, .. } = known?;
    let members = others.members.iter().map(|member| member.process).collect();
    Ok(Others { group: Group::from_members(members)?, leader: others.leader, name })
}

pub(super) fn leader_failed(code: c_int, root: Rank) -> Fault {
    fault(code, format_args!("rank {root}, the root, could not meet the other group; it says why"))
}

pub(super) fn nonsense() -> Fault {
    fault(MPI_ERR_INTERN, format_args!("what is said of the other group cannot be read"))
}

/// This process' message to its leader; it then accepts connections.
pub(super) fn own_block() -> Result<Vec<u8>, Fault> {
    let mut process = process()?;
    let (id, world) = (process.id(), process.world());
    let card = process.engine().meet_others(world.first)?;
    drop(process);
    let card = card.emit(CARD_BYTES_MAX).ok_or_else(|| {
        fault(
            MPI_ERR_OTHER,
            format_args!("this process has too many addresses to tell: name fewer (--rails)"),
        )
    })?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    block.extend(id.0.to_le_bytes());
    block.extend((card.len() as u32).to_le_bytes());
    block.extend(world.token.to_le_bytes());
    block.extend(card.as_bytes());
    block.resize(BLOCK_BYTES, 0);
    Ok(block)
}

pub(super) fn members_of(blocks: &[u8]) -> Result<Vec<Member>, Fault> {
    let member = |block: &[u8]| {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| block[at + i]));
        let length = word(4) as usize;
        if length == 0 || length > CARD_BYTES_MAX {
            return Err(fault(
                MPI_ERR_OTHER,
                format_args!("a member of the group cannot be reached from elsewhere"),
            ));
        }
        let world = u64::from_le_bytes(std::array::from_fn(|i| block[8 + i]));
        Ok(Member { process: ProcessId(word(0)), world, card: block[16..16 + length].to_vec() })
    };
    blocks.chunks_exact(BLOCK_BYTES).map(member).collect()
}

/// The leader connects to the other one. Returns the result for its group, and the stream to go on with.
fn begin(side: Side, members: Vec<Member>, leader: Rank) -> Result<(Talk, Found), Fault> {
    let token = Key::random().map_err(crate::fault::failed("draw a key"))?.to_bytes();
    let is_acceptor = matches!(side, Side::Accept(_));
    let mut stream = match side {
        Side::Accept(port) => poll_until("another group at its port", || ports::look(&port))?,
        Side::Connect(name) => {
            let settings = settings()?;
            let mut call = Call::new(name, &settings);
            poll_until("the owner of a port to accept", || {
                call.poll().map_err(|_| {
                    fault(MPI_ERR_PORT, format_args!("no process is at the port, or it is closed"))
                })
            })?
        }
    };
    let mut introduction = Introduction::new(&Table { token, leader, members });
    converse(&mut stream, &mut introduction, |stage| stage != Stage::Telling)?;
    let others = introduction.others().cloned().ok_or_else(nonsense)?;
    let (key, name) = if is_acceptor { (token, others.token) } else { (others.token, token) };
    Ok((Talk { stream, introduction }, Found { key, name, others }))
}

/// Moves bytes until the introduction is where it should be.
fn converse(
    stream: &mut Stream,
    introduction: &mut Introduction,
    is_enough: impl Fn(Stage) -> bool,
) -> Result<(), Fault> {
    poll_until("another group's leader", || {
        let is_sent = stream.send(&introduction.poll_transmit());
        match (stream.receive(), &is_sent) {
            (Ok(bytes), Ok(_)) if !bytes.is_empty() => introduction.handle_bytes(bytes),
            (Ok(_), Ok(_)) => {}
            _ => introduction.handle_closed(),
        }
        match introduction.stage() {
            Stage::Failed(Failure::Refused(code)) => {
                Err(fault(code as c_int, format_args!("the other group cannot meet this one")))
            }
            Stage::Failed(Failure::Nonsense(what)) => {
                Err(fault(MPI_ERR_PORT, format_args!("the other group sent {what}")))
            }
            Stage::Failed(_) => Err(fault(MPI_ERR_PORT, format_args!("the other group has gone away"))),
            stage => Ok((is_enough(stage) && matches!(is_sent, Ok(true))).then_some(())),
        }
    })
}

/// The leader's group knows the others, or some member cannot.
fn finish(talk: &mut Talk, failed: Option<c_int>) -> Result<(), Fault> {
    let Talk { stream, introduction } = talk;
    match failed {
        None => {
            introduction.accept();
            converse(stream, introduction, |stage| stage == Stage::Made)?;
            // The last word may not have left.
            poll_until("its last words to leave", || {
                let is_sent = stream.send(&introduction.poll_transmit()).unwrap_or(true);
                Ok(is_sent.then_some(()))
            })
        }
        Some(code) => {
            introduction.refuse(code as u32);
            let _ = stream.send(&introduction.poll_transmit());
            Err(fault(code, format_args!("a member of the group cannot reach the other group; it says why")))
        }
    }
}

/// Worlds of processes that have been met, to notice two with the same number.
static MET: Mutex<BTreeMap<ProcessId, u64>> = Mutex::new(BTreeMap::new());

/// Whether this process has met any.
pub(crate) fn has_met_others() -> bool {
    !locked(&MET).is_empty()
}

/// From now on this process can talk to the others.
pub(super) fn get_to_know(found: &Found) -> Result<(), Fault> {
    let mut process = process()?;
    let WorldName { token, .. } = process.world();
    let world = Group::clone(process.engine().core.comm(ayatori_core::ids::CommId::WORLD)?.group());
    let mut met = locked(&MET);
    for member in &found.others.members {
        let is_own_number = world.rank_of(member.process).is_some();
        if is_own_number && member.world == token {
            // They could talk before.
            continue;
        }
        let is_other = |known: &u64| *known != member.world;
        if is_own_number || met.get(&member.process).is_some_and(is_other) {
            return Err(fault(
                MPI_ERR_OTHER,
                format_args!(
                    "two jobs drew the same numbers for their processes, once in a million: start one anew"
                ),
            ));
        }
        let card = std::str::from_utf8(&member.card).ok().and_then(|text| Card::parse(text).ok());
        let card = card.ok_or_else(nonsense)?;
        process.engine().add_peer(member.process, card, Key::new(found.key))?;
        met.insert(member.process, member.world);
    }
    Ok(())
}

impl Found {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.key[..], &self.name, &self.others.emit()].concat()
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        Some(Self { key: *key, name: *name, others: Table::parse(rest)? })
    }
}

/// The members of a communicator and their leader, which exchange messages.
pub(super) struct Circle {
    comm: MPI_Comm,
    root: Rank,
    is_root: bool,
    size: usize,
}

impl Circle {
    pub(super) fn of(comm: MPI_Comm, root: Rank) -> Result<Self, Fault> {
        let process = process()?;
        let of = process.comms.get(comm, "comm")?;
        Ok(Self { comm, root, is_root: of.rank() == root, size: of.size() as usize })
    }

    fn run(&self, operation: Operation) -> Result<(), Fault> {
        run(self.comm, Mode::Blocking, operation, Staging::default())
    }

    /// As many bytes from each, at the leader; elsewhere none.
    pub(super) fn gather(&self, own: Vec<u8>) -> Result<Vec<u8>, Fault> {
        if self.size == 1 {
            return Ok(own);
        }
        let mut all = Scratch::new(if self.is_root { own.len() * self.size } else { 0 });
        let mut own = Scratch::of(own);
        let recv = self.is_root.then(|| Parts::Uniform(all.buffer()));
        let send = Some(own.buffer());
        self.run(Operation::Gather { send, recv, root: self.root, is_uniform: true })?;
        Ok(all.bytes().to_vec())
    }

    /// What the leader says, in as many bytes as all know.
    pub(super) fn tell_bytes(&self, mut own: Vec<u8>, length: usize) -> Result<Vec<u8>, Fault> {
        if self.size == 1 {
            return Ok(own);
        }
        own.resize(length, 0);
        let mut memory = Scratch::of(own);
        self.run(Operation::Bcast { buffer: memory.buffer(), root: self.root })?;
        Ok(memory.bytes().to_vec())
    }

    pub(super) fn tell<const N: usize>(&self, own: [u64; N]) -> Result<[u64; N], Fault> {
        let bytes = self.tell_bytes(own.iter().flat_map(|word| word.to_le_bytes()).collect(), 8 * N)?;
        Ok(std::array::from_fn(|at| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * at + i]))))
    }
}

/// Tells the members of `comm` what `root` knows: words of their number.
pub(crate) fn tell(comm: MPI_Comm, root: Rank, own: Vec<u64>, count: usize) -> Result<Vec<u64>, Fault> {
    let circle = Circle::of(comm, root)?;
    let bytes = own.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = circle.tell_bytes(bytes, 8 * count)?;
    Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i]))).collect())
}
