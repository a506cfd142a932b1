//! Messages that name a NIC take it.

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ayatori_fabric::description::Machine;
use ayatori_fabric::graph::{HostId, Node};
use ayatori_sim::cluster::{Cluster, Config, Mpi, NicDevice, Profile, Transfer};
use ayatori_sim::goal::{Schedule, run_rank};
use ayatori_sim::machine::tofu_torus;
use ayatori_sim::simulation::{Options, Simulation, SimulationError, Workload};

const BYTES: u64 = 4_000_000;

/// Two long messages of rank 0, to its neighbours on both sides, each by a NIC. Gives how many times as long
/// that takes as one message at 5 GB/s, and how many bytes each NIC of host 0 sent.
fn two_messages(config: &Config, [one, other]: [&str; 2]) -> (f64, [u64; 2]) {
    let text = format!(
        "num_ranks 4\nrank 0 {{\nsend {BYTES}b to 1{one}\nsend {BYTES}b to 3{other}\n}}\n\
         rank 1 {{\nrecv {BYTES}b from 0\n}}\nrank 3 {{\nrecv {BYTES}b from 0\n}}\n"
    );
    let text = Schedule::parse("x.goal", text.as_bytes()).unwrap();
    let binary = Schedule::parse("x.bin", &text.to_binary()).unwrap();
    let [one, other] = [text, binary].map(|schedule| {
        let mut cluster = Cluster::new(tofu_torus(&[4], 2, None).unwrap(), config.clone()).unwrap();
        let schedule = Rc::new(schedule);
        let report = cluster.run(|mpi| run_rank(mpi, schedule.clone())).unwrap();
        assert_eq!(cluster.leftovers(), None);
        (report.elapsed_ps as f64 / (BYTES as f64 * 200.0), sent_by_host_0(&cluster))
    });
    assert_eq!(one, other);
    one
}

fn sent_by_host_0(cluster: &Cluster) -> [u64; 2] {
    cluster.with_network(|network| {
        let mut sent = [0; 2];
        for load in network.channel_loads() {
            let from = network.graph().channel_ends(load.channel).0;
            if from.node == Node::Host(HostId(0)) {
                sent[usize::from(from.port)] = load.sent_bytes;
            }
        }
        sent
    })
}

/// Ways in which long messages go: read, written, in packets; and as devices of the library. Software is
/// fast, so that NICs decide.
fn ways() -> Vec<(String, Config)> {
    let fast = Config {
        send_ps: 20_000,
        receive_ps: 20_000,
        copy_bytes_per_s: 1_000_000_000_000,
        ..Config::default()
    };
    let transfers = [Transfer::Get, Transfer::Put, Transfer::Packets];
    let plain = transfers.map(|transfer| (format!("{transfer:?}"), Config { transfer, ..fast.clone() }));
    let devices = [NicDevice::Tcp, NicDevice::Rdma].map(|device| {
        let profile = Some(Profile { device, mtu_bytes: 9_000 });
        (format!("{device:?}"), Config { profile, ..fast.clone() })
    });
    plain.into_iter().chain(devices).collect()
}

#[test]
fn messages_by_two_nics_overlap_and_by_one_take_twice_the_time() {
    for (way, config) in ways() {
        let (both, sent) = two_messages(&config, [" nic 0", " nic 1"]);
        // Headers take 1.5 to 8 %, the start and the end of a message some microseconds.
        assert!((1.0..1.15).contains(&both), "{way}: {both}");
        assert!(sent.iter().all(|sent| (BYTES..BYTES * 11 / 10).contains(sent)), "{way}: {sent:?}");
        for nic in [0, 1] {
            let name = format!(" nic {nic}");
            let (one, sent) = two_messages(&config, [&name, &name]);
            assert!((2.0..2.3).contains(&one), "{way}, {nic}: {one}");
            assert!((2 * BYTES..BYTES * 22 / 10).contains(&sent[nic]), "{way}, {nic}: {sent:?}");
            assert!(sent[1 - nic] < BYTES / 100, "{way}, {nic}: {sent:?}");
        }
    }
}

#[test]
fn messages_without_a_nic_go_as_the_library_sends_them() {
    for (way, config) in ways() {
        let mut cluster = Cluster::new(tofu_torus(&[4], 2, None).unwrap(), config.clone()).unwrap();
        let calls = |mpi: Mpi| async move {
            match mpi.rank() {
                0 => mpi.wait_all([mpi.isend(1, 0, BYTES)?, mpi.isend(3, 0, BYTES)?]).await,
                1 | 3 => mpi.recv(0, 0, BYTES).await.map(drop),
                _ => Ok(()),
            }
        };
        let elapsed_ps = cluster.run(calls).unwrap().elapsed_ps;
        let (times, sent) = two_messages(&config, ["", ""]);
        assert_eq!((times * BYTES as f64 * 200.0).round() as u64, elapsed_ps, "{way}");
        assert_eq!(sent, sent_by_host_0(&cluster), "{way}");
        // Gets go by one rail; all else is striped.
        let near_half = |&sent: &u64| (BYTES * 9 / 10..BYTES * 12 / 10).contains(&sent);
        assert!(way == "Get" || sent.iter().all(near_half), "{way}: {sent:?}");
    }
}

#[test]
fn short_messages_take_the_nic_that_they_name() {
    for nic in [0, 1] {
        let sends = format!("send 4000b to 1 nic {nic}\n").repeat(100);
        let receives = "recv 4000b from 0\n".repeat(100);
        let text = format!("num_ranks 2\nrank 0 {{\n{sends}}}\nrank 1 {{\n{receives}}}\n");
        let schedule = Rc::new(Schedule::parse("x.goal", text.as_bytes()).unwrap());
        let config = Config { process_count: Some(2), ..Config::default() };
        let mut cluster = Cluster::new(tofu_torus(&[4], 2, None).unwrap(), config).unwrap();
        cluster.run(|mpi| run_rank(mpi, schedule.clone())).unwrap();
        let sent = sent_by_host_0(&cluster);
        assert!(sent[nic] > 400_000 && sent[1 - nic] < 8_000, "{sent:?}");
    }
}

fn simulate(goal: &str, nics: u32, options: Options) -> Result<Vec<String>, SimulationError> {
    let nic = |index| format!("{{ name = \"eth{index}\", rate_gbps = 10, mtu_bytes = 9000 }}");
    let nics: Vec<String> = (0..nics).map(nic).collect();
    let text = format!(
        "name = \"few\"\n[switch_models.bridge]\nports = 16\nrate_gbps = 10\n\
         [host_models.node]\ncores_per_socket = 8\nnic = [{}]\n[topology]\nkind = \"star\"\nswitches = 1\n\
         switch_model = \"bridge\"\n[hosts]\nmodel = \"node\"\nper_switch = 2\n",
        nics.join(", ")
    );
    let machine = Machine::parse("few.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    // A folder for each file, since tests run side by side.
    static FOLDER_COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDER_COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nics-{number}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("app.goal");
    std::fs::write(&path, goal).unwrap();
    let workload = Workload::named(&path.display().to_string())?;
    let mut simulation = Simulation::new("few.toml", &machine, workload, options)?;
    simulation.run()?;
    Ok(simulation.notes().to_vec())
}

#[test]
fn a_nic_that_hosts_do_not_have_is_named_with_its_line() {
    let goal = "num_ranks 2\nrank 0 {\nsend 8b to 1 nic 0\nsend 8b to 1 nic 2\n}\nrank 1 {\n}\n";
    for (nics, expected) in [
        (2, "app.goal:4: rank 0: there is no nic 2: hosts have 2, nic 0 to 1"),
        (1, "app.goal:4: rank 0: there is no nic 2: hosts have 1, nic 0"),
    ] {
        let error = simulate(goal, nics, Options::default()).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let binary = Schedule::parse("x.goal", goal.as_bytes()).unwrap().to_binary();
    let error = Schedule::parse("app.bin", &binary).unwrap().check_nics(2).unwrap_err().to_string();
    assert_eq!(error, "app.bin: rank 0, operation 1: there is no nic 2: hosts have 2, nic 0 to 1");
}

#[test]
fn what_is_said_of_nics_and_not_simulated_is_noted() {
    let goal = |send: &str, receive: &str| {
        format!("num_ranks 2\nrank 0 {{\nsend 8b to 1{send}\n}}\nrank 1 {{\nrecv 8b from 0{receive}\n}}\n")
    };
    let notes = |goal: &str, per_host| {
        let notes = simulate(goal, 2, Options { per_host, ..Options::default() }).unwrap();
        notes.into_iter().filter(|note| note.contains("NIC")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(notes(&goal(" nic 1", " nic 1"), 1), "");
    assert_eq!(notes(&goal(" nic 1", ""), 1), "");
    assert!(
        notes(&goal(" nic 1", " nic 0"), 1).starts_with("1 receives name another NIC than their messages")
    );
    assert!(notes(&goal("", " nic 0"), 1).starts_with("1 receives name another NIC than their messages"));
    assert!(notes(&goal(" nic 1", ""), 2).starts_with("1 sends within a host name a NIC"));
    let strict = Options { strict: true, ..Options::default() };
    let error = simulate(&goal(" nic 1", " nic 0"), 2, strict).unwrap_err().to_string();
    assert!(error.contains("--strict") && error.contains("receives name another NIC"), "{error}");
}
