//! Writes a plan's files: one a switch or several, one a host, and what all hosts share.
//!
//! `plan.files` in the folder lists the files written. Files of an earlier plan that this one does not write
//! are left over: named, and removed with `--prune`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context as _, bail};
use ayatori_fabric::ansible;
use ayatori_fabric::dialect::{ConfigFile, by_name};
use ayatori_fabric::host;
use ayatori_fabric::plan::Plan;

/// The list of files that a plan wrote.
const LIST: &str = "plan.files";
/// The mark in files of commands and scripts.
const MARK: &str = "Written by `ayatori plan`";

/// Changes of the folder.
#[derive(Debug)]
pub(super) struct Written {
    /// Files of this plan.
    pub(super) count: usize,
    /// Files of an earlier plan, by name, that this one does not have.
    pub(super) left_over: Vec<String>,
}

/// Writes all files, and removes those of an earlier plan if `prune`. Switches that cannot be configured in
/// their dialect are all named in the error; nothing is written then.
pub(super) fn write(plan: &Plan, folder: &Path, prune: bool) -> anyhow::Result<Written> {
    let mut files = all(plan)?;
    check_names(&files)?;
    let left_over = left_over(folder, &files)?;
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    let kept = if prune { &[][..] } else { &left_over[..] };
    // Those left stay listed: the next plan names them, too.
    let list: BTreeSet<&str> = names.into_iter().chain(kept.iter().map(String::as_str)).collect();
    let text = list.into_iter().map(|name| format!("{name}\n")).collect();
    files.push(ConfigFile { name: LIST.into(), text, executable: false });
    for file in &files {
        write_file(folder, file)?;
    }
    if prune {
        for name in &left_over {
            remove(folder, name)?;
        }
    }
    Ok(Written { count: files.len(), left_over })
}

/// All files of a plan but the list of them.
pub(super) fn all(plan: &Plan) -> anyhow::Result<Vec<ConfigFile>> {
    let mut files = Vec::new();
    let mut refusals = Vec::new();
    for switch in &plan.switches {
        let Some(dialect) = by_name(&switch.dialect) else {
            bail!("{}: there is no dialect {:?}", switch.name, switch.dialect);
        };
        match dialect.emit(plan, switch.id) {
            Ok(config) => files.extend(config.files),
            Err(refusal) => refusals.push(refusal.to_string()),
        }
    }
    if !refusals.is_empty() {
        bail!("{}", refusals.join("\n"));
    }
    files.extend(plan.hosts.iter().map(|host| host::interfaces(plan, host)));
    files.extend(host::priming(plan));
    files.push(host::boot_unit(plan));
    files.push(host::names(plan));
    files.extend(ansible::files(plan));
    let plan_json = serde_json::to_string_pretty(plan).context("writing the plan as JSON")? + "\n";
    files.push(ConfigFile { name: "plan.json".into(), text: plan_json, executable: false });
    Ok(files)
}

/// No two files with one name, also on file systems that ignore case.
fn check_names(files: &[ConfigFile]) -> anyhow::Result<()> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::from([(LIST.to_owned(), LIST)]);
    for file in files {
        let is_inside = Path::new(&file.name).components().all(|part| matches!(part, Component::Normal(_)));
        anyhow::ensure!(is_inside, "{:?} is no name of a file inside a folder", file.name);
        if let Some(other) = seen.insert(file.name.to_lowercase(), &file.name) {
            bail!(
                "two files would be called {} and {other}: give the switch or host another name",
                file.name
            );
        }
    }
    Ok(())
}

/// Files below the folder that an earlier plan wrote and this one does not write.
fn left_over(folder: &Path, files: &[ConfigFile]) -> anyhow::Result<Vec<String>> {
    let written: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).chain([LIST]).collect();
    let listed = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let mut found = Vec::new();
    for name in names_below(folder, "")? {
        let is_ours = || listed.contains(name.as_str()) || has_mark(&folder.join(&name));
        if !written.contains(name.as_str()) && is_ours() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Names of the files in a folder and in its folders: plans write no deeper.
fn names_below(folder: &Path, below: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match fs::read_dir(folder.join(below)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names),
        Err(error) => return Err(error).with_context(|| format!("reading the folder {}", folder.display())),
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("reading the folder {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().with_context(|| format!("looking at {name}"))?;
        if kind.is_file() {
            names.push(if below.is_empty() { name } else { format!("{below}/{name}") });
        } else if kind.is_dir() && below.is_empty() && !name.starts_with('.') {
            names.extend(names_below(folder, &name)?);
        }
    }
    Ok(names)
}

/// Whether a file says that a plan wrote it, in its first lines.
fn has_mark(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text[..text.len().min(1_000)]).contains(MARK)
}

/// Removes a file, and its folder if that is empty then.
fn remove(folder: &Path, name: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
        // It stays where something else is in it.
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}

pub(super) fn write_file(folder: &Path, file: &ConfigFile) -> anyhow::Result<()> {
    let path = folder.join(&file.name);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("making the folder {}", parent.display()))?;
    // Untouched where it says the same already: a second run changes no times, and `make` and `rsync` see
    // that.
    if fs::read(&path).ok().as_deref() != Some(file.text.as_bytes()) {
        fs::write(&path, &file.text).with_context(|| format!("writing {}", path.display()))?;
    }
    if file.executable {
        make_executable(&path)?;
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    fs::set_permissions(path, permissions).with_context(|| format!("making {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> anyhow::Result<()> {
    Ok(())
}
