//! Which mutants a compiler error is about.
//!
//! Most errors stand in the text of their mutant. Those of a deleted statement do not: without a `return` the
//! code goes on where a value is gone, and the compiler points to the move and to the use. So the search goes
//! from narrow to wide, and ends with the first that names a mutant: the text at the error; the last deleted
//! statement of a block around it, if that leaves the block; deleted statements nearby; those of the blocks
//! around it, the innermost first, up to the function; all mutants of the function; all of the file. Each try
//! of the build takes at least one mutant out, so it comes to an end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Result, bail};
use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{Block, spanned::Spanned};

use super::sites::{Instrumented, Kind};
use super::{Mutants, Source};

/// How far from an error a mutant is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    At,
    Exit,
    Near,
    Around,
    Function,
    File,
}

/// From narrow to wide.
const LEVELS: [Level; 6] = [Level::At, Level::Exit, Level::Near, Level::Around, Level::Function, Level::File];

/// The mutants that compiler errors are about.
///
/// # Errors
/// No error is about a file with mutants.
pub(super) fn blame(
    mutants: &Mutants,
    instrumented: &BTreeMap<String, Instrumented>,
    errors: &[Value],
) -> Result<BTreeSet<u32>> {
    let mut blamed = BTreeSet::new();
    for error in errors {
        let spans: Vec<&Value> = error["spans"].as_array().into_iter().flatten().collect();
        let places: Vec<Place<'_>> =
            spans.iter().filter_map(|span| Place::find(mutants, instrumented, span)).collect();
        let mut levels = LEVELS.into_iter().map(|level| {
            // What is at an error is about its main place; where a value went, the others say.
            let places = places.iter().filter(|place| level != Level::At || place.is_primary);
            places.flat_map(|place| place.numbers(place.sites(level))).collect::<BTreeSet<u32>>()
        });
        blamed.extend(levels.find(|sites| !sites.is_empty()).unwrap_or_default());
    }
    if blamed.is_empty() {
        let said = errors.first().and_then(|error| error["rendered"].as_str()).unwrap_or("nothing");
        bail!("the compiler refuses no mutant but: {said}");
    }
    Ok(blamed)
}

/// What a compiler error points to.
struct Place<'m> {
    source: &'m Source,
    instrumented: &'m Instrumented,
    range: Range<usize>,
    is_primary: bool,
}

impl<'m> Place<'m> {
    fn find(
        mutants: &'m Mutants,
        instrumented: &'m BTreeMap<String, Instrumented>,
        span: &Value,
    ) -> Option<Self> {
        let path = span["file_name"].as_str()?;
        let source = mutants.sources.iter().find(|source| source.path == path)?;
        let instrumented = instrumented.get(path)?;
        let at = |name: &str| span[name].as_u64().map(|at| at as usize);
        let range = at("byte_start")?..at("byte_end")?;
        // What stands behind the crate's root is ours.
        instrumented.text.get(range.clone())?;
        Some(Self { source, instrumented, range, is_primary: span["is_primary"] == true })
    }

    fn numbers(&self, sites: Vec<usize>) -> impl Iterator<Item = u32> {
        let first = self.source.first;
        sites.into_iter().map(move |site| first + site as u32)
    }

    fn sites(&self, level: Level) -> Vec<usize> {
        match level {
            Level::At => self.at(),
            Level::Exit => self.exit(),
            Level::Near => self.near(),
            Level::Around => self.around(),
            Level::Function => self.in_function(),
            Level::File => self.in_file(),
        }
    }

    /// The lines that it is on, and so many behind it.
    fn lines(&self, behind: usize) -> Range<usize> {
        let text = &self.instrumented.text;
        let from = text[..self.range.start].rfind('\n').map_or(0, |at| at + 1);
        let mut ends = text[self.range.end..].match_indices('\n').map(|(at, _)| self.range.end + at);
        from..ends.nth(behind).unwrap_or(text.len())
    }

    /// The mutant whose text is there, or else all on its lines.
    fn at(&self) -> Vec<usize> {
        match self.instrumented.site_at(&self.range) {
            Some(site) => vec![site],
            None => self.instrumented.sites_in(&self.lines(0)),
        }
    }

    fn statements(&self, within: &Range<usize>) -> Vec<usize> {
        let mut sites = self.instrumented.sites_in(within);
        sites.retain(|&site| self.source.sites[site].kind == Kind::Statement);
        sites
    }

    /// The deleted `return`, `break` or `continue` behind it that ends a block around it.
    fn exit(&self) -> Vec<usize> {
        let is_exit = |site: usize| {
            let what = &self.source.sites[site].what;
            ["return", "break", "continue"].iter().any(|word| what.starts_with(&format!("deleted: {word}")))
        };
        let (blocks, _) = self.blocks();
        let last = blocks.iter().filter_map(|block| self.statements(&(self.range.end..block.end)).pop());
        last.into_iter().find(|&site| is_exit(site)).into_iter().collect()
    }

    /// Deleted statements so few lines behind it.
    fn near(&self) -> Vec<usize> {
        const LINES_BEHIND: usize = 5;
        self.statements(&self.lines(LINES_BEHIND))
    }

    /// Deleted statements in the blocks around it, the innermost with any.
    fn around(&self) -> Vec<usize> {
        let (blocks, _) = self.blocks();
        let statements = blocks.iter().map(|block| self.statements(block));
        statements.into_iter().find(|sites| !sites.is_empty()).unwrap_or_default()
    }

    fn in_function(&self) -> Vec<usize> {
        let (_, function) = self.blocks();
        function.map(|function| self.instrumented.sites_in(&function)).unwrap_or_default()
    }

    fn in_file(&self) -> Vec<usize> {
        self.instrumented.sites_in(&(0..self.instrumented.text.len()))
    }

    /// The blocks around it, the innermost first, and that of the function.
    fn blocks(&self) -> (Vec<Range<usize>>, Option<Range<usize>>) {
        let Ok(file) = syn::parse_file(&self.instrumented.text) else { return (Vec::new(), None) };
        let mut finder = Blocks { range: self.range.clone(), found: Vec::new(), function: None };
        finder.visit_file(&file);
        finder.found.reverse();
        (finder.found, finder.function)
    }
}

/// Finds the blocks around a place.
struct Blocks {
    range: Range<usize>,
    /// The outermost first.
    found: Vec<Range<usize>>,
    function: Option<Range<usize>>,
}

impl Blocks {
    fn surrounds(&self, block: &Block) -> Option<Range<usize>> {
        let range = block.span().byte_range();
        (range.start <= self.range.start && self.range.end <= range.end).then_some(range)
    }
}

impl<'ast> Visit<'ast> for Blocks {
    fn visit_block(&mut self, block: &'ast Block) {
        if let Some(range) = self.surrounds(block) {
            self.found.push(range);
            visit::visit_block(self, block);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function = self.surrounds(&function.block).or(self.function.take());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function = self.surrounds(&function.block).or(self.function.take());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let block = function.default.as_ref();
        self.function = block.and_then(|block| self.surrounds(block)).or(self.function.take());
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::{SUBJECTS, sites};

    const PATH: &str = "crates/x/src/lib.rs";

    /// The mutants of a source that are blamed for an error at these texts, the first of them its main place.
    /// `out`: those taken out before.
    fn blamed(text: &str, at: &[&str], out: &[u32]) -> Vec<String> {
        let found = sites::find(text).unwrap();
        let source = Source { path: PATH.to_owned(), text: text.to_owned(), sites: found, first: 7 };
        let number = |index: usize| Some(7 + index as u32).filter(|number| !out.contains(number));
        let made = sites::instrument(text, &source.sites, number);
        let spans: Vec<Value> = at
            .iter()
            .enumerate()
            .map(|(index, part)| {
                let start = made.text.find(part).unwrap();
                serde_json::json!({ "file_name": PATH, "byte_start": start, "byte_end": start + part.len(),
                                    "is_primary": index == 0 })
            })
            .collect();
        let mutants = Mutants { subject: &SUBJECTS[0], sources: vec![source], names: Vec::new() };
        let errors = [serde_json::json!({ "spans": spans })];
        let numbers = blame(&mutants, &BTreeMap::from([(PATH.to_owned(), made)]), &errors).unwrap();
        let what = |number: u32| mutants.sources[0].sites[number as usize - 7].what.clone();
        numbers.into_iter().map(what).collect()
    }

    #[test]
    fn an_error_is_blamed_on_the_mutant_that_stands_there() {
        let text = "fn f(a: u32) -> bool {\n    a < 3\n}\n";
        assert_eq!(blamed(text, &["(a) <= 3"], &[]), ["a < 3 → (a) <= 3"]);
    }

    const MOVED: &str = "fn f(memory: Vec<u8>, x: Option<u32>) -> u32 {
    if let Some(x) = x {
        forget(memory);
        if x > 2 {
            return g(x);
        }
        h(x);
        h(x);
        h(x);
        h(x);
        return x;
    }
    k(&memory)
}
";

    #[test]
    fn a_value_that_is_gone_is_blamed_on_the_deleted_return() {
        assert_eq!(blamed(MOVED, &["&memory", "memory);"], &[]), ["deleted: return x;"]);
    }

    #[test]
    fn who_is_not_guilty_is_followed_by_the_next_wider_place() {
        let sites = sites::find(MOVED).unwrap();
        let number = |what: &str| 7 + sites.iter().position(|site| site.what == what).unwrap() as u32;
        let exit = number("deleted: return x;");
        let first = blamed(MOVED, &["&memory", "memory);"], &[exit]);
        assert!(first.contains(&"deleted: h(x);".to_owned()), "{first:?}");
        let statements: Vec<u32> = (0..sites.len() as u32)
            .filter(|&at| sites[at as usize].kind == Kind::Statement)
            .map(|at| 7 + at)
            .collect();
        let all = blamed(MOVED, &["&memory", "memory);"], &statements);
        assert_eq!(all, ["if x > 2 → if not", "x > 2 → (x) >= 2", "2 → 2 + 1"]);
    }

    #[test]
    fn an_error_elsewhere_names_nobody() {
        let mutants = Mutants { subject: &SUBJECTS[0], sources: Vec::new(), names: Vec::new() };
        let error = serde_json::json!({ "spans": [], "rendered": "no such crate" });
        assert!(blame(&mutants, &BTreeMap::new(), &[error]).is_err());
    }
}
