//! `cargo xtask mutants`: bugs on purpose in the engine's source, one at a time, to show that fault runs find them.
//!
//! The repository is copied to the target folder; each bug replaces some text in a file of the copy, which is built and put
//! through the worlds of `crates/sim/tests/fuzz`. The copy without a bug goes first and must be clean. A bug that does not
//! build, or that no world finds, fails the command.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{paths, process};

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only bugs whose name contains this; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Say which there are, and do nothing.
    #[arg(long)]
    list: bool,
}

/// What is broken, below the root.
const SOURCE: &str = "crates/core/src";

/// A bug: what it is, and the text of which file becomes what.
struct Mutant {
    name: &'static str,
    what: &'static str,
    /// Below [`SOURCE`].
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const MUTANTS: [Mutant; 37] = [
    Mutant {
        name: "wildcard-order",
        what: "of the receives that match a message, the one posted last of another wildcard class takes it",
        file: "matching.rs",
        from: "stamp < first)",
        to: "stamp > first)",
    },
    Mutant {
        name: "withdrawn-receive",
        what: "a cancelled receive stays in matching",
        file: "process/commands.rs",
        from: "                self.posted.withdraw(key, id.index);\n                self.complete_cancelled(id);",
        to: "                let _ = key;\n                self.complete_cancelled(id);",
    },
    Mutant {
        name: "credit-leak",
        what: "a consumed message gives back one cell of credit less than it cost",
        file: "process/commands.rs",
        from: "        link.owed += cells;",
        to: "        link.owed += cells - 1;",
    },
    Mutant {
        name: "credit-ignored",
        what: "eager messages are sent beyond the credit held",
        file: "process/commands.rs",
        from: "        link.credits -= cells;\n        if mode == SendMode::Synchronous",
        to: "        link.credits -= cells / 2;\n        if mode == SendMode::Synchronous",
    },
    Mutant {
        name: "double-delivery",
        what: "an eager message is delivered to two receives that match it",
        file: "process/inputs.rs",
        from: "        if self.deliver(envelope, payload) {\n            self.acknowledge",
        to: "        if self.deliver(envelope, payload) {\n            self.deliver(envelope, payload);\n            \
             self.acknowledge",
    },
    Mutant {
        name: "lost-fin",
        what: "one FIN in eight is not sent",
        file: "process/rendezvous.rs",
        from: "        self.offer_or_queue(device, index, Header::Fin(peer), Buffer::EMPTY);",
        to: "        if peer.index % 8 != 7 {\n            \
             self.offer_or_queue(device, index, Header::Fin(peer), Buffer::EMPTY);\n        }",
    },
    Mutant {
        name: "early-fin",
        what: "FIN is sent while gets or puts are in flight",
        file: "process/rendezvous.rs",
        from: "        if moving.issued < moving.total || moving.in_flight > 0 {",
        to: "        if moving.issued < moving.total {",
    },
    Mutant {
        name: "early-change-of-way",
        what: "a refused message goes on as packets while gets or puts are in flight (the finding of seed 1420)",
        file: "process/rendezvous.rs",
        from: "        if moving.in_flight > 0 {\n            return;\n        }\n        match &request.state {",
        to: "        match &request.state {",
    },
    Mutant {
        name: "fragment-count",
        what: "a message in packets is complete one byte early",
        file: "process/rendezvous.rs",
        from: "let whole = *received >= *total;",
        to: "let whole = *received + 1 >= *total;",
    },
    Mutant {
        name: "early-match",
        what: "a synchronous send completes when its message arrives, not when it is matched",
        file: "process/inputs.rs",
        from: "        let data = self.store(payload);\n",
        to: "        if let Some(sender) = sync {\n            \
             self.queue_control(index, Header::Matched(sender));\n        }\n        \
             let data = self.store(payload);\n",
    },
    Mutant {
        name: "cancel-race",
        what: "the answer that a message was matched after all is taken for a cancellation",
        file: "process/inputs.rs",
        from: "        if !yes {",
        to: "        if !yes && self.requests.get(id).is_none() {",
    },
    Mutant {
        name: "registration-leak",
        what: "memory stays registered when its request has ended",
        file: "process/mod.rs",
        from: "            self.deregister.extend(core::mem::take(&mut extra.registered).iter());",
        to: "            drop(core::mem::take(&mut extra.registered));",
    },
    Mutant {
        name: "unheard-death",
        what: "a receive from anybody is not told that a process is gone",
        file: "process/inputs.rs",
        from: "from.is_none_or(|from| from == peer)",
        to: "from.is_some_and(|from| from == peer)",
    },
    Mutant {
        name: "mixed-contexts",
        what: "collective operations share their context with point-to-point messages",
        file: "process/collective.rs",
        from: "let context = communicator.context().collective();",
        to: "let context = communicator.context();",
    },
    Mutant {
        name: "bystander",
        what: "a collective operation goes on when a member dies with which it exchanges nothing (seed 11)",
        file: "process/inputs.rs",
        from: "        self.fail_collectives(peer, error);\n",
        to: "",
    },
    Mutant {
        name: "early-failure",
        what: "a failed collective operation is over while its messages still use the buffers",
        file: "process/collective.rs",
        from: "status == coll::Status::Running || running.schedule.in_flight_count() > 0",
        to: "status == coll::Status::Running",
    },
    Mutant {
        name: "lost-packet",
        what: "trunk: a packet of the stream that a rail has lost is not sent again",
        file: "link/trunk.rs",
        from: "        Carried::Stream(sequence) => stream.on_lost(sequence),",
        to: "        Carried::Stream(_) => {}",
    },
    Mutant {
        name: "lost-unit",
        what: "trunk: a piece of a long message that a rail has lost is not sent again",
        file: "process/trunking.rs",
        from: "        let again = spread.on_lost(run);",
        to: "        let again = run.first % 4 != 3 && spread.on_lost(run);",
    },
    Mutant {
        name: "out-with-debts",
        what: "trunk: what a rail owes when it is taken out does not go over the others",
        file: "link/rail.rs",
        from: "            settle(sent.carried, false);\n        }\n    }\n\n    /// The peer is lost",
        to: "            let _ = (&mut settle, sent);\n        }\n    }\n\n    /// The peer is lost",
    },
    Mutant {
        name: "duplicate-packet",
        what: "trunk: a packet that has been here is handled again, at its next turn",
        file: "link/reorder.rs",
        from: "            ahead if ahead >= 1 << 31 => Place::Duplicate,",
        to: "            ahead if ahead >= 1 << 31 => Place::Now,",
    },
    Mutant {
        name: "sequence-gap",
        what: "trunk: a packet is handled although those before it have not come",
        file: "link/reorder.rs",
        from: "            _ => Place::Hold,\n",
        to: "            _ => Place::Now,\n",
    },
    Mutant {
        name: "duplicate-unit",
        what: "trunk: a piece that comes twice counts twice",
        file: "link/spread.rs",
        from: "    /// Units have come. Whether all have.\n    pub(crate) fn on_come(&mut self, run: Run) -> bool {\n        \
               for unit in run.first..run.first + run.count {\n            \
               self.left -= u32::from(self.come.insert(unit));",
        to: "    /// Units have come. Whether all have.\n    pub(crate) fn on_come(&mut self, run: Run) -> bool {\n        \
             for unit in run.first..run.first + run.count {\n            \
             self.come.insert(unit);\n            self.left = self.left.saturating_sub(1);",
    },
    Mutant {
        name: "put-again",
        what: "trunk: lost pieces are put again, into memory that the receiver may have given back",
        file: "process/trunking.rs",
        from: "let key = if spread.is_again() { None } else { spread.keys.get(rail) };",
        to: "let key = spread.keys.get(rail);",
    },
    Mutant {
        name: "silent-rail",
        what: "trunk: a silent rail is never taken out",
        file: "link/health.rs",
        from: "    if others_heard_at.is_some_and(|at| at >= waiting_since + half) {\n        return Verdict::LookAgain;",
        to: "    if others_heard_at.is_some_and(|at| at >= waiting_since + half) {\n        \
             return Verdict::Wait(now + half);",
    },
    Mutant {
        name: "rail-not-taken-back",
        what: "trunk: a rail that has returned is never used again",
        file: "link/trunk.rs",
        from: "            && state.health != Health::Up\n        {\n            state.take_back(now);",
        to: "            && state.health == Health::Silent\n        {\n            state.take_back(now);",
    },
    Mutant {
        name: "peer-never-given-up",
        what: "trunk: a peer without any rail is waited for without end",
        file: "link/trunk.rs",
        from: "        self.none_up_since.is_none_or(|since| now < since + self.config.peer_timeout)\n    }",
        to: "        self.none_up_since.is_none_or(|since| now >= since)\n    }",
    },
    Mutant {
        name: "given-up-in-haste",
        what: "trunk: a peer is given up when its last rail breaks",
        file: "link/trunk.rs",
        from: "        self.none_up_since.is_none_or(|since| now < since + self.config.peer_timeout)\n    }",
        to: "        self.none_up_since.is_none_or(|since| now < since)\n    }",
    },
    Mutant {
        name: "no-farewell",
        what: "trunk: a peer that was given up and does not know is not told",
        file: "process/inputs.rs",
        from: "                    self.refuse_packet(device, &incoming, index);\n",
        to: "",
    },
    Mutant {
        name: "no-keepalive",
        what: "trunk: a receive alone never finds out that nothing comes any more",
        file: "process/trunking.rs",
        from: "        if self.now >= self.next_keepalive {",
        to: "        if self.now > Instant::FAR_FUTURE {",
    },
    Mutant {
        name: "lost-wakeup",
        what: "trunk: an acknowledgement that makes room does not wake the message that waits for it",
        file: "process/trunking.rs",
        from: "            self.settle(index);\n            self.wake_waiting(index);\n        }\n        let payload = [",
        to: "            self.settle(index);\n        }\n        let payload = [",
    },
    Mutant {
        name: "past-deadline",
        what: "trunk: a process asks to be called at a time that is past, again and again",
        file: "process/outputs.rs",
        from: "(deadline < Instant::FAR_FUTURE).then_some(deadline.max(self.next_check))",
        to: "(deadline < Instant::FAR_FUTURE).then_some(deadline)",
    },
    Mutant {
        name: "get-by-dead-rail",
        what: "trunk: a message is got by the first rail, works it or not",
        file: "process/rendezvous.rs",
        from: "            let found = self.remote.iter().find(|(rail, _)| trunk.is_up(*rail));",
        to: "            let found = self.remote.iter().next();",
    },
    Mutant {
        name: "broken-put",
        what: "trunk: what a put carried that broke with its rail is not sent again",
        file: "process/trunking.rs",
        from: "        if !worked {\n            self.settle_units(index, placed.request, placed.run, false);\n        }\n",
        to: "",
    },
    Mutant {
        name: "fetch-over-known",
        what: "trunk: a packet's payload is fetched over pieces that have come: damage to it is damage to them",
        file: "process/trunking.rs",
        from: "let Ok(Some(Located { run, place, known_count: 0 })) = located else",
        to: "let Ok(Some(Located { run, place, .. })) = located else",
    },
    Mutant {
        name: "fetched-in-part",
        what: "trunk: a packet of which a part has been fetched is taken for whole",
        file: "process/trunking.rs",
        from: "if device.fetch(incoming, place) != Fetched::Whole {",
        to: "if device.fetch(incoming, place) == Fetched::Lost {",
    },
    Mutant {
        name: "fetch-for-anybody",
        what: "a message is received in parts by a receive from anybody, which may take another meanwhile",
        file: "process/inputs.rs",
        from: "                        let State::Posted { peer: Some(_), .. } = request.state else { return None };\n",
        to: "",
    },
    Mutant {
        name: "put-leak",
        what: "trunk: a put to a peer that dies is never forgotten",
        file: "process/inputs.rs",
        from: "                    self.requests.remove(id);\n                    continue;\n",
        to: "",
    },
];

/// `cargo xtask mutants`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |mutant: &&Mutant| {
        options.only.is_empty() || options.only.iter().any(|part| mutant.name.contains(part))
    };
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(wanted).collect();
    if mutants.is_empty() {
        bail!("no bug's name contains `{}`; --list shows them", options.only.join("` or `"));
    }
    if options.list {
        for mutant in mutants {
            println!("{:20} {} ({})", mutant.name, mutant.what, mutant.file);
        }
        return Ok(());
    }
    let copy = Copy::make()?;
    if let Some(found) = copy.worlds("the copy without a bug")? {
        bail!("worlds are not clean without a bug: {found}");
    }
    println!("no bug                clean");
    let mut missed = Vec::new();
    for mutant in &mutants {
        match copy.with(mutant)? {
            Some(found) => println!("{:20}  found: {found}", mutant.name),
            None => {
                println!("{:20}  NOT FOUND: {}", mutant.name, mutant.what);
                missed.push(mutant.name);
            }
        }
    }
    println!("mutants: {} passed, {} failed", mutants.len() - missed.len(), missed.len());
    if !missed.is_empty() {
        bail!("not found by any world: {}", missed.join(", "));
    }
    Ok(())
}

/// A copy of the repository, to break things in.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Brings the copy up to date; what has not changed is left alone, so that cargo does not build it again.
    fn make() -> Result<Copy> {
        let home = paths::target_dir().join("mutants");
        let copy = Copy { root: home.join("copy"), target: home.join("target") };
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(paths::root())
            .output()
            .context("cannot start git")?;
        if !listing.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
        }
        let mut kept = BTreeSet::new();
        for name in String::from_utf8(listing.stdout)?.split_terminator('\0') {
            // A file that git knows and that was deleted is not copied.
            if let Ok(content) = fs::read(paths::root().join(name)) {
                let path = copy.root.join(name);
                write_if_other(&path, &content)?;
                kept.insert(path);
            }
        }
        remove_others(&copy.root, &kept)?;
        Ok(copy)
    }

    /// What worlds find with a bug built in.
    fn with(&self, mutant: &Mutant) -> Result<Option<String>> {
        let path = self.root.join(SOURCE).join(mutant.file);
        let sound = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(&path, mutant.applied_to(&sound)?)?;
        let found = self.worlds(mutant.name);
        fs::write(&path, sound)?;
        found
    }

    /// What is wrong in the copy, by its worlds.
    fn worlds(&self, name: &str) -> Result<Option<String>> {
        const BUILD_LIMIT: Duration = Duration::from_secs(1_200);
        const RUN_LIMIT: Duration = Duration::from_secs(600);
        let build = process::capture(self.cargo().arg("--no-run"), BUILD_LIMIT)?;
        if !build.success() {
            bail!("{name} does not build: {}\n{}", build.reason(), build.stderr);
        }
        let run = process::capture(self.cargo().arg("worlds_keep_every_promise"), RUN_LIMIT)?;
        if run.success() {
            return Ok(None);
        }
        let said = run.stdout.lines().chain(run.stderr.lines());
        let violation = said.into_iter().find(|line| line.starts_with("seed "));
        Ok(Some(violation.map_or_else(|| run.reason(), str::to_owned)))
    }

    /// The fault runs of the copy, optimised but built quickly.
    fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--release", "-p", "ayatori-sim", "--test", "fuzz"]).current_dir(&self.root);
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_INCREMENTAL", "1");
        cargo
    }
}

impl Mutant {
    /// The text with the bug in it.
    fn applied_to(&self, text: &str) -> Result<String> {
        match text.matches(self.from).count() {
            1 => Ok(text.replacen(self.from, self.to, 1)),
            count => bail!(
                "the bug `{}` replaces a text that stands {count} times in {}: mend its entry in xtask/src/mutants.rs",
                self.name,
                self.file
            ),
        }
    }
}

/// Takes out what a copy made of an earlier state has and this one has not: cargo would find it.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    let failed = || format!("cannot clear {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        if entry.file_type().with_context(failed)?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).with_context(failed)?;
        }
    }
    Ok(())
}

fn write_if_other(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_place_in_todays_source_and_changes_it() {
        for mutant in &MUTANTS {
            let text = fs::read_to_string(paths::root().join(SOURCE).join(mutant.file)).unwrap();
            assert_ne!(mutant.applied_to(&text).unwrap(), text, "{}", mutant.name);
        }
    }

    #[test]
    fn a_copy_keeps_nothing_of_an_earlier_state() {
        let folder = std::env::temp_dir().join(format!("ayatori-mutants-{}", std::process::id()));
        let [kept, stale] = ["a/kept.rs", "a/b/stale.rs"].map(|name| folder.join(name));
        for path in [&kept, &stale] {
            write_if_other(path, b"").unwrap();
        }
        remove_others(&folder, &BTreeSet::from([kept.clone()])).unwrap();
        assert!(kept.is_file() && !stale.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_bug_whose_place_is_gone_says_where_to_mend_it() {
        let error = MUTANTS[0].applied_to("").unwrap_err().to_string();
        assert!(error.contains("0 times") && error.contains("xtask/src/mutants.rs"), "{error}");
    }
}
