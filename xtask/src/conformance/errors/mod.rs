//! `cargo xtask conformance errors`: every function of the ABI with one wrong argument at a time.
//!
//! The C program is printed from `crates/mpi/abi/functions.txt`: what is right and what is wrong for an
//! argument follows from its type and its name (`arguments.rs`), and so do the error classes that fit
//! (MPI-5.0 §9.4). A call that crashes, hangs or returns another class is a failure, unless
//! `conformance/errors.toml` lists it with a reason.

mod arguments;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use super::{CommonOptions, directory};
use crate::abi::table::{Function, Item};
use crate::peers::Library;
use crate::{abi, paths, process};

/// Functions that are not called, each with the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    ("MPI_Abort", "ends the job"),
    ("MPI_Finalize", "ends MPI"),
    ("MPI_Init", "called once, at the start"),
    ("MPI_Init_thread", "called once, at the start"),
    ("MPI_Comm_join", "waits for a socket's other end"),
];

/// Calls whose class may differ, from `conformance/errors.toml`.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    #[serde(default)]
    different: Vec<Different>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Different {
    /// `FUNCTION PARAMETER VALUE` as a failure prints it; `*` stands for any function or parameter.
    call: String,
    /// Why.
    reason: String,
}

impl Different {
    fn matches(&self, call: &str) -> bool {
        let mut pattern = self.call.splitn(3, ' ');
        let mut parts = call.splitn(3, ' ');
        (0..3).all(|_| {
            let part = parts.next();
            pattern.next().is_some_and(|pattern| pattern == "*" || Some(pattern) == part)
        })
    }
}

/// Prints the program, compiles it, runs it from function to function and judges.
///
/// # Errors
/// It cannot be compiled, or a call is wrong that is not listed, or a listed one is right.
pub(crate) fn run(options: &CommonOptions) -> Result<()> {
    let library = options.library()?;
    let (functions, constants) = abi::tables()?;
    let written = abi::implemented()?;
    let tested: Vec<&Function> = functions
        .iter()
        .filter(|function| written.contains(&function.name) && is_tested(function))
        .filter(|function| options.wants(&function.name))
        .collect();
    let folder = directory(library).join("errors");
    fs::create_dir_all(&folder)?;
    let source = folder.join("errors.c");
    fs::write(&source, program(&tested))?;
    fs::copy(paths::root().join("conformance/errors/harness.h"), folder.join("harness.h"))?;
    let binary = folder.join("errors");
    library.compile(&source, &binary)?;

    let mut failures = Vec::new();
    let mut calls = 0;
    let mut from = tested.first().map(|function| function.name.clone());
    while let Some(first) = from.take() {
        let outcome = process::capture(
            library.launch(1, &binary, &[&first]).envs(options.progress()),
            options.limit(),
        )?;
        let report = read(&outcome.stdout, &class_names(&constants));
        calls += report.calls;
        failures.extend(report.failures);
        if !report.ended {
            let Some(last) = report.last else {
                bail!("errors: nothing was called: {}\n{}", outcome.reason(), outcome.stderr)
            };
            failures.push((last.clone(), format!("ended: {}", outcome.reason())));
            let name = last.split(' ').next().unwrap_or_default();
            let at = tested.iter().position(|function| function.name == name).unwrap_or(tested.len());
            from = tested.get(at + 1).map(|function| function.name.clone());
        }
    }
    close(library, options, tested.len(), calls, failures)
}

fn is_tested(function: &Function) -> bool {
    function.result == "int"
        && function.chapter != "tool"
        && function.chapter != "abi"
        && !LEFT_OUT.iter().any(|(name, _)| *name == function.name)
        && !function.params.is_empty()
}

/// The C program: a function for each function of the ABI.
fn program(functions: &[&Function]) -> String {
    let mut text = String::from(
        "/* Made by `cargo xtask conformance errors`. */\n#define AYATORI_REMOVED_FUNCTIONS 1\n",
    );
    text.push_str("#include \"harness.h\"\n");
    for function in functions {
        let _ = writeln!(text, "\nstatic void test_{}(void)\n{{", function.name);
        for (index, param) in function.params.iter().enumerate() {
            for wrong in arguments::wrongs(function, index) {
                let values: Vec<String> = (0..function.params.len())
                    .map(|at| if at == index { wrong.value.clone() } else { arguments::right(function, at) })
                    .collect();
                let shown = wrong.value.replace('"', "'").replace(' ', "");
                let (name, values) = (&function.name, values.join(", "));
                let classes = wrong.classes.join(", ");
                let _ = writeln!(
                    text,
                    "    TRY(\"{name}\", \"{}\", \"{shown}\", {name}({values}), {classes});",
                    param.name
                );
            }
        }
        text.push_str("}\n");
    }
    text.push_str("\nstatic const function_test tests[] = {\n");
    for function in functions {
        let _ = writeln!(text, "    {{\"{0}\", test_{0}}},", function.name);
    }
    text.push_str(
        "    {NULL, NULL},\n};\n\nint main(int argc, char **argv) { return run_all(argc, argv, tests); }\n",
    );
    text
}

/// Error classes by number.
fn class_names(constants: &[Item]) -> BTreeMap<i64, String> {
    let class = |item: &Item| match item {
        Item::Int { name, value } if name.starts_with("MPI_ERR_") || name == "MPI_SUCCESS" => {
            Some((value.parse().ok()?, name.clone()))
        }
        _ => None,
    };
    constants.iter().filter_map(class).collect()
}

/// What the program printed.
#[derive(Default)]
struct Report {
    calls: usize,
    /// The call, what it returned.
    failures: Vec<(String, String)>,
    /// The last call that was begun.
    last: Option<String>,
    /// It came to its end.
    ended: bool,
}

fn read(output: &str, classes: &BTreeMap<i64, String>) -> Report {
    let mut report = Report::default();
    for line in output.lines() {
        if let Some(call) = line.strip_prefix("at ") {
            report.calls += 1;
            report.last = Some(call.to_owned());
        } else if let Some(class) = line.strip_prefix("got ") {
            let name = class.parse().ok().and_then(|number: i64| classes.get(&number)).cloned();
            report.failures.push((
                report.last.clone().unwrap_or_default(),
                format!("returned {}", name.unwrap_or_else(|| class.to_owned())),
            ));
        } else if line.starts_with("end ") {
            report.ended = true;
        } else if line.starts_with("harness: ") {
            report.failures.push((report.last.clone().unwrap_or_default(), line.to_owned()));
        }
    }
    report
}

fn close(
    library: Library,
    options: &CommonOptions,
    functions: usize,
    calls: usize,
    failures: Vec<(String, String)>,
) -> Result<()> {
    let path = paths::root().join("conformance/errors.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let known: Known = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let known = if library == Library::Ayatori { known } else { Known::default() };
    let mut used = vec![false; known.different.len()];
    let mut unknown = 0;
    for (call, got) in &failures {
        match known.different.iter().position(|known| known.matches(call)) {
            Some(at) => used[at] = true,
            None => {
                unknown += 1;
                println!("  {call}: {got}");
            }
        }
    }
    let mut stale = 0;
    for (known, _) in known.different.iter().zip(&used).filter(|(_, used)| !**used) {
        if options.only.is_empty() {
            stale += 1;
            println!("  {} is right now; take it out of errors.toml ({})", known.call, known.reason);
        }
    }
    println!(
        "conformance errors on {}: {functions} functions, {calls} wrong calls, {unknown} answered wrongly, \
         {} listed",
        library.name(),
        failures.len() - unknown,
    );
    if unknown + stale > 0 {
        bail!("{unknown} wrong calls got another answer than the standard's; {stale} entries are stale");
    }
    Ok(())
}
