//! The plan that a task is about: the one that was written, or the machine's made anew.

use std::path::Path;

use anyhow::Context as _;
use ayatori_fabric::description::Machine;
use ayatori_fabric::plan::Plan;
use ayatori_fabric::vlan;

/// The plan in `file`, a `plan.json` or the folder that `--out` wrote; without one, the machine planned anew.
///
/// # Errors
/// The file cannot be read, is no plan, or one of another machine; the machine cannot be planned.
pub(crate) fn plan_of(machine: &Machine, file: Option<&Path>) -> anyhow::Result<Plan> {
    let Some(file) = file else { return Ok(vlan::plan(machine)?) };
    let (file, text) = read(file)?;
    vlan::written(machine, &text).with_context(|| file)
}

/// The name and text of a `plan.json`, or of the one in a folder.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(file: &Path) -> anyhow::Result<(String, String)> {
    let file = if file.is_dir() { file.join("plan.json") } else { file.to_owned() };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read the plan {name}"))?;
    Ok((name, text))
}
