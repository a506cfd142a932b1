//! `cargo xtask abi`: writes what follows from the tables of the ABI, `crates/mpi/include/mpi.h` and
//! `conformance/ledger`. Tests of `ayatori-mpi` check that both are current.

#[path = "../../crates/mpi/abi/header.rs"]
mod header;
#[path = "../../crates/mpi/abi/table.rs"]
pub(crate) mod table;

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

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

/// Writes both files.
pub(crate) fn run() -> Result<()> {
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
    println!("{} functions, {} of them implemented", functions.len(), implemented.len());
    Ok(())
}
