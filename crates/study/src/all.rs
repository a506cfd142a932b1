//! One page of all studies.

use std::path::Path;

use anyhow::Context as _;

use crate::page::{Section, page, tally_of_findings};
use crate::report::Report;
use crate::{cenju3, comet, trunking, vlan};

/// What the page was made of.
#[derive(Debug)]
pub struct Page {
    /// The page, complete in one file.
    pub html: String,
    /// The studies of hosts, as `report.md` has them.
    pub reports: Vec<Report>,
}

/// Runs the studies that take less than a minute each, and makes one page of them and of the packet pacing
/// study's results in `pacing`, if they are there.
///
/// # Errors
/// A study that fails.
pub fn run(pacing: &Path, mut progress: impl FnMut(&str)) -> anyhow::Result<Page> {
    let reports =
        vec![trunking::run(&mut progress)?, cenju3::run(&mut progress)?, comet::run(&mut progress)?];
    progress("VLAN routing");
    let vlan = vlan::run(None)?;
    let [trunking, cenju3, comet] = &reports[..] else { unreachable!("three were made above") };
    let sections = [
        host_section(trunking, "P1: H. Matsuba, Y. Ishikawa, IPSJ SIG HPC 2007"),
        host_section(cenju3, "P2: K. Konishi et al., IPSJ SIG 1995"),
        Section {
            name: "vlan",
            paper: "P3: T. Hiroyasu et al., IPSJ ACS 2009",
            markdown: vlan.markdown(),
            charts: Vec::new(),
            tally: Some(vlan.tally()),
        },
        pacing_section(pacing)?,
        host_section(comet, "P5: S. Kobayashi et al., IPSJ SIG 2001"),
    ];
    Ok(Page { html: page(&sections), reports })
}

fn host_section(report: &Report, paper: &'static str) -> Section {
    Section {
        name: report.name,
        paper,
        markdown: report.markdown(),
        charts: report.charts.clone(),
        tally: Some(report.tally()),
    }
}

/// The page and the figures that `study pacing` left.
fn pacing_section(folder: &Path) -> anyhow::Result<Section> {
    let report = folder.join("report.md");
    let mut section = Section {
        name: "pacing",
        paper: "P4: H. Shibamura, IPSJ SIG HPC 2014",
        markdown: "# Packet pacing\n\nThere are no results; `ayatori study pacing` makes them.\n".into(),
        charts: Vec::new(),
        tally: None,
    };
    if report.is_file() {
        section.markdown = read(&report)?;
        section.tally = tally_of_findings(&section.markdown);
        section.charts = charts(folder)?;
    }
    Ok(section)
}

/// The SVG files of a folder.
fn charts(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let place = || format!("cannot read {}", folder.display());
    let mut charts = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(place)? {
        let path = entry.with_context(place)?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            charts.push((name, read(&path)?));
        }
    }
    Ok(charts)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
