//! Choice of a collective's algorithm, with its reason: a pure function of the operation, the length, the
//! number of processes and the fabric's capabilities.
//!
//! Each algorithm says what it costs in terms of the Hockney model (rounds, bytes, bytes reduced, bytes
//! copied on the longest path; Thakur, Rabenseifner, Gropp 2005) and in work for all processes together,
//! which is what counts where processes share processors. The cheapest estimate wins. [`explain`] prints the
//! estimates and the lengths at which the choice changes.

mod cost;
mod selector;

pub use selector::Selector;

use crate::ids::Rank;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// A collective operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Collective {
    /// `MPI_Barrier`
    Barrier,
    /// `MPI_Bcast`
    Bcast,
    /// `MPI_Gather`
    Gather,
    /// `MPI_Gatherv`
    Gatherv,
    /// `MPI_Scatter`
    Scatter,
    /// `MPI_Scatterv`
    Scatterv,
    /// `MPI_Allgather`
    Allgather,
    /// `MPI_Allgatherv`
    Allgatherv,
    /// `MPI_Alltoall`
    Alltoall,
    /// `MPI_Alltoallv`, `MPI_Alltoallw`
    Alltoallv,
    /// `MPI_Reduce`
    Reduce,
    /// `MPI_Allreduce`
    Allreduce,
    /// `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block`
    ReduceScatter,
    /// `MPI_Scan`
    Scan,
    /// `MPI_Exscan`
    Exscan,
    /// `MPI_Neighbor_alltoall` and the other operations among neighbours
    NeighborAlltoall,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::NeighborAlltoall,
    ];

    /// Its name, as in `ayatori info --explain`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::NeighborAlltoall => "neighbor_alltoall",
        }
    }

    /// The operation of a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| collective.name() == name)
    }

    /// Its algorithms. Where two are estimated alike, the earlier is taken.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::*;
        match self {
            Self::Barrier => &[Dissemination, Binomial],
            Self::Bcast => &[Binomial, ScatterRecursiveDoubling, ScatterRing, Chain],
            Self::Gather | Self::Scatter => &[Binomial, Linear],
            Self::Gatherv | Self::Scatterv => &[Linear],
            Self::Allgather => &[RecursiveDoubling, Bruck, Ring, Linear],
            Self::Allgatherv => &[Bruck, Ring, Linear],
            Self::Alltoall => &[Linear, Bruck, Pairwise],
            Self::Alltoallv => &[Linear, Pairwise],
            Self::Reduce => &[Binomial, Rabenseifner],
            Self::Allreduce => &[RecursiveDoubling, ReduceBroadcast, Rabenseifner, Ring],
            Self::ReduceScatter => &[RecursiveHalving, Pairwise, ReduceThenScatter],
            Self::Scan | Self::Exscan => &[RecursiveDoubling],
            Self::NeighborAlltoall => &[Linear],
        }
    }

    /// Meaning of a question's length.
    const fn unit(self) -> &'static str {
        match self {
            Self::Gather
            | Self::Gatherv
            | Self::Scatter
            | Self::Scatterv
            | Self::Allgather
            | Self::Allgatherv
            | Self::Alltoall
            | Self::Alltoallv => " a block",
            _ => "",
        }
    }
}

/// An algorithm, by the literature's name. One name may serve several operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Algorithm {
    /// Barrier.
    Dissemination,
    /// Binomial tree: barrier, broadcast, gather, scatter, reduce.
    Binomial,
    /// Broadcast by scatter and ring allgather.
    ScatterRing,
    /// Broadcast by scatter and recursive doubling; powers of two only.
    ScatterRecursiveDoubling,
    /// Broadcast along a pipelined chain.
    Chain,
    /// Everything at once: gather, scatter, allgather, alltoall.
    Linear,
    /// Allgather, allreduce; the latter for commutative operations.
    Ring,
    /// Allgather (powers of two), allreduce, scan, exscan.
    RecursiveDoubling,
    /// Allgather, alltoall (equal blocks).
    Bruck,
    /// Alltoall, reduce-scatter; the latter for commutative operations.
    Pairwise,
    /// Reduce, allreduce; commutative operations.
    Rabenseifner,
    /// Reduce-scatter; commutative operations.
    RecursiveHalving,
    /// Reduce-scatter by reduction to rank 0.
    ReduceThenScatter,
    /// Allreduce by reduction to rank 0.
    ReduceBroadcast,
}

impl Algorithm {
    const ALL: [Self; 14] = [
        Self::Dissemination,
        Self::Binomial,
        Self::ScatterRing,
        Self::ScatterRecursiveDoubling,
        Self::Chain,
        Self::Linear,
        Self::Ring,
        Self::RecursiveDoubling,
        Self::Bruck,
        Self::Pairwise,
        Self::Rabenseifner,
        Self::RecursiveHalving,
        Self::ReduceThenScatter,
        Self::ReduceBroadcast,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dissemination => "dissemination",
            Self::Binomial => "binomial",
            Self::ScatterRing => "scatter_ring",
            Self::ScatterRecursiveDoubling => "scatter_recursive_doubling",
            Self::Chain => "chain",
            Self::Linear => "linear",
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive_doubling",
            Self::Bruck => "bruck",
            Self::Pairwise => "pairwise",
            Self::Rabenseifner => "rabenseifner",
            Self::RecursiveHalving => "recursive_halving",
            Self::ReduceThenScatter => "reduce_then_scatter",
            Self::ReduceBroadcast => "reduce_broadcast",
        }
    }

    /// The algorithm of a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// The algorithm chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Length of the pieces of a pipeline, in bytes; for [`Algorithm::Chain`].
    pub segment_bytes: usize,
}

/// Input of the selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Which operation.
    pub collective: Collective,
    /// Length in bytes: of the vector or message, or of one block where there is a block for each process
    /// (the average, for blocks of different lengths). All processes must ask with the same.
    pub bytes: usize,
    /// Processes in the communicator.
    pub size: u32,
    /// Whether the reduction, if one, commutes.
    pub commutative: bool,
}

/// Capabilities of the fabric between the processes, as far as the choice depends on them. The same at all
/// processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fabric {
    /// One-way time of an empty message in picoseconds.
    pub latency_ps: u64,
    /// Processor time of a message at each side, in picoseconds.
    pub message_ps: u64,
    /// Time of a switch from one process to the next on the same processor, in picoseconds. Counts only if
    /// processes share processors: there each wait for a message costs one.
    pub switch_ps: u64,
    /// Rate of one long message in bytes a second.
    pub bandwidth_bytes_per_s: u64,
    /// Time of a byte in long messages that hold what has just come (allgather by recursive doubling or
    /// Bruck's algorithm, recursive halving), in percent of that in others.
    pub relayed_percent: u32,
    /// Rate of a reduction in bytes of one operand a second.
    pub reduction_bytes_per_s: u64,
    /// Rate of a copy in bytes a second.
    pub copy_bytes_per_s: u64,
    /// Longer messages cost another exchange before they start.
    pub eager_bytes_max: usize,
    /// Processors for the processes of the communicator together; `None`: one or more each.
    pub processors: Option<u32>,
    /// Shared memory in which long packets go in blocks: between two processes what was measured there is
    /// chosen, not what is estimated.
    pub has_long_blocks: bool,
}

impl Default for Fabric {
    /// Shared memory of a machine of today, a processor for each process.
    fn default() -> Self {
        Self {
            latency_ps: 250_000,
            message_ps: 100_000,
            switch_ps: 700_000,
            bandwidth_bytes_per_s: 12_000_000_000,
            relayed_percent: 100,
            reduction_bytes_per_s: 8_000_000_000,
            copy_bytes_per_s: 12_000_000_000,
            eager_bytes_max: 8 << 10,
            processors: None,
            has_long_blocks: false,
        }
    }
}

/// Whether an algorithm gives the right result for a question.
pub fn serves(question: &Question, algorithm: Algorithm) -> bool {
    let Question { collective, size, commutative, .. } = *question;
    let needs_commutative = match collective {
        Collective::Reduce | Collective::Allreduce => {
            matches!(algorithm, Algorithm::Rabenseifner | Algorithm::Ring)
        }
        Collective::ReduceScatter => algorithm != Algorithm::ReduceThenScatter,
        _ => false,
    };
    let needs_power_of_two = match collective {
        Collective::Bcast => algorithm == Algorithm::ScatterRecursiveDoubling,
        Collective::Allgather => algorithm == Algorithm::RecursiveDoubling,
        _ => false,
    };
    collective.algorithms().contains(&algorithm)
        && (commutative || !needs_commutative)
        && (size.is_power_of_two() || !needs_power_of_two)
        && !(is_for_few(collective, algorithm) && size > FEW)
}

/// Most processes of an allgather in which all send to all at once: networks carry so many messages at a time
/// worse than a model of one message says.
const FEW: u32 = 32;

fn is_for_few(collective: Collective, algorithm: Algorithm) -> bool {
    matches!(collective, Collective::Allgather | Collective::Allgatherv) && algorithm == Algorithm::Linear
}

/// What is quickest between two processes whose long packets go in blocks, where that is not what is
/// estimated. Two near cores of a Zen 5, µs: allreduce of 16, 256 KiB and 4 MiB by exchanges of halves 1.02,
/// 9.7 and 199, of all 1.16, 12.9 and 298; allgather of 16, 128 and 512 KiB at once 0.85, 4.7 and 24, as a
/// ring 0.85, 5.1 and 34.
fn between_two(question: &Question, fabric: &Fabric) -> Option<Algorithm> {
    let Question { collective, bytes, size, .. } = *question;
    let algorithm = match collective {
        Collective::Allreduce if bytes >= 16 << 10 => Algorithm::Rabenseifner,
        Collective::Allgather if bytes >= 16 << 10 => Algorithm::Linear,
        _ => return None,
    };
    (fabric.has_long_blocks && size == 2 && serves(question, algorithm)).then_some(algorithm)
}

/// The cheapest algorithm by estimate, or what was measured to be.
pub fn choose(question: &Question, fabric: &Fabric) -> Choice {
    if let Some(algorithm) = between_two(question, fabric) {
        return with_segments(question, algorithm, fabric);
    }
    let served = question.collective.algorithms().iter().copied().filter(|&a| serves(question, a));
    // `min_by_key` takes the first of equals.
    let algorithm = served
        .min_by_key(|&algorithm| cost::estimate_ps(question, algorithm, fabric))
        .expect("each operation has an algorithm that serves any arguments");
    with_segments(question, algorithm, fabric)
}

/// An algorithm by its name, if the operation has it and it serves. For settings that override the choice.
pub fn choose_by_name(question: &Question, name: &str, fabric: &Fabric) -> Option<Choice> {
    let algorithm = Algorithm::by_name(name)?;
    serves(question, algorithm).then(|| with_segments(question, algorithm, fabric))
}

fn with_segments(question: &Question, algorithm: Algorithm, fabric: &Fabric) -> Choice {
    Choice { algorithm, segment_bytes: cost::segment_bytes(question, fabric) }
}

/// From which length on which algorithm is chosen, for the same operation and processes, up to 2^40 bytes and
/// more.
pub fn thresholds(question: &Question, fabric: &Fabric) -> Vec<(usize, Algorithm)> {
    changes(|bytes| choose(&Question { bytes, ..*question }, fabric).algorithm)
}

/// The lengths from which on something is another, and what it is.
fn changes<T: Copy + PartialEq>(at: impl Fn(usize) -> T) -> Vec<(usize, T)> {
    let mut ranges = alloc::vec![(0, at(0))];
    let mut low = 0;
    // Four points an octave; what holds for less than that between two points that agree does not matter.
    let points = (0..=40).flat_map(|octave| [4, 5, 6, 7].map(|quarter| (quarter << octave) / 4));
    for high in points {
        // Between two points that differ, each change is found by bisection.
        while at(high) != ranges[ranges.len() - 1].1 {
            let current = ranges[ranges.len() - 1].1;
            let (mut same, mut other) = (low, high);
            while other - same > 1 {
                let middle = same + (other - same) / 2;
                if at(middle) == current { same = middle } else { other = middle }
            }
            ranges.push((other, at(other)));
            low = other;
        }
        low = high;
    }
    ranges
}

/// The choice in words: the estimate of each algorithm, those that do not serve and why, and the lengths at
/// which the choice changes.
pub fn explain(question: &Question, fabric: &Fabric) -> String {
    let mut text = String::new();
    write_explanation(&mut text, question, fabric).expect("writing to a string does not fail");
    text
}

fn write_explanation(text: &mut String, question: &Question, fabric: &Fabric) -> fmt::Result {
    let chosen = choose(question, fabric);
    let Question { collective, bytes, size, .. } = *question;
    let unit = collective.unit();
    writeln!(
        text,
        "{} of {}{unit} among {size} processes: {}",
        collective.name(),
        Bytes(bytes),
        chosen.algorithm.name()
    )?;
    for &algorithm in collective.algorithms() {
        let name = algorithm.name();
        if !serves(question, algorithm) {
            let reason = if is_for_few(collective, algorithm) {
                format!("is for {FEW} processes at most")
            } else if question.commutative {
                "needs a power of two".into()
            } else {
                "needs an operation that commutes".into()
            };
            writeln!(text, "  {name:<27} {reason}")?;
            continue;
        }
        let mark = if algorithm == chosen.algorithm { '*' } else { ' ' };
        let estimate = cost::estimate_ps(question, algorithm, fabric);
        write!(text, "{mark} {name:<27} {}", Microseconds(estimate))?;
        if algorithm == Algorithm::Chain {
            write!(text, ", in segments of {}", Bytes(chosen.segment_bytes))?;
        }
        writeln!(text)?;
    }
    if between_two(question, fabric).is_some() {
        writeln!(text, "(between two ranks of such a host by measurement, not by these estimates)")?;
    }
    write!(text, "by length{unit}: ")?;
    for (at, &(from, algorithm)) in thresholds(question, fabric).iter().enumerate() {
        if at > 0 {
            write!(text, ", from {} ", Bytes(from))?;
        }
        write!(text, "{}", algorithm.name())?;
    }
    writeln!(text)
}

/// A length for people: exact, and short where it is a multiple.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

struct Microseconds(u128);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} µs", self.0 / 1_000_000, self.0 / 10_000 % 100)
    }
}

/// ⌈log₂ n⌉, the rounds of most trees.
const fn log2_ceil(size: Rank) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ayatori_random::Random;

    fn question(collective: Collective, bytes: usize, size: u32) -> Question {
        Question { collective, bytes, size, commutative: true }
    }

    #[test]
    fn short_messages_take_few_rounds_and_long_ones_little_traffic() {
        let fabric = Fabric::default();
        let at = |collective, bytes, size| choose(&question(collective, bytes, size), &fabric).algorithm;
        use Algorithm as A;
        assert_eq!(at(Collective::Allreduce, 8, 16), A::RecursiveDoubling);
        assert_ne!(at(Collective::Allreduce, 4 << 20, 16), A::RecursiveDoubling);
        assert_eq!(at(Collective::Bcast, 8, 16), A::Binomial);
        assert_ne!(at(Collective::Bcast, 4 << 20, 16), A::Binomial);
        assert_eq!(at(Collective::Reduce, 8, 16), A::Binomial);
        assert_eq!(at(Collective::Reduce, 4 << 20, 16), A::Rabenseifner);
        assert_eq!(at(Collective::Allgather, 8, 12), A::Bruck);
        assert_eq!(at(Collective::Allgather, 1 << 20, 12), A::Ring);
    }

    #[test]
    fn what_was_measured_between_two_is_taken_there_only() {
        let without = Fabric::default();
        let with = Fabric { has_long_blocks: true, ..without };
        let of =
            |collective, bytes, size, fabric| choose(&question(collective, bytes, size), fabric).algorithm;
        use Algorithm as A;
        for (collective, measured) in
            [(Collective::Allreduce, A::Rabenseifner), (Collective::Allgather, A::Linear)]
        {
            let plain = |bytes, size| of(collective, bytes, size, &without);
            for bytes in [16 << 10, 4 << 20] {
                assert_eq!(of(collective, bytes, 2, &with), measured, "{collective:?} of {bytes}");
                assert_eq!(of(collective, bytes, 3, &with), plain(bytes, 3));
            }
            assert_ne!(plain(1 << 20, 2), measured, "else there is nothing to choose");
            assert_eq!(of(collective, (16 << 10) - 1, 2, &with), plain((16 << 10) - 1, 2));
        }
        let ordered = Question { commutative: false, ..question(Collective::Allreduce, 1 << 20, 2) };
        assert_ne!(choose(&ordered, &with).algorithm, A::Rabenseifner);
        let text = |fabric| explain(&question(Collective::Allreduce, 1 << 20, 2), fabric);
        assert!(text(&with).contains("by measurement") && !text(&Fabric::default()).contains("measurement"));
    }

    #[test]
    fn thresholds_are_the_lengths_at_which_the_choice_changes() {
        let fabric = Fabric::default();
        let mut changes_count = 0;
        for collective in Collective::ALL {
            for size in [2, 3, 8, 16, 100, 1000] {
                let at = |bytes| choose(&question(collective, bytes, size), &fabric).algorithm;
                let ranges = thresholds(&question(collective, 77, size), &fabric);
                assert_eq!(ranges[0], (0, at(0)), "{collective:?} of {size}");
                for two in ranges.windows(2) {
                    let [(_, before), (start, after)] = [two[0], two[1]];
                    assert_ne!(before, after, "{collective:?} of {size}: {ranges:?}");
                    assert_eq!(
                        (at(start - 1), at(start)),
                        (before, after),
                        "{collective:?} of {size}: {start}"
                    );
                    changes_count += 1;
                }
                // Points of every octave, up to the last.
                for (octave, quarter) in (2..=40).flat_map(|octave| [4, 5, 6, 7].map(|of| (octave, of))) {
                    let bytes: usize = quarter << (octave - 2);
                    let range = ranges.iter().rfind(|(start, _)| *start <= bytes).expect("one begins at 0");
                    assert_eq!(range.1, at(bytes), "{collective:?} of {size}: {bytes}");
                }
            }
        }
        assert!(changes_count > 30, "{changes_count}");
    }

    #[test]
    fn changes_between_two_lengths_that_are_looked_at_are_all_found() {
        let changes_of = |at: fn(usize) -> char| changes(at);
        let at = |bytes| match bytes {
            0..=1000 => 'a',
            1001..=1010 => 'b',
            _ => 'c',
        };
        assert_eq!(changes_of(at), [(0, 'a'), (1001, 'b'), (1011, 'c')]);
        let early = |bytes| if (3..6).contains(&bytes) { 'b' } else { 'a' };
        assert_eq!(changes_of(early), [(0, 'a'), (3, 'b'), (6, 'a')]);
    }

    #[test]
    fn thresholds_are_changes_in_their_order_on_any_fabric() {
        let mut random = Random::new(1);
        let mut close_count = 0;
        for _ in 0..60 {
            let mut doubled = |least: u64, times: u64| least << random.below(times);
            let fabric = Fabric {
                latency_ps: doubled(1_000, 20),
                message_ps: doubled(1_000, 16),
                switch_ps: doubled(1_000, 20),
                bandwidth_bytes_per_s: doubled(1_000_000, 16),
                relayed_percent: doubled(100, 3) as u32,
                reduction_bytes_per_s: doubled(1_000_000, 16),
                copy_bytes_per_s: doubled(1_000_000, 16),
                eager_bytes_max: doubled(3, 18) as usize,
                processors: [None, Some(2)][doubled(1, 2) as usize - 1],
                has_long_blocks: random.below(2) == 0,
            };
            for (collective, size) in Collective::ALL.into_iter().flat_map(|of| [2, 5, 16].map(|n| (of, n))) {
                let at = |bytes| choose(&question(collective, bytes, size), &fabric).algorithm;
                let ranges = thresholds(&question(collective, 0, size), &fabric);
                for two in ranges.windows(2) {
                    let [(_, before), (start, after)] = [two[0], two[1]];
                    assert_eq!(
                        (at(start - 1), at(start)),
                        (before, after),
                        "{collective:?} of {size}: {fabric:?}"
                    );
                }
                for two in ranges.windows(2) {
                    assert!(two[0].0 < two[1].0, "{ranges:?}: {fabric:?}");
                    close_count += u32::from(two[0].0 > 0 && two[1].0 < two[0].0 * 5 / 4);
                }
            }
        }
        assert!(close_count > 0, "two changes between the lengths that are looked at");
    }

    #[test]
    fn an_explanation_has_a_line_for_each_algorithm_and_marks_one() {
        let fabric = Fabric::default();
        for collective in Collective::ALL {
            for (size, commutative) in [(3, true), (16, true), (12, false), (1000, true)] {
                let question = Question { collective, bytes: 5000, size, commutative };
                let text = explain(&question, &fabric);
                let marked: Vec<&str> = text.lines().filter(|line| line.starts_with("* ")).collect();
                let chosen = choose(&question, &fabric).algorithm;
                assert_eq!(marked.len(), 1, "{text}");
                assert!(marked[0][2..].starts_with(chosen.name()), "{text}");
                for algorithm in collective.algorithms() {
                    let is_its = |line: &&str| {
                        line.get(2..)
                            .is_some_and(|rest| rest.split_whitespace().next() == Some(algorithm.name()))
                    };
                    assert_eq!(
                        text.lines().skip(1).filter(is_its).count(),
                        1,
                        "{}: {text}",
                        algorithm.name()
                    );
                }
            }
        }
    }

    #[test]
    fn only_algorithms_that_serve_are_chosen() {
        for collective in Collective::ALL {
            for size in (1..=40).chain([64, 100, 1000, 12_288]) {
                for bytes in [0, 1, 8, 1000, 65_536, 1 << 22, 1 << 32] {
                    for commutative in [false, true] {
                        for processors in [None, Some(2)] {
                            let question = Question { collective, bytes, size, commutative };
                            let fabric = Fabric { processors, ..Fabric::default() };
                            let choice = choose(&question, &fabric);
                            assert!(serves(&question, choice.algorithm), "{question:?}: {choice:?}");
                            assert!(choice.segment_bytes > 0);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn names_lead_back_to_what_they_name() {
        for collective in Collective::ALL {
            assert_eq!(Collective::by_name(collective.name()), Some(collective));
            for &algorithm in collective.algorithms() {
                assert_eq!(Algorithm::by_name(algorithm.name()), Some(algorithm));
            }
        }
        assert_eq!(Algorithm::by_name("magic"), None);
    }

    #[test]
    fn a_name_overrides_the_choice_only_where_it_serves() {
        let fabric = Fabric::default();
        let q = question(Collective::Allreduce, 8, 6);
        assert_eq!(choose_by_name(&q, "ring", &fabric).map(|c| c.algorithm), Some(Algorithm::Ring));
        assert_eq!(choose_by_name(&q, "bruck", &fabric), None);
        assert_eq!(choose_by_name(&Question { commutative: false, ..q }, "ring", &fabric), None);
        let odd = question(Collective::Allgather, 8, 6);
        assert_eq!(choose_by_name(&odd, "recursive_doubling", &fabric), None);
        let of_size = |size| question(Collective::Allgather, 8, size);
        assert!(choose_by_name(&of_size(32), "linear", &fabric).is_some());
        assert_eq!(choose_by_name(&of_size(33), "linear", &fabric), None);
        assert!(explain(&of_size(33), &fabric).contains("linear                      is for 32 processes"));
    }

    #[test]
    fn thresholds_are_where_the_choice_changes() {
        let fabric = Fabric::default();
        for collective in Collective::ALL {
            for size in [2, 7, 8, 32] {
                let q = question(collective, 0, size);
                let ranges = thresholds(&q, &fabric);
                assert_eq!(ranges[0].0, 0);
                for pair in ranges.windows(2) {
                    let (from, algorithm) = pair[1];
                    assert!(pair[0].0 < from && pair[0].1 != algorithm);
                    let at = |bytes| choose(&Question { bytes, ..q }, &fabric).algorithm;
                    assert_eq!((at(from - 1), at(from)), (pair[0].1, algorithm), "{collective:?} {size}");
                }
            }
        }
    }

    #[test]
    fn explanation_names_choice_rejected_and_thresholds() {
        let fabric = Fabric::default();
        let text = explain(&question(Collective::Bcast, 64 << 10, 6), &fabric);
        assert!(text.starts_with("bcast of 64 KiB among 6 processes: "), "{text}");
        assert!(text.contains("scatter_recursive_doubling  needs a power of two"), "{text}");
        assert!(text.contains("by length: binomial, from "), "{text}");
        let in_segments: Vec<&str> = text.lines().filter(|line| line.contains("in segments of")).collect();
        assert!(matches!(in_segments[..], [line] if line.contains("chain")), "{text}");
        let q = Question { commutative: false, ..question(Collective::Allreduce, 8, 4) };
        assert!(
            explain(&q, &fabric).contains("ring                        needs an operation that commutes")
        );
    }
}
