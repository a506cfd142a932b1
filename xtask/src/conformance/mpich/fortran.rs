//! The Fortran chapters of MPICH's tests, f77 (`mpif.h`), f90 (`use mpi`) and f08 (`use mpi_f08`): what the
//! suite's `configure` and makefiles would do before these compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// The chapters, in the order of the suite.
pub(super) const CHAPTERS: [&str; 44] = [
    "f77/attr",
    "f77/coll",
    "f77/datatype",
    "f77/pt2pt",
    "f77/info",
    "f77/spawn",
    "f77/io",
    "f77/rma",
    "f77/init",
    "f77/comm",
    "f77/ext",
    "f77/topo",
    "f90/attr",
    "f90/coll",
    "f90/datatype",
    "f90/pt2pt",
    "f90/info",
    "f90/spawn",
    "f90/io",
    "f90/rma",
    "f90/init",
    "f90/comm",
    "f90/ext",
    "f90/topo",
    "f90/misc",
    "f90/timer",
    "f08/attr",
    "f08/pt2pt",
    "f08/coll",
    "f08/datatype",
    "f08/comm",
    "f08/rma",
    "f08/subarray",
    "f08/topo",
    "f08/ext",
    "f08/info",
    "f08/init",
    "f08/io",
    "f08/misc",
    "f08/spawn",
    "f08/timer",
    "errors/f77/io",
    "errors/f90/io",
    "errors/f08/io",
];

/// What `configure` writes for the kinds of addresses and offsets.
const KINDS: [(&str, &str); 2] = [
    ("@F77_MPI_ADDRESS@", "INTEGER (KIND=MPI_ADDRESS_KIND)"),
    ("@F77_MPI_OFFSET@", "INTEGER (KIND=MPI_OFFSET_KIND)"),
];

/// Sources that the makefiles of f08 copy from other chapters.
const COPIES: [(&str, &str); 3] = [
    ("f90/ext/c2f902c.c", "f08/ext/c2f902c.c"),
    ("f77/ext/ctypesfromc.c", "f08/ext/ctypesfromc.c"),
    ("f90/io/c2f902cio.c", "f08/io/c2f902cio.c"),
];

/// The dialect of a chapter or of one of its programs, if it is Fortran's.
fn dialect(name: &str) -> Option<&str> {
    let inner = name.strip_prefix("errors/").unwrap_or(name);
    ["f77", "f90", "f08"].into_iter().find(|dialect| inner.split('/').next() == Some(dialect))
}

/// Makes what the suite makes before it compiles: includes from templates, programs of the files' chapters,
/// the suite's own helper in each dialect.
///
/// # Errors
/// The suite lacks one of these, or the compiler refuses one.
pub(super) fn prepare(compiler: &Path, suite: &Path) -> Result<()> {
    let mut folders = super::folders(&suite.join("f77"))?;
    folders.extend(super::folders(&suite.join("errors/f77"))?);
    for folder in folders {
        for template in super::files(&folder)?.iter().filter(|path| path.to_string_lossy().ends_with(".h.in"))
        {
            let mut text = fs::read_to_string(template)?;
            for (word, kind) in KINDS {
                text = text.replace(word, kind);
            }
            fs::write(template.with_extension(""), text)?;
        }
    }
    for front in ["", "errors/"] {
        make_f90(suite, front)?;
    }
    // By the rules of the suite's own makefile, of f77's.
    let mut harness = Command::new("make");
    harness.args(["-f", "Makefile.ap", "srcdir=.", "./ioharness.defn", "./ioharness.tlt"]);
    run(harness.current_dir(suite.join("f90/io")))?;
    for (from, to) in COPIES {
        fs::copy(suite.join(from), suite.join(to)).with_context(|| format!("the suite has no {from}"))?;
    }
    // Perl would obey the template's first line, `#! @PERL@`.
    let merger = suite.join("maint/testmerge");
    let template =
        fs::read_to_string(suite.join("maint/testmerge.in")).context("the suite has no testmerge.in")?;
    fs::write(&merger, template.replace("@PERL@", "/usr/bin/perl"))?;
    for folder in ["f77/io", "f90/io", "f08/io"] {
        let mut merge = Command::new("perl");
        merge.arg(&merger);
        merge.arg(format!("-defn={}", suite.join("maint/common.defn").display()));
        merge.args(["ioharness.defn", "ioharness.tlt"]).current_dir(suite.join(folder));
        run(&mut merge)?;
    }
    for helper in ["mtest_f77.f", "mtest_f90.f90", "mtest_f08.f90"] {
        let mut command = compile(compiler, suite);
        command.arg("-c").arg(helper).current_dir(suite.join("util"));
        run(&mut command)?;
    }
    Ok(())
}

/// Most programs of f90 are made from those of f77, as the suite's `autogen.sh` does. A release has them.
fn make_f90(suite: &Path, front: &str) -> Result<()> {
    for folder in super::folders(&suite.join(format!("{front}f77")))? {
        let leaf = folder.file_name().context("a folder without a name")?.to_string_lossy().into_owned();
        let (from, to) = (format!("{front}f77/{leaf}"), format!("{front}f90/{leaf}"));
        if suite.join(&to).join("Makefile.am").is_file() {
            continue;
        }
        fs::create_dir_all(suite.join(&to))?;
        let mut convert = Command::new("perl");
        convert.args(["maint/f77tof90", &from, &to]);
        run(convert.args(["Makefile.am", "Makefile.ap"]).current_dir(suite))?;
    }
    Ok(())
}

/// The compiler with the flags that all programs take. Old programs pass buffers of several types.
pub(super) fn compile(compiler: &Path, suite: &Path) -> Command {
    let mut command = Command::new(compiler);
    command.args(["-O1", "-w", "-fallow-argument-mismatch", "-I.", "-I../attr"]);
    command.arg("-I").arg(suite.join("include"));
    command
}

/// The object with the suite's helper for a chapter.
pub(super) fn helper(chapter: &str, suite: &Path) -> PathBuf {
    let dialect = dialect(chapter).unwrap_or("f77");
    suite.join("util").join(format!("mtest_{dialect}.o"))
}

fn run(command: &mut Command) -> Result<()> {
    let outcome = process::capture(command, Duration::from_secs(120))?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(command), outcome.reason());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_fortran_gets_the_helper_of_its_dialect() {
        assert!(CHAPTERS.into_iter().all(|name| dialect(name).is_some()) && dialect("coll").is_none());
        assert_eq!(helper("f90/attr", Path::new("suite")), Path::new("suite/util/mtest_f90.o"));
        assert_eq!(helper("errors/f08/io", Path::new("suite")), Path::new("suite/util/mtest_f08.o"));
    }
}
