//! Jobs on more hosts than the launcher starts agents on: agents start others. By counts of processes and by
//! faults; what goes over a channel is counted in `crates/launch/src/relay/tests.rs`.

use crate::hosts::{end_of, job, kill, marked, parent_of, pid_of_rank, run, ssh_job, text, wait_until};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};

/// Three levels: 3, 9 and 8 agents.
const HOSTS: usize = 20;
const BRANCHES: usize = 3;

fn options() -> Vec<String> {
    let hosts: Vec<String> = (0..HOSTS).map(|host| format!("h{host}")).collect();
    ["--branch-count", &BRANCHES.to_string(), "--hosts", &hosts.join(",")].map(str::to_owned).to_vec()
}

/// A job of a sleeping rank a host, which all run.
fn sleepers(mark: &str, more: &[&str]) -> Child {
    let options = options();
    let options: Vec<&str> =
        options.iter().map(String::as_str).chain(["-x", mark]).chain(more.iter().copied()).collect();
    let mut command = job(&options, &["sleep"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("ayatori runs");
    wait_until("all ranks", || (0..HOSTS).all(|rank| pid_of_rank(mark, rank).is_some()));
    child
}

/// The agent of each host, by the job's ranks.
fn agents(mark: &str) -> Vec<i32> {
    let agent = |host| pid_of_rank(mark, host).and_then(parent_of).expect("an agent");
    (0..HOSTS).map(agent).collect()
}

fn mark(what: &str) -> String {
    format!("AYATORI_TEST_MARK=tree-{what}{}", std::process::id())
}

#[test]
fn no_host_starts_more_agents_than_the_branch_count() {
    let mark = mark("count");
    let mut child = sleepers(&mark, &[]);
    let launcher = child.id().cast_signed();
    let agents = agents(&mark);
    let mut started = BTreeMap::<i32, usize>::new();
    for &agent in &agents {
        *started.entry(parent_of(agent).expect("a parent")).or_default() += 1;
    }
    assert_eq!(started.get(&launcher), Some(&BRANCHES));
    assert!(started.values().all(|count| *count <= BRANCHES), "{started:?}");
    assert!(started.keys().all(|starter| *starter == launcher || agents.contains(starter)), "{started:?}");
    // A signal for all reaches the last.
    kill(launcher, Signal::TERM);
    let (code, said) = end_of(&mut child);
    assert_eq!(code, Some(143), "{said}");
    wait_until("nothing is left", || marked(&mark).is_empty());
}

#[test]
fn ranks_behind_other_hosts_learn_cards_and_print() {
    let options = options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let output = run(&options, &["hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let mut want: Vec<String> =
        (0..HOSTS).map(|rank| format!("rank {rank} of {HOSTS} in program 0")).collect();
    want.sort_unstable();
    assert_eq!(lines, want);
}

#[test]
fn a_rank_that_fails_behind_other_hosts_gives_its_exit_code() {
    let options = options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let output = run(&options, &["exit", "19", "7"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("rank 19 on h19"), "{said}");
}

#[test]
fn why_asks_the_hosts_behind_others() {
    let mark = mark("why");
    let mut child = sleepers(&mark, &[]);
    wait_until("the answer of all hosts", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
        let output = command.args(["why", &child.id().to_string(), "--json"]).output().expect("ayatori runs");
        let said = text(&output.stdout);
        let value = serde_json::from_str::<serde_json::Value>(&said).unwrap_or_default();
        let is_there = |host| said.contains(&format!("\"h{host}\"")) && !said.contains("not answered");
        value["ranks_count"].as_u64() == Some(HOSTS as u64) && (0..HOSTS).all(is_there)
    });
    kill(child.id().cast_signed(), Signal::TERM);
    end_of(&mut child);
}

/// Kills an agent, and first its watchdog: that would end what has the job's mark on its host, which here is
/// every rank.
fn kill_agent(agent: i32) {
    let children = std::fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).expect("children");
    for pid in children.split_whitespace() {
        if std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"mpi-watchdog")) {
            kill(pid.parse().expect("a pid"), Signal::KILL);
        }
    }
    kill(agent, Signal::KILL);
}

#[test]
fn an_agent_that_dies_is_named_with_its_host_at_every_level() {
    // In the first branch of 7 hosts h0 has started h1, which has started h2.
    for victim in [0, 1, 2] {
        let mark = mark(&format!("dies{victim}"));
        let mut child = sleepers(&mark, &[]);
        let agent = agents(&mark)[victim];
        kill_agent(agent);
        let (code, said) = end_of(&mut child);
        let wanted = format!("host h{victim}: its agent (pid {agent}) was killed by signal 9");
        assert!(said.contains(&wanted), "{said}");
        assert_eq!(code, Some(1), "{said}");
        wait_until("nothing is left", || marked(&mark).is_empty());
    }
}

#[test]
fn surviving_job_goes_on_without_hosts_behind_a_lost_one() {
    let mark = mark("survives");
    let mut child = sleepers(&mark, &["--survive"]);
    kill_agent(agents(&mark)[1]);
    // h1 has started the agent of h2.
    let mut stderr = child.stderr.take().expect("a pipe");
    let (mut said, mut chunk) = (String::new(), [0; 4096]);
    while said.matches("the others go on").count() < 2 {
        let count = stderr.read(&mut chunk).expect("a pipe");
        assert!(count > 0, "the job has ended: {said}");
        said += &text(&chunk[..count]);
    }
    assert!(said.contains("rank 1 on h1") && said.contains("host h1: its agent (pid "), "{said}");
    assert!(said.contains("host h2: it was reached through host h1, which is lost"), "{said}");
    wait_until("two ranks are lost", || marked(&mark).len() == HOSTS - 2);
    assert!(pid_of_rank(&mark, 1).is_none() && pid_of_rank(&mark, 2).is_none());
    kill(child.id().cast_signed(), Signal::TERM);
    end_of(&mut child);
    wait_until("nothing is left", || marked(&mark).is_empty());
}

#[test]
fn a_host_that_cannot_reach_the_next_says_how_to_do_without() {
    let unreachable = "echo 'ssh: connect to host b port 22: No route to host' >&2; exit 255";
    let (_folder, mut command) = ssh_job(unreachable, "a,b,c", &["--branch-count", "2"], &["sleep"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("ayatori runs");
    let (code, said) = end_of(&mut child);
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "No route to host",
        "host b: ",
        "does 'ssh b true' work there?",
        "the agent of host a",
        "--branch-count 0",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn only_ssh_starts_agents_from_agents_beyond_32_hosts() {
    let hosts: Vec<String> = (0..33).map(|host| format!("h{host}")).collect();
    let dry = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
        command.args(["run", "--dry-run", "--hosts", &hosts.join(",")]).args(more).arg("true");
        text(&command.env_remove("AYATORI_AGENT").output().expect("ayatori runs").stdout)
    };
    let said = dry(&[]);
    assert!(said.contains("h1 (from h0): ssh ") && said.contains("\nh2: ssh "), "{said}");
    assert!(said.contains("32 agents started from here"), "{said}");
    for flat in [&["--branch-count", "0"][..], &["--agent", "docker exec -i {host}"]] {
        let said = dry(flat);
        assert!(!said.contains("(from ") && said.contains("\nh1: "), "{said}");
    }
}
