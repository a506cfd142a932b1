//! The scripts of hosts, if a repair changes them: a host that has not taken its script gets it again later.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use ayatori_fabric::dialect::ConfigFile;
use ayatori_fabric::plan::Plan;

use super::{APPLY, Agent, Command, files, in_parallel};
use crate::commands::plan::repairs::changed_hosts;

/// Names of the hosts that have not taken their script, a line each.
const HOSTS_LEFT: &str = "hosts-left";
/// Rounds until they are asked again: a host that does not answer keeps a round for as long as a command may
/// take.
const RETRY_ROUNDS: u32 = 12;
/// The script that sends the learning frames, the same for every host.
const PRIME: &str = "hosts/ayatori-prime";

/// Hosts whose script is not that of the plan on the switches.
#[derive(Debug, Default)]
pub(super) struct HostFiles {
    left: BTreeSet<String>,
    /// Since they were asked last.
    rounds: u32,
}

impl HostFiles {
    /// As it was when the last watch ended.
    ///
    /// # Errors
    /// A name that is no host's.
    pub(super) fn load(repairs: &Path, plan: &Plan) -> anyhow::Result<HostFiles> {
        let file = repairs.join(HOSTS_LEFT);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let left: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        let unknown = left.iter().find(|name| plan.hosts.iter().all(|host| host.name != **name));
        match unknown {
            Some(name) => anyhow::bail!("{}: {name:?} is no host of this machine", file.display()),
            None => Ok(HostFiles { left, rounds: 0 }),
        }
    }

    fn keep(&self, repairs: &Path) -> anyhow::Result<()> {
        let text = self.left.iter().map(|name| format!("{name}\n")).collect();
        files::write_file(repairs, &ConfigFile { name: HOSTS_LEFT.into(), text, executable: false })
    }
}

impl Agent<'_> {
    /// Gives the hosts what has changed for them. The network works while one has the script of before: the
    /// frames to it on new VLANs are flooded until it is primed there.
    pub(super) fn change_hosts(&mut self, target: &Plan, changed: &[ConfigFile]) -> anyhow::Result<()> {
        let names = changed_hosts(changed);
        if names.is_empty() {
            return Ok(());
        }
        if self.args.apply.is_none() {
            self.write_hosts(target)?;
            let path = self.args.repairs.join(APPLY).join("hosts");
            return self.say(&format!("would apply scripts of {} to {} hosts", path.display(), names.len()));
        }
        self.hosts.left.extend(names.into_iter().map(str::to_owned));
        self.give_to_hosts(target)
    }

    /// From time to time, those that have not taken their script are asked again, and prime if they have.
    pub(super) fn retry_hosts(&mut self) -> anyhow::Result<()> {
        if self.hosts.left.is_empty() || self.args.apply.is_none() || self.args.apply_host.is_none() {
            return Ok(());
        }
        self.hosts.rounds += 1;
        if self.hosts.rounds < RETRY_ROUNDS {
            return Ok(());
        }
        let before = self.hosts.left.clone();
        let plan = self.now.plan.clone();
        self.give_to_hosts(&plan)?;
        let taken: BTreeSet<&str> = before.difference(&self.hosts.left).map(String::as_str).collect();
        if taken.is_empty() {
            return Ok(());
        }
        for name in &taken {
            self.say(&format!("{name} has taken its script"))?;
        }
        self.prime(|host| taken.contains(host))
    }

    /// Names the hosts that have not taken their script, if no command may give it to them.
    pub(super) fn tell_hosts_left(&self) -> anyhow::Result<()> {
        let count = self.hosts.left.len();
        if count == 0 || self.args.apply_host.is_some() {
            return Ok(());
        }
        self.say(&format!("{count} hosts have not taken their script; --apply-host gives it to them"))
    }

    fn write_hosts(&self, plan: &Plan) -> anyhow::Result<()> {
        let folder = self.args.repairs.join(APPLY);
        let mut all = files::all(plan)?;
        all.retain(|file| file.name.starts_with("hosts/"));
        all.iter().try_for_each(|file| files::write_file(&folder, file))
    }

    fn give_to_hosts(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let Some(apply) = &self.args.apply_host else { return Ok(()) };
        self.write_hosts(plan)?;
        self.hosts.rounds = 0;
        let folder = self.args.repairs.join(APPLY);
        let path = |name: &str| -> anyhow::Result<String> {
            let path = folder.join(name);
            let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
            Ok(path.to_str().context("a path that is no UTF-8")?.to_owned())
        };
        let prime = path(PRIME)?;
        let names: Vec<String> = self.hosts.left.iter().cloned().collect();
        let mut commands = Vec::new();
        for name in &names {
            let file = path(&format!("hosts/{name}.sh"))?;
            commands.push(Command::new(apply, &[("HOST", name), ("FILE", &file), ("PRIME", &prime)]));
        }
        for (name, output) in names.iter().zip(in_parallel(&commands, self.timeout())) {
            match output {
                Ok(_) => _ = self.hosts.left.remove(name),
                Err(error) => self.say(&format!("{name} does not take its script: {error:#}"))?,
            }
        }
        self.hosts.keep(&self.args.repairs)
    }
}
