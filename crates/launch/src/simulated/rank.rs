//! What a rank of our library asks its launcher for, in order
//! (`crates/mpi/src/runtime/{launch,cluster,cards}.rs`).

use crate::environment::KEY_OF_JOB;
use crate::pmi::wire::Request;

/// What a rank does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Computes for so long, in ps.
    Compute(u64),
    /// Asks, and waits for the answer.
    Ask(Question),
    /// Asks for the cards of all, in parts.
    Cards,
    /// Has left `MPI_Init`.
    Initialised,
    /// Its process ends.
    End,
}

/// A request of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Init,
    Maxes,
    KvsName,
    Nodes,
    Appnum,
    Universe,
    PutCard,
    PutLines,
    Key,
    Lines,
    Barrier,
    Finalize,
}

/// Up to so many ranks each asks for all cards itself (`ASKED_BY_EACH_MAX` of the library).
const ASKED_BY_EACH_MAX: usize = 64;

/// How long a rank computes, in ps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computes {
    pub(super) load: u64,
    pub(super) init: u64,
    pub(super) card: u64,
    pub(super) exit: u64,
}

/// The steps of a rank of a job of so many on so many hosts; `is_first` of its host.
pub(super) fn steps(ranks_count: usize, hosts_count: usize, is_first: bool, takes: &Computes) -> Vec<Step> {
    use Question as Q;
    let mut steps = vec![Step::Compute(takes.load)];
    steps.extend([Q::Init, Q::Maxes, Q::KvsName].map(Step::Ask));
    if hosts_count > 1 {
        steps.extend([Q::Nodes, Q::PutCard, Q::Barrier, Q::Key].map(Step::Ask));
        let is_shared = ranks_count > ASKED_BY_EACH_MAX;
        if is_first || !is_shared {
            steps.extend([Step::Cards, Step::Compute(takes.card * ranks_count as u64)]);
        }
        if is_shared {
            steps.extend(is_first.then_some(Step::Ask(Q::PutLines)));
            steps.push(Step::Ask(Q::Barrier));
            steps.extend((!is_first).then_some(Step::Ask(Q::Lines)));
        }
    }
    steps.extend([Q::Appnum, Q::Universe].map(Step::Ask));
    steps.extend([Step::Compute(takes.init), Step::Initialised]);
    steps.extend([Q::Barrier, Q::Finalize].map(Step::Ask));
    steps.extend([Step::Compute(takes.exit), Step::End]);
    steps
}

impl Question {
    /// Its bytes, as the library's client writes them.
    pub(super) fn request(self, rank: usize, host: usize, card: &str) -> Vec<u8> {
        let space = Some("kvs_0123456789abcdef");
        let (own, lines) = (format!("ayatori-card-{rank}"), format!("ayatori-cards-{host}"));
        let request = match self {
            Self::Init => Request::Init { version: 1, subversion: 1 },
            Self::Maxes => Request::GetMaxes,
            Self::KvsName => Request::GetKvsName,
            Self::Nodes => Request::Get { kvsname: space, key: "PMI_process_mapping" },
            Self::Appnum => Request::GetAppnum,
            Self::Universe => Request::GetUniverseSize,
            Self::PutCard => Request::Put { kvsname: space, key: &own, value: card },
            Self::PutLines => Request::Put { kvsname: space, key: &lines, value: "/proc/12345/fd/27" },
            Self::Key => Request::Get { kvsname: space, key: KEY_OF_JOB },
            Self::Lines => Request::Get { kvsname: space, key: &lines },
            Self::Barrier => Request::BarrierIn,
            Self::Finalize => Request::Finalize,
        };
        let mut bytes = Vec::new();
        // Fits the wire: keys are short, and a card is at most as long as a value.
        let _ = request.emit(&mut bytes);
        bytes
    }
}
