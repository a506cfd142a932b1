//! `cargo xtask docs`: the pages of `docs/` as a book with a search, by mdBook (`book.toml`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, process};

/// `cargo xtask docs`.
pub(crate) fn run() -> Result<()> {
    let mut build = Command::new(mdbook()?);
    build.arg("build").current_dir(paths::root());
    process::show(&mut build)?;
    let book = paths::build_dir().join("book");
    for entry in fs::read_dir(&book).with_context(|| format!("cannot read {}", book.display()))? {
        let page = entry?.path();
        if page.extension().is_some_and(|extension| extension == "html") {
            take_in_files(&paths::root(), &book, &page)?;
        }
    }
    println!("the book: {}", book.join("index.html").display());
    Ok(())
}

/// Files of the repository that a page links to and that are no pages of the book are copied into it, as they
/// are, and the links lead there. mdBook makes each `../NAME.md` a `../NAME.html`, which does not exist.
fn take_in_files(root: &Path, book: &Path, page: &Path) -> Result<()> {
    const LINK: &str = "href=\"../";
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let mut parts = text.split(LINK);
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, rest) =
            part.split_once('"').with_context(|| format!("{}: an open link", page.display()))?;
        let path = link.split('#').next().unwrap_or_default();
        let file = match path.strip_suffix(".html") {
            Some(stem) => format!("{stem}.md"),
            None => path.to_owned(),
        };
        let copy = book.join("files").join(&file);
        fs::create_dir_all(copy.parent().unwrap_or(book))?;
        fs::copy(root.join(&file), &copy)
            .with_context(|| format!("{} links to {file}, which cannot be copied", page.display()))?;
        changed.push_str(&format!("href=\"files/{file}\"{rest}"));
    }
    fs::write(page, changed).with_context(|| format!("cannot write {}", page.display()))
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
    // Not optimised it makes this book in a second, and is built in two minutes.
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
    println!("$ {}", process::line(&install));
    process::show(&mut install).context("mdBook is missing; install it and put it into PATH")?;
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_other_files_lead_to_copies_in_the_book() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, book) = (folder.path(), folder.path().join("book"));
        fs::create_dir_all(root.join("recipes")).expect("a folder");
        fs::create_dir_all(&book).expect("a folder");
        fs::write(root.join("recipes/a.yaml"), "recipe").expect("written");
        fs::write(root.join("READ.md"), "read").expect("written");
        let page = book.join("page.html");
        let before = "<a href=\"other.html\"> <a href=\"../READ.html#x\"> <a href=\"../recipes/a.yaml\">";
        fs::write(&page, before).expect("written");
        take_in_files(root, &book, &page).expect("taken in");
        let after = before.replace("../READ.html#x", "files/READ.md").replace("../r", "files/r");
        assert_eq!(fs::read_to_string(&page).expect("a page"), after);
        assert_eq!(fs::read_to_string(book.join("files/READ.md")).expect("a copy"), "read");
        assert_eq!(fs::read_to_string(book.join("files/recipes/a.yaml")).expect("a copy"), "recipe");
        fs::write(&page, "<a href=\"../gone.html\">g</a>").expect("written");
        let error = take_in_files(root, &book, &page).expect_err("no such file");
        assert!(error.to_string().contains("gone.md"), "{error:#}");
    }
}
