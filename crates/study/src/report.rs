//! A study's result: the paper's figures beside ours, tables and charts, as text, as Markdown and as HTML.

use std::cmp::Ordering;
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
    /// Nothing: the paper has none, or it was put in.
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
    /// Whether a parameter was chosen so that ours comes out as it does.
    pub is_fitted: bool,
    /// What was fitted to it, or why it is missed.
    pub note: String,
}

impl Figure {
    /// A figure with a bound.
    pub fn new(what: &str, unit: &'static str, (paper, ours): (f64, f64), bound: Bound) -> Figure {
        let is_fitted = bound == Bound::None;
        Figure { what: what.into(), unit, paper: Some(paper), ours, bound, is_fitted, note: String::new() }
    }

    /// A figure that no paper has.
    pub fn ours(what: &str, unit: &'static str, ours: f64) -> Figure {
        let (paper, bound, is_fitted) = (None, Bound::None, false);
        Figure { what: what.into(), unit, paper, ours, bound, is_fitted, note: String::new() }
    }

    /// With a remark.
    #[must_use]
    pub fn with(self, note: &str) -> Figure {
        Figure { note: note.into(), ..self }
    }

    /// With what was fitted to it.
    #[must_use]
    pub fn fitted(self, note: &str) -> Figure {
        Figure { is_fitted: true, ..self.with(note) }
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

    /// Whether the bound is kept, the deviation from the paper's as a part of it, and of what. `None`: there
    /// is none to speak of, as the paper has no figure, ours was made to be it, or it only limits ours.
    fn deviation(&self) -> Option<(bool, f64, &str)> {
        let is_limit = matches!(self.bound, Bound::AtMost | Bound::AtLeast);
        let is_said = self.bound != Bound::None && !((is_limit || self.is_fitted) && self.is_met());
        let paper = self.paper.filter(|_| is_said)?;
        Some((self.is_met(), self.ours / paper - 1.0, &self.what))
    }

    fn cells(&self) -> [String; 5] {
        let paper = self.paper.map_or("–".into(), |value| number(value, self.unit));
        let deviation =
            self.paper.map_or("–".into(), |paper| format!("{:+.1} %", 100.0 * (self.ours / paper - 1.0)));
        let verdict = match self.bound {
            Bound::None if self.paper.is_some() => "put in".into(),
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
        match (self.is_met(), self.is_fitted) {
            (true, false) => "met",
            (true, true) => "fitted, met",
            (false, _) => "MISSED",
        }
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

/// How a study's figures or findings stand beside the paper's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) same_count: usize,
    pub(crate) partly_count: usize,
    pub(crate) differ_count: usize,
    /// Figures that were put in, or that a parameter was fitted to: they show nothing.
    pub(crate) given_count: usize,
    /// What deviates most, the worst first.
    pub(crate) worst: Vec<String>,
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

    /// For a repository.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("\n## {}\n\n| {} |\n", self.title, self.head.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(self.head.len()));
        self.rows.iter().for_each(|row| _ = writeln!(text, "| {} |", row.join(" | ")));
        text
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

    /// How the figures stand beside the paper's, and the largest deviations from it.
    pub(crate) fn tally(&self) -> Tally {
        let (met, all) = self.met();
        let count = |wanted: fn(&Figure) -> bool| self.figures.iter().filter(|own| wanted(own)).count();
        let fitted_and_met = count(|own| own.is_fitted && own.bound != Bound::None && own.is_met());
        let mut deviations: Vec<(bool, f64, &str)> =
            self.figures.iter().filter_map(Figure::deviation).collect();
        deviations.sort_by(|one, other| {
            (one.0, other.1.abs()).partial_cmp(&(other.0, one.1.abs())).unwrap_or(Ordering::Equal)
        });
        let worst = deviations.into_iter().take(3);
        Tally {
            same_count: met - fitted_and_met,
            partly_count: 0,
            differ_count: all - met,
            given_count: count(|own| own.is_fitted && own.is_met()),
            worst: worst.map(|(_, part, what)| format!("{:+.1} %: {what}", 100.0 * part)).collect(),
        }
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
        self.all_tables().iter().for_each(|table| text += &table.markdown());
        if !self.remarks.is_empty() {
            let _ = writeln!(text, "\n## Remarks\n");
            self.remarks.iter().for_each(|remark| _ = writeln!(text, "- {remark}"));
        }
        for (file, _) in &self.charts {
            let _ = writeln!(text, "\n![{file}]({file})");
        }
        text
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
        assert!(
            report.text().contains("MISSED") && report.markdown().contains("+50.0 %"),
            "{}",
            report.text()
        );
    }

    #[test]
    fn what_is_missed_stands_before_larger_allowed_deviations() {
        let figures = vec![
            Figure::new("near", "", (100.0, 96.0), Bound::Within(0.05)),
            Figure::new("far", "", (100.0, 120.0), Bound::Within(0.3)),
            Figure::new("missed", "", (100.0, 93.0), Bound::Within(0.05)),
            Figure::new("limit", "", (100.0, 10.0), Bound::AtMost),
            Figure::new("put in", "", (100.0, 10.0), Bound::None),
            Figure::new("fitted", "", (100.0, 103.0), Bound::Within(0.05)).fitted("x was fitted to this"),
            Figure::ours("no paper's", "", 1.0),
        ];
        let tally = Report { figures, ..Report::default() }.tally();
        assert_eq!((tally.same_count, tally.differ_count, tally.given_count), (3, 1, 2));
        assert_eq!(tally.worst, ["-7.0 %: missed", "+20.0 %: far", "-4.0 %: near"]);
    }
}
