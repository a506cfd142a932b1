//! An error in a description: problem, place and remedy.

use std::fmt;
use std::ops::Range;

/// An error in a machine description. Displays as
///
/// ```text
/// machines/misc.toml:12: topology.switches: a ring of 2 switches is one cable, not a ring
///    12 | switches = 2
///       |            ^
///   to do: give at least 3 switches, or use kind = "complete"
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    /// The file, as it was named to us.
    pub file: Box<str>,
    /// Line, from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// Column, from 1, counted in characters; 0 if the file as a whole is meant.
    pub column: usize,
    /// The key, from the top: `switch_models.pc6248.ports`. Empty if the file is no TOML at all.
    pub key: Box<str>,
    /// The problem.
    pub problem: Box<str>,
    /// The remedy.
    pub remedy: Box<str>,
    /// The line's text.
    pub excerpt: Box<str>,
}

impl std::error::Error for DescriptionError {}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DescriptionError { file, line, column, key, problem, remedy, excerpt } = self;
        match line {
            0 => write!(f, "{file}: ")?,
            _ => write!(f, "{file}:{line}: ")?,
        }
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        writeln!(f, "{problem}")?;
        if !excerpt.is_empty() {
            writeln!(f, "{line:>5} | {excerpt}")?;
            writeln!(f, "      | {:>column$}", "^")?;
        }
        write!(f, "  to do: {remedy}")
    }
}

/// The text of a description and its name, for placing errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Source {
    /// The span 0..0 stands for the file as a whole.
    pub(crate) fn error(
        &self,
        span: Range<usize>,
        key: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        let (key, problem, remedy) = (key.into().into(), problem.into().into(), remedy.into().into());
        let file = self.file.as_str().into();
        if span == (0..0) {
            return DescriptionError { file, line: 0, column: 0, key, problem, remedy, excerpt: "".into() };
        }
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_text = self.text[line_start..].lines().next().unwrap_or("");
        let excerpt: String = line_text.chars().take(EXCERPT_CHARS_MAX).collect();
        let column = self.text[line_start..start].chars().count() + 1;
        DescriptionError {
            file,
            line: self.text[..start].matches('\n').count() + 1,
            column,
            key,
            problem,
            remedy,
            // An arrow beyond the excerpt would point at nothing.
            excerpt: if column <= excerpt.chars().count() + 1 { excerpt.into() } else { "".into() },
        }
    }
}

const EXCERPT_CHARS_MAX: usize = 160;

/// The candidate nearest to `word`, if one is near enough for a slip of the hand.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = ((word.chars().count() + 1) / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `did you mean X?`, or the list of what there is.
pub(crate) fn suggest(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "there is none to choose from: define one first".into(),
        None => {
            // A key may have been asked for more than once.
            let first = |(index, c): &(usize, &&str)| !candidates[..*index].contains(c);
            let mut all = candidates.iter().enumerate().filter(first).map(|(_, c)| format!("`{c}`"));
            let shown: Vec<String> = all.by_ref().take(24).collect();
            let more = if all.next().is_some() { " …" } else { "" };
            format!("use one of {}{more}", shown.join(", "))
        }
    }
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_its_line_and_column() {
        let source = Source { file: "m.toml".into(), text: "a = 1\nbé = 2\n".into() };
        let at = source.text.find('2').unwrap();
        let error = source.error(at..at + 1, "b", "two", "write three");
        assert_eq!((error.line, error.column), (2, 6));
        assert_eq!(
            error.to_string(),
            "m.toml:2: b: two\n    2 | bé = 2\n      |      ^\n  to do: write three"
        );
    }

    #[test]
    fn slips_of_the_hand_are_recognised() {
        assert_eq!(nearest("prots", ["ports", "rate"]), Some("ports"));
        assert_eq!(nearest("colour", ["ports", "rate"]), None);
        // However long the word is, of four slips none is one of the hand.
        let long = "memory_gbytes_per_s";
        assert_eq!(nearest("mxmory_gbxtes_pxr_s", [long]), Some(long));
        assert_eq!(nearest("mxmory_gbxtes_pxr_x", [long]), None);
        // A sign too much at the beginning is one slip, and so is one too little.
        for (a, b, distance) in [("xports", "ports", 1), ("orts", "ports", 1), ("", "abc", 3), ("abc", "", 3)]
        {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
        assert_eq!(suggest("x", &[]), "there is none to choose from: define one first");
        assert_eq!(suggest("zzzzz", &["plan", "cable", "plan"]), "use one of `plan`, `cable`");
    }
}
