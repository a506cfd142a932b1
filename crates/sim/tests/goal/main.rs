//! GOAL files: read, written, run.

mod cpus;
mod nics;

use std::rc::Rc;

use ayatori_sim::cluster::{Cluster, Config};
use ayatori_sim::goal::{Kind, Schedule, run_rank};
use ayatori_sim::machine::tofu_torus;

const EXAMPLE: &str = "\
// two ranks and a third that gathers
num_ranks 3
rank 0 {
l1: calc 1000 cpu 1 /* one
microsecond */
l2: send 4096b to 1 tag 7 nic 1
l2 requires l1
l3: recv 10b from 2 tag 9
l3 irequires l2
}
rank 1 { // matches any
first: recv 4096b from -1 tag -1
next: send 300000b to 2
next requires first
}
rank 2 {
recv 300000b from 1
send 10b to 0 tag 9
}
";

fn read(text: &str) -> Result<Schedule, String> {
    Schedule::parse("x.goal", text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn text_says_what_it_means() {
    let schedule = read(EXAMPLE).unwrap();
    let zero = &schedule.ranks[0];
    assert_eq!(zero[0].kind, Kind::Calculate { time_ns: 1_000 });
    assert_eq!((zero[0].cpu, zero[1].nic, schedule.ranks[1][1].nic), (1, Some(1), None));
    assert_eq!(zero[1].kind, Kind::Send { bytes: 4_096, to: 1, tag: 7 });
    assert_eq!((&zero[1].requires[..], &zero[2].requires_start[..]), (&[0][..], &[1][..]));
    assert_eq!(schedule.ranks[1][0].kind, Kind::Receive { bytes: 4_096, from: None, tag: None });
    assert_eq!(schedule.ranks[2][0].kind, Kind::Receive { bytes: 300_000, from: Some(1), tag: Some(0) });
}

#[test]
fn text_and_binary_say_the_same() {
    let schedule = read(EXAMPLE).unwrap();
    assert_eq!(read(&schedule.to_text()), Ok(schedule.clone()));
    // Binary has no word for a message without NIC beside one with: they are of NIC 0, as LogGOPSim's.
    let mut all_named = schedule.clone();
    for operation in all_named.ranks.iter_mut().flatten() {
        if !matches!(operation.kind, Kind::Calculate { .. }) {
            operation.nic.get_or_insert(0);
        }
    }
    assert_eq!(Schedule::parse("x.bin", &schedule.to_binary()), Ok(all_named));
}

#[test]
fn nic_0_alone_and_no_nic_are_told_apart_in_binary() {
    for by in ["", " nic 0"] {
        let schedule = read(&format!("num_ranks 1\nrank 0 {{\nsend 8b to 0{by}\nrecv 8b from 0{by}\n}}\n"));
        let schedule = schedule.unwrap();
        assert_eq!(Schedule::parse("x.bin", &schedule.to_binary()), Ok(schedule));
    }
}

#[test]
fn a_binary_file_lies_in_bytes_as_others_write_it() {
    let schedule = read("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 6\nb requires a\n}\n").unwrap();
    let bytes = schedule.to_binary();
    let words = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()), 4_223);
    // Head 8 + 6 + 16; then nodes, roots, the root; two nodes of 39 B; one word of appendix.
    assert_eq!((words(30), words(34), words(38)), (2, 1, 0));
    assert_eq!(bytes.len(), 30 + 12 + 2 * 39 + 4);
    assert_eq!(words(bytes.len() - 4), 1);
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, expected) in [
        ("", "x.goal:1: no 'num_ranks N'"),
        ("rank 0 {\n}", "x.goal:1: 'num_ranks N' must come before the first rank"),
        ("num_ranks 2\nrank 2 {\n}", "x.goal:2: rank 2 of 2 ranks"),
        ("num_ranks 1\nrank 0 {\nsend 8b to\n}", "x.goal:3: 'send 8b to' is none of"),
        ("num_ranks 1\nrank 0 {\nsend 8 to 0\n}", "x.goal:3: '8' is no length"),
        ("num_ranks 1\nrank 0 {\ncalc 1\na requires b\n}", "x.goal:4: no operation 'a' in this rank"),
        ("num_ranks 1\nrank 0 {\na: calc 1\na: calc 2\n}", "x.goal:4: label 'a' comes twice"),
        ("num_ranks 1\nrank 0 {\ncalc 1", "x.goal:3: the block of rank 0 is not closed"),
        ("num_ranks 1\nrank 0 {\nsend 8b to 4\n}", "x.goal:3: rank 4 is none of the 1"),
        ("num_ranks 1\nrank 0 {\na: calc 1\na requires a\n}", "x.goal: rank 0, operation 0: requires itself"),
        ("num_ranks 99999999999\n", "x.goal:1: 99999999999 ranks"),
        ("num_ranks 1\nrank 0 {\nsend 8b to 0 tag\n}", "x.goal:3: 'tag' without a value"),
        (
            "num_ranks 1\nrank 0 {\nsend 1125899906842624b to 0\n}",
            "x.goal: rank 0, operation 0: 1125899906842624 bytes: below 2^50",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    assert!(read("num_ranks 1\nrank 0 {\nrecv 1125899906842623b from 0\n}").is_ok(), "the longest");
}

#[test]
fn a_damaged_binary_file_is_an_error_and_never_a_panic() {
    let whole = read(EXAMPLE).unwrap().to_binary();
    for length in 8..whole.len() {
        assert!(Schedule::parse("x.bin", &whole[..length]).is_err(), "{length} B");
    }
    for at in 8..whole.len() {
        for value in [0, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = Schedule::parse("x.bin", &bytes);
        }
    }
}

#[test]
fn a_schedule_runs_on_the_cluster() {
    let schedule = Rc::new(read(EXAMPLE).unwrap());
    let network = tofu_torus(&[4], 2, None).unwrap();
    let mut cluster = Cluster::new(network, Config { process_count: Some(3), ..Config::default() }).unwrap();
    let report = cluster.run(|mpi| run_rank(mpi, schedule.clone())).unwrap();
    // A microsecond of computing, then 300,000 B at 5 GB/s after one another.
    assert!(report.elapsed_ps > 1_000_000 + 60_000_000, "{report:?}");
    assert_eq!(cluster.leftovers(), None);
}
