//! What is known of each mutant: `conformance/mutants/CRATE`, which is committed.
//!
//! ```text
//! @ rma/origin.rs::complete
//! survived 03380fd statement: deleted: self.rma.get_mut(window)?.end_operations(rank)?;
//!    Why no test has to find it, written by hand.
//! changed 03380fd constant: 2 → 2 + 1
//! ```
//!
//! Names hold the file, the function, the kind of change and the changed text, and no line number: a verdict
//! survives edits elsewhere, and ends with the code that it is about. A verdict counts for the tests of its
//! commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::judge::Verdict;

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A test failed.
    Found,
    /// No test fails but the one that compares a committed digest of what processes do.
    Changed,
    /// Tests come by, and none failed of those that find enough for their time (`order`).
    Survived,
    /// No test comes by.
    Unreached,
    /// The quick tests do not find it, the others have not run: this is no verdict.
    Unsure,
    /// The compiler refuses it.
    Invalid,
}

impl Word {
    const ALL: [Self; 6] =
        [Self::Found, Self::Changed, Self::Survived, Self::Unreached, Self::Unsure, Self::Invalid];

    /// Whether there may be a reason why no test has to find it.
    fn may_have_reason(self) -> bool {
        matches!(self, Self::Survived | Self::Unreached | Self::Unsure)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Changed => "changed",
            Self::Survived => "survived",
            Self::Unreached => "unreached",
            Self::Unsure => "unsure",
            Self::Invalid => "invalid",
        }
    }
}

impl From<&Verdict> for Word {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Found(_) => Self::Found,
            Verdict::Changed => Self::Changed,
            Verdict::Survived => Self::Survived,
            Verdict::Unreached => Self::Unreached,
            Verdict::Unsure => Self::Unsure,
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) word: Word,
    pub(super) commit: String,
    /// Why no test has to find it.
    pub(super) reason: Option<String>,
}

impl Entry {
    /// Whether a test is missing, or a reason.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.word, Word::Survived | Word::Unreached) && self.reason.is_none()
    }
}

/// The verdicts of a crate, by the mutant's name.
pub(super) struct Record {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Record {
    /// # Errors
    /// A line is none.
    pub(super) fn read(path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let entries = parse(&text).with_context(|| path.display().to_string())?;
        Ok(Self { path, entries })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Forgets the mutants that are no more. Returns how many.
    pub(super) fn keep(&mut self, is_known: impl Fn(&str) -> bool) -> usize {
        let before = self.entries.len();
        self.entries.retain(|name, _| is_known(name));
        before - self.entries.len()
    }

    /// Notes a verdict. A reason stays with a mutant that still is not found.
    pub(super) fn set(&mut self, name: &str, word: Word, commit: &str) {
        let earlier = self.entries.remove(name).and_then(|entry| entry.reason);
        let reason = earlier.filter(|_| word.may_have_reason());
        self.entries.insert(name.to_owned(), Entry { word, commit: commit.to_owned(), reason });
    }

    fn take_reasons(&mut self, others: BTreeMap<String, Entry>) {
        for (name, other) in others {
            if let Some(entry) = self.entries.get_mut(&name)
                && entry.reason.is_none()
                && entry.word.may_have_reason()
            {
                entry.reason = other.reason;
            }
        }
    }

    /// Writes the file at once whole, so that a run that is cut short keeps what it has. Reasons that were
    /// written into it meanwhile stay.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&mut self) -> Result<()> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        self.take_reasons(parse(&text).unwrap_or_default());
        let failed = || self.path.display().to_string();
        fs::create_dir_all(self.path.parent().context("a list has a folder")?).with_context(failed)?;
        let new = self.path.with_extension("new");
        fs::write(&new, render(&self.entries)).with_context(failed)?;
        fs::rename(&new, &self.path).with_context(failed)
    }
}

/// Before a reason.
const INDENT: &str = "   ";

fn parse(text: &str) -> Result<BTreeMap<String, Entry>> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    let (mut place, mut last) = ("", None::<String>);
    for (index, line) in text.lines().enumerate() {
        if let Some(new) = line.strip_prefix("@ ") {
            (place, last) = (new, None);
            continue;
        }
        if let Some(reason) = line.strip_prefix(INDENT) {
            let entry = last.as_ref().and_then(|name| entries.get_mut(name));
            let entry =
                entry.with_context(|| format!("line {}: a reason of no mutant: {line}", index + 1))?;
            let earlier = entry.reason.take().map(|reason| reason + " ").unwrap_or_default();
            entry.reason = Some(earlier + reason.trim());
            continue;
        }
        let mut parts = line.splitn(3, ' ');
        let word = parts.next().and_then(|text| Word::ALL.into_iter().find(|word| word.text() == text));
        let (Some(word), Some(commit), Some(what)) = (word, parts.next(), parts.next()) else {
            bail!("line {}: not `word commit change`: {line}", index + 1);
        };
        let name = format!("{place} {what}");
        entries.insert(name.clone(), Entry { word, commit: commit.to_owned(), reason: None });
        last = Some(name);
    }
    Ok(entries)
}

fn render(entries: &BTreeMap<String, Entry>) -> String {
    let mut text = String::new();
    let mut last = "";
    for (name, Entry { word, commit, reason }) in entries {
        let (place, what) = name.split_once(' ').unwrap_or((name, ""));
        if std::mem::replace(&mut last, place) != place {
            text += &format!("@ {place}\n");
        }
        text += &format!("{} {commit} {what}\n", word.text());
        text += &reason.as_ref().map(|reason| format!("{INDENT}{reason}\n")).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "@ a.rs::f\nfound abc operator: x < y → (x) <= y\n\
        @ b.rs::g\nsurvived def statement: deleted: h();\n   h only warms a cache\n\
        found def statement: deleted: k();\n\
        @ c.rs::k\nunreached def constant: 1 → 0\n";

    fn record(text: &str) -> Record {
        Record { path: PathBuf::new(), entries: parse(text).unwrap() }
    }

    #[test]
    fn a_record_is_written_as_it_was_read() {
        assert_eq!(render(&parse(TEXT).unwrap()), TEXT);
        assert!(parse("lost abc what\n").is_err());
        assert!(parse("found abc\n").is_err());
        assert!(parse("   a reason\n").is_err());
    }

    #[test]
    fn a_reason_stays_until_the_mutant_is_found() {
        let mut record = record(TEXT);
        let name = "b.rs::g statement: deleted: h();";
        record.set(name, Word::Unreached, "123");
        assert_eq!(record.get(name).unwrap().reason.as_deref(), Some("h only warms a cache"));
        assert!(!record.get(name).unwrap().is_open());
        record.set(name, Word::Found, "456");
        assert_eq!(record.get(name).unwrap().reason, None);
        record.set(name, Word::Survived, "789");
        assert!(record.get(name).unwrap().is_open());
    }

    #[test]
    fn reasons_that_are_written_while_mutants_are_judged_stay() {
        let mut record = record(TEXT);
        let (open, found) = ("c.rs::k constant: 1 → 0", "a.rs::f operator: x < y → (x) <= y");
        let written = TEXT.replace("constant: 1 → 0\n", "constant: 1 → 0\n   k is dead\n");
        record.take_reasons(parse(&written.replace("(x) <= y\n", "(x) <= y\n   none\n")).unwrap());
        let reason = |name: &str| record.get(name).unwrap().reason.clone();
        assert_eq!((reason(open).as_deref(), reason(found)), (Some("k is dead"), None));
        assert_eq!(reason("b.rs::g statement: deleted: h();").as_deref(), Some("h only warms a cache"));
    }

    #[test]
    fn verdicts_about_code_that_is_gone_are_forgotten() {
        let mut record = record(TEXT);
        assert_eq!(record.keep(|name| name.starts_with("a.rs")), 3);
        assert!(record.get("c.rs::k constant: 1 → 0").is_none());
    }
}
