//! Our C programs compiled against the headers of MPICH and of Open MPI, and run on the translators: the
//! libraries that `ayatori run --abi` puts before theirs. And the constants of `mpich.txt` and `openmpi.txt`
//! beside the header.
//!
//! Headers come with the peers' packages; where these cannot be had, the suite is skipped.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{CommonOptions, Tally, directory, programs};
use crate::peers::Library;
use crate::target::Target;
use crate::translate::{self, Abi, Value};
use crate::{process, skips};

const RANKS: [usize; 2] = [2, 3];

/// Programs that test what the other library's header says otherwise.
const OTHERWISE: &[(Abi, &str, &str)] = &[
    (Abi::Mpich, "session_world", "MPI_MAX_STRINGTAG_LEN is 256, and the library takes 1,024"),
    (Abi::OpenMpi, "env_inquiry", "the header is of MPI-3.1, and the library of 5.0"),
    (Abi::OpenMpi, "fatal_no_comm", "a handle that is none is an address of nothing, as in Open MPI"),
];

/// Runs the suite for one ABI.
pub(super) fn run(abi: Abi, options: &CommonOptions) -> Result<()> {
    let peer = Library::of_abi(abi);
    let suite = format!("conformance c --abi {}", abi.name());
    if let Err(error) = peer.prepare() {
        skips::note(&suite, &format!("there is no header: {error:#}"));
        return Ok(());
    }
    Library::Ayatori.prepare()?;
    let include = peer.prefix().join("include");
    let library = translate::installed(abi, &Library::Ayatori.prefix());
    check_constants(abi, &include, &library)?;
    let mut tally = Tally::default();
    for source in programs::sources()? {
        let name = programs::name(&source);
        if options.wants(&name) {
            one(abi, &source, (&include, &library), options, &mut tally)?;
        }
    }
    tally.close(&suite)
}

/// Compiles and runs one program.
fn one(
    abi: Abi,
    source: &Path,
    (include, library): (&Path, &Path),
    options: &CommonOptions,
    tally: &mut Tally,
) -> Result<()> {
    let name = programs::name(source);
    let program = directory(Library::Ayatori).join(abi.name()).join(&name);
    let cc = translate::compiler(&Target::HERE, &Library::Ayatori.prefix(), include);
    let left_out = compile(cc, source, library, &program)?.or_else(|| otherwise(abi, &name));
    for ranks in options.ranks_or(&RANKS) {
        let mut launch = Library::Ayatori.launch(ranks, &program, &[]);
        if let Some(why) = &left_out {
            tally.leave_out(&name, ranks, why);
            continue;
        }
        let outcome = process::capture(&mut launch, options.limit())?;
        let verdict = programs::judge(&programs::expected(&fs::read_to_string(source)?)?, &outcome);
        tally.add(&name, ranks, verdict, &outcome);
    }
    Ok(())
}

const SHORT: Duration = Duration::from_secs(120);

/// Why a program is left out of an ABI's suite, if it is.
pub(super) fn otherwise(abi: Abi, name: &str) -> Option<String> {
    let known = OTHERWISE.iter().find(|(of, known, _)| *of == abi && *known == name);
    known.map(|(.., why)| (*why).to_owned())
}

/// Compiles a program by `cc`, which has the header. Returns why it is left out: the header lacks what it
/// uses, or has a variable where the standard wants a constant.
pub(super) fn compile(
    mut cc: Command,
    source: &Path,
    library: &Path,
    program: &Path,
) -> Result<Option<String>> {
    fs::create_dir_all(program.parent().context("a file in build/")?)?;
    cc.args(["-std=gnu11", "-O1", "-Wno-deprecated-declarations", "-Werror=implicit-function-declaration"]);
    cc.arg("-o").arg(program).arg(source).arg(library).args(["-lm", "-lpthread"]);
    let outcome = process::capture(&mut cc, SHORT)?;
    if outcome.success() {
        return Ok(None);
    }
    let reasons = ["undeclared", "unknown type name", "implicit declaration", "is not constant"];
    let why = outcome.stderr.lines().filter(|line| line.contains("error:")).find_map(|line| {
        let text = line.split("error:").nth(1)?.trim();
        reasons.iter().any(|reason| text.contains(reason)).then(|| text.to_owned())
    });
    match why {
        Some(why) => Ok(Some(format!("the header: {why}"))),
        None => bail!("`{}` failed: {}", process::line(&cc), outcome.reason()),
    }
}

/// Fewest constants that a header must have for the comparison to mean something.
const CONSTANTS_LEAST: usize = 300;

/// Compares every constant of the table with the header's: numbers and addresses.
fn check_constants(abi: Abi, include: &Path, library: &Path) -> Result<()> {
    let foreign = translate::foreign(abi)?;
    let mut names: Vec<(&String, &Value)> = foreign.all().collect();
    let program = directory(Library::Ayatori).join(abi.name()).join("constants");
    fs::create_dir_all(program.parent().context("a file in build/")?)?;
    let source = program.with_extension("c");
    loop {
        fs::write(&source, constants_program(&names))?;
        let mut cc = translate::compiler(&Target::HERE, &Library::Ayatori.prefix(), include);
        cc.args(["-std=gnu11", "-w", "-fmax-errors=0", "-o"]).arg(&program);
        cc.arg(&source).arg(library).arg("-ldl");
        let outcome = process::capture(&mut cc, SHORT)?;
        if outcome.success() {
            break;
        }
        // What this version of the header has not; anything else is a difference.
        let before = names.len();
        names.retain(|(name, _)| {
            let unknown = [format!("‘{name}’ undeclared"), format!("'{name}' undeclared")];
            !unknown.iter().any(|text| outcome.stderr.contains(text))
        });
        if names.len() == before || names.len() < CONSTANTS_LEAST {
            bail!("{} and its mpi.h differ: {}", source.display(), outcome.reason());
        }
    }
    let mut launch = Library::Ayatori.launch(1, &program, &[]);
    let outcome = process::capture(&mut launch, SHORT)?;
    if !outcome.success() {
        bail!("the addresses of {}'s constants differ: {}{}", abi.name(), outcome.stdout, outcome.reason());
    }
    println!("{} constants of {} are as in {}", names.len(), abi.name(), include.display());
    Ok(())
}

fn constants_program(names: &[(&String, &Value)]) -> String {
    let mut text = String::from("#define _GNU_SOURCE\n");
    for header in ["mpi.h", "dlfcn.h", "stdint.h", "stdio.h"] {
        let _ = writeln!(text, "#include <{header}>");
    }
    text.push_str("int main(void)\n{\n    int wrong = 0;\n");
    for (name, value) in names {
        match value {
            // Handles are compared as the unsigned integers that they are printed as.
            Value::Number(number) => {
                let _ = writeln!(
                    text,
                    "    if ((uint32_t)(intptr_t){name} != (uint32_t)({number}ll)) wrong++, puts(\"{name}\");"
                );
            }
            Value::Symbol(symbol, _) if symbol == *name => {}
            Value::Symbol(symbol, _) => {
                let _ = writeln!(
                    text,
                    "    if ((void *){name} != dlsym(RTLD_DEFAULT, \"{symbol}\")) wrong++, puts(\"{name}\");"
                );
            }
        }
    }
    text.push_str("    return wrong != 0;\n}\n");
    text
}
