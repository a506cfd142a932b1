//! One page of all studies.

use std::path::Path;

use anyhow::Context as _;

use crate::report::{Report, escape};
use crate::{cenju3, comet, trunking, vlan};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 \
1rem;color:#222}\
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{border:1px solid #bbb;padding:.25rem \
.6rem;text-align:left}\
th{background:#f2f2f2}figure{margin:1rem \
0}svg{max-width:100%;height:auto}pre{overflow-x:auto;background:#f7f7f7;padding:1rem}";

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
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Ayatori: five \
        papers</title><style>{STYLE}</style>\
         </head><body>\n<h1>Five papers, run again</h1>\n<table><tr><th>study</th><th>bounds met</th></tr>\n"
    );
    for report in &reports {
        let (met, all) = report.met();
        html += &format!(
            "<tr><td><a href=\"#{}\">{}</a></td><td>{met} of {all}</td></tr>\n",
            report.name,
            escape(&report.title)
        );
    }
    let agrees = if vlan.agrees { "all" } else { "not all" };
    html += &format!("<tr><td><a href=\"#vlan\">VLAN routing</a></td><td>{agrees}</td></tr>\n");
    html += "<tr><td><a href=\"#pacing\">Packet pacing</a></td><td>see there</td></tr>\n</table>\n";
    reports.iter().for_each(|report| html += &report.html());
    html +=
        &format!("<section id=\"vlan\"><h2>VLAN routing</h2><pre>{}</pre></section>\n", escape(&vlan.text));
    html += &pacing_part(pacing)?;
    html += "</body></html>\n";
    Ok(Page { html, reports })
}

/// The page and the figures that `study pacing` left.
fn pacing_part(folder: &Path) -> anyhow::Result<String> {
    let page = folder.join("report.md");
    let mut part = String::from("<section id=\"pacing\"><h2>Packet pacing</h2>\n");
    if !page.is_file() {
        part += "<p>There are no results; <code>ayatori study pacing</code> makes them.</p></section>\n";
        return Ok(part);
    }
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    part += &format!("<pre>{}</pre>\n", escape(&read(&page)?));
    for file in ["random-ring.svg", "all-to-all.svg"] {
        let path = folder.join(file);
        if path.is_file() {
            part += &format!("<figure>{}</figure>\n", read(&path)?);
        }
    }
    Ok(part + "</section>\n")
}
