//! `ayatori plan watch`: asks the switches what they see, and applies the repair for what fails.
//!
//! `ayatori_fabric::watch` decides the actions; this module has the commands that query and apply, and the
//! clock. `target` chooses the plan, `hosts` handles the scripts of hosts.

mod commands;
mod hosts;
mod target;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use ayatori_fabric::check::Shown;
use ayatori_fabric::dialect::by_name;
use ayatori_fabric::graph::SwitchId;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan::Failure;
use ayatori_fabric::watch::{Action, Outcome, Round, Settings, Watch};

use super::files;
use super::repairs::{Whole, changed_hosts};
use crate::exit::Exit;
use commands::{Command, in_parallel};
use hosts::HostFiles;
use target::{Chosen, Target};

/// What `ayatori plan watch` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Commands run by `sh -c`. SWITCH is the switch's name, HOST the host's, FILE a file; \
    for a host, PRIME is the script ayatori-prime.\n\n\
    ayatori plan repairs m.toml --plan config --out config/repairs\n\
    ayatori plan watch m.toml --plan config --repairs config/repairs \\\n  \
    --show 'ssh \"$SWITCH\" \"lldpcli -f json show neighbors; ip -j link show\"' \\\n  \
    --apply 'ssh \"$SWITCH\" sh -s < \"$FILE\"' --prime 'ssh \"$HOST\" systemctl start ayatori-prime'"
)]
pub(crate) struct Args {
    /// The machine description
    file: PathBuf,
    /// The plan in use: its plan.json, or the folder that --out wrote
    #[arg(long, value_name = "PLAN")]
    plan: PathBuf,
    /// The folder that `ayatori plan repairs` wrote
    #[arg(long, value_name = "DIR")]
    repairs: PathBuf,
    /// Prints what $SWITCH sees: lldpcli -f json show neighbors, ip -j link show, or show lldp neighbors
    #[arg(long, value_name = "COMMAND")]
    show: String,
    /// Enters $FILE into $SWITCH; without it, what would be applied is only said
    #[arg(long, value_name = "COMMAND")]
    apply: Option<String>,
    /// Enters $FILE and $PRIME into $HOST; without it, repairs that change hosts are not applied
    #[arg(long, value_name = "COMMAND")]
    apply_host: Option<String>,
    /// After a change: primes from $HOST; without it you are reminded
    #[arg(long, value_name = "COMMAND")]
    prime: Option<String>,
    /// Seconds from one round to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    every: u64,
    /// Seconds a command may take
    #[arg(long, value_name = "SECONDS", default_value = "20")]
    timeout: std::num::NonZeroU64,
    /// Rounds that have to agree before a repair
    #[arg(long, value_name = "ROUNDS", default_value = "2")]
    confirm: std::num::NonZeroU32,
    /// Rounds that have to agree before what is back is used again
    #[arg(long, value_name = "ROUNDS", default_value = "5")]
    restore: std::num::NonZeroU32,
    /// Changes in an hour, at most
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    changes: usize,
    /// End after so many rounds
    #[arg(long, value_name = "ROUNDS")]
    rounds: Option<u64>,
}

/// Names of what the plan on the switches does without, a line each.
const STANDING: &str = "standing";
/// Files on their way to the switches.
const APPLY: &str = "apply";

struct Agent<'a> {
    args: &'a Args,
    whole: Whole,
    /// The plan on the switches.
    now: Target,
    /// Scripts that hosts have not taken yet.
    hosts: HostFiles,
    /// A change that failed in the middle: what it was for, and the switches that stand either way, in the
    /// order in which they were changed.
    partly: Option<(Vec<Failure>, Vec<SwitchId>)>,
    started: Instant,
    /// Since when something is lost or back that the plan on the switches does not reckon with.
    since: Option<Instant>,
}

/// Watches for ever, or so many rounds.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let whole = Whole::load(&args.file, &args.plan)?;
    let repaired = fs::read_to_string(args.repairs.join("plan.json")).with_context(|| {
        format!("{} has no repairs; `ayatori plan repairs` writes them", args.repairs.display())
    })?;
    if repaired != whole.text {
        bail!("{} has the repairs of another plan; run `ayatori plan repairs` again", args.repairs.display());
    }
    let settings = Settings {
        confirm_rounds: args.confirm.get(),
        restore_rounds: args.restore.get(),
        changes_max: args.changes,
        ..Settings::default()
    };
    let now = Target::whole(&whole);
    let hosts = HostFiles::load(&args.repairs, &whole.plan)?;
    let mut agent = Agent { args, whole, now, hosts, partly: None, started: Instant::now(), since: None };
    agent.now = agent.standing()?;
    let mut watch = Watch::new(settings, agent.now.failures.clone());
    let mode = if args.apply.is_some() { "repairs are applied" } else { "dry run: nothing is applied" };
    let count = agent.whole.plan.switches.len();
    agent.say(&format!("{count} switches every {} s; {mode}", args.every))?;
    agent.tell_hosts_left()?;
    let mut rounds = 0;
    loop {
        agent.round(&mut watch)?;
        rounds += 1;
        if args.rounds.is_some_and(|last| rounds >= last) {
            return Ok(Exit::Success);
        }
        std::thread::sleep(Duration::from_secs(args.every));
    }
}

impl Agent<'_> {
    fn say(&self, line: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{:9.1} s  {line}", self.started.elapsed().as_secs_f64())?;
        Ok(out.flush()?)
    }

    fn round(&mut self, watch: &mut Watch) -> anyhow::Result<()> {
        let seen = self.ask()?;
        let now_s = self.started.elapsed().as_secs();
        self.retry_hosts()?;
        for action in watch.observe(&self.whole.plan, now_s, &seen) {
            match action {
                Action::Tell(line) => {
                    self.since.get_or_insert_with(Instant::now);
                    self.say(&line)?;
                }
                Action::Apply(failures) => {
                    let result = self.change(&failures);
                    if let Err(error) = &result {
                        self.say(&format!("not applied: {error:#}"))?;
                    }
                    watch.applied(match result {
                        Ok(()) => Outcome::Done,
                        Err(_) if self.partly.is_some() => Outcome::Partly,
                        Err(_) => Outcome::NotBegun,
                    });
                }
            }
        }
        Ok(())
    }

    /// The port states of every switch that answers.
    fn ask(&self) -> anyhow::Result<Round> {
        let switches = &self.whole.plan.switches;
        let commands: Vec<Command> = switches
            .iter()
            .map(|switch| Command::new(&self.args.show, &[("SWITCH", &switch.name)]))
            .collect();
        let mut round = Round::new();
        for (switch, output) in switches.iter().zip(in_parallel(&commands, self.timeout())) {
            match output.and_then(|text| Shown::parse(&text).map_err(anyhow::Error::msg)) {
                Ok(shown) => _ = round.insert(switch.name.clone(), shown),
                Err(error) if self.is_first_round() => {
                    self.say(&format!("{}: {error:#}", switch.name))?;
                }
                // The state machine reports once that it does not answer.
                Err(_) => {}
            }
        }
        Ok(round)
    }

    /// Why a switch does not answer is said in the beginning, when commands are wrong.
    fn is_first_round(&self) -> bool {
        self.started.elapsed() < self.timeout()
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.args.timeout.get())
    }

    /// Brings the plan without `failures` onto the switches, and onto the hosts what they need for it;
    /// without `--apply`, says what would be done.
    fn change(&mut self, failures: &[Failure]) -> anyhow::Result<()> {
        let Chosen { target, order, advice } = self.choose(failures)?;
        let what = target.name(&self.whole);
        advice.map_or(Ok(()), |line| self.say(&line))?;
        let old = files::all(&self.now.plan)?;
        let mut changed = files::all(&target.plan)?;
        changed.retain(|file| !old.contains(file));
        let names = changed_hosts(&changed).len();
        if names > 0 && self.args.apply_host.is_none() {
            bail!("{what}: the scripts of {names} hosts change too; --apply-host lets that be applied");
        }
        self.take_back(failures)?;
        self.say(&format!("{what}: {} switches to change", order.len()))?;
        for switch in order {
            if self.args.apply.is_some() {
                let (_, changed) = self.partly.get_or_insert_with(|| (failures.to_vec(), Vec::new()));
                if !changed.contains(&switch) {
                    changed.push(switch);
                }
            }
            self.apply_to(&target.plan, switch)?;
        }
        self.partly = None;
        self.change_hosts(&target.plan, &changed)?;
        self.prime(|_| true)?;
        let took = self.since.take().map(|since| since.elapsed().as_secs_f64());
        let took = took.map_or_else(String::new, |took| format!(", {took:.1} s after it was seen"));
        if self.args.apply.is_some() {
            self.keep_standing(&target)?;
            self.say(&format!("applied: {what}{took}"))?;
        }
        self.now = target;
        Ok(())
    }

    /// Where another change failed in the middle: the switches go back the way that they came, through states
    /// that had no loop. The same change again changes all of them again.
    fn take_back(&mut self, failures: &[Failure]) -> anyhow::Result<()> {
        let Some((attempted, mut left)) = self.partly.take() else { return Ok(()) };
        if attempted != failures {
            self.say(&format!("taken back: {} switches that a change in part has reached", left.len()))?;
            while let Some(&switch) = left.last() {
                if let Err(error) = self.apply_to(&self.now.plan, switch) {
                    self.partly = Some((attempted, left));
                    return Err(error);
                }
                left.pop();
            }
            return Ok(());
        }
        self.partly = Some((attempted, left));
        Ok(())
    }

    fn apply_to(&self, target: &Plan, switch: SwitchId) -> anyhow::Result<()> {
        let switch = target.switch(switch);
        let dialect = by_name(&switch.dialect).with_context(|| format!("no dialect {:?}", switch.dialect))?;
        let folder = self.args.repairs.join(APPLY);
        for file in dialect.emit(target, switch.id)?.files {
            files::write_file(&folder, &file)?;
            let path = folder.join(&file.name);
            // Units are for the next start of the switch, and do not change.
            if file.name.ends_with(".service") {
                continue;
            }
            let Some(apply) = &self.args.apply else {
                self.say(&format!("would apply {} to {}", path.display(), switch.name))?;
                continue;
            };
            let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
            let path = path.to_str().context("a path that is no UTF-8")?.to_owned();
            Command::new(apply, &[("SWITCH", &switch.name), ("FILE", &path)])
                .run(self.timeout())
                .with_context(|| format!("{} does not take {}", switch.name, file.name))?;
        }
        Ok(())
    }

    /// Switches have learned addresses at the old ports: these hosts send priming frames.
    fn prime(&self, is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let Some(prime) = self.args.prime.as_ref().filter(|_| self.args.apply.is_some()) else {
            return self.say("then prime every host: systemctl start ayatori-prime");
        };
        let hosts = self.whole.plan.hosts.iter();
        let hosts: Vec<_> = hosts.filter(|host| is_wanted(&host.name)).collect();
        let commands: Vec<Command> =
            hosts.iter().map(|host| Command::new(prime, &[("HOST", &host.name)])).collect();
        for (host, output) in hosts.iter().zip(in_parallel(&commands, self.timeout())) {
            if let Err(error) = output {
                self.say(&format!("{} is not primed: {error:#}", host.name))?;
            }
        }
        Ok(())
    }
}
