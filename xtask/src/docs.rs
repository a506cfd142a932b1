//! `cargo xtask docs`: the pages of `docs/` as a book with a search, by mdBook (`book.toml`).

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, process};

/// `cargo xtask docs`.
pub(crate) fn run() -> Result<()> {
    let mut build = Command::new(mdbook()?);
    build.arg("build").current_dir(paths::root());
    process::show(&mut build)?;
    println!("the book: {}", paths::build_dir().join("book/index.html").display());
    Ok(())
}

/// mdBook: an installed one, or one that cargo builds into `build/tools` the first time.
fn mdbook() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = paths::build_dir().join("tools");
    let ours = tools.join("bin/mdbook");
    let installed = std::env::split_paths(&path).map(|folder| folder.join("mdbook")).chain([ours.clone()]);
    if let Some(found) = installed.into_iter().find(|program| program.is_file()) {
        return Ok(found);
    }
    let mut install = Command::new("cargo");
    install.args(["install", "mdbook", "--locked", "--root"]).arg(&tools);
    println!("$ {}", process::line(&install));
    process::show(&mut install).context("mdBook is missing; install it and put it into PATH")?;
    Ok(ours)
}
