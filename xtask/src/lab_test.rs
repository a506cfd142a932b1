//! `cargo xtask lab-test`: the planner's promises on real Linux bridges, by `ayatori lab --verify`
//! (docs/lab.md).

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{paths, process, skips};

/// What to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also larger and other machines: a fat tree, twelve switches in no order, 64 hosts on eight
    /// switches, 12 and 66 on six, hosts that tag, hosts with two NICs, three hosts without a switch
    /// (long)
    #[arg(long)]
    all: bool,
    /// Where QEMU or a kernel is missing, say so and succeed; download nothing
    #[arg(long)]
    if_possible: bool,
}

/// A machine, the hosts at each of its switches, and a line in the place of its own, or added to its
/// `[plan]`.
type Case = (&'static str, u32, &'static str);
const SMALL: [Case; 1] = [("lab-torus", 2, "")];
const LARGE: [Case; 11] = [
    ("lab-ring", 1, ""),
    ("lab-fat-tree", 2, ""),
    ("lab-irregular", 2, ""),
    ("lab-torus", 2, "tagging = \"host\""),
    ("lab-rails", 2, ""),
    ("lab-rails", 2, "tagging = \"host\""),
    ("lab-rails", 2, "nics_as = \"bond\""),
    ("lab-complete", 2, ""),
    ("lab-complete", 2, "tagging = \"host\""),
    ("lab-torus", 8, ""),
    ("lab-complete", 11, ""),
];

/// `cargo xtask lab-test`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.if_possible
        && let Some(missing) = missing()
    {
        skips::note("lab", &missing);
        return Ok(());
    }
    process::show(
        Command::new("cargo").args(["build", "--release", "-p", "ayatori"]).current_dir(paths::root()),
    )?;
    let ayatori = paths::target_dir().join("release/ayatori");
    if !has_kernel() {
        process::show(Command::new(&ayatori).args(["lab", "--get-kernel"]))?;
    }
    let large: &[Case] = if options.all { &LARGE } else { &[] };
    let mut failed = Vec::new();
    for &(name, hosts, option) in SMALL.iter().chain(large) {
        let begin = Instant::now();
        // What CI runs must not keep it for an hour when something hangs.
        let timeout_s = if options.all { "3600" } else { "900" };
        let file = described(name, hosts, option)?;
        let what = [name, option].join(" ").trim_end().to_owned();
        let mut command = Command::new(&ayatori);
        // Every pair of eight switches has a route of its own; CI tries every third.
        let pair_count_max = if options.all { "56" } else { "24" };
        command.arg("lab").arg(&file).args(["--verify", "--verify-pairs", pair_count_max]);
        command.args(["--timeout", timeout_s]).current_dir(paths::root());
        let is_good = process::show(&mut command).is_ok();
        let word = if is_good { "ok" } else { "FAILED" };
        println!("== lab {what}, {hosts} hosts a switch: {word}, {:.0} s", begin.elapsed().as_secs_f64());
        if !is_good {
            failed.push(format!("{what} with {hosts} hosts a switch"));
        }
    }
    if !failed.is_empty() {
        bail!("the lab failed for {}", failed.join(", "));
    }
    Ok(())
}

fn has_qemu() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("qemu-system-x86_64").is_file())
}

/// What the lab lacks on this machine, and how to get it.
pub(crate) fn missing() -> Option<String> {
    lacking().map(str::to_owned)
}

fn lacking() -> Option<&'static str> {
    if !has_qemu() {
        return Some("no qemu-system-x86_64 (Debian: apt-get install qemu-system-x86)");
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox", "/usr/lib/busybox/busybox-static"];
    if !busybox.iter().any(|path| std::path::Path::new(path).is_file()) {
        return Some("no busybox (Debian: apt-get install busybox-static)");
    }
    if !has_kernel() {
        return Some("no Linux kernel with its modules (`ayatori lab --get-kernel` downloads one)");
    }
    None
}

/// Whether a kernel is installed with its modules, or was downloaded before.
fn has_kernel() -> bool {
    let home = std::env::var_os("XDG_CACHE_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let roots = [home.map(|folder| folder.join("ayatori/kernel")), Some("/".into())];
    let has_image = |root: &std::path::PathBuf| {
        let entries = std::fs::read_dir(root.join("boot")).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.strip_prefix("vmlinuz-").is_some_and(|version| {
                ["lib/modules", "usr/lib/modules"]
                    .iter()
                    .any(|folder| root.join(folder).join(version).join("kernel").is_dir())
            }) && std::fs::File::open(entry.path()).is_ok()
        })
    };
    roots.iter().flatten().any(has_image)
}

/// The machine's description with so many hosts at each switch, and a line in the place of the one with the
/// same key or at the end, in its last section, `[plan]`.
fn described(name: &str, hosts: u32, option: &str) -> Result<std::path::PathBuf> {
    let source = paths::root().join(format!("machines/{name}.toml"));
    let text =
        std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let folder = paths::target_dir().join("lab");
    std::fs::create_dir_all(&folder)?;
    let word: String = option.chars().filter(char::is_ascii_alphanumeric).collect();
    let file = folder.join(format!("{name}-{hosts}{word}.toml"));
    let text = text.replace("per_switch = 2", &format!("per_switch = {hosts}"));
    let key = option.split(' ').next().unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter_mut().find(|line| !key.is_empty() && line.starts_with(key)) {
        Some(line) => *line = option,
        None => lines.push(option),
    }
    std::fs::write(&file, lines.join("\n") + "\n")?;
    Ok(file)
}
