//! `cargo xtask deb`: packages for Debian, made from an installation as `make install` makes it.
//!
//! ```text
//! installation ─► place() ─► build/deb/PACKAGE ─► dpkg-shlibdeps ─► dpkg-deb ─► dist/*.deb
//!                 packaging/debian/PACKAGE ─► DEBIAN ┘
//! ```
//!
//! The installation stays one tree, in `/usr/lib/TRIPLET/ayatori`, because its parts find each other from
//! their own places; the names that users call are links, which `update-alternatives` switches beside
//! Debian's MPICH and Open MPI. `packaging/debian` has the fields and the scripts of each package.

mod chroot;

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{paths, process, stage};

/// For what hangs.
const LIMIT: Duration = Duration::from_secs(600);

const LIBRARY: &str = "libmpi-abi1-ayatori";
const DEVELOPMENT: &str = "libmpi-abi-ayatori-dev";
const TOOLS: &str = "ayatori";
/// A package after those that it needs.
const PACKAGES: [&str; 3] = [LIBRARY, DEVELOPMENT, TOOLS];

/// Options of `cargo xtask deb`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to put the packages.
    #[arg(long, default_value = "dist")]
    out: PathBuf,
    /// An installation to package, in place of the one that is built.
    #[arg(long, value_name = "PREFIX")]
    from: Option<PathBuf>,
    /// Who answers for the packages.
    #[arg(long, env = "DEBEMAIL", default_value = "The Ayatori developers <ayatori@packages.example>")]
    maintainer: String,
    /// Fail where lintian finds an error.
    #[arg(long)]
    lintian: bool,
    /// Install and remove them in a fresh Debian, beside its MPICH (needs root, debootstrap and the network).
    #[arg(long)]
    test: bool,
    /// The Debian that `--test` installs.
    #[arg(long, default_value = "bookworm")]
    suite: String,
}

/// `cargo xtask deb`.
///
/// # Errors
/// A tool of Debian is missing or refuses something; a file of the installation belongs to no package.
pub(crate) fn run(options: &Options) -> Result<()> {
    let prefix = match &options.from {
        Some(prefix) => std::path::absolute(prefix)?,
        None => stage::stage()?,
    };
    let packages = make(&prefix, &options.maintainer, &paths::root().join(&options.out))?;
    for package in &packages {
        println!("{}: {:.1} MB", package.display(), fs::metadata(package)?.len() as f64 / 1e6);
    }
    if options.lintian {
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error", "--tag-display-limit", "0"]).args(&packages);
        process::show(&mut lintian).context("lintian (Debian: apt-get install lintian)")?;
    }
    if options.test { chroot::test(&options.suite, &packages) } else { Ok(()) }
}

/// The machine that packages are made for.
struct Machine {
    /// `amd64`.
    architecture: String,
    /// `x86_64-linux-gnu`.
    triplet: String,
}

impl Machine {
    fn this() -> Result<Self> {
        let ask = |what: &str| -> Result<String> {
            let mut command = Command::new("dpkg-architecture");
            said(command.args(["-q", what]))
                .context("packages need dpkg-dev (Debian: apt-get install dpkg-dev)")
        };
        Ok(Self { architecture: ask("DEB_HOST_ARCH")?, triplet: ask("DEB_HOST_MULTIARCH")? })
    }

    /// Where the installation is in Debian, without the slash before it.
    fn home(&self) -> String {
        format!("usr/lib/{}/ayatori", self.triplet)
    }
}

/// Runs a program to its end; what it printed, without the line's end.
fn said(command: &mut Command) -> Result<String> {
    let outcome = process::capture(command, LIMIT)?;
    if !outcome.success() {
        let end = process::last_lines(&(outcome.stdout.clone() + &outcome.stderr), 20);
        bail!("`{}`: {}\n{end}", process::line(command), outcome.reason());
    }
    Ok(outcome.stdout.trim_end().to_owned())
}

/// Where a file of the installation goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A package, and the path in it.
    In(&'static str, String),
    /// Into none.
    Nowhere,
}

/// The package and the place of a file; `None`: nobody has decided that yet.
fn place(relative: &str, home: &str) -> Option<Place> {
    let (folder, name) = relative.rsplit_once('/')?;
    let at_home = |package| Some(Place::In(package, format!("{home}/{relative}")));
    match folder {
        "bin" if matches!(name, "ayatori" | "mpiexec" | "mpirun") => at_home(TOOLS),
        "bin" if name.starts_with("mpic") || name.starts_with("mpif") => at_home(DEVELOPMENT),
        "include" => at_home(DEVELOPMENT),
        "lib" if name.ends_with(".so") => at_home(DEVELOPMENT),
        "lib" | "lib/ayatori/mpich" | "lib/ayatori/openmpi" => at_home(LIBRARY),
        "lib/pkgconfig" if name.starts_with("ayatori") => at_home(DEVELOPMENT),
        // The general names are the alternatives'.
        "lib/pkgconfig" => Some(Place::Nowhere),
        "share/man/man1" => Some(Place::In(TOOLS, format!("usr/{relative}.gz"))),
        "share/zsh/site-functions" => {
            Some(Place::In(TOOLS, format!("usr/share/zsh/vendor-completions/{name}")))
        }
        _ if relative.starts_with("share/bash-completion/") || relative.starts_with("share/fish/") => {
            Some(Place::In(TOOLS, format!("usr/{relative}")))
        }
        // For prefixes that are not in anybody's path.
        _ if relative.starts_with("share/modulefiles/") => Some(Place::Nowhere),
        _ => None,
    }
}

fn make(prefix: &Path, maintainer: &str, out: &Path) -> Result<Vec<PathBuf>> {
    ensure!(
        prefix.join("lib/libmpi_abi_fortran.so.1").exists(),
        "{} has no Fortran library, and the packages have one (Debian: apt-get install gfortran)",
        prefix.display()
    );
    let machine = Machine::this()?;
    let root = paths::build_dir().join("deb");
    if root.exists() {
        fs::remove_dir_all(&root).context("an old build/deb")?;
    }
    lay_out(prefix, &root, &machine)?;
    names(&root, &machine)?;
    let epoch = said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(paths::root()))
        .unwrap_or_else(|_| "0".to_owned());
    let fields = Fields::new(&machine, maintainer, &epoch)?;
    fs::create_dir_all(out)?;
    let mut packages = Vec::new();
    for name in PACKAGES {
        documents(&root, name, &fields)?;
        fields.describe(&root, name)?;
        let package = out.join(format!("{name}_{}_{}.deb", stage::VERSION, machine.architecture));
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(root.join(name)).arg(&package);
        said(dpkg.env("SOURCE_DATE_EPOCH", &epoch))?;
        packages.push(package);
    }
    Ok(packages)
}

/// Deals the files of the installation out to the packages.
fn lay_out(prefix: &Path, root: &Path, machine: &Machine) -> Result<()> {
    let home = machine.home();
    for path in files(prefix)? {
        let relative = path.strip_prefix(prefix)?.to_str().context("a name that is not UTF-8")?.to_owned();
        let to = match place(&relative, &home) {
            Some(Place::In(package, to)) => root.join(package).join(to),
            Some(Place::Nowhere) => continue,
            None => bail!("{relative} of the installation belongs to no package: xtask/src/deb has the list"),
        };
        let what = || format!("cannot place {relative}");
        let from = fs::symlink_metadata(&path).with_context(what)?;
        let folder = to.parent().expect("a folder of the package");
        fs::create_dir_all(folder).with_context(what)?;
        if from.is_symlink() {
            stage::link(&fs::read_link(&path)?.to_string_lossy(), &to).with_context(what)?;
        } else if relative.starts_with("share/man/") {
            compress(&fs::read(&path).with_context(what)?, &to)?;
        } else if let Some(text) = changed(&relative, &path, &home)? {
            fs::write(&to, text).with_context(what)?;
            fs::set_permissions(&to, from.permissions()).with_context(what)?;
        } else {
            stage::copy(&path, &to, from.permissions().mode() & 0o777).with_context(what)?;
            strip(&relative, &to)?;
        }
    }
    Ok(())
}

/// All files below, links included.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.append(&mut files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What Debian's is to say in place of the installation's. The library has a link in the loader's own path,
/// so programs carry no path to it, and take the library that the administrator has chosen.
fn changed(relative: &str, path: &Path, home: &str) -> Result<Option<String>> {
    let is_wrapper = relative.starts_with("bin/mpi") && !matches!(relative, "bin/mpiexec" | "bin/mpirun");
    let (from, to) = if is_wrapper {
        ("link=yes rpath=yes", "link=yes rpath=no".to_owned())
    } else if relative.ends_with(".pc") {
        ("prefix=${pcfiledir}/../..", format!("prefix=/{home}"))
    } else {
        return Ok(None);
    };
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    ensure!(text.contains(from), "{relative} has no `{from}` any more, which its package changes");
    Ok(Some(text.replace(from, &to).replace(" -Wl,-rpath,${libdir}", "")))
}

/// Debian's programs and libraries have no symbols but those that the loader needs.
fn strip(relative: &str, at: &Path) -> Result<()> {
    let is_library = relative.starts_with("lib/") && relative.contains(".so");
    if is_library || relative == "bin/ayatori" {
        let mut strip = Command::new("strip");
        strip.args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"]).arg(at);
        said(&mut strip)?;
        fs::set_permissions(at, fs::Permissions::from_mode(if is_library { 0o644 } else { 0o755 }))?;
    }
    Ok(())
}

/// Writes a file as gzip has it, the same for the same content.
fn compress(content: &[u8], to: &Path) -> Result<()> {
    let plain = to.with_extension("");
    fs::write(&plain, content)?;
    said(Command::new("gzip").arg("-9nf").arg(&plain))?;
    Ok(())
}

/// The names in Debian's own folders that do not depend on what is chosen.
fn names(root: &Path, machine: &Machine) -> Result<()> {
    let bin = format!("../lib/{}/ayatori/bin", machine.triplet);
    let link = |package: &str, at: &str, to: &str| -> Result<()> {
        let at = root.join(package).join(at);
        fs::create_dir_all(at.parent().expect("a folder of the package"))?;
        stage::link(to, &at)
    };
    for name in ["mpicc", "mpicxx", "mpifort"] {
        link(DEVELOPMENT, &format!("usr/bin/{name}.ayatori"), &format!("{bin}/{name}"))?;
    }
    for name in ["ayatori.pc", "ayatori-fort.pc"] {
        let at = format!("usr/lib/{}/pkgconfig/{name}", machine.triplet);
        link(DEVELOPMENT, &at, &format!("../ayatori/lib/pkgconfig/{name}"))?;
    }
    link(TOOLS, "usr/bin/ayatori", &format!("{bin}/ayatori"))?;
    for name in ["mpiexec", "mpirun"] {
        link(TOOLS, &format!("usr/bin/{name}.ayatori"), &format!("{bin}/{name}"))?;
        link(TOOLS, &format!("usr/share/man/man1/{name}.ayatori.1.gz"), "ayatori-run.1.gz")?;
    }
    Ok(())
}

/// What the files of `packaging/debian` leave open.
struct Fields {
    pairs: Vec<(&'static str, String)>,
}

impl Fields {
    fn new(machine: &Machine, maintainer: &str, epoch: &str) -> Result<Self> {
        let licence = fs::read_to_string(paths::root().join("LICENSE-MIT"))?;
        let indented = licence.trim_end().lines().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, " {}", if line.is_empty() { "." } else { line });
            text
        });
        let date = said(Command::new("date").args(["-u", "-R", "-d", &format!("@{epoch}")]))?;
        let pairs = vec![
            ("@VERSION@", stage::VERSION.to_owned()),
            ("@ARCH@", machine.architecture.clone()),
            ("@TRIPLET@", machine.triplet.clone()),
            ("@HOME@", format!("/{}", machine.home())),
            ("@MAINTAINER@", maintainer.to_owned()),
            ("@MIT@", indented.trim_end().to_owned()),
            ("@DATE@", date),
        ];
        Ok(Self { pairs })
    }

    fn fill(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// `DEBIAN`: the fields, with what the programs and libraries need; the scripts; the sums.
    fn describe(&self, root: &Path, name: &str) -> Result<()> {
        let (tree, source) = (root.join(name), paths::root().join("packaging/debian").join(name));
        let control = tree.join("DEBIAN");
        fs::create_dir_all(&control)?;
        let mut names: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&source).with_context(|| source.display().to_string())? {
            names.push(entry?.path());
        }
        for path in names {
            let file = path.file_name().expect("an entry of a folder").to_string_lossy().into_owned();
            let text = self.fill(&fs::read_to_string(&path)?);
            let (to, mode) = match file.as_str() {
                "control" => continue,
                "lintian-overrides" => (tree.join("usr/share/lintian/overrides").join(name), 0o644),
                "shlibs" => (control.join(&file), 0o644),
                script => (control.join(script), 0o755),
            };
            fs::create_dir_all(to.parent().expect("a folder of the package"))?;
            fs::write(&to, text)?;
            fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        }
        let text = fs::read_to_string(source.join("control"))?;
        let size_kib = kib(&tree)?;
        let needed = if text.contains("@SHLIBS@") { needed(root, &tree)? } else { String::new() };
        let text = text.replace("@GFORTRAN@", &gfortran(root)?);
        let text = self.fill(&text).replace("@SIZE@", &size_kib.to_string()).replace("@SHLIBS@", &needed);
        fs::write(control.join("control"), text)?;
        sums(&tree)
    }
}

/// `usr/share/doc`: who may copy it, and what has changed.
fn documents(root: &Path, name: &str, fields: &Fields) -> Result<()> {
    let folder = root.join(name).join("usr/share/doc").join(name);
    fs::create_dir_all(&folder)?;
    let source = paths::root().join("packaging/debian");
    fs::write(folder.join("copyright"), fields.fill(&fs::read_to_string(source.join("copyright"))?))?;
    let changes = fields.fill(&fs::read_to_string(source.join("changelog"))?);
    compress(changes.as_bytes(), &folder.join("changelog.gz"))
}

/// The package of the compiler that reads the modules: a module's first line has the version of its format.
fn gfortran(root: &Path) -> Result<String> {
    let modules = files(&root.join(DEVELOPMENT))?;
    let module = modules.iter().find(|path| path.extension().is_some_and(|name| name == "mod"));
    let text =
        said(Command::new("gzip").args(["-S", ".mod", "-dc"]).arg(module.context("no Fortran module")?))?;
    let version = text.split('\'').nth(1).context("a Fortran module that gfortran has not written")?;
    let compiler = said(Command::new("gfortran").arg("-dumpversion"))?;
    let major = compiler.split('.').next().unwrap_or_default();
    Ok(format!("gfortran-{major} | gfortran-mod-{version}"))
}

/// The packages whose libraries the files of this one ask for, as `Depends` has them.
fn needed(root: &Path, tree: &Path) -> Result<String> {
    // dpkg-shlibdeps works in the folder of a source package.
    let source = root.join("source");
    fs::create_dir_all(source.join("debian"))?;
    fs::write(source.join("debian/control"), "Source: ayatori\n\nPackage: ayatori\nArchitecture: any\n")?;
    let mut asking = Vec::new();
    for path in files(tree)? {
        let is_plain = fs::symlink_metadata(&path)?.is_file();
        if is_plain && fs::read(&path)?.starts_with(b"\x7fELF") {
            asking.push(path);
        }
    }
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.arg("-O").arg(format!("-S{}", root.join(LIBRARY).display())).arg(format!("-x{LIBRARY}"));
    let text = said(shlibdeps.args(asking).current_dir(&source))?;
    let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends.with_context(|| format!("dpkg-shlibdeps said {text:?}"))?.to_owned())
}

/// KiB of the files, each rounded up, as `Installed-Size` counts.
fn kib(tree: &Path) -> Result<u64> {
    let mut sum = 0;
    for path in files(tree)? {
        let meta = fs::symlink_metadata(&path)?;
        sum += if meta.is_file() { meta.len().div_ceil(1024) } else { 1 };
    }
    Ok(sum)
}

fn sums(tree: &Path) -> Result<()> {
    let mut md5sum = Command::new("md5sum");
    for path in files(tree)? {
        let relative = path.strip_prefix(tree)?.to_owned();
        if !relative.starts_with("DEBIAN") && fs::symlink_metadata(&path)?.is_file() {
            md5sum.arg(relative);
        }
    }
    let text = said(md5sum.current_dir(tree))?;
    fs::write(tree.join("DEBIAN/md5sums"), text + "\n").context("DEBIAN/md5sums")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(relative: &str) -> Option<Place> {
        place(relative, "usr/lib/T/ayatori")
    }

    #[test]
    fn file_is_in_the_package_that_needs_it() {
        let home = |name: &str| format!("usr/lib/T/ayatori/{name}");
        for (package, name) in [
            (LIBRARY, "lib/libmpi_abi.so.1"),
            (LIBRARY, "lib/ayatori/openmpi/libmpi.so.40"),
            (DEVELOPMENT, "lib/libmpi_abi.so"),
            (DEVELOPMENT, "include/mpi.h"),
            (DEVELOPMENT, "bin/mpifort_abi"),
            (TOOLS, "bin/mpiexec"),
        ] {
            assert_eq!(at(name), Some(Place::In(package, home(name))));
        }
        assert_eq!(
            at("share/man/man1/ayatori.1"),
            Some(Place::In(TOOLS, "usr/share/man/man1/ayatori.1.gz".to_owned()))
        );
        assert_eq!(at("lib/pkgconfig/mpi.pc"), Some(Place::Nowhere));
    }

    #[test]
    fn a_new_kind_of_file_has_no_package() {
        assert_eq!(at("etc/ayatori.conf"), None);
        assert_eq!(at("bin/another"), None);
    }
}
