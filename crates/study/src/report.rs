//! A study's result: the paper's figures beside ours, tables and charts, as text, as Markdown and as HTML.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// What a figure of ours has to be, seen from the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Within this part of it, 0 to 1.
    Within(f64),
    /// No more.
    AtMost,
    /// No less.
    AtLeast,
    /// The paper has none, or it was used to fit a parameter.
    None,
}

/// A figure of a paper and ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What is measured.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's; `None`: it gives none.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// What is asked of ours.
    pub bound: Bound,
    /// What was fitted to it, or why it is missed.
    pub note: String,
}

impl Figure {
    /// A figure with a bound.
    pub fn new(what: &str, unit: &'static str, (paper, ours): (f64, f64), bound: Bound) -> Figure {
        Figure { what: what.into(), unit, paper: Some(paper), ours, bound, note: String::new() }
    }

    /// A figure that no paper has.
    pub fn ours(what: &str, unit: &'static str, ours: f64) -> Figure {
        Figure { what: what.into(), unit, paper: None, ours, bound: Bound::None, note: String::new() }
    }

    /// With a remark.
    #[must_use]
    pub fn with(self, note: &str) -> Figure {
        Figure { note: note.into(), ..self }
    }

    /// Whether ours keeps the bound.
    pub fn is_met(&self) -> bool {
        let Some(paper) = self.paper else { return true };
        match self.bound {
            Bound::Within(part) => (self.ours / paper - 1.0).abs() <= part,
            Bound::AtMost => self.ours <= paper,
            Bound::AtLeast => self.ours >= paper,
            Bound::None => true,
        }
    }

    fn cells(&self) -> [String; 5] {
        let paper = self.paper.map_or("–".into(), |value| number(value, self.unit));
        let deviation =
            self.paper.map_or("–".into(), |paper| format!("{:+.1} %", 100.0 * (self.ours / paper - 1.0)));
        let verdict = match self.bound {
            Bound::None if self.paper.is_some() => "fitted".into(),
            Bound::None => String::new(),
            Bound::Within(part) => format!("{} (± {:.0} %)", self.verdict(), 100.0 * part),
            Bound::AtMost => format!("{} (at most)", self.verdict()),
            Bound::AtLeast => format!("{} (at least)", self.verdict()),
        };
        let what =
            if self.note.is_empty() { self.what.clone() } else { format!("{} ({})", self.what, self.note) };
        [what, paper, number(self.ours, self.unit), deviation, verdict]
    }

    fn verdict(&self) -> &'static str {
        if self.is_met() { "met" } else { "MISSED" }
    }
}

fn number(value: f64, unit: &str) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// A table of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, head: &[&str]) -> Table {
        let head = head.iter().map(|name| (*name).into()).collect();
        Table { title: title.into(), head, rows: Vec::new() }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let cells = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            cells().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for row in cells() {
            let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            let _ = writeln!(text, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
        }
        text
    }
}

/// A study's outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Name of the command and of the folder.
    pub name: &'static str,
    /// Title of the page.
    pub title: String,
    /// What was run, in a paragraph.
    pub about: String,
    /// The paper's figures and ours.
    pub figures: Vec<Figure>,
    /// Further tables.
    pub tables: Vec<Table>,
    /// File name and SVG text of charts.
    pub charts: Vec<(String, String)>,
    /// What was fitted, what is hypothesis, what is missed and why.
    pub remarks: Vec<String>,
}

const HEAD: [&str; 5] = ["figure", "paper", "here", "deviation", "bound"];

impl Report {
    /// How many figures keep their bounds, of how many.
    pub fn met(&self) -> (usize, usize) {
        let bound = || self.figures.iter().filter(|figure| figure.bound != Bound::None);
        (bound().filter(|figure| figure.is_met()).count(), bound().count())
    }

    fn all_tables(&self) -> Vec<Table> {
        let rows = self.figures.iter().map(|figure| figure.cells().to_vec()).collect();
        let first = Table { rows, ..Table::new("The paper's figures and ours", &HEAD) };
        std::iter::once(first).chain(self.tables.iter().cloned()).collect()
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for table in self.all_tables() {
            let _ = write!(text, "\n{}", table.text());
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "\n- {remark}");
        }
        let (met, all) = self.met();
        let _ = writeln!(text, "\n{met} of {all} bounds are met.");
        text
    }

    /// For a repository.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.title, self.about);
        for table in self.all_tables() {
            let _ = writeln!(text, "\n## {}\n", table.title);
            let _ = writeln!(text, "| {} |", table.head.join(" | "));
            let _ = writeln!(text, "|{}", "---|".repeat(table.head.len()));
            for row in &table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
        }
        if !self.remarks.is_empty() {
            let _ = writeln!(text, "\n## Remarks\n");
            self.remarks.iter().for_each(|remark| _ = writeln!(text, "- {remark}"));
        }
        for (file, _) in &self.charts {
            let _ = writeln!(text, "\n![{file}]({file})");
        }
        text
    }

    /// Part of a page, with its charts inside.
    pub fn html(&self) -> String {
        let mut text = format!(
            "<section id=\"{}\"><h2>{}</h2><p>{}</p>\n",
            self.name,
            escape(&self.title),
            escape(&self.about)
        );
        for table in self.all_tables() {
            let row = |cells: &[String], tag: &str| {
                let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
                format!("<tr>{}</tr>\n", cells.collect::<String>())
            };
            let _ = write!(text, "<h3>{}</h3>\n<table>{}", escape(&table.title), row(&table.head, "th"));
            table.rows.iter().for_each(|cells| text += &row(cells, "td"));
            text += "</table>\n";
        }
        if !self.remarks.is_empty() {
            text += "<h3>Remarks</h3>\n<ul>";
            self.remarks.iter().for_each(|remark| _ = writeln!(text, "<li>{}</li>", escape(remark)));
            text += "</ul>\n";
        }
        self.charts.iter().for_each(|(_, svg)| _ = writeln!(text, "<figure>{svg}</figure>"));
        text + "</section>\n"
    }

    /// Writes `report.md` and the charts.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let page = ("report.md".to_owned(), self.markdown());
        for (file, content) in std::iter::once(&page).chain(&self.charts) {
            let path = folder.join(file);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// For HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_outside_its_bound_is_missed() {
        let met = |paper, ours, bound| Figure::new("x", "", (paper, ours), bound).is_met();
        assert!(met(2.0, 2.09, Bound::Within(0.05)) && !met(2.0, 2.11, Bound::Within(0.05)));
        assert!(met(2.0, 2.0, Bound::AtMost) && !met(2.0, 2.1, Bound::AtMost));
        assert!(met(2.0, 2.0, Bound::AtLeast) && !met(2.0, 1.9, Bound::AtLeast));
        let figures = vec![Figure::new("x", "us", (2.0, 3.0), Bound::AtMost), Figure::ours("y", "us", 1.0)];
        let report = Report { figures, ..Report::default() };
        assert_eq!(report.met(), (0, 1));
        assert!(report.text().contains("MISSED") && report.html().contains("+50.0 %"), "{}", report.text());
    }
}
