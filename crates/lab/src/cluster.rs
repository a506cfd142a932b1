//! A cluster that is up in a virtual machine, and the requests to it.

use crate::layout::{self, Layout};
use crate::vm::{Guest, Spec};
use crate::wire::{End, HostAddress, Job, Pairs, PortCounters, Reply, Request};
use anyhow::{Context, bail};
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::{Plan, VlanId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Time a script or a collection of state may take in one node, s: on a busy machine without KVM some
/// took over 300.
const SCRIPT_TIMEOUT_S: u64 = 900;
/// Time for LACP to bring up all cables of a LAG, s: three fast periods of one second, and the machine is
/// slow.
const LAG_WAIT_S: u64 = 120;

/// Removes every interface that is no cable, takes addresses off the cables and shuts them.
const RESET: &str = "\
set -e
names() { ip -o link show \"$@\" | cut -d: -f2 | cut -d@ -f1 | tr -d ' '; }
for kind in vlan bridge bond dummy; do
    for name in $(names type $kind); do ip link del dev \"$name\"; done
done
for name in $(names | grep -vx lo); do
    ip address flush dev \"$name\"
    ip link set dev \"$name\" down
done
";

/// Shows what [`RESET`] takes away.
const LEFT: &str = "\
for kind in vlan bridge bond dummy; do ip -o link show type $kind; done
ip -o -4 address show scope global
";

/// A cluster that is up: the plan's scripts have run, nothing has been primed.
#[derive(Debug)]
pub struct Lab {
    guest: Guest,
    layout: Layout,
    kernel: String,
    /// Each host's script of last time, without its comments.
    host_scripts: BTreeMap<String, String>,
}

/// How a job ended, with what it wrote.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// `None`: ended because its time was over.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Pairs of hosts that reach each other, over all rails.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Ordered pairs that were to be reached.
    pub pair_count: u64,
    /// Those that were not: names of sender and receiver.
    pub missing: Vec<(String, String)>,
    /// Datagrams that arrived more than once.
    pub duplicate_count: u64,
    /// Rounds of questions it took.
    pub round_count: u32,
}

impl Reach {
    fn add(&mut self, pair_count: u64, pairs: &Pairs, hosts: &[HostAddress]) {
        let name = |index: u32| hosts.get(index as usize).map_or_else(String::new, |host| host.node.clone());
        self.pair_count += pair_count;
        self.missing.extend(pairs.missing.iter().map(|&(from, to)| (name(from), name(to))));
        self.duplicate_count += pairs.duplicate_count;
        self.round_count = self.round_count.max(pairs.round_count);
    }
}

impl Lab {
    /// Boots the machine, builds the cluster, applies the plan's configuration. `on_step` hears of each.
    ///
    /// # Errors
    /// QEMU, kernel or busybox missing (with how to install them), a plan the lab cannot build, a script that
    /// fails.
    pub fn start(plan: &Plan, spec: &Spec, mut on_step: impl FnMut(&str)) -> anyhow::Result<Lab> {
        let layout = Layout::new(plan)?;
        let mut guest = Guest::boot(spec)?;
        let Reply::Ready { kernel } = guest.receive_first()? else { bail!("the agent does not greet") };
        let mut lab = Lab { guest, layout, kernel, host_scripts: BTreeMap::new() };
        on_step("booted");
        let (nodes, cables, names) = (lab.layout.nodes(), lab.layout.cables(), lab.layout.names());
        lab.done(&Request::Build { nodes, cables, names })?;
        on_step("built");
        lab.apply()?;
        on_step("configured");
        Ok(lab)
    }

    /// Version of the kernel that runs the cluster.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The plan as applied: with the lab's port names.
    pub fn plan(&self) -> &Plan {
        self.layout.plan()
    }

    /// Takes another plan of the same cables, as after a failure, and applies its configuration.
    ///
    /// # Errors
    /// As [`Lab::start`].
    pub(crate) fn change_plan(&mut self, plan: &Plan) -> anyhow::Result<()> {
        self.layout = Layout::new(plan)?;
        self.apply()
    }

    /// Runs every switch's script, then that of every host for which it says something new.
    ///
    /// # Errors
    /// A script that fails, with what it wrote.
    pub(crate) fn apply(&mut self) -> anyhow::Result<()> {
        let jobs = self.layout.switch_jobs()?;
        self.run_or_fail(jobs)?;
        self.apply_to_hosts()?;
        let lags = self.layout.lag_waits();
        self.done(&Request::WaitLags { lags, timeout_s: LAG_WAIT_S })
    }

    /// Runs the script of every host for which it says something new; how many those are.
    fn apply_to_hosts(&mut self) -> anyhow::Result<usize> {
        let mut jobs = self.layout.host_jobs();
        jobs.retain(|job| {
            let commands = job.input.lines().filter(|line| !line.starts_with('#'));
            let commands = commands.collect::<Vec<_>>().join("\n");
            self.host_scripts
                .insert(job.node.clone(), commands.clone())
                .is_none_or(|before| before != commands)
        });
        let count = jobs.len();
        self.run_or_fail(jobs)?;
        Ok(count)
    }

    /// One switch's script again.
    ///
    /// # Errors
    /// The script fails.
    pub(crate) fn apply_switch(&mut self, node: &str) -> anyhow::Result<()> {
        let jobs = self.layout.switch_jobs()?;
        self.run_or_fail(jobs.into_iter().filter(|job| job.node == node).collect())
    }

    /// Takes another plan of the same cables as `ayatori plan watch --apply-host` does: the scripts of these
    /// switches one by one, then those of hosts that change. How many hosts those are.
    ///
    /// # Errors
    /// A script fails.
    pub(crate) fn change_to(&mut self, plan: &Plan, order: &[SwitchId]) -> anyhow::Result<usize> {
        self.layout = Layout::new(plan)?;
        for &switch in order {
            let node = self.layout.switch_node(switch).to_owned();
            self.apply_switch(&node)?;
        }
        self.apply_to_hosts()
    }

    /// Takes away all that scripts have set up in switches and hosts, as a power cut does.
    ///
    /// # Errors
    /// An interface cannot be removed.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        let nodes = self.layout.nodes();
        let jobs = nodes.iter().map(|node| layout::shell_job(node, RESET.to_owned())).collect();
        self.host_scripts.clear();
        self.run_or_fail(jobs)
    }

    /// State that [`Lab::restart`] should have removed and did not, a line each.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn left_after_restart(&mut self) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        for node in self.layout.nodes() {
            let output = self.shell(&node, LEFT)?;
            left.extend(output.lines().map(|line| format!("{node}: {line}")));
        }
        Ok(left)
    }

    /// The MAC learning procedure in every host, as `ayatori plan prime` does it.
    ///
    /// # Errors
    /// A host cannot send on a VLAN.
    pub fn prime(&mut self) -> anyhow::Result<()> {
        let hosts = self.layout.primed();
        self.done(&Request::Prime { hosts })
    }

    /// The same, in up to eight hosts by the script written for hosts; answers in how many.
    ///
    /// # Errors
    /// The script fails in a host, or as [`Lab::prime`].
    pub(crate) fn prime_by_script(&mut self) -> anyhow::Result<usize> {
        let jobs = self.layout.prime_jobs();
        let scripted: BTreeSet<String> = jobs.iter().map(|job| job.node.clone()).collect();
        self.run_or_fail(jobs)?;
        let mut hosts = self.layout.primed();
        hosts.retain(|host| !scripted.contains(&host.node));
        self.done(&Request::Prime { hosts })?;
        Ok(scripted.len())
    }

    /// Runs a command in the named hosts at once, passing on each line as it comes.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn run(
        &mut self,
        hosts: &[String],
        command: &[String],
        timeout_s: u64,
        mut on_line: impl FnMut(&str, bool, &str),
    ) -> anyhow::Result<Vec<(String, Option<i32>)>> {
        let jobs = self.layout.command_jobs(hosts, command);
        let names: Vec<String> = jobs.iter().map(|job| job.node.clone()).collect();
        let mut codes = vec![None; jobs.len()];
        self.guest.send(&Request::Run { jobs, timeout_s })?;
        loop {
            match self.guest.receive()? {
                Reply::Output { job, is_error, line } => {
                    on_line(names.get(job).map_or("?", String::as_str), is_error, &line);
                }
                Reply::Ended { job, code } => {
                    if let Some(slot) = codes.get_mut(job) {
                        *slot = code;
                    }
                }
                Reply::Done => return Ok(names.into_iter().zip(codes).collect()),
                other => bail!("the agent answers a run with {other:?}"),
            }
        }
    }

    /// Runs a shell command in one node and gives back what it wrote.
    ///
    /// # Errors
    /// The machine is gone, or the command fails.
    pub(crate) fn shell(&mut self, node: &str, command: &str) -> anyhow::Result<String> {
        let job = layout::shell_job(node, command.to_owned());
        let outcome = self.jobs(vec![job])?.remove(0);
        if outcome.code != Some(0) {
            bail!("{command:?} failed in {node}: {}", outcome.errors.trim());
        }
        Ok(outcome.output)
    }

    /// Frames and bytes at every port.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn counters(&mut self) -> anyhow::Result<Vec<PortCounters>> {
        match self.ask(&Request::Counters)? {
            Reply::Counters(counters) => Ok(counters),
            other => bail!("the agent answers counters with {other:?}"),
        }
    }

    /// Every host asks every other, rail by rail: rails are networks of their own.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn all_pairs(&mut self, idle_round_count_max: u32) -> anyhow::Result<Reach> {
        let mut reach = Reach::default();
        for rail in 0..self.layout.rail_count() {
            let hosts = self.layout.addresses(rail);
            let count = hosts.len() as u64;
            match self.ask(&Request::AllPairs { hosts: hosts.clone(), idle_round_count_max })? {
                Reply::Pairs(pairs) => reach.add(count * count.saturating_sub(1), &pairs, &hosts),
                other => bail!("the agent answers pairs with {other:?}"),
            }
        }
        Ok(reach)
    }

    /// `count` datagrams from one host to another; how many arrived.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn send(&mut self, from: &HostAddress, to: &HostAddress, count: u32) -> anyhow::Result<u32> {
        let request = Request::Send { from: from.clone(), to: to.clone(), count, payload_bytes: 64 };
        match self.ask(&request)? {
            Reply::Received(count) => Ok(count),
            other => bail!("the agent answers a send with {other:?}"),
        }
    }

    /// Lets all pairs send while all hosts prime, `count` datagrams before and after it; those sent and
    /// arrived, by pair.
    ///
    /// # Errors
    /// A host cannot send on a VLAN; the machine is gone.
    pub(crate) fn send_while_priming(
        &mut self,
        flows: Vec<(HostAddress, HostAddress)>,
        count: u32,
    ) -> anyhow::Result<Vec<(u32, u32)>> {
        let hosts = self.layout.primed();
        match self.ask(&Request::SendWhilePriming { flows, hosts, count })? {
            Reply::Loaded(counts) => Ok(counts),
            other => bail!("the agent answers a loaded priming with {other:?}"),
        }
    }

    /// `count` broadcasts from the first rail's `host`-th host, to the subnet of its application address or
    /// of a VLAN; how many each host of the rail heard, in the plan's order.
    ///
    /// # Errors
    /// The machine is gone.
    pub(crate) fn broadcast(
        &mut self,
        host: usize,
        vlan: Option<VlanId>,
        count: u32,
    ) -> anyhow::Result<Vec<u32>> {
        let hosts = self.layout.addresses(0);
        let node = hosts.get(host).context("no such host")?;
        let (from, to) = self.layout.broadcast(node, vlan).context("the host has no address there")?;
        match self.ask(&Request::Broadcast { from, to, hosts, count })? {
            Reply::Heard(counts) => Ok(counts),
            other => bail!("the agent answers a broadcast with {other:?}"),
        }
    }

    /// Pulls a cable at one end or puts it back.
    ///
    /// # Errors
    /// There is no such port.
    pub(crate) fn set_link(&mut self, end: &End, up: bool) -> anyhow::Result<()> {
        self.done(&Request::SetLink { end: end.clone(), up })
    }

    /// Where a cable of a link is plugged in: end 0 or 1 of the plan's link.
    pub fn link_end(&self, link: usize, end: usize, cable: usize) -> End {
        let end = &self.layout.plan().links[link].ends[end];
        self.layout.switch_end(end.switch, end.ports[cable])
    }

    /// A port of a switch.
    pub(crate) fn switch_end(&self, switch: SwitchId, port: u16) -> End {
        self.layout.switch_end(switch, port)
    }

    /// Name of the node a switch is in.
    pub(crate) fn switch_node(&self, switch: SwitchId) -> &str {
        self.layout.switch_node(switch)
    }

    /// Writes the state of every switch into `folder`, as `ayatori plan check --from` reads it.
    ///
    /// # Errors
    /// A switch does not answer; the folder cannot be written.
    pub fn collect(&mut self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for file_kind in ["vlan.json", "link.json", "fdb.json"] {
            let jobs = self.layout.collect_jobs(file_kind);
            let names: Vec<String> = self.plan().switches.iter().map(|switch| switch.name.clone()).collect();
            for (name, outcome) in names.iter().zip(self.jobs(jobs)?) {
                if outcome.code != Some(0) {
                    bail!("cannot read the state of {name}: {}", outcome.errors.trim());
                }
                let path = folder.join(format!("{name}.{file_kind}"));
                std::fs::write(&path, outcome.output)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn run_or_fail(&mut self, jobs: Vec<Job>) -> anyhow::Result<()> {
        let nodes: Vec<String> = jobs.iter().map(|job| job.node.clone()).collect();
        for (node, outcome) in nodes.iter().zip(self.jobs(jobs)?) {
            match outcome.code {
                Some(0) => {}
                Some(code) => bail!("the script of {node} failed ({code}):\n{}", outcome.errors.trim()),
                None => bail!("the script of {node} did not end within {SCRIPT_TIMEOUT_S} s"),
            }
        }
        Ok(())
    }

    fn jobs(&mut self, jobs: Vec<Job>) -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = vec![Outcome::default(); jobs.len()];
        self.guest.send(&Request::Run { jobs, timeout_s: SCRIPT_TIMEOUT_S })?;
        loop {
            match self.guest.receive()? {
                Reply::Output { job, is_error, line } => {
                    if let Some(outcome) = outcomes.get_mut(job) {
                        let text = if is_error { &mut outcome.errors } else { &mut outcome.output };
                        *text += &line;
                        text.push('\n');
                    }
                }
                Reply::Ended { job, code } => {
                    if let Some(outcome) = outcomes.get_mut(job) {
                        outcome.code = code;
                    }
                }
                Reply::Done => return Ok(outcomes),
                Reply::Failed(why) => bail!("{why}"),
                other => bail!("the agent answers a run with {other:?}"),
            }
        }
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        self.guest.send(request)?;
        match self.guest.receive()? {
            Reply::Failed(why) => bail!("{why}"),
            reply => Ok(reply),
        }
    }

    fn done(&mut self, request: &Request) -> anyhow::Result<()> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            other => bail!("the agent answers with {other:?}"),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A clean end where possible; dropping the guest ends it in any case.
        let _ = self.guest.send(&Request::PowerOff);
    }
}
