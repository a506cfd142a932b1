//! Getting sources from package archives, by their ordinary clients: Debian's source packages by `apt-get
//! source`, crates by `cargo vendor`. Each is pinned to a version; Debian's archive is checked against a
//! SHA-256 besides what apt checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// How long getting one source may take.
const GET_MAX: Duration = Duration::from_secs(600);

/// Where a source is got.
#[derive(serde::Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Source {
    /// The upstream archive of a Debian source package.
    Debian {
        debian: String,
        version: String,
        /// Of the upstream archive.
        sha256: String,
    },
    /// A crate of the crate registry.
    Crate {
        #[serde(rename = "crate")]
        name: String,
        version: String,
    },
}

/// Gets a source and unpacks it as `folder/source`, unless that was done for the same `build` lines: these
/// change the source's folder, so other lines begin with a fresh one.
///
/// # Errors
/// It cannot be had here: the archive is out of reach, or has another version.
pub(super) fn get(source: &Source, folder: &Path, build: &str) -> Result<()> {
    let unpacked = folder.join("source");
    let (done, wanted) = (folder.join(".unpacked"), format!("{}\n{build}", source.label()));
    if unpacked.is_dir() && fs::read_to_string(&done).is_ok_and(|label| label == wanted) {
        return Ok(());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for old in [".built", ".unpacked"] {
        let _ = fs::remove_file(folder.join(old));
    }
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    match source {
        Source::Debian { debian, version, sha256 } => {
            let archive = debian_archive(debian, version, sha256, folder)?;
            fs::create_dir_all(&unpacked)?;
            let mut tar = Command::new("tar");
            tar.arg("xf").arg(&archive).args(["--strip-components=1", "-C"]).arg(&unpacked);
            run(&mut tar)?;
        }
        Source::Crate { name, version } => vendor(name, version, folder, &unpacked)?,
    }
    fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
}

impl Source {
    fn label(&self) -> String {
        match self {
            Self::Debian { debian, version, sha256 } => format!("debian {debian} {version} {sha256}"),
            Self::Crate { name, version } => format!("crate {name} {version}"),
        }
    }
}

fn run(command: &mut Command) -> Result<String> {
    let outcome = process::capture(command, GET_MAX)?;
    if !outcome.success() {
        bail!("`{}` failed: {}", process::line(command), outcome.reason());
    }
    Ok(outcome.stdout)
}

/// The upstream archive of a Debian source package, downloaded where it is not there yet.
fn debian_archive(package: &str, version: &str, sha256: &str, folder: &Path) -> Result<PathBuf> {
    let upstream = version.rsplit_once('-').map_or(version, |(upstream, _)| upstream);
    let start = format!("{package}_{upstream}.orig.tar.");
    let archive = || -> Result<Option<PathBuf>> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&start) && sum(&entry.path())? == sha256 {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    };
    if let Some(archive) = archive()? {
        return Ok(archive);
    }
    let options = lists_of_debian(folder.parent().unwrap_or(folder), "deb-src")?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(&options).args(["-qq", "-o", "APT::Sandbox::User=root"]).args(arguments).current_dir(folder);
        apt
    };
    run(&mut apt(&["update"]))?;
    run(&mut apt(&["source", "--download-only", "--tar-only", &format!("{package}={version}")]))?;
    archive()?.with_context(|| {
        format!("{start}* of Debian's {package} {version} has another SHA-256 than packages.toml says")
    })
}

/// Options that make apt read lists of its own under `folder`, of the archives that this machine has its
/// packages from. They leave the machine's lists alone. `kind` is `deb` or `deb-src`.
///
/// # Errors
/// This machine has no such archives, or a file cannot be written.
pub(in crate::conformance) fn lists_of_debian(folder: &Path, kind: &str) -> Result<Vec<String>> {
    let apt = folder.join("apt");
    let parts = apt.join("parts");
    for part in [&parts, &apt.join("lists/partial")] {
        fs::create_dir_all(part)?;
    }
    let own = Path::new("/etc/apt/sources.list.d/debian.sources");
    let (name, text) = match fs::read_to_string(own) {
        Ok(text) => ("all.sources", text.replace("Types: deb\n", &format!("Types: {kind}\n"))),
        Err(_) => {
            let text = fs::read_to_string("/etc/apt/sources.list").context("no list of Debian's archives")?;
            let lines = text.lines().filter_map(|line| line.strip_prefix("deb "));
            ("all.list", lines.map(|line| format!("{kind} {line}\n")).collect())
        }
    };
    fs::write(parts.join(name), text)?;
    let option = |key: &str, value: &Path| format!("-o{key}={}", value.display());
    Ok(vec![
        option("Dir::Etc::SourceList", Path::new("/dev/null")),
        option("Dir::Etc::SourceParts", &parts),
        option("Dir::State::Lists", &apt.join("lists")),
    ])
}

fn sum(file: &Path) -> Result<String> {
    let said = run(Command::new("sha256sum").arg(file))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}

/// A crate's source as a workspace of its own, which lies inside of ours.
fn vendor(name: &str, version: &str, folder: &Path, unpacked: &Path) -> Result<()> {
    let asker = folder.join("asker");
    fs::create_dir_all(asker.join("src"))?;
    fs::write(asker.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"asker\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n\
         [dependencies]\n\"{name}\" = \"={version}\"\n"
    );
    fs::write(asker.join("Cargo.toml"), manifest)?;
    run(Command::new("cargo").args(["vendor", "--quiet", "--versioned-dirs", "vendor"]).current_dir(&asker))?;
    let from = asker.join("vendor").join(format!("{name}-{version}"));
    fs::rename(&from, unpacked).with_context(|| format!("cargo vendor made no {}", from.display()))?;
    let manifest = unpacked.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    fs::write(&manifest, format!("{text}\n[workspace]\n")).context("Cargo.toml of the crate")?;
    fs::remove_dir_all(asker.join("vendor")).context("what cargo vendor made")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_with_another_sum_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("ayatori-source-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let archive = folder.join("thing_1.0.orig.tar.gz");
        fs::write(&archive, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(debian_archive("thing", "1.0-3", right, &folder).unwrap(), archive);
        assert_eq!(sum(&archive).unwrap(), right);
        fs::remove_dir_all(&folder).unwrap();
    }
}
