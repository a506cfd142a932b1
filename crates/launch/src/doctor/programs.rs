//! Launchers, libraries and settings.

use std::path::{Path, PathBuf};

use super::finding::{Findings, Severity};
use super::system::System;
use crate::environment;
use ayatori_devices::tcp::Settings;

/// The folders of a list with colons, as the machine names them.
fn folders(list: &str) -> impl Iterator<Item = &str> {
    list.split(':').filter(|folder| folder.starts_with('/'))
}

/// Where a path of the machine leads in the end, if it exists.
fn resolved(system: &System, path: &Path) -> Option<PathBuf> {
    system.path(path).canonicalize().ok()
}

pub(super) fn launcher(system: &System, findings: &mut Findings) {
    let path = system.variable("PATH").unwrap_or_default();
    let Some(prefix) = &system.prefix else { return };
    // A wheel has scripts there, an installation links.
    let ours = resolved(system, &prefix.join("bin"));
    for name in ["mpiexec", "mpirun"] {
        let mut files = folders(path).map(|folder| Path::new(folder).join(name));
        let Some(first) = files.find(|file| system.path(file).is_file()) else { continue };
        let leads_to = resolved(system, &first);
        let folder = leads_to.as_deref().and_then(Path::parent);
        // A copy under another prefix is ours too.
        let is_ours = folder == ours.as_deref()
            || leads_to.as_deref().and_then(Path::file_name) == Some("ayatori".as_ref());
        if is_ours || !system.path(prefix.join("bin/mpiexec")).exists() {
            continue;
        }
        findings.add(
            Severity::Warning,
            format!("the first {name} in PATH is {}, of another MPI", first.display()),
            format!("put {0}/bin first: export PATH={0}/bin:$PATH; or say `ayatori run`", prefix.display()),
            "programs linked to this library start as one job, not as N jobs of one rank each",
        );
    }
}

/// The library that programs load, and the names under which other libraries are loaded in its place.
const LIBRARY: &str = "libmpi_abi.so.1";

pub(super) fn library(system: &System, findings: &mut Findings) {
    let gain = "programs run on the library that their launcher belongs to";
    if let Some(prefix) = &system.prefix {
        let own = prefix.join("lib").join(LIBRARY);
        let list = system.variable("LD_LIBRARY_PATH").unwrap_or_default();
        let first = folders(list)
            .map(|folder| Path::new(folder).join(LIBRARY))
            .find(|file| system.path(file).exists());
        if let (Some(first), Some(own_file)) = (first, resolved(system, &own))
            && resolved(system, &first).as_ref() != Some(&own_file)
        {
            findings.add(
                Severity::Error,
                format!("LD_LIBRARY_PATH finds {} before {}", first.display(), own.display()),
                format!("put {}/lib first in LD_LIBRARY_PATH, or take that folder out", prefix.display()),
                gain,
            );
        }
    }
    let preloaded = system.variable("LD_PRELOAD").unwrap_or_default();
    for file in preloaded.split([' ', ':']).filter(|file| !file.is_empty()) {
        let name = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file);
        if name.starts_with("libmpi") && !name.starts_with("libmpi_abi") {
            findings.add(
                Severity::Error,
                format!("LD_PRELOAD loads {file}, a library of another MPI, into every program"),
                "take it out of LD_PRELOAD",
                gain,
            );
        }
    }
}

/// Values of the progress mode. Empty is as if not set.
const PROGRESS_MODES: [&str; 3] = ["inline", "assisted", "offload"];

pub(super) fn settings(system: &System, findings: &mut Findings) {
    let mut add = |what: String, remedy: String| {
        findings.add(Severity::Error, what, remedy, "MPI_Init does not fail, and does what was meant");
    };
    let value = |name: &str| system.variable(name).map(str::to_owned);
    let is_wrong = |mode: &String| !mode.is_empty() && !PROGRESS_MODES.contains(&mode.as_str());
    if let Some(mode) = value(environment::ENV_PROGRESS).filter(is_wrong) {
        let what = format!("{}={mode} is none of {}", environment::ENV_PROGRESS, PROGRESS_MODES.join(", "));
        add(what, format!("unset {}, or give it one of these", environment::ENV_PROGRESS));
    }
    for what in environment::wrong_switches(value) {
        add(what, "correct it, or unset it".to_owned());
    }
    if let Err(what) = environment::gap_rule_of(value) {
        add(what, "give a gap in packet times, as in 1 or 0.5, or unset it".to_owned());
    }
    if let Err(what) = Settings::from_variables(value) {
        add(what, "correct it, or unset it".to_owned());
    }
    let (_, complaints) = environment::forced_algorithms(value);
    for what in complaints {
        add(what, "give one of these, or unset it: the library chooses well".to_owned());
    }
}
