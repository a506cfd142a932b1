//! Agents that are shell scripts: they greet and say back what they hear.

use super::*;
use crate::spec::Reach;
use crate::tree::Branch;

/// Looks at the agents, a millisecond apart at least, after which what has not come never does.
const LOOKS_MAX: usize = 240_000;

/// An order for so many hosts, of which none starts more than `count` agents, by `script`.
fn order(hosts_count: usize, count: usize, script: &str) -> Order {
    let leaf = |host| Branch::leaf(host, format!("h{host}"), vec![(host, 0)]);
    let agent = ["sh", "-c", script].map(str::to_owned).to_vec();
    Order {
        job: "j".into(),
        host: 0,
        branches: Branch::divide((0..hosts_count).map(leaf).collect(), count),
        reach: Reach { agent, program: "/bin/true".into(), from: None },
        world_count: hosts_count,
        ranks: Vec::new(),
        programs: Vec::new(),
        environment: Vec::new(),
        directory: "/".into(),
        binding: None,
        is_spawned: false,
        is_input_forwarded: false,
    }
}

const ECHO: &str = "printf '\\nAYATORI AGENT 4\\n'; exec cat";

fn started(order: &Order) -> Relay {
    let now = Instant::now();
    let mut relay = Relay::new(now).expect("epoll");
    relay.start(order, now);
    relay
}

/// The next `count` messages.
fn take(relay: &mut Relay, count: usize) -> Vec<(usize, Message)> {
    let mut all = Vec::new();
    for _ in 0..LOOKS_MAX {
        while let Some(message) = relay.poll_message() {
            all.push(message);
        }
        if all.len() >= count {
            break;
        }
        relay.handle_ready(Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(all.len(), count, "{all:?}");
    all.sort_by_key(|(host, _)| *host);
    all
}

#[test]
fn what_is_for_all_goes_down_each_branch_once() {
    let order = order(100, 8, ECHO);
    let mut relay = started(&order);
    assert_eq!(relay.children.len(), 8);
    // The orders come back as they were sent: with the hosts behind.
    for (host, message) in take(&mut relay, 8) {
        let Message::Start(part) = message else { panic!("{message:?}") };
        assert_eq!((part.host, part.ranks.clone()), (host, vec![(host, 0)]));
        assert!(!part.branches.is_empty() && part.branches.len() <= 8);
        assert_eq!(part.reach.from.as_deref(), Some(&*format!("h{host}")));
    }
    relay.send_all(&Message::Signal(15));
    let echoes = take(&mut relay, 8);
    assert!(echoes.iter().all(|(_, message)| *message == Message::Signal(15)));
    assert!(relay.poll_message().is_none());
}

#[test]
fn a_message_for_a_host_goes_through_the_one_before_it() {
    let mut relay = started(&order(10, 2, ECHO));
    take(&mut relay, 2);
    for host in 0..10 {
        relay.send(host, Message::Stdin(vec![host as u8]));
    }
    let echoes = take(&mut relay, 10);
    let want: Vec<_> = (0..10).map(|host| (host, Message::Stdin(vec![host as u8]))).collect();
    assert_eq!(echoes, want);
}

#[test]
fn with_an_agent_the_hosts_behind_it_are_lost() {
    let mut relay = started(&order(10, 2, ECHO));
    take(&mut relay, 2);
    let victim = relay.pids().next().expect("an agent");
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("it runs");
    let lost = take(&mut relay, 5);
    for (index, (host, message)) in lost.into_iter().enumerate() {
        let Message::Lost(why) = message else { panic!("{message:?}") };
        let part =
            if host == 0 { "was killed by signal 9" } else { "was reached through host h0, which is lost" };
        assert!(host == index && why.contains(part), "{host}: {why}");
    }
    relay.send(3, Message::Signal(1));
    relay.send(8, Message::Signal(1));
    assert_eq!(take(&mut relay, 1), [(8, Message::Signal(1))]);
    assert!(relay.is_congested(3) && !relay.is_congested(8));
}

#[test]
fn an_agent_speaks_for_no_host_that_is_not_behind_it() {
    let mut relay = started(&order(10, 2, ECHO));
    take(&mut relay, 2);
    let host_5 = relay.children[1].host;
    // Host 1 is behind host 0.
    relay.children[1].agent.send(&Message::Of(1, Box::new(Message::Finished)));
    relay.children[1].agent.send(&Message::Finished);
    assert_eq!(take(&mut relay, 1), [(host_5, Message::Finished)]);
}

#[test]
fn message_about_an_unstarted_agent_names_its_starter() {
    let mut order = order(3, 2, "exit 255");
    order.reach.from = Some("h9".into());
    let mut relay = started(&order);
    for (host, message) in take(&mut relay, 3) {
        let Message::Lost(why) = message else { panic!("{message:?}") };
        let parts = match host {
            1 => ["it was reached through host h0", "which is lost"],
            _ => [
                "does `sh -c 'exit 255' true` work?",
                "the agent of host h9 was to start it; with --branch-count 0",
            ],
        };
        assert!(parts.iter().all(|part| why.contains(part)), "{host}: {why}");
    }
    order.reach.agent = vec!["/no/such/command".into(), "{host}".into()];
    let mut relay = started(&order);
    let all = take(&mut relay, 5);
    let failed = all.iter().filter(|(_, message)| matches!(message, Message::Failed(1, _))).count();
    assert_eq!((failed, all.len()), (2, 5), "{all:?}");
}
