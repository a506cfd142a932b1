//! `cargo xtask abi`: writes what follows from the tables of the ABI, `crates/mpi/include/mpi.h`,
//! `conformance/ledger`, which tests of `ayatori-mpi` check, and with `--page` `docs/functions.md`.

#[path = "../../crates/mpi/abi/header.rs"]
mod header;
#[path = "../../crates/mpi/abi/table.rs"]
pub(crate) mod table;

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Options of `cargo xtask abi`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also the page of all functions and the tests that call them, docs/functions.md.
    #[arg(long)]
    page: bool,
}

/// The functions of the ABI, without their `PMPI_` names.
pub(crate) fn functions() -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mpi/abi/functions.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(table::functions(&text).into_iter().map(|function| function.name).collect())
}

/// The functions and the constants of the ABI.
pub(crate) fn tables() -> Result<(Vec<table::Function>, Vec<table::Item>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mpi/abi");
    let read =
        |name: &str| fs::read_to_string(folder.join(name)).with_context(|| format!("cannot read {name}"));
    Ok((table::functions(&read("functions.txt")?), table::constants(&read("constants.txt")?)))
}

/// The names of the functions that are written.
pub(crate) fn implemented() -> Result<std::collections::BTreeSet<String>> {
    let mpi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mpi");
    let (functions, _) = tables()?;
    let names = table::implemented_in(&mpi, &functions).context("cannot read crates/mpi/src/api")?;
    Ok(names.into_iter().map(|name| name.to_string()).collect())
}

/// The page of all functions: by chapter, whether each is written, and which of our programs call it.
fn page(root: &Path, functions: &[table::Function], implemented: &BTreeSet<&str>) -> Result<String> {
    let mut programs = Vec::new();
    for folder in ["conformance/c", "conformance/fortran"] {
        for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {folder}"))? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                programs.push((name.to_string_lossy().into_owned(), fs::read_to_string(&path)?));
            }
        }
    }
    programs.sort();
    // Fortran has no case.
    let words_of = |text: &str| -> BTreeSet<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c| !is_word(c)).filter(|word| word.len() > 4).map(str::to_ascii_lowercase).collect()
    };
    let programs: Vec<_> = programs.into_iter().map(|(name, text)| (name, words_of(&text))).collect();
    let mut text = String::from(
        "# Functions of MPI\n\nWritten by `cargo xtask abi --page`: every function of the ABI, and our \
         own test programs in\n`conformance/` that call it (three at most). What other people's suites call \
         is not listed.\n",
    );
    let mut chapter = "";
    for function in functions {
        if function.chapter != chapter {
            chapter = &function.chapter;
            let _ = write!(text, "\n## {chapter}\n\n| function | state | tests |\n|---|---|---|\n");
        }
        let state = if implemented.contains(&*function.name) { "there" } else { "not written" };
        let word = function.name.to_ascii_lowercase();
        let users = programs.iter().filter(|(_, words)| words.contains(&word)).map(|(name, _)| name.as_str());
        let users: Vec<&str> = users.take(3).collect();
        let _ = writeln!(text, "| {} | {state} | {} |", function.name, users.join(", "));
    }
    Ok(text)
}

/// Writes all of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let mpi = root.join("crates/mpi");
    let read = |name: &str| fs::read_to_string(mpi.join(name)).with_context(|| format!("cannot read {name}"));
    let functions = table::functions(&read("abi/functions.txt")?);
    let constants = table::constants(&read("abi/constants.txt")?);
    let implemented = table::implemented_in(&mpi, &functions).context("cannot read crates/mpi/src/api")?;
    let write = |path: &Path, text: String| -> Result<()> {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&mpi.join("include/mpi.h"), header::print(&functions, &constants))?;
    write(&root.join("conformance/ledger"), table::ledger(&functions, &implemented))?;
    if options.page {
        let names = implemented.iter().map(String::as_str).collect();
        write(&root.join("docs/functions.md"), page(root, &functions, &names)?)?;
    }
    println!("{} functions, {} of them implemented", functions.len(), implemented.len());
    Ok(())
}
