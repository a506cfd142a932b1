//! Reads a TOML table key by key, so that every error knows its file, line and key, and every unknown key is
//! an error.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{DescriptionError, Source, nearest, suggest};

pub(super) type Result<T> = std::result::Result<T, DescriptionError>;

/// One table of the file: `[topology]`, an entry of `[[switch]]`, an inline table.
pub(super) struct Section<'a> {
    pub(super) source: &'a Source,
    path: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    /// Keys asked for so far: all that may be there.
    known: RefCell<Vec<&'static str>>,
    /// All keys asked for in all tables, if somebody wants to know.
    asked: Option<&'a RefCell<BTreeSet<String>>>,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// Where a table stands, for errors that are found after it was read.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: String,
    span: Range<usize>,
}

/// Reads text into its root table.
pub(super) fn parse<'a>(source: &'a Source) -> Result<Spanned<DeTable<'a>>> {
    DeTable::parse(&source.text).map_err(|error| {
        let remedy = "write it as TOML 1.0: `key = value`, `[table]`, strings in double quotes";
        let problem = error.message().trim().replace('\n', "; ");
        let remedy = if problem == "duplicate key" {
            "it stands further up already: keep one of the two"
        } else {
            remedy
        };
        source.error(error.span().unwrap_or(0..0), "", problem, remedy)
    })
}

impl<'a> Section<'a> {
    pub(super) fn root(source: &'a Source, table: &'a DeTable<'a>) -> Section<'a> {
        Section { source, path: String::new(), span: 0..0, table, known: RefCell::default(), asked: None }
    }

    /// Notes all keys that are asked for, here and in the tables inside.
    pub(super) fn noting(self, asked: &'a RefCell<BTreeSet<String>>) -> Section<'a> {
        Section { asked: Some(asked), ..self }
    }

    /// The key's full name.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }

    /// An error at a key of this table, or at the table if the key is not there.
    pub(super) fn error(
        &self,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        match self.find(key) {
            Some(value) => self.source.error(value.span(), self.path_of(key), problem, remedy),
            None => self
                .misspelt(key)
                .unwrap_or_else(|| self.source.error(self.span.clone(), self.path_of(key), problem, remedy)),
        }
    }

    /// The error at an unknown key that is similar to this one, if this one is missing.
    pub(super) fn misspelt(&self, key: &str) -> Option<DescriptionError> {
        let known = self.known.borrow();
        let mut strange = self.table.iter().filter(|(name, _)| !known.iter().any(|k| *k == name.get_ref()));
        let (name, _) = strange.find(|(name, _)| nearest(name.get_ref(), [key]).is_some())?;
        let remedy = format!("did you mean `{key}`?");
        Some(self.source.error(name.span(), self.path_of(name.get_ref()), "is not a known key", remedy))
    }

    /// An error at the table itself.
    pub(super) fn error_here(
        &self,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        self.source.error(self.span.clone(), self.path.clone(), problem, remedy)
    }

    /// An error at one value.
    pub(super) fn error_at<T>(
        &self,
        key: &str,
        at: &Located<T>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        self.source.error(at.span.clone(), self.path_of(key), problem, remedy)
    }

    /// Where this table stands.
    pub(super) fn place(&self) -> Place {
        Place { path: self.path.clone(), span: self.span.clone() }
    }

    /// An error at another table of the same file.
    pub(super) fn error_in(
        &self,
        place: &Place,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DescriptionError {
        self.source.error(place.span.clone(), place.path.clone(), problem, remedy)
    }

    fn find(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn get(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.borrow_mut().push(key);
        if let Some(asked) = self.asked {
            asked.borrow_mut().insert(self.path_of(key));
        }
        self.find(key)
    }

    /// Whether the key is there, without reading it.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    fn mismatch(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> DescriptionError {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let problem = format!("is {found}, and {wanted} is needed");
        let remedy = match value.get_ref() {
            DeValue::String(text) if wanted.contains("number") && text.trim().parse::<f64>().is_ok() => {
                format!("write {} without quotes", text.trim())
            }
            _ => format!("write {wanted}"),
        };
        self.source.error(value.span(), self.path_of(key), problem, remedy)
    }

    fn missing(&self, key: &str, example: &str) -> DescriptionError {
        let at = if self.path.is_empty() { "the file".into() } else { format!("[{}]", self.path) };
        self.error(key, format!("is missing from {at}"), format!("add `{key} = {example}`"))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<Option<Located<String>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(Located { value: text.to_string(), span: value.span() })),
            _ => Err(self.mismatch(key, value, "a string")),
        }
    }

    pub(super) fn required_text(&self, key: &'static str, example: &str) -> Result<Located<String>> {
        self.text(key)?.ok_or_else(|| self.missing(key, example))
    }

    /// A name: not empty, no blanks or control characters, at most 63 characters.
    pub(super) fn name(&self, key: &'static str, example: &str) -> Result<Located<String>> {
        let name = self.required_text(key, example)?;
        check_name(&name.value).map_err(|(problem, remedy)| self.error_at(key, &name, problem, remedy))?;
        Ok(name)
    }

    /// One word out of several, as its index.
    pub(super) fn choice(&self, key: &'static str, choices: &[&str]) -> Result<Option<usize>> {
        let Some(word) = self.text(key)? else { return Ok(None) };
        let chosen = choices.iter().position(|choice| *choice == word.value);
        chosen.map(Some).ok_or_else(|| {
            self.error_at(key, &word, format!("{:?} is not known", word.value), suggest(&word.value, choices))
        })
    }

    pub(super) fn flag(&self, key: &'static str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(*flag)),
            _ => Err(self.mismatch(key, value, "true or false")),
        }
    }

    /// A whole number within a range.
    pub(super) fn count(&self, key: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        self.get(key).map(|value| self.count_of(key, value, &range)).transpose()
    }

    pub(super) fn required_count(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        example: &str,
    ) -> Result<u64> {
        self.count(key, range)?.ok_or_else(|| self.missing(key, example))
    }

    fn count_of(&self, key: &str, value: &Spanned<DeValue<'_>>, range: &RangeInclusive<u64>) -> Result<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            return Err(self.mismatch(key, value, "a whole number"));
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX);
        u64::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let problem = format!("{integer} is out of range");
            let remedy = format!("use {} to {}", range.start(), range.end());
            self.source.error(value.span(), self.path_of(key), problem, remedy)
        })
    }

    /// A list of whole numbers within a range.
    pub(super) fn counts(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Located<Vec<u32>>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Array(list) = value.get_ref() else {
            return Err(self.mismatch(key, value, "a list of whole numbers"));
        };
        let numbers: Result<Vec<u32>> =
            list.iter().map(|entry| self.count_of(key, entry, &range).map(|n| n as u32)).collect();
        Ok(Some(Located { value: numbers?, span: value.span() }))
    }

    pub(super) fn required_counts(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        example: &str,
    ) -> Result<Located<Vec<u32>>> {
        self.counts(key, range)?.ok_or_else(|| self.missing(key, example))
    }

    /// A list of strings.
    pub(super) fn texts(&self, key: &'static str) -> Result<Option<Vec<Located<String>>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Array(list) = value.get_ref() else {
            return Err(self.mismatch(key, value, "a list of strings"));
        };
        let text = |entry: &Spanned<DeValue<'a>>| match entry.get_ref() {
            DeValue::String(text) => Ok(Located { value: text.to_string(), span: entry.span() }),
            _ => Err(self.mismatch(key, entry, "a string")),
        };
        list.iter().map(text).collect::<Result<Vec<_>>>().map(Some)
    }

    /// A finite number within `min..=max`, multiplied by `scale` and rounded to a whole number: `3.2` ns is
    /// 3200 ps.
    pub(super) fn scaled(&self, key: &'static str, scale: f64, min: f64, max: f64) -> Result<Option<u64>> {
        Ok(self.number(key, min, max)?.map(|number| (number * scale).round() as u64))
    }

    /// A finite number within `min..=max`.
    pub(super) fn number(&self, key: &'static str, min: f64, max: f64) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(integer) => {
                i128::from_str_radix(integer.as_str(), integer.radix()).map_or(f64::NAN, |n| n as f64)
            }
            DeValue::Float(float) => float.as_str().parse().unwrap_or(f64::NAN),
            _ => return Err(self.mismatch(key, value, "a number")),
        };
        if !(min..=max).contains(&number) {
            let text = match value.get_ref() {
                DeValue::Integer(integer) => integer.to_string(),
                DeValue::Float(float) => float.to_string(),
                _ => String::new(),
            };
            let remedy = format!("use a number from {min} to {max}");
            return Err(self.error(key, format!("{text} is out of range"), remedy));
        }
        Ok(Some(number))
    }

    pub(super) fn required_scaled(
        &self,
        key: &'static str,
        scale: f64,
        (min, max): (f64, f64),
        example: &str,
    ) -> Result<u64> {
        self.scaled(key, scale, min, max)?.ok_or_else(|| self.missing(key, example))
    }

    /// A table inside this one.
    pub(super) fn section(&self, key: &'static str) -> Result<Option<Section<'a>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Some(self.child(self.path_of(key), value.span(), table))),
            _ => Err(self.mismatch(key, value, "a table")),
        }
    }

    /// A table of tables: `[switch_models.NAME]`.
    pub(super) fn named_sections(&self, key: &'static str) -> Result<Vec<(Located<String>, Section<'a>)>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Table(tables) = value.get_ref() else {
            return Err(self.mismatch(key, value, "a table of tables"));
        };
        let mut sections = Vec::new();
        for (name, value) in tables.iter() {
            let path = format!("{}.{}", self.path_of(key), name.get_ref());
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.mismatch(&format!("{key}.{}", name.get_ref()), value, "a table"));
            };
            let name = Located { value: name.get_ref().to_string(), span: name.span() };
            check_name(&name.value)
                .map_err(|(problem, remedy)| self.error_at(key, &name, problem, remedy))?;
            sections.push((name, self.child(path, value.span(), table)));
        }
        Ok(sections)
    }

    /// A list of tables: `[[switch]]`, or inline.
    pub(super) fn sections(&self, key: &'static str) -> Result<Vec<Section<'a>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(list) = value.get_ref() else {
            return Err(self.mismatch(key, value, "a list of tables"));
        };
        let section = |(index, entry): (usize, &'a Spanned<DeValue<'a>>)| match entry.get_ref() {
            DeValue::Table(table) => {
                Ok(self.child(format!("{}[{index}]", self.path_of(key)), entry.span(), table))
            }
            _ => Err(self.mismatch(key, entry, "a table")),
        };
        list.iter().enumerate().map(section).collect()
    }

    fn child(&self, path: String, span: Range<usize>, table: &'a DeTable<'a>) -> Section<'a> {
        let (source, asked) = (self.source, self.asked);
        Section { source, path, span, table, known: RefCell::default(), asked }
    }

    /// Must be called last: an unknown key is a mistake.
    pub(super) fn finish(self) -> Result<()> {
        let known = self.known.into_inner();
        match self.table.iter().find(|(key, _)| !known.iter().any(|k| *k == key.get_ref())) {
            None => Ok(()),
            Some((key, _)) => {
                let path = if self.path.is_empty() {
                    key.get_ref().to_string()
                } else {
                    format!("{}.{}", self.path, key.get_ref())
                };
                let remedy = suggest(key.get_ref(), &known);
                Err(self.source.error(key.span(), path, "is not a known key", remedy))
            }
        }
    }
}

/// Checks a name, which is used in configurations and file names.
pub(super) fn check_name(name: &str) -> std::result::Result<(), (String, String)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 63 {
        let problem = format!("a name of {} characters", name.len());
        return Err((problem, "use 1 to 63 characters".into()));
    }
    if let Some(c) = name.chars().find(|&c| !allowed(c)) {
        let problem = format!("the name {name:?} has {c:?} in it");
        return Err((problem, "use letters, digits, `.`, `_` and `-`: names stand in configurations".into()));
    }
    if name.starts_with(['.', '-']) {
        return Err((
            format!("the name {name:?} begins with a sign"),
            "begin it with a letter or digit".into(),
        ));
    }
    Ok(())
}
