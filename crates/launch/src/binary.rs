//! Which MPI a program was built for, by the libraries that it asks for; and what makes it run on this one.
//!
//! A program names the libraries it needs, and those name theirs ([`Abi::of_library`] knows the names).
//! Nothing is executed for it but a Python interpreter, which is asked where its `mpi4py` lies. A program
//! that loads MPI only while it runs, or a script of a shell, does not say: for it there is `--abi`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader};

use crate::error::Error;
use crate::program;
use crate::spec::{Abi, Program};

/// So many libraries of a program are looked at, at most.
const LIBRARIES_MAX: usize = 1000;

impl Abi {
    /// The ABI that a library of this name belongs to.
    fn of_library(name: &str) -> Option<Self> {
        const MPICH: [&str; 8] = [
            "libmpi.so.12",
            "libmpich.so.12",
            "libmpifort.so.12",
            "libmpichfort.so.12",
            "libmpicxx.so.12",
            "libmpichcxx.so.12",
            "libmpi_intel.so.12",
            "libmpi_cray.so.12",
        ];
        match name {
            _ if name.starts_with("libmpi_abi.so") => Some(Self::Standard),
            _ if MPICH.contains(&name) => Some(Self::Mpich),
            _ if name.starts_with("libmpi") && name.ends_with(".so.40") => Some(Self::OpenMpi),
            _ => None,
        }
    }

    /// Its name on the command line and as a directory.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// The library that programs of this ABI load.
    fn library(self) -> &'static str {
        match self {
            Self::Standard => "libmpi_abi.so.1",
            Self::Mpich => "libmpi.so.12",
            Self::OpenMpi => "libmpi.so.40",
        }
    }
}

/// What a program asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asks {
    abi: Abi,
    /// Its own path leads to its MPI before `LD_LIBRARY_PATH` is looked at (`DT_RPATH`).
    is_tied: bool,
}

/// Sets the variables that make `program` find the translator of its ABI: that of `forced`, or the one that
/// it asks for. For a program of the standard ABI, or one that does not say, nothing is set.
///
/// # Errors
/// The translator is not installed beside this command.
pub fn prepare(program: &mut Program, forced: Option<Abi>) -> anyhow::Result<()> {
    let asks = forced.map(|abi| Asks { abi, is_tied: false }).or_else(|| asked(program));
    let Some(Asks { abi, is_tied }) = asks.filter(|asks| asks.abi != Abi::Standard) else { return Ok(()) };
    let directory = directory(abi);
    let library = directory.join(abi.library());
    if !library.exists() {
        return Err(Error::usage(format!(
            "'{}' was built for {}, which asks for {}, and {} is not there: install Ayatori with it (make \
             install), or give --abi standard",
            program.name.display(),
            if abi == Abi::Mpich { "MPICH's ABI" } else { "Open MPI" },
            abi.library(),
            library.display()
        )));
    }
    let mut path = directory.into_os_string();
    if let Some(before) = variable(program, "LD_LIBRARY_PATH").filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    program.env.push(("LD_LIBRARY_PATH".into(), path));
    if is_tied {
        // A library loaded already satisfies every request for its name.
        program.env.push(("LD_PRELOAD".into(), library.into()));
    }
    if variable(program, "MPI4PY_MPIABI").is_none() {
        program.env.push(("MPI4PY_MPIABI".into(), abi.name().into()));
    }
    Ok(())
}

/// A variable as the program will see it.
fn variable(program: &Program, name: &str) -> Option<OsString> {
    let own = program.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    own.or_else(|| std::env::var_os(name))
}

/// Where the translator of an ABI is: `lib/ayatori/ABI` beside the `bin` that this command is in.
fn directory(abi: Abi) -> PathBuf {
    let command = std::env::current_exe().unwrap_or_default();
    let prefix = command.parent().and_then(Path::parent).unwrap_or(Path::new("/usr")).to_owned();
    prefix.join("lib/ayatori").join(abi.name())
}

/// What the program asks for, if it says.
fn asked(program: &Program) -> Option<Asks> {
    let here = std::env::current_dir().ok()?;
    let path = variable(program, "PATH").unwrap_or_default();
    let wdir = program.wdir.as_ref().map(Path::new);
    let mut found = program::find(&program.name, &here, wdir, &path).ok()?;
    if let Some(interpreter) = interpreter(&found) {
        found = program::find(&interpreter, &here, wdir, &path).ok()?;
    }
    let by_itself = asked_by(&found, variable(program, "LD_LIBRARY_PATH").as_deref());
    by_itself.or_else(|| asked_by_python(&found, program))
}

/// The interpreter that the first line of a script names.
fn interpreter(path: &Path) -> Option<OsString> {
    let text = fs::read(path).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = Path::new(OsStr::from_bytes(first)).file_name() == Some(OsStr::new("env"));
    let name = if is_env { words.find(|word| !word.starts_with(b"-"))? } else { first };
    Some(OsStr::from_bytes(name).to_owned())
}

/// What the `mpi4py` of a Python interpreter asks for. Its wheels bring a module for each ABI; the first of
/// ours is taken.
fn asked_by_python(python: &Path, program: &Program) -> Option<Asks> {
    const ASK: &str = "import importlib.util as u; s = u.find_spec('mpi4py'); \
                       print(s.submodule_search_locations[0] if s else '')";
    if !python.file_name()?.as_bytes().starts_with(b"python") {
        return None;
    }
    let mut ask = Command::new(python);
    ask.args(["-c", ASK]).envs(program.env.iter().map(|(name, value)| (name, value)));
    let said = ask.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let directory = PathBuf::from(OsStr::from_bytes(said.stdout.trim_ascii_end()));
    if directory.as_os_str().is_empty() {
        return None;
    }
    let library_path = variable(program, "LD_LIBRARY_PATH");
    let entries = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let modules = entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"MPI.") && name.ends_with(b".so")
    });
    let all: Vec<Asks> = modules.filter_map(|path| asked_by(&path, library_path.as_deref())).collect();
    [Abi::Standard, Abi::Mpich, Abi::OpenMpi]
        .iter()
        .find_map(|abi| all.iter().find(|a| a.abi == *abi).copied())
}

/// What a file and the libraries it needs ask for.
fn asked_by(file: &Path, library_path: Option<&OsStr>) -> Option<Asks> {
    let mut seen = HashSet::new();
    let mut queue = vec![file.to_owned()];
    let mut places = Vec::new();
    let mut at = 0;
    while at < queue.len() && at < LIBRARIES_MAX {
        let path = queue[at].clone();
        at += 1;
        let Some(needs) = Needs::read(&path) else { continue };
        for name in &needs.libraries {
            if let Some(abi) = Abi::of_library(name) {
                let is_tied = needs.is_rpath && needs.paths.iter().any(|dir| dir.join(name).exists());
                return Some(Asks { abi, is_tied });
            }
        }
        if at == 1 {
            places = system_directories();
        }
        let own = library_path.into_iter().flat_map(std::env::split_paths);
        let places: Vec<PathBuf> =
            needs.paths.iter().cloned().chain(own).chain(places.iter().cloned()).collect();
        for name in needs.libraries.into_iter().filter(|name| seen.insert(name.clone())) {
            queue.extend(places.iter().map(|dir| dir.join(&name)).find(|path| path.exists()));
        }
    }
    None
}

/// The directories that libraries are looked for in at last.
fn system_directories() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    let parts = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
    files.extend(parts);
    for text in files.iter().filter_map(|file| fs::read_to_string(file).ok()) {
        all.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    all.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    all
}

/// The libraries that an ELF file needs.
#[derive(Debug, Default)]
struct Needs {
    libraries: Vec<String>,
    /// Where it wants them to be looked for.
    paths: Vec<PathBuf>,
    /// `paths` come before `LD_LIBRARY_PATH`.
    is_rpath: bool,
}

impl Needs {
    /// Reads a file; `None` if it is no ELF file of 64 bits.
    fn read(path: &Path) -> Option<Self> {
        let data = fs::read(path).ok()?;
        let file = ElfFile64::<object::Endianness>::parse(&*data).ok()?;
        let endian = file.endian();
        let sections = file.elf_header().sections(endian, &*data).ok()?;
        let (entries, strings) = sections.dynamic(endian, &*data).ok()??;
        let strings = sections.strings(endian, &*data, strings).ok()?;
        let origin = fs::canonicalize(path).ok()?.parent()?.display().to_string();
        let mut needs = Self::default();
        for entry in entries {
            let tag = u32::try_from(entry.d_tag(endian)).unwrap_or_default();
            if ![elf::DT_NEEDED, elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag) {
                continue;
            }
            let Ok(text) = entry.string(endian, strings) else { continue };
            let text = String::from_utf8_lossy(text);
            if tag == elf::DT_NEEDED {
                needs.libraries.push(text.into_owned());
            } else {
                let text = text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
                needs.paths = text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
                needs.is_rpath = tag == elf::DT_RPATH;
            }
        }
        Some(needs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_say_which_abi_they_are_of() {
        for (name, abi) in [
            ("libmpi.so.12", Some(Abi::Mpich)),
            ("libmpichfort.so.12", Some(Abi::Mpich)),
            ("libmpi.so.40", Some(Abi::OpenMpi)),
            ("libmpi_usempif08.so.40", Some(Abi::OpenMpi)),
            ("libmpi_abi.so.1", Some(Abi::Standard)),
            ("libmpi_abi.so.0", Some(Abi::Standard)),
            ("libmpi.so.1", None),
            ("libmpfr.so.6", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(Abi::of_library(name), abi, "{name}");
        }
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("script");
        for (line, name) in [
            ("#!/usr/bin/env python3\nx", Some("python3")),
            ("#! /usr/bin/env -S python3 -u\n", Some("python3")),
            ("#!/opt/python -u\n", Some("/opt/python")),
            ("echo\n", None),
            ("#!\n", None),
        ] {
            fs::write(&file, line).expect("written");
            assert_eq!(interpreter(&file), name.map(OsString::from), "{line}");
        }
    }

    #[test]
    fn a_program_without_mpi_asks_for_none() {
        let here = std::env::current_exe().expect("this program");
        assert_eq!(asked_by(&here, None), None);
        assert!(Needs::read(&here).is_some_and(|needs| !needs.libraries.is_empty()));
        assert_eq!(asked_by(Path::new("/etc/passwd"), None), None);
    }
}
