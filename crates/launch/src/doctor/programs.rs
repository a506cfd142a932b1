//! Launchers, libraries and settings.

use std::path::{Path, PathBuf};

use super::finding::{Findings, Severity};
use super::system::System;

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

pub(super) fn settings(system: &System, findings: &mut Findings) {
    let known: [(&str, &[&str]); 2] = [
        (crate::environment::ENV_PROGRESS, &["inline", "assisted", "offload"]),
        ("AYATORI_SHM_CMA", &["0", "1"]),
    ];
    for (name, values) in known {
        if let Some(value) = system.variable(name).filter(|value| !values.contains(value)) {
            findings.add(
                Severity::Error,
                format!("{name}={value} is none of {}", values.join(", ")),
                format!("unset {name}, or give it one of these"),
                "MPI_Init does not fail, or does what was meant",
            );
        }
    }
}
