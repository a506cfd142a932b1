//! Writes a plan's files: one a switch or several, one a host, and what all hosts share.

use std::fs;
use std::path::{Component, Path};

use anyhow::{Context as _, bail};
use ayatori_fabric::dialect::{ConfigFile, by_name};
use ayatori_fabric::host;
use ayatori_fabric::plan::Plan;

/// Writes all files and answers how many. Switches that cannot be configured in their dialect are all named in the
/// error; nothing is written then.
pub(super) fn write(plan: &Plan, folder: &Path) -> anyhow::Result<usize> {
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
    files.push(host::names(plan));
    let plan_json = serde_json::to_string_pretty(plan).context("writing the plan as JSON")? + "\n";
    files.push(ConfigFile { name: "plan.json".into(), text: plan_json, executable: false });
    for file in &files {
        write_file(folder, file)?;
    }
    Ok(files.len())
}

fn write_file(folder: &Path, file: &ConfigFile) -> anyhow::Result<()> {
    let relative = Path::new(&file.name);
    let is_inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
    anyhow::ensure!(is_inside, "{:?} is no name of a file inside {}", file.name, folder.display());
    let path = folder.join(relative);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("making the folder {}", parent.display()))?;
    // Untouched where it says the same already: a second run changes no times, and `make` and `rsync` see that.
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
