//! Copies and reductions of collective operations between hosts take the processor where they are done.

use ayatori_core::coll::Collective;
use ayatori_sim::cluster::{Cluster, ClusterReport, Config, Software};
use ayatori_sim::machine::nsim_torus;

const BYTES: u64 = 4_096;
/// Of 4 KiB at 1 GB/s.
const WORK_PS: u64 = BYTES * 1_000;

/// What an operation of so many ranks takes, each on a host of its own, where messages need no copies.
fn run(
    (operation, algorithm): (Collective, &'static str),
    ranks: u32,
    copy_bytes_per_s: u64,
    reduce_bytes_per_s: Option<u64>,
) -> ClusterReport {
    let software = Software { send_copies: 0, receive_copies: 0, reduce_bytes_per_s, ..Software::default() };
    let config = Config { process_count: Some(ranks), copy_bytes_per_s, software, ..Config::default() };
    let mut cluster = Cluster::new(nsim_torus(&[8], None).unwrap(), config).unwrap();
    let report = cluster.run(|mpi| async move { mpi.collective(operation, BYTES, Some(algorithm)).await });
    report.unwrap()
}

#[test]
fn reductions_take_the_processor_between_messages() {
    for (operation, algorithm, ranks, steps) in [
        // Every rank reduces in every round.
        (Collective::Allreduce, "recursive_doubling", 2, 1),
        (Collective::Allreduce, "recursive_doubling", 8, 3),
        // The root's last child has reduced twice before it sends.
        (Collective::Reduce, "binomial", 8, 3),
    ] {
        let time_ps = |reduce| run((operation, algorithm), ranks, u64::MAX, reduce).elapsed_ps;
        let added_ps = time_ps(Some(1_000_000_000)) - time_ps(None);
        assert_eq!(added_ps, steps * WORK_PS, "{operation:?} {algorithm} {ranks}");
    }
}

#[test]
fn copies_of_ones_own_take_the_processor() {
    // Each rank copies its own block to its place, while the first blocks are on their way.
    let report = |copy| run((Collective::Allgather, "ring"), 8, copy, None);
    let (slow, fast) = (report(1_000_000_000), report(u64::MAX));
    let added_ps = slow.usage.busy_ps.iter().zip(&fast.usage.busy_ps).map(|(slow, fast)| slow - fast);
    assert_eq!(added_ps.collect::<Vec<_>>(), [WORK_PS; 8]);
    let longer_ps = slow.elapsed_ps - fast.elapsed_ps;
    assert!((WORK_PS / 2..=WORK_PS).contains(&longer_ps), "{longer_ps}");
}
