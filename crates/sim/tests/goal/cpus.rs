//! Operations on several CPUs of a rank take the times that can be computed by hand.

use std::rc::Rc;

use ayatori_sim::cluster::{Cluster, ClusterReport, Config};
use ayatori_sim::goal::{Schedule, run_rank};
use ayatori_sim::machine::nsim_torus;
use ayatori_sim::report::HostReport;
use ayatori_sim::trace::Trace;

/// Of sending and of receiving, the rest is free.
const SEND_PS: u64 = 1_000_000;
const RECEIVE_PS: u64 = 3_000_000;
const US_PS: u64 = 1_000_000;

fn config() -> Config {
    Config {
        send_ps: SEND_PS,
        receive_ps: RECEIVE_PS,
        copy_bytes_per_s: u64::MAX,
        command_ps: 0,
        ..Config::default()
    }
}

/// Runs the ranks' operations, in text and in binary form, which take the same time.
fn run(config: &Config, ranks: &[&str]) -> ClusterReport {
    let block = |(rank, lines): (usize, &&str)| format!("rank {rank} {{\n{lines}\n}}\n");
    let blocks: String = ranks.iter().enumerate().map(block).collect();
    let text = format!("num_ranks {}\n{blocks}", ranks.len());
    let schedule = Schedule::parse("x.goal", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let binary = Schedule::parse("x.bin", &schedule.to_binary()).unwrap();
    let [one, other] = [schedule, binary].map(|schedule| {
        let config = Config { process_count: Some(ranks.len() as u32), ..config.clone() };
        let mut cluster = Cluster::new(nsim_torus(&[4], None).unwrap(), config).unwrap();
        let schedule = Rc::new(schedule);
        let report = cluster.run(|mpi| run_rank(mpi, schedule.clone())).unwrap();
        assert_eq!(cluster.leftovers(), None);
        report
    });
    assert_eq!(one, other);
    one
}

fn elapsed_us(ranks: &[&str]) -> f64 {
    run(&config(), ranks).elapsed_ps as f64 / US_PS as f64
}

#[test]
fn calculations_on_one_cpu_add_up_and_on_two_overlap() {
    assert_eq!(elapsed_us(&["calc 5000\ncalc 7000"]), 12.0);
    assert_eq!(elapsed_us(&["calc 5000 cpu 0\ncalc 7000 cpu 1"]), 7.0);
    // Which numbers the CPUs have is of no consequence.
    assert_eq!(elapsed_us(&["calc 5000 cpu 9\ncalc 7000 cpu 200\ncalc 1000 cpu 9"]), 7.0);
}

#[test]
fn requirements_hold_across_cpus() {
    let after = "a: calc 5000 cpu 0\nb: calc 7000 cpu 1\nb requires a";
    assert_eq!(elapsed_us(&[after]), 12.0);
    // After the start of a: with it, but for what comes before b on its CPU.
    let with = "a: calc 5000 cpu 0\nb: calc 7000 cpu 1\nb irequires a";
    assert_eq!(elapsed_us(&[with]), 7.0);
    let late = "x: calc 2000 cpu 0\na: calc 5000 cpu 0\na requires x\nb: calc 7000 cpu 1\nb irequires a";
    assert_eq!(elapsed_us(&[late]), 9.0);
}

#[test]
fn of_ready_operations_the_first_of_the_file_runs() {
    // b and c become ready at once; d waits for c, on another CPU.
    let lines = "d: calc 1000 cpu 1\nb: calc 4000\nc: calc 2000\na: calc 1000\nd requires c\nb requires a\nc requires a";
    assert_eq!(elapsed_us(&[lines]), 1.0 + 4.0 + 2.0 + 1.0);
}

#[test]
fn the_cost_of_a_send_occupies_its_cpu_only() {
    let receives = "recv 8b from 0 tag 1\nrecv 8b from 0 tag 2";
    let ended = |lines: &str| run(&config(), &[lines, receives]).finished_ps[0];
    assert_eq!(ended("send 8b to 1 tag 1\nsend 8b to 1 tag 2\ncalc 5000"), 2 * SEND_PS + 5 * US_PS);
    assert_eq!(
        ended("send 8b to 1 tag 1 cpu 0\nsend 8b to 1 tag 2 cpu 1\ncalc 5000 cpu 0"),
        SEND_PS + 5 * US_PS
    );
    assert_eq!(ended("send 8b to 1 tag 1 cpu 1\nsend 8b to 1 tag 2 cpu 1\ncalc 5000 cpu 0"), 5 * US_PS);
}

#[test]
fn the_cost_of_a_receive_occupies_its_cpu_only() {
    let ended = |lines: &str| run(&config(), &["send 8b to 1 tag 1", lines]).finished_ps[1];
    // The message is there long before the calculation has ended.
    let alone = ended("recv 8b from 0 tag 1");
    assert!((SEND_PS + RECEIVE_PS..SEND_PS + RECEIVE_PS + US_PS).contains(&alone), "{alone}");
    assert_eq!(ended("recv 8b from 0 tag 1\ncalc 50000"), 50 * US_PS + RECEIVE_PS);
    assert_eq!(ended("recv 8b from 0 tag 1 cpu 1\ncalc 50000"), 50 * US_PS);
    // What follows the receive does not wait for the other CPU.
    let follows = "r: recv 8b from 0 tag 1 cpu 1\nc: calc 60000 cpu 1\nc requires r\ncalc 50000";
    assert_eq!(ended(follows), alone + 60 * US_PS);
    // A core takes in what has come between two calculations.
    let between = "r: recv 8b from 0 tag 1\ncalc 10000\ncalc 10000\nc: calc 60000 cpu 1\nc requires r";
    assert_eq!(ended(between), 10 * US_PS + RECEIVE_PS + 60 * US_PS);
}

#[test]
fn messages_of_one_sender_are_received_on_their_own_cpus() {
    let sends = "send 8b to 2 tag 1";
    let receives = "recv 8b from 0 tag 1 cpu 0\nrecv 8b from 1 tag -1 cpu 1";
    let own = run(&config(), &[sends, sends, receives]).finished_ps[2];
    let shared = run(&config(), &[sends, sends, &receives.replace("cpu 1", "cpu 0")]).finished_ps[2];
    assert!((SEND_PS + RECEIVE_PS..SEND_PS + RECEIVE_PS + US_PS).contains(&own), "{own}");
    assert!((SEND_PS + 2 * RECEIVE_PS..SEND_PS + 2 * RECEIVE_PS + US_PS).contains(&shared), "{shared}");
}

#[test]
fn long_messages_occupy_the_cpu_of_their_operation() {
    // Announced, read by the receiver's NIC at 5 GB/s, told to be over: a start and an end for the receiver.
    let send = "send 1000000b to 1 tag 1 cpu 3";
    let busy = "calc 150000 cpu 0";
    let ranks = [format!("{send}\n{busy}"), format!("recv 1000000b from 0 tag 1 cpu 3\n{busy}")];
    let ended = run(&config(), &[&ranks[0], &ranks[1]]).elapsed_ps;
    let alone = run(&config(), &[send, "recv 1000000b from 0 tag 1 cpu 3"]).elapsed_ps;
    assert!(alone > 200 * US_PS);
    assert_eq!(ended, alone);
    // On the CPU that computes, the announcement is read when that has ended.
    let ended = run(&config(), &[send, &ranks[1].replace("cpu 3", "cpu 0")]).elapsed_ps;
    assert!((alone + 145 * US_PS..alone + 150 * US_PS).contains(&ended), "{ended}");
}

#[test]
fn streams_take_turns_on_the_cores_that_a_host_has() {
    let on = |schedule_core_count, ranks: &[&str], processes_per_host| {
        run(&Config { schedule_core_count, processes_per_host, ..config() }, ranks).finished_ps
    };
    let three = "calc 5000 cpu 0\ncalc 5000 cpu 1\ncalc 5000 cpu 2";
    assert_eq!(on(None, &[three], 1), [5 * US_PS]);
    assert_eq!(on(Some(3), &[three], 1), [5 * US_PS]);
    assert_eq!(on(Some(2), &[three], 1), [10 * US_PS]);
    assert_eq!(on(Some(1), &[three], 1), [15 * US_PS]);
    // The third core is for the rank that has a use for it.
    assert_eq!(on(Some(3), &["calc 1000", "calc 5000 cpu 0\ncalc 5000 cpu 1"], 2), [US_PS, 5 * US_PS]);
    // Of three streams on two cores the third shares the first's.
    let shared = "calc 5000\ncalc 6000 cpu 1\ncalc 7000 cpu 2";
    assert_eq!(on(Some(2), &[shared], 1), [12 * US_PS]);
    // In turn: the other stream's are second and fourth, though the first has more that comes before.
    let turns = "calc 5000\ncalc 5000\ncalc 5000\na: calc 1000 cpu 1\nb: send 8b to 1 cpu 1\nb requires a";
    let received_ps = on(Some(1), &[turns, "recv 8b from 0"], 1)[1];
    let least_ps = 11 * US_PS + SEND_PS + RECEIVE_PS;
    assert!((least_ps..least_ps + US_PS).contains(&received_ps), "{received_ps}");
}

#[test]
fn reports_and_traces_count_cores_apart() {
    let text = "num_ranks 1\nrank 0 {\ncalc 6000\ncalc 3000 cpu 1\n}\n";
    let schedule = Rc::new(Schedule::parse("x.goal", text.as_bytes()).unwrap());
    let network = nsim_torus(&[4], Some(Trace::default())).unwrap();
    let mut cluster = Cluster::new(network, Config { process_count: Some(1), ..config() }).unwrap();
    let report = cluster.run(|mpi| run_rank(mpi, schedule.clone())).unwrap();
    assert_eq!((&report.usage.core_counts[..], &report.usage.computing_ps[..]), (&[2][..], &[9 * US_PS][..]));
    let hosts = HostReport::of(&report);
    assert_eq!((hosts.software_max, hosts.computing, hosts.software_mean), (0.75, 0.75, 0.75));
    let mut trace = Vec::new();
    cluster.with_network(|network| {
        let collected = network.probe().as_ref().unwrap();
        collected.write(network.graph(), 0, &mut trace).unwrap();
    });
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.contains("\"rank 0 core 1\"") && !trace.contains("\"rank 0 core 2\""), "{trace}");
    assert_eq!(trace.matches("\"computing\"").count(), 2);
}
