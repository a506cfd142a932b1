//! The Fortran compiler that the modules are made for.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::target::Target;

/// A Fortran compiler.
pub(crate) struct Compiler {
    /// A command with flags, as `FC` has it.
    pub(super) command: String,
    /// What it is called on the machine that is built for.
    pub(super) there: String,
}

impl Compiler {
    /// `AYATORI_FC`, `FC` or the first of the usual names that is installed; none where there is none.
    /// For another machine, its gfortran.
    ///
    /// # Errors
    /// The one that is named cannot be started.
    pub(crate) fn find(target: &Target) -> Result<Option<Self>> {
        if !target.is_here() {
            let cross = Self { command: target.tool("gfortran"), there: "gfortran".to_owned() };
            return Ok(cross.version().is_some().then_some(cross));
        }
        for variable in ["AYATORI_FC", "FC"] {
            if let Ok(command) = std::env::var(variable)
                && !command.trim().is_empty()
            {
                let compiler = Self { there: command.clone(), command };
                if compiler.version().is_none() {
                    bail!("{variable}={}: `{} --version` fails", compiler.command, compiler.command);
                }
                return Ok(Some(compiler));
            }
        }
        let usual = ["gfortran", "flang", "ifx"]
            .map(|name| Self { command: name.to_owned(), there: name.to_owned() });
        Ok(usual.into_iter().find(|compiler| compiler.version().is_some()))
    }

    /// What it says of itself.
    fn version(&self) -> Option<String> {
        let output = self.command().arg("--version").stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Its command and its version.
    pub(super) fn describe(&self) -> String {
        format!("{}: {}", self.command, self.version().unwrap_or_default())
    }

    /// A call of it.
    pub(super) fn command(&self) -> Command {
        let mut words = self.command.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("gfortran"));
        command.args(words);
        command
    }
}
