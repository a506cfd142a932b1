//! `cargo xtask mutants`: bugs on purpose in the engine's source, one at a time, to show that fault runs find them.
//!
//! The repository is copied to the target folder; each bug replaces some text in a file of the copy, which is built and put
//! through the worlds of `crates/sim/tests/fuzz`. The copy without a bug goes first and must be clean. A bug that does not
//! build, or that no world finds, fails the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{paths, process};

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only bugs whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Say which there are, and do nothing.
    #[arg(long)]
    list: bool,
}

/// A bug: what it is, and the text of which file becomes what.
struct Mutant {
    name: &'static str,
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const MATCHING: &str = "crates/core/src/matching.rs";
const COMMANDS: &str = "crates/core/src/process/commands.rs";
const INPUTS: &str = "crates/core/src/process/inputs.rs";
const RENDEZVOUS: &str = "crates/core/src/process/rendezvous.rs";
const PROCESS: &str = "crates/core/src/process/mod.rs";
const COLLECTIVE: &str = "crates/core/src/process/collective.rs";

const MUTANTS: [Mutant; 15] = [
    Mutant {
        name: "wildcard-order",
        what: "of the receives that match a message, the one posted last of another wildcard class takes it",
        file: MATCHING,
        from: "node.stamp < stamp)",
        to: "node.stamp > stamp)",
    },
    Mutant {
        name: "withdrawn-receive",
        what: "a cancelled receive stays in matching",
        file: COMMANDS,
        from: "                self.posted.withdraw(key, node);\n                self.complete_cancelled(id);",
        to: "                let _ = (key, node);\n                self.complete_cancelled(id);",
    },
    Mutant {
        name: "credit-leak",
        what: "a consumed message gives back one cell of credit less than it cost",
        file: COMMANDS,
        from: "        link.owed += cells;",
        to: "        link.owed += cells - 1;",
    },
    Mutant {
        name: "credit-ignored",
        what: "eager messages are sent beyond the credit held",
        file: COMMANDS,
        from: "        link.credits -= cells;\n        if mode == SendMode::Synchronous",
        to: "        link.credits -= cells / 2;\n        if mode == SendMode::Synchronous",
    },
    Mutant {
        name: "double-delivery",
        what: "an eager message is delivered to two receives that match it",
        file: INPUTS,
        from: "        if self.deliver(&envelope, payload) {\n            self.acknowledge",
        to: "        if self.deliver(&envelope, payload) {\n            self.deliver(&envelope, payload);\n            \
             self.acknowledge",
    },
    Mutant {
        name: "lost-fin",
        what: "one FIN in eight is not sent",
        file: RENDEZVOUS,
        from: "        self.offer_or_queue(device, index, Header::Fin(peer), Buffer::EMPTY);",
        to: "        if peer.index % 8 != 7 {\n            \
             self.offer_or_queue(device, index, Header::Fin(peer), Buffer::EMPTY);\n        }",
    },
    Mutant {
        name: "early-fin",
        what: "FIN is sent while gets or puts are in flight",
        file: RENDEZVOUS,
        from: "        if moving.issued < moving.total || moving.in_flight > 0 {",
        to: "        if moving.issued < moving.total {",
    },
    Mutant {
        name: "early-change-of-way",
        what: "a refused message goes on as packets while gets or puts are in flight (the finding of seed 1420)",
        file: RENDEZVOUS,
        from: "        if moving.in_flight > 0 {\n            return;\n        }\n        match &request.state {",
        to: "        match &request.state {",
    },
    Mutant {
        name: "fragment-count",
        what: "a message in packets is complete one byte early",
        file: RENDEZVOUS,
        from: "let whole = *received >= *total;",
        to: "let whole = *received + 1 >= *total;",
    },
    Mutant {
        name: "early-match",
        what: "a synchronous send completes when its message arrives, not when it is matched",
        file: INPUTS,
        from: "            let data = self.store(payload);\n",
        to: "            if let Some(sender) = sync {\n                \
             self.queue_control(index, Header::Matched(sender));\n            }\n            \
             let data = self.store(payload);\n",
    },
    Mutant {
        name: "cancel-race",
        what: "the answer that a message was matched after all is taken for a cancellation",
        file: INPUTS,
        from: "        if !yes {",
        to: "        if !yes && self.requests.get(id).is_none() {",
    },
    Mutant {
        name: "registration-leak",
        what: "memory stays registered when its request has ended",
        file: PROCESS,
        from: "            self.deregister.extend(core::mem::take(&mut extra.registered).iter());",
        to: "            drop(core::mem::take(&mut extra.registered));",
    },
    Mutant {
        name: "unheard-death",
        what: "a receive from anybody is not told that a process is gone",
        file: INPUTS,
        from: "from.is_none_or(|from| from == peer)",
        to: "from.is_some_and(|from| from == peer)",
    },
    Mutant {
        name: "mixed-contexts",
        what: "collective operations share their context with point-to-point messages",
        file: COLLECTIVE,
        from: "let context = communicator.context().collective();",
        to: "let context = communicator.context();",
    },
    Mutant {
        name: "bystander",
        what: "a collective operation goes on when a member dies with which it exchanges nothing (seed 11)",
        file: INPUTS,
        from: "        self.fail_collectives(peer, error);\n",
        to: "",
    },
];

/// `cargo xtask mutants`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted =
        |mutant: &&Mutant| options.only.as_ref().is_none_or(|part| mutant.name.contains(part.as_str()));
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(wanted).collect();
    if mutants.is_empty() {
        bail!("no bug's name contains `{}`; --list shows them", options.only.as_deref().unwrap_or_default());
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
        for name in String::from_utf8(listing.stdout)?.split_terminator('\0') {
            // A file that git knows and that was deleted is not copied.
            if let Ok(content) = fs::read(paths::root().join(name)) {
                write_if_other(&copy.root.join(name), &content)?;
            }
        }
        Ok(copy)
    }

    /// What worlds find with a bug built in.
    fn with(&self, mutant: &Mutant) -> Result<Option<String>> {
        let path = self.root.join(mutant.file);
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
            let text = fs::read_to_string(paths::root().join(mutant.file)).unwrap();
            assert_ne!(mutant.applied_to(&text).unwrap(), text, "{}", mutant.name);
        }
    }

    #[test]
    fn a_bug_whose_place_is_gone_says_where_to_mend_it() {
        let error = MUTANTS[0].applied_to("").unwrap_err().to_string();
        assert!(error.contains("0 times") && error.contains("xtask/src/mutants.rs"), "{error}");
    }
}
