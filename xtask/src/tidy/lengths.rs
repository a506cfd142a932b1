//! Files of at most 800 lines, functions of 70, comments of 110 columns, names of functions of 60 characters.
//! Exceptions are listed with their length, or with how many there are in a file, and may only shrink. Code
//! is wrapped by rustfmt, which leaves comments and strings alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Findings, rust};
use crate::paths;

/// The limits and today's exceptions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    file_lines_max: usize,
    function_lines_max: usize,
    comment_columns_max: usize,
    name_characters_max: usize,
    /// `path` → its length.
    files: BTreeMap<String, usize>,
    /// `path::function` → its length.
    functions: BTreeMap<String, usize>,
    /// `path` → how many lines of comments are wider: pictures and tables.
    comments: BTreeMap<String, usize>,
}

pub(super) fn check(limits: &Limits, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let (mut long_files, mut long_functions) = (BTreeMap::new(), BTreeMap::new());
    let mut wide_comments = BTreeMap::new();
    for file in files {
        let Some(language) = language(file) else { continue };
        let text = std::fs::read_to_string(paths::root().join(file))?;
        let name = file.display().to_string();
        let lines = text.lines().count();
        if lines > limits.file_lines_max {
            long_files.insert(name.clone(), lines);
        }
        let wide = wide_comments_count(language, &text, limits.comment_columns_max);
        if wide > 0 {
            wide_comments.insert(name.clone(), wide);
        }
        for (function, lines) in functions(language, &text).with_context(|| name.clone())? {
            if lines > limits.function_lines_max {
                let longest = long_functions.entry(format!("{name}::{function}")).or_insert(0);
                *longest = lines.max(*longest);
            }
            if function.chars().count() > limits.name_characters_max {
                let most = limits.name_characters_max;
                findings.push(format!("{name}::{function}: the name has over {most} characters; say less"));
            }
        }
    }
    let Limits { file_lines_max, function_lines_max, comment_columns_max, .. } = limits;
    let files = Kind { list: "files", unit: "lines".to_owned(), most: *file_lines_max, remedy: "split it" };
    let functions = Kind { list: "functions", most: *function_lines_max, ..files.clone() };
    let unit = format!("lines of comments over {comment_columns_max} columns");
    let comments = Kind { list: "comments", unit, most: 0, remedy: "wrap them" };
    files.ratchet(&limits.files, &long_files, findings);
    functions.ratchet(&limits.functions, &long_functions, findings);
    comments.ratchet(&limits.comments, &wide_comments, findings);
    Ok(())
}

/// How many lines that are nothing but comment are wider.
fn wide_comments_count(language: Language, text: &str, columns_max: usize) -> usize {
    let is_comment = |line: &&str| matches!(language, Language::Rust) && line.trim_start().starts_with("//");
    text.lines().filter(is_comment).filter(|line| line.chars().count() > columns_max).count()
}

#[derive(Clone, Copy)]
enum Language {
    Rust,
    C,
}

/// What is measured: source by hand. `include/mpi.h` is written by a program.
fn language(file: &Path) -> Option<Language> {
    if file.ends_with("include/mpi.h") {
        return None;
    }
    match file.extension()?.to_str()? {
        "rs" => Some(Language::Rust),
        "c" | "h" | "cc" => Some(Language::C),
        _ => None,
    }
}

fn functions(language: Language, text: &str) -> Result<Vec<(String, usize)>> {
    Ok(match language {
        Language::Rust => {
            let functions = rust::functions(text)?.into_iter();
            functions.map(|function| (function.name, function.lines)).collect()
        }
        Language::C => c_functions(text),
    })
}

/// In our C style a function's braces stand in the first column.
fn c_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut open = None;
    for (i, line) in lines.iter().enumerate() {
        if line.trim_end() == "{" && i > 0 {
            let head = lines[i - 1];
            let name = head.split('(').next().unwrap_or("").rsplit([' ', '*']).next().unwrap_or("");
            open = Some((name.to_owned(), i));
        } else if line.starts_with('}')
            && let Some((name, start)) = open.take()
        {
            found.push((name, i - start + 2));
        }
    }
    found
}

/// What is limited, and where its exceptions are listed.
#[derive(Clone)]
struct Kind {
    list: &'static str,
    unit: String,
    most: usize,
    remedy: &'static str,
}

impl Kind {
    /// New or grown: too long. Shrunk or gone: the list must follow.
    fn ratchet(
        &self,
        allowed: &BTreeMap<String, usize>,
        found: &BTreeMap<String, usize>,
        findings: &mut Findings,
    ) {
        let Self { list, unit, most, remedy } = self;
        let place = format!("lengths.{list} of xtask/tidy.toml");
        for (name, count) in found {
            match allowed.get(name) {
                None => findings.push(format!("{name}: {count} {unit}, the limit is {most}; {remedy}")),
                Some(old) if count > old => {
                    findings.push(format!("{name}: grew from {old} to {count} {unit}; {remedy}"));
                }
                Some(old) if count < old => {
                    findings
                        .push(format!("{name}: shrank from {old} to {count} {unit}; lower it in {place}"));
                }
                Some(_) => {}
            }
        }
        for name in allowed.keys().filter(|name| !found.contains_key(*name)) {
            findings.push(format!("{name}: within the limit now; take it out of {place}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_may_shrink_only_and_must_be_followed() {
        let list = |lines| BTreeMap::from([("a.rs".to_owned(), lines)]);
        let count = |allowed: &BTreeMap<_, _>, found: &BTreeMap<_, _>| {
            let mut findings = Findings::new();
            let kind = Kind { list: "x", unit: "lines".to_owned(), most: 70, remedy: "split it" };
            kind.ratchet(allowed, found, &mut findings);
            findings.len()
        };
        let none = BTreeMap::new();
        assert_eq!(count(&list(90), &list(90)), 0);
        assert_eq!(count(&list(90), &list(91)), 1);
        assert_eq!(count(&list(90), &list(80)), 1);
        assert_eq!(count(&list(90), &none), 1);
        assert_eq!(count(&none, &list(71)), 1);
    }

    #[test]
    fn comments_are_measured_in_characters_and_code_is_not() {
        let text = format!("    // {0}\n// {0}x\nlet x = \"{0}{0}\";\n//! é{0}\n", "a".repeat(7));
        assert_eq!(wide_comments_count(Language::Rust, &text, 10), 3);
        assert_eq!(wide_comments_count(Language::Rust, &text, 14), 0);
    }

    #[test]
    fn c_functions_are_measured_from_their_head_to_their_brace() {
        let text = "static int add(int a, int b)\n{\n    return a + b;\n}\nint x;\n";
        assert_eq!(c_functions(text), [("add".to_owned(), 4)]);
    }
}
