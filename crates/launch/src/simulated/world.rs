//! The launcher, its agents and the ranks, event by event.
//!
//! A node is the launcher (0) or an agent: one thread that takes one work after another from its queue. Each
//! work takes a processor of the node's machine for a time, then has its effect.

use super::costs::Costs;
use super::rank::{Computes, Question, Step, steps};
use super::start::{Outcome, Processors, Start};
use crate::pmi::wire::{Reply, Request};
use crate::status::Status;
use crate::supervisor::{Action, Limits, Member, Supervisor};
use crate::tree::Branch;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

const PS_PER_US: f64 = 1e6;
/// Length of a frame without what it carries, with the number of a host behind the agent's.
const FRAME_BYTES: u64 = 18;
/// Data of an order per rank, in bytes.
const ORDER_BYTES_PER_RANK: u64 = 10;
const LAUNCHER: usize = 0;

/// What a node does next.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Starts the command of this node's agent and gives it its order.
    Launch(usize),
    /// Takes its order.
    Order,
    Fork(usize),
    /// A request of a rank of this host.
    Ask(Message),
    /// A message of a host behind this one (at the launcher: of any).
    Up(Message),
    /// A message for a rank.
    Down(Message),
    /// The end of a rank of this host.
    Reap(usize),
    /// The end of the job.
    Finish,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    rank: usize,
    bytes: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Ask(Question),
    /// So many questions for cards, or their answers.
    Cards(u64),
    Answer,
    Started,
    Ended,
    /// A host has finished.
    Finished,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A node has done what it was at.
    Done(usize),
    /// An agent's program runs.
    Greets(usize),
    Arrives(usize, Work),
    /// A rank has computed.
    Rank(usize),
}

struct Due {
    at: u64,
    /// Orders events of equal time by creation.
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Debug, Default)]
struct Node {
    /// The node whose agent has started this one's.
    parent: usize,
    children: Vec<usize>,
    ranks: std::ops::Range<usize>,
    machine: usize,
    queue: VecDeque<Work>,
    at_work: Option<Work>,
    /// When its connection has sent what it was given.
    sent_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Rank {
    node: usize,
    step: usize,
    /// Cards that it has not asked for yet.
    cards_left: u64,
}

pub(super) struct World<'c> {
    costs: &'c Costs,
    now: u64,
    epoch: Instant,
    due: BinaryHeap<Reverse<Due>>,
    made_count: u64,
    /// When each processor of each machine is free.
    machines: Vec<BinaryHeap<Reverse<u64>>>,
    nodes: Vec<Node>,
    ranks: Vec<Rank>,
    /// Steps of the first rank of a host, and of the others.
    steps: [Vec<Step>; 2],
    supervisor: Supervisor,
    card: String,
    /// Bytes of a question for a card, and of its answer.
    card_bytes: [u64; 2],
    initialised_count: usize,
    unfinished_count: usize,
    end: Option<u64>,
    outcome: Outcome,
}

impl<'c> World<'c> {
    pub(super) fn new(start: &Start, costs: &'c Costs) -> Self {
        let (ranks_count, hosts_count) = (start.ranks_count, start.hosts_count);
        let has_agents = hosts_count > 1;
        let (nodes, depth) = nodes(start);
        let mut ranks = vec![Rank { node: 0, step: 0, cards_left: 0 }; ranks_count];
        for (number, node) in nodes.iter().enumerate() {
            ranks[node.ranks.clone()].iter_mut().for_each(|rank| rank.node = number);
        }
        let neighbours_count = (ranks_count.div_ceil(hosts_count) - 1) as f64;
        let network_us = if has_agents { costs.network_us } else { 0.0 };
        let takes = Computes {
            load: ps(costs.load_us),
            init: ps(costs.init_us + network_us + costs.init_neighbour_us * neighbours_count),
            card: ps(costs.card_us),
            exit: ps(costs.exit_us),
        };
        let (machines_count, processors) = match start.processors {
            Processors::EachHost(count) => (nodes.len(), count),
            Processors::OneMachine(count) => (1, count),
        };
        let network_kib = if has_agents { costs.rank_network_kib } else { 0.0 };
        let rank_bytes = (costs.rank_kib + network_kib) * 1024.0
            + costs.neighbour_bytes * neighbours_count
            + costs.peer_bytes * (ranks_count - 1) as f64;
        let card = "c".repeat(costs.card_bytes);
        World {
            costs,
            now: 0,
            epoch: Instant::now(),
            due: BinaryHeap::new(),
            made_count: 0,
            machines: vec![(0..processors.max(1)).map(|_| Reverse(0)).collect(); machines_count],
            steps: [true, false].map(|is_first| steps(ranks_count, hosts_count, is_first, &takes)),
            supervisor: supervisor(&ranks, &nodes, has_agents),
            card_bytes: card_bytes(&card, ranks_count),
            card,
            initialised_count: 0,
            unfinished_count: hosts_count,
            end: None,
            outcome: Outcome {
                initialised_ps: 0,
                elapsed_ps: 0,
                connections_count: nodes[LAUNCHER].children.len(),
                depth,
                frames_count: 0,
                frames_bytes: 0,
                requests_count: 0,
                busy_ps: 0,
                rank_bytes: rank_bytes as u64,
            },
            nodes,
            ranks,
        }
    }

    pub(super) fn run(mut self) -> anyhow::Result<Outcome> {
        self.now = self.compute(0, ps(self.costs.launcher_us));
        self.begin(LAUNCHER);
        while let Some(Reverse(Due { at, event, .. })) = self.due.pop() {
            self.now = at;
            match event {
                Event::Done(node) => {
                    if let Some(work) = self.nodes[node].at_work.take() {
                        self.effect(node, work);
                    }
                    self.go_on(node);
                }
                Event::Greets(node) => self.give(node, Work::Order),
                Event::Arrives(node, work) => self.give(node, work),
                Event::Rank(rank) => self.next_step(rank),
            }
        }
        let Some(end) = self.end else {
            anyhow::bail!(
                "the start of {} ranks stands still: {} are in MPI, {} hosts have not finished",
                self.ranks.len(),
                self.initialised_count,
                self.unfinished_count
            );
        };
        Ok(Outcome { elapsed_ps: end, ..self.outcome })
    }

    fn at(&mut self, at: u64, event: Event) {
        self.made_count += 1;
        self.due.push(Reverse(Due { at, number: self.made_count, event }));
    }

    /// Takes the processor of a machine that is free first; when the time is over.
    fn compute(&mut self, machine: usize, length: u64) -> u64 {
        let machine = &mut self.machines[machine];
        let free = machine.pop().map_or(0, |Reverse(at)| at);
        let end = free.max(self.now) + length;
        machine.push(Reverse(end));
        end
    }

    // Nodes.

    fn give(&mut self, node: usize, work: Work) {
        self.nodes[node].queue.push_back(work);
        self.go_on(node);
    }

    fn go_on(&mut self, node: usize) {
        if self.nodes[node].at_work.is_some() {
            return;
        }
        let Some(work) = self.nodes[node].queue.pop_front() else { return };
        let length = self.length(node, &work);
        if node == LAUNCHER {
            self.outcome.busy_ps += length;
        }
        self.nodes[node].at_work = Some(work);
        let end = self.compute(self.nodes[node].machine, length);
        self.at(end, Event::Done(node));
    }

    /// How long a work takes.
    fn length(&self, node: usize, work: &Work) -> u64 {
        let costs = self.costs;
        let frames =
            |count: f64, bytes: u64| count * costs.frame_us + bytes as f64 / 1000.0 * costs.kilobyte_us;
        // Read, and written to the next.
        let sides = if node == LAUNCHER { 1.0 } else { 2.0 };
        ps(match work {
            Work::Launch(child) => costs.agent_command_us + frames(1.0, self.order_bytes(*child)),
            Work::Order => frames(1.0, self.order_bytes(node)),
            Work::Fork(_) => costs.fork_us + frames(1.0, 0),
            Work::Reap(_) => costs.reap_us + frames(1.0, 0),
            Work::Ask(message) | Work::Up(message) | Work::Down(message) => {
                let questions = match (node, message.what, work) {
                    (LAUNCHER, What::Ask(_), _) => 1.0,
                    (LAUNCHER, What::Cards(count), Work::Ask(_) | Work::Up(_)) => count as f64,
                    _ => 0.0,
                };
                frames(sides, message.bytes) + questions * costs.request_us
            }
            Work::Finish => frames(1.0 + self.nodes[node].children.len() as f64, 0),
        })
    }

    /// Length of an order for a node and those behind it.
    fn order_bytes(&self, node: usize) -> u64 {
        let node = &self.nodes[node];
        let behind: u64 =
            node.children.iter().map(|&child| self.order_bytes(child) - self.costs.order_bytes as u64).sum();
        self.costs.order_bytes as u64 + node.ranks.len() as u64 * ORDER_BYTES_PER_RANK + behind
    }

    /// Starts other agents, then the ranks of this node.
    fn begin(&mut self, node: usize) {
        for child in self.nodes[node].children.clone() {
            self.give(node, Work::Launch(child));
        }
        for rank in self.nodes[node].ranks.clone() {
            self.give(node, Work::Fork(rank));
        }
    }

    fn effect(&mut self, node: usize, work: Work) {
        match work {
            Work::Launch(child) => {
                if node == LAUNCHER {
                    self.count(self.order_bytes(child));
                }
                let begin = self.now + ps(self.costs.login_us);
                let is_now = std::mem::replace(&mut self.now, begin);
                let up = self.compute(self.nodes[child].machine, ps(self.costs.agent_us));
                self.now = is_now;
                self.at(up, Event::Greets(child));
            }
            Work::Order => self.begin(node),
            Work::Fork(rank) => {
                self.next_step(rank);
                self.rise(node, Message { rank, bytes: 8, what: What::Started });
            }
            Work::Ask(message) | Work::Up(message) => self.rise(node, message),
            Work::Down(message) => self.sink(node, message),
            Work::Reap(rank) => self.rise(node, Message { rank, bytes: 5, what: What::Ended }),
            Work::Finish => {
                for child in self.nodes[node].children.clone() {
                    self.send(node, child, 0, Work::Finish);
                }
                if self.nodes[node].ranks.is_empty() {
                    return;
                }
                let rank = self.nodes[node].ranks.start;
                self.rise(node, Message { rank, bytes: 0, what: What::Finished });
            }
        }
    }

    /// A message of a host has been read here: it goes on, or is for the launcher.
    fn rise(&mut self, node: usize, message: Message) {
        if node != LAUNCHER {
            let parent = self.nodes[node].parent;
            return self.send(node, parent, message.bytes, Work::Up(message));
        }
        let now = self.epoch + Duration::from_nanos(self.now / 1000);
        let rank = message.rank;
        match message.what {
            What::Ask(question) => {
                self.outcome.requests_count += 1;
                let bytes = question.request(rank, self.ranks[rank].node, &self.card);
                self.supervisor.handle_pmi(rank, &bytes, now);
            }
            What::Cards(count) => {
                self.outcome.requests_count += count;
                let bytes = count * self.card_bytes[1];
                self.give(LAUNCHER, Work::Down(Message { rank, bytes, what: What::Cards(count) }));
            }
            What::Started => self.supervisor.handle_started(rank, 1, ""),
            What::Ended => self.supervisor.handle_ended(rank, Status::Exited(0), now),
            What::Finished => self.on_finished(),
            What::Answer => {}
        }
        while let Some(action) = self.supervisor.poll_action() {
            match action {
                Action::Pmi(rank, bytes) => {
                    let bytes = bytes.len() as u64;
                    self.give(LAUNCHER, Work::Down(Message { rank, bytes, what: What::Answer }));
                }
                Action::Finish(_) => self.give(LAUNCHER, Work::Finish),
                _ => {}
            }
        }
    }

    fn on_finished(&mut self) {
        self.unfinished_count -= 1;
        if self.unfinished_count == 0 {
            self.end = Some(self.now);
        }
    }

    /// A message for a rank has been taken here: the rank has it, or the next node on the way.
    fn sink(&mut self, node: usize, message: Message) {
        let mut next = self.ranks[message.rank].node;
        if next == node {
            return self.answer(message.rank);
        }
        while self.nodes[next].parent != node {
            next = self.nodes[next].parent;
        }
        self.send(node, next, message.bytes, Work::Down(message));
    }

    fn send(&mut self, from: usize, to: usize, bytes: u64, work: Work) {
        let bytes = bytes + FRAME_BYTES;
        if from == LAUNCHER || to == LAUNCHER {
            self.count(bytes);
        }
        let ps_per_byte = 8_000.0 / self.costs.gbit_per_s;
        let sender = &mut self.nodes[from];
        sender.sent_at = sender.sent_at.max(self.now) + (bytes as f64 * ps_per_byte) as u64;
        let arrives = sender.sent_at + ps(self.costs.latency_us);
        self.at(arrives, Event::Arrives(to, work));
    }

    /// A frame of the launcher's.
    fn count(&mut self, bytes: u64) {
        self.outcome.frames_count += 1;
        self.outcome.frames_bytes += bytes;
    }

    // Ranks.

    fn next_step(&mut self, rank: usize) {
        let Rank { node, step, cards_left } = self.ranks[rank];
        let is_first = self.nodes[node].ranks.start == rank;
        match self.steps[usize::from(!is_first)][step] {
            Step::Compute(length) => {
                self.ranks[rank].step += 1;
                let end = self.compute(self.nodes[node].machine, length);
                self.at(end, Event::Rank(rank));
            }
            Step::Ask(question) => {
                let bytes = question.request(rank, node, &self.card).len() as u64;
                self.give(node, Work::Ask(Message { rank, bytes, what: What::Ask(question) }));
            }
            Step::Cards => {
                let left = if cards_left == 0 { self.ranks.len() as u64 } else { cards_left };
                let count = left.min(self.costs.cards_at_once.max(1) as u64);
                self.ranks[rank].cards_left = left - count;
                let bytes = count * self.card_bytes[0];
                self.give(node, Work::Ask(Message { rank, bytes, what: What::Cards(count) }));
            }
            Step::Initialised => {
                self.ranks[rank].step += 1;
                self.initialised_count += 1;
                if self.initialised_count == self.ranks.len() {
                    self.outcome.initialised_ps = self.now;
                }
                self.next_step(rank);
            }
            Step::End => self.give(node, Work::Reap(rank)),
        }
    }

    /// A rank reads an answer and goes on.
    fn answer(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        if state.cards_left == 0 {
            state.step += 1;
        }
        let machine = self.nodes[state.node].machine;
        let end = self.compute(machine, ps(self.costs.frame_us));
        self.at(end, Event::Rank(rank));
    }
}

fn ps(us: f64) -> u64 {
    (us.max(0.0) * PS_PER_US).round() as u64
}

/// The launcher and its agents, and how many of these are one behind another.
fn nodes(start: &Start) -> (Vec<Node>, usize) {
    let (ranks_count, hosts_count) = (start.ranks_count, start.hosts_count);
    let is_one = matches!(start.processors, Processors::OneMachine(_));
    let blocks: Vec<_> = (0..hosts_count)
        .map(|host| host * ranks_count / hosts_count..(host + 1) * ranks_count / hosts_count)
        .collect();
    if hosts_count == 1 {
        return (vec![Node { ranks: blocks[0].clone(), ..Node::default() }], 0);
    }
    let leaves = (0..hosts_count).map(|host| Branch::leaf(host, String::new(), Vec::new())).collect();
    let mut nodes = vec![Node::default()];
    nodes.extend(blocks.into_iter().enumerate().map(|(host, ranks)| Node {
        ranks,
        machine: if is_one { 0 } else { host + 1 },
        ..Node::default()
    }));
    let tree = Branch::divide(leaves, start.branch_count);
    for branch in &tree {
        nodes[LAUNCHER].children.push(branch.host + 1);
        for (host, by) in branch.behind() {
            nodes[host + 1].parent = by + 1;
            nodes[by + 1].children.push(host + 1);
        }
    }
    (nodes, depth(&tree))
}

fn depth(branches: &[Branch]) -> usize {
    branches.iter().map(|branch| 1 + depth(&branch.branches)).max().unwrap_or(0)
}

fn supervisor(ranks: &[Rank], nodes: &[Node], has_agents: bool) -> Supervisor {
    let member = |rank: &Rank| Member { host: rank.node - usize::from(has_agents), program: 0 };
    let members: Vec<Member> = ranks.iter().map(member).collect();
    let names = (vec![String::new(); nodes.len()], vec![String::new()]);
    let key = (crate::environment::KEY_OF_JOB, "0".repeat(64));
    let values = [key, ("PMI_process_mapping", format!("(vector,(0,{},1))", nodes.len()))];
    Supervisor::new("0123456789abcdef", Limits::default(), names, &members, &values, false, Instant::now())
}

/// The length of a question for the card of a rank, and of its answer.
fn card_bytes(card: &str, ranks_count: usize) -> [u64; 2] {
    let key = format!("ayatori-card-{}", ranks_count - 1);
    let (mut question, mut answer) = (Vec::new(), Vec::new());
    // Both fit the wire.
    let _ = Request::Get { kvsname: Some("kvs_0123456789abcdef"), key: &key }.emit(&mut question);
    let _ = Reply::Value(card).emit(&mut answer);
    [question.len() as u64, answer.len() as u64]
}
