//! Cost of each algorithm, by the model of [`super`].

use super::{Algorithm, Collective, Fabric, Question, log2_ceil};

/// Work of an algorithm.
#[derive(Clone, Copy, Default, Debug)]
struct Cost {
    /// Messages one after the other on the longest path.
    rounds: u128,
    /// Length of one of them, in bytes: whether they are eager.
    message_bytes: u128,
    /// Messages that the busiest process sends and receives in addition to those of the rounds.
    extra_messages: u128,
    /// Bytes moved on the longest path.
    bytes: u128,
    /// Whether messages hold what has just come.
    is_relayed: bool,
    /// Bytes reduced on the longest path.
    reduced_bytes: u128,
    /// Bytes copied on the longest path.
    copied_bytes: u128,
    /// Messages of all processes.
    all_messages: u128,
    /// How many of them do not make their receiver wait once more, for it waits for others at the same time.
    all_together: u128,
    /// Bytes moved, reduced and copied by all processes.
    all_bytes: u128,
}

/// Picoseconds for `bytes` at a rate. By way of the time of a mebibyte, which is a division of 64 bits.
fn at_rate_ps(bytes: u128, bytes_per_s: u64) -> u128 {
    const MEBIBYTE_PS_PER_S: u64 = 1_000_000_000_000 << 20;
    bytes.saturating_mul(u128::from(MEBIBYTE_PS_PER_S / bytes_per_s.max(1))) >> 20
}

/// The estimated time of an algorithm in picoseconds.
pub(super) fn estimate_ps(question: &Question, algorithm: Algorithm, fabric: &Fabric) -> u128 {
    let cost = cost(question, algorithm, fabric);
    let (latency_ps, message_ps) = (u128::from(fabric.latency_ps), u128::from(fabric.message_ps));
    // A long message asks first: a message there and one back.
    let is_long = cost.message_bytes > fabric.eager_bytes_max as u128;
    let asks = if is_long { 3 } else { 1 };
    let percent = if is_long && cost.is_relayed { u128::from(fabric.relayed_percent) } else { 100 };
    let path_ps = cost.rounds * asks * latency_ps
        + cost.extra_messages * asks * message_ps
        + at_rate_ps(cost.bytes * percent / 100, fabric.bandwidth_bytes_per_s)
        + at_rate_ps(cost.reduced_bytes, fabric.reduction_bytes_per_s)
        + at_rate_ps(cost.copied_bytes, fabric.copy_bytes_per_s);
    let Some(processors) = fabric.processors.filter(|&processors| processors < question.size) else {
        return path_ps;
    };
    // Where processes share processors, the work of all of them takes its time too.
    let waits = cost.all_messages - cost.all_together;
    // In each round every process has its turn on a processor, if only to see that it still waits.
    let turns = cost.rounds * u128::from(question.size);
    let work_ps = asks * (cost.all_messages * message_ps * 2 + waits * u128::from(fabric.switch_ps))
        + turns * u128::from(fabric.switch_ps)
        + at_rate_ps(cost.all_bytes, fabric.bandwidth_bytes_per_s);
    path_ps.max(work_ps / u128::from(processors.max(1)))
}

/// The best length of a pipeline's segments, in bytes: where the time to fill the pipeline and the time that
/// the messages themselves take add up to the least, √(bytes · latency · bandwidth / (n - 2)), within reason.
pub(super) fn segment_bytes(question: &Question, fabric: &Fabric) -> usize {
    let hops = u128::from(question.size.saturating_sub(2).max(1));
    let round_bytes =
        u128::from(fabric.latency_ps) * u128::from(fabric.bandwidth_bytes_per_s) / 1_000_000_000_000;
    let best = (question.bytes as u128 * round_bytes / hops).isqrt();
    (best.clamp(4 << 10, 1 << 20) as usize).next_multiple_of(4 << 10)
}

fn cost(question: &Question, algorithm: Algorithm, fabric: &Fabric) -> Cost {
    let n = u128::from(question.size);
    let m = question.bytes as u128;
    let log = u128::from(log2_ceil(question.size));
    // Two more rounds of everything if neighbours are folded first.
    let fold = if question.size.is_power_of_two() { 0 } else { 1 };
    match question.collective {
        Collective::Barrier if algorithm == Algorithm::Binomial => {
            Cost { rounds: 2 * log, all_messages: 2 * (n - 1), ..Cost::default() }
        }
        Collective::Barrier => Cost { rounds: log, all_messages: n * log, ..Cost::default() },
        Collective::Bcast => bcast(question, algorithm, fabric),
        Collective::Gather | Collective::Gatherv | Collective::Scatter | Collective::Scatterv => {
            rooted(algorithm, n, m, log)
        }
        Collective::Allgather | Collective::Allgatherv => allgather(algorithm, n, m, log),
        Collective::Alltoall | Collective::Alltoallv => alltoall(algorithm, n, m, log),
        Collective::Reduce => reduce(algorithm, n, m, log, fold),
        Collective::Allreduce => allreduce(algorithm, n, m, log, fold),
        Collective::ReduceScatter => reduce_scatter(algorithm, n, m, log, fold),
        // As if each had two neighbours.
        Collective::NeighborAlltoall => Cost {
            rounds: 1,
            message_bytes: m,
            bytes: 2 * m,
            all_messages: 2 * n,
            all_bytes: 2 * n * m,
            ..Cost::default()
        },
        Collective::Scan | Collective::Exscan => Cost {
            rounds: log,
            message_bytes: m,
            bytes: log * m,
            reduced_bytes: log * m,
            all_messages: n * log,
            all_bytes: 2 * n * log * m,
            ..Cost::default()
        },
    }
}

fn bcast(question: &Question, algorithm: Algorithm, fabric: &Fabric) -> Cost {
    let n = u128::from(question.size);
    let m = question.bytes as u128;
    let log = u128::from(log2_ceil(question.size));
    let scattered = log * m / 2;
    match algorithm {
        Algorithm::ScatterRing => Cost {
            rounds: log + n - 1,
            message_bytes: m / n,
            bytes: 2 * m,
            all_messages: n * n,
            all_bytes: scattered + n * m,
            ..Cost::default()
        },
        Algorithm::ScatterRecursiveDoubling => Cost {
            rounds: 2 * log,
            message_bytes: m / n,
            bytes: 2 * m,
            all_messages: n + n * log,
            all_bytes: scattered + n * m,
            ..Cost::default()
        },
        Algorithm::Chain => {
            let segment = segment_bytes(question, fabric) as u128;
            let segments = m.div_ceil(segment).max(1);
            let rounds = n.saturating_sub(2) + segments;
            Cost {
                rounds,
                message_bytes: segment.min(m),
                // Each inner process receives and sends.
                bytes: rounds * segment.min(m) * 2,
                all_messages: n * segments,
                all_bytes: n * m,
                ..Cost::default()
            }
        }
        _ => Cost {
            rounds: log,
            message_bytes: m,
            bytes: log * m,
            all_messages: n,
            all_bytes: n * m,
            ..Cost::default()
        },
    }
}

fn rooted(algorithm: Algorithm, n: u128, m: u128, log: u128) -> Cost {
    let all = (n - 1) * m;
    match algorithm {
        Algorithm::Binomial => Cost {
            rounds: log,
            message_bytes: n * m / 2,
            bytes: all,
            copied_bytes: all / 2,
            all_messages: n,
            all_bytes: 2 * n * log * m / 2,
            ..Cost::default()
        },
        _ => Cost {
            rounds: 1,
            message_bytes: m,
            extra_messages: n,
            bytes: all,
            all_messages: n,
            all_bytes: all,
            ..Cost::default()
        },
    }
}

fn allgather(algorithm: Algorithm, n: u128, m: u128, log: u128) -> Cost {
    let all = (n - 1) * m;
    match algorithm {
        Algorithm::RecursiveDoubling | Algorithm::Bruck => {
            let copied = if algorithm == Algorithm::Bruck { n * m } else { m };
            Cost {
                rounds: log,
                message_bytes: n * m / 2,
                bytes: all,
                is_relayed: true,
                copied_bytes: copied,
                all_messages: n * log,
                all_bytes: n * (all + copied),
                ..Cost::default()
            }
        }
        Algorithm::Linear => Cost { copied_bytes: m, ..alltoall(Algorithm::Linear, n, m, log) },
        _ => Cost {
            rounds: n - 1,
            message_bytes: m,
            bytes: all,
            copied_bytes: m,
            all_messages: n * (n - 1),
            all_bytes: n * n * m,
            ..Cost::default()
        },
    }
}

fn alltoall(algorithm: Algorithm, n: u128, m: u128, log: u128) -> Cost {
    let all = (n - 1) * m;
    match algorithm {
        Algorithm::Bruck => {
            let moved = log * n.div_ceil(2) * m;
            Cost {
                rounds: log,
                message_bytes: n * m / 2,
                bytes: moved,
                copied_bytes: 2 * moved + 2 * n * m,
                all_messages: n * log,
                all_bytes: n * (3 * moved + 2 * n * m),
                ..Cost::default()
            }
        }
        Algorithm::Pairwise => Cost {
            rounds: n - 1,
            message_bytes: m,
            bytes: all,
            all_messages: n * (n - 1),
            all_bytes: n * all,
            ..Cost::default()
        },
        // All at once the messages get in each other's way: an eighth more, as a guess, which decides for
        // pairs where bytes and not messages count.
        _ => Cost {
            rounds: 1,
            message_bytes: m,
            extra_messages: 2 * (n - 1),
            bytes: all + all / 8,
            all_messages: n * (n - 1),
            // Two waits each: one before and one after all others have had a turn.
            all_together: n * (n - 1) - (2 * n).min(n * (n - 1)),
            all_bytes: n * (all + all / 8),
            ..Cost::default()
        },
    }
}

fn reduce(algorithm: Algorithm, n: u128, m: u128, log: u128, fold: u128) -> Cost {
    match algorithm {
        Algorithm::Rabenseifner => Cost {
            rounds: 2 * log + fold,
            message_bytes: m / 2,
            bytes: (2 + fold) * m,
            reduced_bytes: (1 + fold) * m,
            all_messages: n * (log + 1),
            all_bytes: 2 * n * m + log * m / 2,
            ..Cost::default()
        },
        _ => Cost {
            rounds: log,
            message_bytes: m,
            bytes: log * m,
            reduced_bytes: log * m,
            all_messages: n,
            all_bytes: 2 * n * m,
            ..Cost::default()
        },
    }
}

fn allreduce(algorithm: Algorithm, n: u128, m: u128, log: u128, fold: u128) -> Cost {
    match algorithm {
        Algorithm::Ring => Cost {
            rounds: 2 * (n - 1),
            message_bytes: m / n,
            bytes: 2 * m,
            reduced_bytes: m,
            all_messages: 2 * n * (n - 1),
            all_bytes: 3 * n * m,
            ..Cost::default()
        },
        Algorithm::ReduceBroadcast => Cost {
            rounds: 2 * log,
            message_bytes: m,
            bytes: 2 * log * m,
            reduced_bytes: log * m,
            all_messages: 2 * (n - 1),
            all_bytes: 3 * n * m,
            ..Cost::default()
        },
        Algorithm::Rabenseifner => Cost {
            rounds: 2 * (log + fold),
            message_bytes: m / 2,
            bytes: 2 * (1 + fold) * m,
            reduced_bytes: (1 + fold) * m,
            all_messages: 2 * n * log,
            all_bytes: 3 * n * m,
            ..Cost::default()
        },
        _ => {
            let rounds = log + fold;
            Cost {
                rounds,
                message_bytes: m,
                bytes: rounds * m,
                reduced_bytes: log * m,
                all_messages: n * rounds,
                all_bytes: 2 * n * rounds * m,
                ..Cost::default()
            }
        }
    }
}

fn reduce_scatter(algorithm: Algorithm, n: u128, m: u128, log: u128, fold: u128) -> Cost {
    match algorithm {
        Algorithm::Pairwise => Cost {
            rounds: n - 1,
            message_bytes: m / n,
            bytes: m,
            reduced_bytes: m,
            all_messages: n * (n - 1),
            all_bytes: 2 * n * m,
            ..Cost::default()
        },
        Algorithm::RecursiveHalving => Cost {
            rounds: log + 2 * fold,
            message_bytes: m / 2,
            bytes: (1 + fold) * m,
            is_relayed: true,
            reduced_bytes: (1 + fold) * m,
            all_messages: n * log,
            all_bytes: (2 + fold) * n * m,
            ..Cost::default()
        },
        _ => Cost {
            rounds: log + 1,
            message_bytes: m,
            extra_messages: n,
            bytes: (log + 1) * m,
            reduced_bytes: log * m,
            all_messages: 2 * n,
            all_bytes: 2 * n * m,
            ..Cost::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// A line for each algorithm: the cost by its fields, the estimate where each process has a processor and
    /// where all share three, and the length of segments.
    fn table() -> String {
        let own = Fabric { bandwidth_bytes_per_s: 11_000_000_000, relayed_percent: 150, ..Fabric::default() };
        let shared = Fabric { processors: Some(3), ..own };
        let mut text = String::from(
            "collective,algorithm,processes,bytes,rounds,message_bytes,extra_messages,moved,reduced,copied,\
             all_messages,all_together,all_bytes,own_ps,shared_ps,segment\n",
        );
        for (size, bytes) in [(2, 0), (5, 9_001), (8, 700_001), (13, 70_001)] {
            for collective in Collective::ALL {
                for &algorithm in collective.algorithms() {
                    let question = Question { collective, bytes, size, commutative: true };
                    let Cost { rounds, message_bytes, extra_messages, bytes: moved, reduced_bytes, .. } =
                        cost(&question, algorithm, &own);
                    let Cost { copied_bytes, all_messages, all_together, all_bytes, .. } =
                        cost(&question, algorithm, &own);
                    let [own_ps, shared_ps] =
                        [own, shared].map(|fabric| estimate_ps(&question, algorithm, &fabric));
                    let segment = segment_bytes(&question, &own);
                    text += &format!(
                        "{},{},{size},{bytes},{rounds},{message_bytes},{extra_messages},{moved},\
                         {reduced_bytes},{copied_bytes},{all_messages},{all_together},{all_bytes},{own_ps},\
                         {shared_ps},{segment}\n",
                        collective.name(),
                        algorithm.name()
                    );
                }
            }
        }
        text
    }

    #[test]
    fn segments_are_of_whole_pages_from_4_kib_to_1_mib() {
        let fabric = Fabric { bandwidth_bytes_per_s: 11_000_000_000, ..Fabric::default() };
        let of = |bytes| {
            let question = Question { collective: Collective::Bcast, bytes, size: 3, commutative: true };
            segment_bytes(&question, &fabric)
        };
        assert_eq!([of(0), of(1), of(1 << 40)], [4 << 10, 4 << 10, 1 << 20]);
        assert!(of(10_000_000) > 4 << 10 && of(10_000_000).is_multiple_of(4 << 10));
    }

    /// A changed cost changes choices everywhere, so it is seen in a committed file first.
    #[test]
    fn costs_are_those_of_the_committed_table() {
        let committed = include_str!("costs.csv");
        for (now, then) in table().lines().zip(committed.lines()) {
            assert_eq!(now, then, "if that is meant, write what is now into costs.csv");
        }
        assert_eq!(table().lines().count(), committed.lines().count());
    }

    #[test]
    fn a_rate_of_nothing_takes_long_and_does_no_harm() {
        assert_eq!(at_rate_ps(5, 0), at_rate_ps(5, 1));
    }
}
