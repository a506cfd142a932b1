//! Finding a Linux kernel with its modules, without installing one.

use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel image and the folder of its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The compressed image (`boot/vmlinuz-VERSION`).
    pub image: PathBuf,
    /// The folder `lib/modules/VERSION`.
    pub modules: PathBuf,
}

const HOW_TO_GET_ONE: &str = "`ayatori lab --get-kernel` downloads Debian's kernel into your cache without \
     installing it; or install one (`apt-get install linux-image-amd64`); or name a folder that has \
     boot/vmlinuz-VERSION and lib/modules/VERSION with --kernel";

/// The kernel below `named`, or the newest found below the cache and `/`.
///
/// # Errors
/// No kernel with its modules is there; the message says how to get one.
pub fn find(named: Option<&Path>) -> anyhow::Result<Kernel> {
    if let Some(root) = named {
        return below(root).with_context(|| {
            format!("no boot/vmlinuz-VERSION with lib/modules/VERSION below {}", root.display())
        });
    }
    let roots = [cache_folder(), Some(PathBuf::from("/"))];
    roots.iter().flatten().find_map(|root| below(root)).with_context(|| {
        format!("no Linux kernel with modules found for the virtual machine. {HOW_TO_GET_ONE}")
    })
}

/// Downloads the kernel package with apt and unpacks it into the cache. Nothing is installed.
///
/// # Errors
/// apt or dpkg-deb missing or failing; no folder to keep the kernel in.
pub fn download() -> anyhow::Result<Kernel> {
    let cache = cache_folder().context("neither XDG_CACHE_HOME nor HOME is set: no place for the kernel")?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    // The meta package depends on exactly one versioned image.
    let package = output(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))?
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned))
        .context("apt-cache does not know linux-image-amd64; run `apt-get update`")?;
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    output(Command::new("apt-get").args(["download", &package]).current_dir(scratch.path()))?;
    let file = fs::read_dir(scratch.path())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get download left no package {package}"))?;
    output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&cache))?;
    below(&cache).with_context(|| format!("{package} holds no kernel with modules"))
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("ayatori/kernel"))
}

/// The newest version below `root` that has both an image and modules.
fn below(root: &Path) -> Option<Kernel> {
    let mut versions: Vec<String> = fs::read_dir(root.join("boot"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
        .collect();
    versions.sort_by_key(|version| version_key(version));
    versions.into_iter().rev().find_map(|version| {
        // Debian's packages have lib/modules, its merged-/usr successors usr/lib/modules.
        let modules = ["lib/modules", "usr/lib/modules"]
            .map(|folder| root.join(folder).join(&version))
            .into_iter()
            .find(|folder| folder.join("kernel").is_dir())?;
        Some(Kernel { image: root.join("boot").join(format!("vmlinuz-{version}")), modules })
    })
}

/// Numbers compare as numbers: 6.1.0-9 before 6.1.0-56.
fn version_key(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_that_has_modules_is_taken() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("boot")).unwrap();
        for version in ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.0-1-amd64"] {
            fs::write(root.path().join(format!("boot/vmlinuz-{version}")), "").unwrap();
        }
        for version in ["6.1.0-9-amd64", "6.1.0-56-amd64"] {
            fs::create_dir_all(root.path().join(format!("lib/modules/{version}/kernel"))).unwrap();
        }
        let kernel = find(Some(root.path())).unwrap();
        assert!(kernel.image.ends_with("boot/vmlinuz-6.1.0-56-amd64"), "{kernel:?}");
    }

    #[test]
    fn a_folder_without_a_kernel_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = find(Some(root.path())).unwrap_err().to_string();
        assert!(error.contains(&root.path().display().to_string()), "{error}");
    }
}
