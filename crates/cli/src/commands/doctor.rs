//! `ayatori doctor`: what of this machine's settings is in the way of MPI jobs.

use crate::exit::{Exit, FAILURE};
use crate::style;
use anyhow::ensure;
use ayatori_launch::doctor::{CHECKS, Finding, Severity, System, examine};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// What `ayatori doctor` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 if nothing is an error or a warning, 1 otherwise (advice does not count).

Examples:
  ayatori doctor
  ayatori doctor -n 64
  ayatori doctor --json")]
pub(crate) struct Args {
    /// Ranks that are to run on this host
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = clap::value_parser!(u64).range(1..))]
    ranks: Option<u64>,
    /// Look at the machine whose / is mounted here, in place of this one
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what was found, the worst first.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut system = System::here(args.ranks);
    if let Some(root) = &args.root {
        ensure!(root.join("proc").is_dir(), "--root {}: there is no {0}/proc", root.display());
        system.root.clone_from(root);
    }
    let mut findings = examine(&system);
    findings.sort_by_key(|finding| finding.severity);
    let text = if args.json { json(&findings)? } else { describe(&findings) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let is_well = findings.iter().all(|finding| finding.severity == Severity::Advice);
    Ok(if is_well { Exit::Success } else { Exit::Code(FAILURE) })
}

fn json(findings: &[Finding]) -> anyhow::Result<String> {
    let checks: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    let value = serde_json::json!({ "checks": checks, "findings": serde_json::to_value(findings)? });
    Ok(format!("{value:#}\n"))
}

fn describe(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, severity, problem, remedy, gain } in findings {
        let word = match severity {
            Severity::Error => style::bad("error"),
            Severity::Warning => style::warning("warning"),
            Severity::Advice => style::faint("advice"),
        };
        let check = style::faint(check);
        let _ = writeln!(text, "{word} ({check}): {problem}\n  to do: {remedy}\n  gains: {gain}");
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let [errors, warnings, advice] = [Severity::Error, Severity::Warning, Severity::Advice].map(count);
    let _ = match findings.len() {
        0 => writeln!(text, "{} checks, nothing found", CHECKS.len()),
        _ => writeln!(text, "{} checks: {errors} errors, {warnings} warnings, {advice} advice", CHECKS.len()),
    };
    text
}
