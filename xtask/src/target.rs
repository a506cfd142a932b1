//! The machine that is built for: this one, or another by cross-compilation.
//!
//! Another one is named as rustc does (`rustup target add`). Its C tools have the names that Debian's cross
//! compilers have (`aarch64-linux-gnu-gcc`, `-strip`, `-gfortran`); its programs are run by qemu's user mode,
//! with the libraries that come with the compiler. What of this cargo has variables for is taken from these.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::paths;

/// Targets that have been tried: rustc's name, and the beginning of its tools' names.
const KNOWN: [(&str, &str); 2] =
    [("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"), ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu")];

/// What is built for.
pub(crate) struct Target {
    /// None: this machine.
    of: Option<(&'static str, &'static str)>,
}

impl Target {
    /// This machine.
    pub(crate) const HERE: Self = Self { of: None };

    /// The target that rustc calls `triple`; none: this machine.
    ///
    /// # Errors
    /// It is not a known one.
    pub(crate) fn named(triple: Option<&str>) -> Result<Self> {
        let Some(triple) = triple else { return Ok(Self::HERE) };
        match KNOWN.into_iter().find(|(name, _)| *name == triple) {
            Some(of) => Ok(Self { of: Some(of) }),
            None => bail!("no target `{triple}`; there are {}", KNOWN.map(|(name, _)| name).join(", ")),
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.of.is_none()
    }

    /// What `uname -m` says there.
    pub(crate) fn machine(&self) -> &'static str {
        let triple = self.of.map_or(std::env::consts::ARCH, |(triple, _)| triple);
        triple.split('-').next().unwrap_or(triple)
    }

    /// A tool of binutils or of the compilers.
    pub(crate) fn tool(&self, name: &str) -> String {
        self.of.map_or_else(|| name.to_owned(), |(_, gnu)| format!("{gnu}-{name}"))
    }

    /// The C compiler: `CC`, for another machine `CC_TRIPLE`, as the crate `cc` has it.
    pub(crate) fn cc(&self) -> String {
        let (variable, usual) = match self.of {
            None => ("CC".to_owned(), "cc".to_owned()),
            Some((triple, _)) => (format!("CC_{}", triple.replace('-', "_")), self.tool("gcc")),
        };
        std::env::var(variable).unwrap_or(usual)
    }

    /// What is built goes into folders of this name inside of those for this machine.
    fn folder(&self) -> &'static str {
        self.of.map_or("", |(triple, _)| triple)
    }

    /// Where cargo puts what is released.
    pub(crate) fn release_dir(&self) -> PathBuf {
        paths::target_dir().join(self.folder()).join("release")
    }

    /// As [`paths::build_dir`].
    pub(crate) fn build_dir(&self) -> PathBuf {
        paths::build_dir().join(self.folder())
    }

    /// Tells cargo.
    pub(crate) fn choose(&self, cargo: &mut Command) {
        let Some((triple, _)) = self.of else { return };
        cargo.args(["--target", triple]);
        let linker = variable(triple, "LINKER");
        if std::env::var_os(&linker).is_none() {
            cargo.env(linker, self.cc());
        }
    }

    /// What runs a program of the target, before the program's name: nothing here.
    pub(crate) fn runner(&self) -> Vec<String> {
        let Some((triple, gnu)) = self.of else { return Vec::new() };
        let usual = || format!("qemu-{} -L /usr/{gnu}", self.machine());
        let runner = std::env::var(variable(triple, "RUNNER")).unwrap_or_else(|_| usual());
        runner.split_whitespace().map(str::to_owned).collect()
    }

    /// The command that runs `program`.
    pub(crate) fn program(&self, program: &Path) -> Command {
        let runner = self.runner();
        let Some((first, rest)) = runner.split_first() else { return Command::new(program) };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

/// A variable of cargo's for a target.
fn variable(triple: &str, what: &str) -> String {
    format!("CARGO_TARGET_{}_{what}", triple.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_folders_of_another_machine_have_its_name() {
        let target = Target::named(Some("aarch64-unknown-linux-gnu")).unwrap();
        assert_eq!((target.machine(), &*target.tool("strip")), ("aarch64", "aarch64-linux-gnu-strip"));
        assert!(target.release_dir().ends_with("aarch64-unknown-linux-gnu/release"));
        assert_ne!(target.build_dir(), paths::build_dir());
        let name = variable("aarch64-unknown-linux-gnu", "RUNNER");
        assert_eq!(name, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER");
        assert!(Target::named(Some("pdp11")).is_err_and(|error| error.to_string().contains("aarch64-")));
    }

    #[test]
    fn this_machine_needs_no_other_names() {
        let here = Target::named(None).unwrap();
        assert!(here.is_here() && here.runner().is_empty());
        assert_eq!((here.tool("strip"), here.machine()), ("strip".to_owned(), std::env::consts::ARCH));
        assert_eq!(here.build_dir(), paths::build_dir());
        let mut cargo = Command::new("cargo");
        here.choose(&mut cargo);
        assert_eq!(cargo.get_args().count(), 0);
    }
}
