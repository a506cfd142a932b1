//! Which kernel modules to load, in which order.
//!
//! A kernel taken out of its package without installing it has no `modules.dep` (that is made on
//! installation), so the dependencies are read out of the modules themselves: each names its own in its
//! `.modinfo` section as `depends=a,b`.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A module to load: its name and the bytes to give to the kernel.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// The modules called for in `wanted` and all they depend on, dependencies first, from `folder`
/// (`/lib/modules/VERSION`). Modules built into the kernel are left out.
///
/// # Errors
/// A module that is neither in the folder nor built in, named with the folder.
pub(super) fn closure(folder: &Path, wanted: &[&str]) -> anyhow::Result<Vec<Module>> {
    let files = index(folder)?;
    let built_in = built_in(folder);
    let mut loader = Loader { folder, files, built_in, done: BTreeSet::new(), out: Vec::new() };
    for name in wanted {
        loader.load(name, 0)?;
    }
    Ok(loader.out)
}

struct Loader<'a> {
    folder: &'a Path,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    done: BTreeSet<String>,
    out: Vec<Module>,
}

impl Loader<'_> {
    fn load(&mut self, name: &str, depth: u32) -> anyhow::Result<()> {
        let name = canonical(name);
        if self.built_in.contains(&name) || !self.done.insert(name.clone()) {
            return Ok(());
        }
        if depth > 16 {
            bail!("the dependencies of kernel module {name} are more than 16 deep");
        }
        let Some(path) = self.files.get(&name) else {
            bail!(
                "the kernel in {} has no module `{name}`, which the lab needs; use a general-purpose kernel \
                 (Debian: linux-image-amd64)",
                self.folder.display()
            );
        };
        let bytes = read(path)?;
        for dependency in dependencies(&bytes) {
            self.load(&dependency, depth + 1)?;
        }
        self.out.push(Module { name, bytes });
        Ok(())
    }
}

/// The kernel takes `-` and `_` in module names for the same.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// Module name → file, of all modules below `folder`.
fn index(folder: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.join("kernel")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                files.insert(canonical(name), entry.path());
            }
        }
    }
    Ok(files)
}

fn built_in(folder: &Path) -> BTreeSet<String> {
    let list = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
    let stem = |line: &str| Some(canonical(line.rsplit('/').next()?.strip_suffix(".ko")?));
    list.lines().filter_map(stem).collect()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let tool = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).with_context(|| format!("cannot read {}", path.display())),
    };
    let output = Command::new(tool)
        .args(["-d", "-c"])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {tool}, needed to unpack {}; install it", path.display()))?;
    if !output.status.success() {
        bail!("{tool} could not unpack {}", path.display());
    }
    Ok(output.stdout)
}

/// The names after `depends=` in a module's `.modinfo` section, which is a run of NUL-terminated strings.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = &module[at + KEY.len()..];
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    let value = String::from_utf8_lossy(&value[..end]);
    value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(modules: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("kernel/net")).unwrap();
        for (name, depends) in modules {
            let content = format!("ELF\0license=GPL\0depends={depends}\0name={name}\0");
            fs::write(folder.path().join(format!("kernel/net/{name}.ko")), content).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), "kernel/net/core-thing.ko\n").unwrap();
        folder
    }

    #[test]
    fn dependencies_come_before_their_users_and_once() {
        let folder = tree(&[("bridge", "stp,llc"), ("stp", "llc"), ("llc", ""), ("garp", "stp,core_thing")]);
        let modules = closure(folder.path(), &["bridge", "garp"]).unwrap();
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["llc", "stp", "bridge", "garp"]);
    }

    #[test]
    fn a_missing_module_is_named() {
        let folder = tree(&[("bridge", "stp")]);
        let error = closure(folder.path(), &["bridge"]).unwrap_err().to_string();
        assert!(error.contains("no module `stp`"), "{error}");
    }
}
