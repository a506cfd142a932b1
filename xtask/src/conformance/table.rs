//! Tables of other people's programs and of what is run of each, `conformance/packages.toml` and
//! `conformance/binaries.toml`: reading one and choosing from it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use crate::paths;

/// What a table lists: a program, or a package of several, with its runs.
pub(super) trait Listed: DeserializeOwned {
    type Run;

    fn name(&self) -> &str;

    fn runs(&self) -> &[Self::Run];

    fn name_of(run: &Self::Run) -> &str;

    /// What it is, in a line.
    fn about(&self) -> String;

    fn full_name(&self, run: &Self::Run) -> String {
        format!("{}/{}", self.name(), Self::name_of(run))
    }
}

/// A file of `conformance/`; a list `[[program]]` or `[[package]]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "L: Listed"))]
pub(super) struct Table<L> {
    #[serde(alias = "package")]
    pub(super) program: Vec<L>,
}

/// `--only` of a suite that has a table.
#[derive(clap::Args)]
pub(super) struct Only {
    /// Only programs, or runs `program/run`, whose name contains one of these; `list` names all.
    #[arg(long = "only", value_delimiter = ',')]
    names: Vec<String>,
}

impl Only {
    pub(super) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }
}

impl<L: Listed> Table<L> {
    /// Reads `conformance/FILE`.
    ///
    /// # Errors
    /// It is no such table, or lists a run twice.
    pub(super) fn read(file: &str) -> Result<Self> {
        let path = paths::root().join("conformance").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is wrong", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for (program, run) in table.runs() {
            if !names.insert(program.full_name(run)) {
                bail!("it lists {} twice", program.full_name(run));
            }
        }
        Ok(table)
    }

    /// Every run, with its program.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&L, &L::Run)> {
        self.program.iter().flat_map(|program| program.runs().iter().map(move |run| (program, run)))
    }

    /// The run of that full name.
    pub(super) fn find(&self, name: &str) -> Option<(&L, &L::Run)> {
        self.runs().find(|(program, run)| program.full_name(run) == name)
    }

    /// The programs of which a run is wanted; none, after printing the table, where a list was.
    ///
    /// # Errors
    /// No name has what `only` says.
    pub(super) fn wanted(&self, only: &Only) -> Result<Vec<&L>> {
        if only.names.iter().any(|name| name == "list") {
            for program in &self.program {
                println!("{:18} {} runs: {}", program.name(), program.runs().len(), program.about());
            }
            return Ok(Vec::new());
        }
        let has_wanted = |program: &&L| program.runs().iter().any(|run| only.wants(&program.full_name(run)));
        let wanted: Vec<&L> = self.program.iter().filter(has_wanted).collect();
        if wanted.is_empty() {
            let names = only.names.join(" or ");
            bail!("no program or run has {names} in its name; `--only list` names them");
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Program {
        name: String,
        run: Vec<String>,
    }

    impl Listed for Program {
        type Run = String;

        fn name(&self) -> &str {
            &self.name
        }

        fn runs(&self) -> &[String] {
            &self.run
        }

        fn name_of(run: &String) -> &str {
            run
        }

        fn about(&self) -> String {
            String::new()
        }
    }

    fn only(names: &[&str]) -> Only {
        Only { names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn a_run_listed_twice_is_named() {
        let text = "[[program]]\nname = 'a'\nrun = ['x', 'y']\n";
        assert_eq!(Table::<Program>::parse(text).unwrap().runs().count(), 2);
        let twice = format!("{text}[[program]]\nname = 'a'\nrun = ['y']\n");
        assert_eq!(Table::<Program>::parse(&twice).err().unwrap().to_string(), "it lists a/y twice");
        assert!(Table::<Program>::parse("[[other]]\nname = 'a'\nrun = []\n").is_err());
    }

    #[test]
    fn programs_are_chosen_by_a_part_of_a_runs_name() {
        let text = "[[package]]\nname = 'a'\nrun = ['x']\n[[package]]\nname = 'b'\nrun = ['y', 'z']\n";
        let table = Table::<Program>::parse(text).unwrap();
        let names = |names: &[&str]| -> Vec<&str> {
            table.wanted(&only(names)).unwrap().into_iter().map(|program| program.name()).collect()
        };
        assert_eq!((names(&[]), names(&["b/z"]), names(&["list"])), (vec!["a", "b"], vec!["b"], vec![]));
        assert!(table.wanted(&only(&["q"])).is_err_and(|error| error.to_string().contains("has q in")));
        assert!(table.find("b/z").is_some() && table.find("b/x").is_none());
    }
}
