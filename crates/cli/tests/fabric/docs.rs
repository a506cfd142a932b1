//! Every command line of `ayatori` on the planner's pages is run as it stands there.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{machine, text};

/// Commands that are run elsewhere, and where.
const ELSEWHERE: &[(&str, &str)] = &[
    ("ayatori lab ", "needs QEMU: cargo xtask lab-test"),
    ("ayatori study vlan", "half a minute of all cores: crates/study's own tests"),
    ("ayatori plan design ", "tests/fabric/design.rs, with the figures of the page"),
];

/// The commands of a page: lines in code that begin with `ayatori`, with what continues them.
fn commands(page: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_fenced = false;
    let mut continues = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_code = is_fenced || line.starts_with("    ");
        let words = line.trim_start();
        let words = words.strip_prefix("$ ").unwrap_or(words);
        if continues && is_code {
            *commands.last_mut().unwrap() += words.trim_end_matches('\\');
        } else if is_code && words.starts_with("ayatori ") {
            commands.push(words.trim_end_matches('\\').to_owned());
        } else {
            continue;
        }
        continues = words.ends_with('\\');
    }
    commands
}

/// The first block of TOML of a page.
fn example(page: &str) -> &str {
    page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap()
}

/// Runs a line in a folder; its exit code and what it said.
fn run(folder: &Path, line: &str) -> (Option<i32>, String) {
    let own = Path::new(env!("CARGO_BIN_EXE_ayatori")).parent().unwrap().display().to_string();
    // `ssh` is the folder's own: no host is contacted.
    let path = format!("{}:{own}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("sh").args(["-c", line]).current_dir(folder).env("PATH", path).output().unwrap();
    (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

#[test]
fn commands_of_the_planners_pages_run() {
    let docs = machine("../docs");
    let read = |page: &str| fs::read_to_string(docs.join(page).with_extension("md")).unwrap();
    let mut count = 0;
    for page in ["plan", "switches", "watch", "lab", "design", "netbox"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("my-cluster.toml"), example(&read("plan"))).unwrap();
        fs::write(folder.join("job.csv"), "from,to,bytes\nh0,h199,64KiB\n").unwrap();
        fs::write(folder.join("ssh"), "#!/bin/sh\nexit 1\n").unwrap();
        // What the pages take for granted: a plan that was written, and what the switches show.
        let made = "chmod +x ssh && ayatori plan my-cluster.toml --out config && mkdir -p state && \
                    for name in config/s*.cfg; do cp $name state; done && \
                    ayatori plan netbox export my-cluster.toml --out state";
        let (code, said) = run(folder, made);
        assert_eq!(code, Some(0), "{said}");
        let other = folder.join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(machine(""), other.join("machines")).unwrap();
        let (code, said) = run(&other, "ayatori plan machines/lab-torus.toml --out config");
        assert_eq!(code, Some(0), "{said}");
        for command in commands(&read(page)) {
            if ELSEWHERE.iter().any(|(begin, _)| command.starts_with(begin)) {
                continue;
            }
            let mut line = command.replace(" FILE ", " my-cluster.toml ").replace(" DIR", " state");
            if line.starts_with("ayatori plan watch ") {
                line += " --rounds 1 --every 0";
            }
            let place = if line.contains("machines/") { other.as_path() } else { folder };
            let (code, said) = run(place, &line);
            assert_eq!(code, Some(0), "docs/{page}.md: {line}: {said}");
            count += 1;
        }
    }
    assert!(count >= 12, "{count} commands");
}

#[test]
fn the_planners_pages_end_with_what_was_not_verified() {
    for page in ["plan", "switches", "watch", "lab", "design", "netbox"] {
        let text = fs::read_to_string(machine("../docs").join(page).with_extension("md")).unwrap();
        let last = text.lines().rfind(|line| line.starts_with('#')).unwrap();
        assert_eq!(last, "## What was not verified on real devices", "docs/{page}.md");
    }
}
