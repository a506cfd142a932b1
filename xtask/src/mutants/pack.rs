//! Test programs that are judged on another machine: one with more CPUs, and perhaps without a compiler.
//!
//! A folder with the programs, and `programs.json`, which says what they were built of.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::judge::Built;
use super::programs::Program;
use super::{Mutants, Subject};
use crate::paths;

const LIST: &str = "programs.json";

/// What `programs.json` holds.
#[derive(Serialize, Deserialize)]
struct List {
    subject: String,
    commit: String,
    /// Where the programs were built: tests find files by this path.
    built_in: PathBuf,
    /// The sources, below the root of the repository: the numbers of mutants are counted in their order.
    files: Vec<String>,
    /// How many mutants there are in them.
    count: u32,
    impossible: BTreeSet<u32>,
    programs: Vec<Packed>,
}

#[derive(Serialize, Deserialize)]
struct Packed {
    /// Which run of the subject it belongs to.
    run: String,
    file: String,
}

/// A folder of programs.
pub(super) struct Pack {
    list: List,
    programs: Vec<Program>,
}

/// Writes the programs to `folder`; `strip` makes them a third as large.
pub(super) fn write(folder: &Path, mutants: &Mutants, built: &Built, commit: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut programs = Vec::new();
    for (index, program) in built.programs.iter().enumerate() {
        let file = format!("program-{index}");
        fs::copy(&program.path, folder.join(&file))
            .with_context(|| format!("cannot copy {}", program.path.display()))?;
        programs.push(Packed { run: program.run.name.to_owned(), file });
    }
    let list = List {
        subject: mutants.subject.name.to_owned(),
        commit: commit.to_owned(),
        built_in: built.root.clone(),
        files: mutants.sources.iter().map(|source| source.path.clone()).collect(),
        count: mutants.count(),
        impossible: built.impossible.clone(),
        programs,
    };
    fs::write(folder.join(LIST), serde_json::to_string_pretty(&list)?)?;
    println!("   {} test programs in {}", list.programs.len(), folder.display());
    Ok(())
}

impl Pack {
    /// Reads the list of a folder.
    pub(super) fn read(folder: &Path, subject: &'static Subject) -> Result<Self> {
        let path = folder.join(LIST);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let list: List = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        if list.subject != subject.name {
            bail!("{} has the programs of `{}`, not of `{}`", folder.display(), list.subject, subject.name);
        }
        let folder = folder.canonicalize()?;
        let mut programs = Vec::new();
        for packed in &list.programs {
            let run = subject.runs.iter().find(|run| run.name == packed.run);
            let run = run.with_context(|| format!("{}: no run `{}`", path.display(), packed.run))?;
            programs.push(Program { run, path: folder.join(&packed.file) });
        }
        Ok(Self { list, programs })
    }

    /// The sources that the programs were built of.
    pub(super) fn files(&self) -> Vec<String> {
        self.list.files.clone()
    }

    /// The programs, to be run in this repository, and the commit that they were built of.
    ///
    /// # Errors
    /// The sources here are not those that they were built of.
    pub(super) fn open(self, mutants: &Mutants) -> Result<(Built, String)> {
        let (here, there) = (mutants.count(), self.list.count);
        if here != there {
            bail!("the sources here have {here} sites, those of the programs {there}");
        }
        let built = Built {
            impossible: self.list.impossible,
            root: paths::root(),
            programs: self.programs,
            leaves_out_failing: true,
        };
        Ok((built, self.list.commit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SUBJECTS;
    use super::*;

    #[test]
    fn what_is_packed_is_judged_with_the_same_sources_only() {
        let [core, devices] = [&SUBJECTS[0], &SUBJECTS[1]];
        let folder = std::env::temp_dir().join(format!("ayatori-pack-{}", std::process::id()));
        let packed = folder.join("packed");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("core-1234"), "a program").unwrap();
        let files = |name: &str| vec![format!("crates/core/src/{name}.rs")];
        let mutants = Mutants::find_in(core, files("bsend")).unwrap();
        let built = Built {
            impossible: BTreeSet::from([3]),
            root: folder.clone(),
            programs: vec![Program { run: &core.runs[1], path: folder.join("core-1234") }],
            leaves_out_failing: false,
        };
        write(&packed, &mutants, &built, "abcdef1").unwrap();
        assert!(Pack::read(&packed, devices).is_err());
        let pack = Pack::read(&packed, core).unwrap();
        assert_eq!(pack.files(), files("bsend"));
        let (read, commit) = pack.open(&mutants).unwrap();
        assert_eq!((read.impossible, commit.as_str()), (built.impossible, "abcdef1"));
        assert_eq!(read.programs[0].run.name, core.runs[1].name);
        assert_eq!(fs::read(&read.programs[0].path).unwrap(), b"a program");
        let others = Mutants::find_in(core, files("ids")).unwrap();
        assert!(Pack::read(&packed, core).unwrap().open(&others).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
