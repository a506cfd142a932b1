//! Sections of a page from studies' Markdown, with their charts inside, and the row of each in the summary.

use std::fmt::Write as _;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::report::{Tally, escape};

const STYLE: &str =
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#222}
h1{margin-bottom:.3rem}section{border-top:2px solid #ddd;padding-top:1rem;margin-top:3rem}.paper{margin:0;color:#666}h2{margin-top:0}h3{margin-top:2rem}
.wide{overflow-x:auto;margin:.5rem 0 1.5rem}table{border-collapse:collapse}
td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;vertical-align:top}td:first-child{min-width:10rem}th{background:#f2f2f2}
#summary td.count{text-align:right}#summary ul{margin:0;padding-left:1.1rem}
.same{color:#176b37}.partly{color:#8a5a00}.differs{color:#a3182b;font-weight:600}
.chart{display:block;max-width:56rem;margin:1.5rem auto}.chart svg{display:block;max-width:100%;height:auto}
code{background:#f4f4f4;padding:0 .2rem}a{color:#1b5c92}";

/// A paper's part of the page.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Its place on the page, and the folder of its files.
    pub(crate) name: &'static str,
    /// Authors, place and year.
    pub(crate) paper: &'static str,
    /// The report; its first heading is the section's.
    pub(crate) markdown: String,
    /// File name and SVG text of the charts that the report names.
    pub(crate) charts: Vec<(String, String)>,
    /// `None`: there are no results yet.
    pub(crate) tally: Option<Tally>,
}

/// The page, complete in one file.
pub(crate) fn page(sections: &[Section]) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Ayatori: five papers</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>Five papers, run again</h1>\n\
         <p>What each paper measured or found, beside what Ayatori's planner and simulator give. \
         <em>Same</em>: within the bound that its section states; <em>given</em>: measured by the paper and put \
         into the model, or a parameter was fitted to it, so that its agreement shows nothing.</p>\n<div class=\"wide\"><table id=\"summary\"><tr>\
         <th>study</th><th>paper</th><th>same</th><th>partly</th><th>differ</th><th>given</th>\
         <th>what deviates most</th></tr>\n"
    );
    sections.iter().for_each(|section| text += &summary_row(section));
    text += "</table></div>\n";
    for section in sections {
        let _ = writeln!(
            text,
            "<section id=\"{}\">\n<p class=\"paper\">{}</p>\n{}<p><a href=\"#summary\">To the summary</a></p>\n</section>",
            section.name,
            escape(section.paper),
            section.html()
        );
    }
    text + "</body></html>\n"
}

fn summary_row(section: &Section) -> String {
    let name = section.name;
    let title = escape(section.title());
    let mut row = format!("<tr><td><a href=\"#{name}\">{title}</a></td><td>{}</td>", escape(section.paper));
    match &section.tally {
        None => row += "<td colspan=\"5\">no results yet</td>",
        Some(tally) => {
            let counts = [
                (tally.same_count, "same"),
                (tally.partly_count, "partly"),
                (tally.differ_count, "differs"),
                (tally.given_count, ""),
            ];
            for (count, class) in counts {
                let class = if count == 0 { "" } else { class };
                let _ = write!(row, "<td class=\"count {class}\">{count}</td>");
            }
            let items: String =
                tally.worst.iter().map(|worst| format!("<li>{}</li>", escape(worst))).collect();
            let items = if items.is_empty() { "nothing".into() } else { format!("<ul>{items}</ul>") };
            let _ = write!(row, "<td>{items}</td>");
        }
    }
    row + "</tr>\n"
}

impl Section {
    /// The first heading.
    fn title(&self) -> &str {
        self.markdown.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }

    fn html(&self) -> String {
        let mut events = Vec::new();
        let mut parser = parser(&self.markdown);
        while let Some(event) = parser.next() {
            match event {
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let inside = parser.by_ref().take_while(|own| *own != Event::End(TagEnd::Image));
                    events.push(self.chart(&dest_url, &plain(inside)));
                }
                Event::Start(Tag::TableCell) => {
                    let own = parser.by_ref().take_while(|own| *own != Event::End(TagEnd::TableCell));
                    cell(&mut events, own.map(as_text).collect());
                }
                Event::Start(table @ Tag::Table(_)) => {
                    events.extend([raw("<div class=\"wide\">"), Event::Start(table)]);
                }
                Event::End(TagEnd::Table) => events.extend([Event::End(TagEnd::Table), raw("</div>\n")]),
                other => events.push(self.adapted(as_text(other))),
            }
        }
        let mut text = String::new();
        html::push_html(&mut text, events.into_iter());
        text
    }

    /// The page's heading is above the report's, and its links begin one folder higher.
    fn adapted<'a>(&self, event: Event<'a>) -> Event<'a> {
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                Event::Start(Tag::Heading { level: below(level), id: None, classes, attrs })
            }
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let is_whole = dest_url.contains(':') || dest_url.starts_with('#');
                let dest_url = if is_whole { dest_url } else { format!("{}/{dest_url}", self.name).into() };
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            other => other,
        }
    }

    fn chart(&self, file: &str, label: &str) -> Event<'static> {
        match self.charts.iter().find(|(name, _)| name == file) {
            Some((_, svg)) => raw(&format!(
                "<span class=\"chart\" role=\"img\" aria-label=\"{}\">{svg}</span>\n",
                escape(label).replace('"', "&quot;")
            )),
            None => Event::Text(format!("({file} is not there)").into()),
        }
    }
}

fn parser(markdown: &str) -> Parser<'_> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES)
}

fn raw(html: &str) -> Event<'static> {
    Event::Html(CowStr::from(html.to_owned()))
}

/// A report has no HTML of its own: what looks so is text.
fn as_text(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    }
}

fn below(level: HeadingLevel) -> HeadingLevel {
    HeadingLevel::try_from(level as usize + 1).unwrap_or(HeadingLevel::H6)
}

/// A cell; one with a verdict in its colour.
fn cell<'a>(events: &mut Vec<Event<'a>>, inside: Vec<Event<'a>>) {
    let class = class_of(&plain(inside.iter().cloned()));
    events.push(Event::Start(Tag::TableCell));
    if let Some(class) = class {
        events.push(raw(&format!("<span class=\"{class}\">")));
    }
    events.extend(inside);
    if class.is_some() {
        events.push(raw("</span>"));
    }
    events.push(Event::End(TagEnd::TableCell));
}

fn class_of(cell: &str) -> Option<&'static str> {
    match cell.split(" (").next()? {
        "same" | "met" => Some("same"),
        "partly" => Some("partly"),
        "differs" | "MISSED" => Some("differs"),
        _ => None,
    }
}

fn plain<'a>(events: impl Iterator<Item = Event<'a>>) -> String {
    let text = |event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.into_string()),
        _ => None,
    };
    events.filter_map(text).collect()
}

/// A report that says of each finding in a table of three columns, the paper's words, ours and a verdict, how
/// it stands. A row that begins with emphasis is about a hypothetical machine or program, and is not counted.
///
/// `None`: there is no such table.
pub(crate) fn tally_of_findings(markdown: &str) -> Option<Tally> {
    let (mut tally, mut row) = (Tally::default(), Vec::new());
    let (mut partly, mut is_hypothesis) = (Vec::new(), false);
    let mut parser = parser(markdown);
    while let Some(event) = parser.next() {
        match event {
            Event::Start(Tag::TableRow) => row.clear(),
            Event::Start(Tag::TableCell) => {
                let end = Event::End(TagEnd::TableCell);
                let cell: Vec<Event<'_>> = parser.by_ref().take_while(|own| *own != end).collect();
                if row.is_empty() {
                    is_hypothesis = cell.first() == Some(&Event::Start(Tag::Emphasis));
                }
                row.push(plain(cell.into_iter()));
            }
            Event::End(TagEnd::TableRow) => {
                let [paper, _, verdict] = &row[..] else { continue };
                match class_of(verdict).filter(|_| !is_hypothesis) {
                    Some("same") => tally.same_count += 1,
                    Some("partly") => {
                        tally.partly_count += 1;
                        partly.push(format!("partly: {paper}"));
                    }
                    Some(_) => {
                        tally.differ_count += 1;
                        tally.worst.push(format!("differs: {paper}"));
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }
    tally.worst.extend(partly);
    tally.worst.truncate(3);
    let is_there = tally.same_count + tally.partly_count + tally.differ_count > 0;
    is_there.then_some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# A <title>\n\nText <b>as it stands</b>, [rows](results.csv).\n\n## Findings\n\n\
                          | the paper | here | |\n|---|---|---|\n| falls | 3 of 3 | same |\n\
                          | rises | 1 of 2 | partly |\n| *as before*, faster: falls | 0 | **differs** |\n\
                          | **V** | none | **differs** |\n\n![a ring](ring.svg)\n\n![none](other.svg)\n";

    fn section() -> Section {
        Section {
            name: "rings",
            paper: "A. Author, 2000",
            markdown: REPORT.into(),
            charts: vec![("ring.svg".into(), "<svg><path/></svg>".into())],
            tally: tally_of_findings(REPORT),
        }
    }

    #[test]
    fn findings_are_counted_and_the_worst_come_first() {
        let tally = tally_of_findings(REPORT).unwrap();
        assert_eq!((tally.same_count, tally.partly_count, tally.differ_count), (1, 1, 1));
        assert_eq!(tally.worst, ["differs: V", "partly: rises"]);
        assert_eq!(tally_of_findings("# No table\n\n| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n"), None);
    }

    #[test]
    fn a_section_has_its_charts_inside_and_no_html_of_the_reports() {
        let page = page(&[section()]);
        for part in [
            "<a href=\"#rings\">A &lt;title&gt;</a>",
            "<h2>A <title></h2>".replace("<title>", "&lt;title&gt;").as_str(),
            "<h3>Findings</h3>",
            "Text &lt;b&gt;as it stands&lt;/b&gt;, <a href=\"rings/results.csv\">rows</a>",
            "<td><span class=\"differs\"><strong>differs</strong></span></td>",
            "aria-label=\"a ring\"><svg><path/></svg></span>",
            "(other.svg is not there)",
        ] {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
        assert!(!page.contains("<img") && !page.contains("<script"), "{page}");
    }
}
