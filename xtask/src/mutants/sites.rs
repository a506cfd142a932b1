//! Where a source file can be changed into a mutant, and the file with all of its mutants in it, one of which
//! is chosen when the program runs.

use std::ops::Range;

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, BinOp, Block, Expr, ExprBinary, ExprIf, ExprMatch, ExprRepeat, File, ImplItemFn, Item, ItemFn,
    Lit, Pat, Stmt, TraitItemFn, Type, UnOp,
};

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Operator,
    Constant,
    Condition,
    Statement,
    Arms,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Constant => "constant",
            Self::Condition => "condition",
            Self::Statement => "statement",
            Self::Arms => "arms",
        }
    }
}

/// How the text at a place becomes one that can choose.
#[derive(Debug)]
enum Edit {
    /// The mutant has this expression instead.
    Other(String),
    /// The same where the place is a match arm's body, behind which there may be no comma.
    Body(String),
    /// The mutant has the opposite of this condition.
    Negated,
    /// The mutant has nothing.
    Deleted,
}

/// A mutant. Most have one edit; swapped arms have two.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) kind: Kind,
    /// The function it is in.
    pub(super) function: String,
    pub(super) line: usize,
    /// What it changes, in a line.
    pub(super) what: String,
    edits: Vec<(Range<usize>, Edit)>,
}

/// The sites of a file, in their order. Tests, constant expressions, patterns and macros' arguments have
/// none.
///
/// # Errors
/// It is no Rust.
pub(super) fn find(text: &str) -> Result<Vec<Site>> {
    let file: File = syn::parse_file(text).context("no Rust source")?;
    let mut finder = Finder { text, function: Vec::new(), sites: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.sites)
}

struct Finder<'t> {
    text: &'t str,
    function: Vec<String>,
    sites: Vec<Site>,
}

/// How much is said of what a mutant changes.
const WHAT_BYTES_MAX: usize = 66;

impl Finder<'_> {
    fn source(&self, span: Span) -> &str {
        self.text.get(span.byte_range()).unwrap_or_default()
    }

    fn add(&mut self, kind: Kind, span: Span, what: String, edits: Vec<(Range<usize>, Edit)>) {
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        // A line of the record has 110 bytes at most.
        let end = what.char_indices().map(|(at, _)| at).find(|&at| at > WHAT_BYTES_MAX);
        let what = end.map_or(what.clone(), |end| format!("{}…", &what[..end]));
        let function = self.function.last().cloned().unwrap_or_default();
        self.sites.push(Site { kind, function, line: span.start().line, what, edits });
    }

    fn other(&mut self, kind: Kind, span: Span, other: String) {
        let what = format!("{} → {other}", self.source(span));
        self.add(kind, span, what, vec![(span.byte_range(), Edit::Other(other))]);
    }

    fn in_function(&mut self, name: String, is_const: bool, attributes: &[Attribute], body: &Block) {
        if is_const || is_test(attributes) || is_fetch(&name) {
            return;
        }
        self.function.push(name);
        self.visit_block(body);
        self.function.pop();
    }

    /// The condition of an `if` without `let`.
    fn condition(&mut self, condition: &Expr) {
        if !has_let(condition) {
            let span = condition.span();
            let what = format!("if {} → if not", self.source(span));
            self.add(Kind::Condition, span, what, vec![(span.byte_range(), Edit::Negated)]);
        }
    }
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                let tokens = list.tokens.to_string();
                ["test", "loom", "fuzzing"].iter().any(|name| tokens == *name)
            });
        is_cfg_test || attribute.path().is_ident("test")
    })
}

/// Whether a function of this name only brings memory near: what it does is felt in time alone.
fn is_fetch(name: &str) -> bool {
    name.starts_with("prefetch") || name.starts_with("touch_")
}

/// Whether an expression is a call that changes no result: of a function that only brings memory near, or of
/// one that makes a collection with room, which is a hint, since it grows.
fn is_hint(expression: &Expr) -> bool {
    match expression {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.last().is_some_and(|segment| {
                segment.ident == "with_capacity" || is_fetch(&segment.ident.to_string())
            }),
            _ => false,
        },
        Expr::MethodCall(call) => is_fetch(&call.method.to_string()),
        _ => false,
    }
}

/// The operator in its place.
fn swapped(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "+",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::BitXor(_) | BinOp::BitAnd(_) => "|",
        BinOp::BitOr(_) => "&",
        BinOp::Shl(_) => ">>",
        BinOp::Shr(_) => "<<",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::MulAssign(_) => "+=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::BitAndAssign(_) => "|=",
        _ => return None,
    })
}

/// Whether a statement's effect is all that it is for.
fn can_be_deleted(expression: &Expr) -> bool {
    match expression {
        Expr::Assign(_) | Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Return(_) | Expr::Continue(_) | Expr::Break(_) => true,
        Expr::Binary(binary) => swapped(&binary.op).is_some_and(|operator| operator.ends_with('=')),
        Expr::Try(inner) => can_be_deleted(&inner.expr),
        _ => false,
    }
}

/// Whether a pattern brings names into its arm.
fn binds(pattern: &Pat) -> bool {
    struct Binds(bool);
    impl Visit<'_> for Binds {
        fn visit_pat_ident(&mut self, ident: &syn::PatIdent) {
            self.0 |= ident.ident.to_string().starts_with(|first: char| first.is_lowercase() || first == '_');
        }
        fn visit_field_pat(&mut self, field: &syn::FieldPat) {
            self.0 |= field.colon_token.is_none();
            visit::visit_field_pat(self, field);
        }
    }
    let mut found = Binds(false);
    found.visit_pat(pattern);
    found.0
}

impl<'ast> Visit<'ast> for Finder<'_> {
    // Types, patterns, attributes and constants are no places for a choice at run time.
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(_) | Item::Static(_) | Item::Macro(_) => {}
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Impl(block) => {
                // What is only printed for people is no promise.
                let is_printing = block.trait_.as_ref().is_some_and(|(path, _)| {
                    path.segments
                        .last()
                        .is_some_and(|s| ["Debug", "Display"].iter().any(|name| s.ident == name))
                });
                if !is_printing && !is_test(&block.attrs) {
                    visit::visit_item_impl(self, block);
                }
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let signature = &function.sig;
        let is_const = signature.constness.is_some();
        self.in_function(signature.ident.to_string(), is_const, &function.attrs, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        let signature = &function.sig;
        let is_const = signature.constness.is_some();
        self.in_function(signature.ident.to_string(), is_const, &function.attrs, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            let signature = &function.sig;
            self.in_function(
                signature.ident.to_string(),
                signature.constness.is_some(),
                &function.attrs,
                body,
            );
        }
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement
            && can_be_deleted(expression)
            && !is_hint(expression)
        {
            let span = statement.span();
            let what = format!("deleted: {}", self.source(span));
            self.add(Kind::Statement, span, what, vec![(span.byte_range(), Edit::Deleted)]);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expression: &'ast ExprIf) {
        self.condition(&expression.cond);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast ExprMatch) {
        for pair in expression.arms.windows(2) {
            let [first, second] = pair else { continue };
            let is_plain = |arm: &syn::Arm| !matches!(arm.pat, Pat::Guard(_)) && !binds(&arm.pat);
            let (one, other) = (first.body.span(), second.body.span());
            if is_plain(first) && is_plain(second) && self.source(one) != self.source(other) {
                let what = format!(
                    "{}, {}: bodies swapped",
                    self.source(first.pat.span()),
                    self.source(second.pat.span())
                );
                let (one_text, other_text) = (self.source(one).to_owned(), self.source(other).to_owned());
                let edits = vec![
                    (one.byte_range(), Edit::Body(other_text)),
                    (other.byte_range(), Edit::Body(one_text)),
                ];
                self.add(Kind::Arms, first.span(), what, edits);
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if is_hint(expression) {
            return;
        }
        match expression {
            Expr::Binary(ExprBinary { left, op, right, .. }) if !has_let(expression) => {
                if let Some(operator) = swapped(op) {
                    // `a as u32 < b` would begin a list of generic arguments.
                    let other =
                        format!("({}) {operator} {}", self.source(left.span()), self.source(right.span()));
                    self.other(Kind::Operator, expression.span(), other);
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let other = self.source(unary.expr.span()).to_owned();
                self.other(Kind::Operator, expression.span(), other);
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Bool(value) => self.other(Kind::Constant, expression.span(), (!value.value).to_string()),
                Lit::Int(value) => {
                    let other = match value.base10_digits() {
                        "0" => format!("1{}", value.suffix()),
                        "1" => format!("0{}", value.suffix()),
                        _ => format!("{} + 1", self.source(expression.span())),
                    };
                    self.other(Kind::Constant, expression.span(), other);
                }
                _ => {}
            },
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

/// A file with its mutants.
pub(super) struct Instrumented {
    pub(super) text: String,
    /// By site: where in the text something of it stands.
    places: Vec<(usize, Range<usize>)>,
}

impl Instrumented {
    /// The site, by its place in the list, whose text is innermost around these bytes.
    pub(super) fn site_at(&self, at: &Range<usize>) -> Option<usize> {
        let around = self.places.iter().filter(|(_, range)| range.start <= at.start && at.end <= range.end);
        around.min_by_key(|(_, range)| range.len()).map(|(site, _)| *site)
    }

    /// The sites of which something stands within these bytes.
    pub(super) fn sites_in(&self, within: &Range<usize>) -> Vec<usize> {
        let inside =
            self.places.iter().filter(|(_, range)| within.start <= range.start && range.end <= within.end);
        inside.map(|(site, _)| *site).collect()
    }
}

/// The file in which each site that `number` numbers asks `crate::mutants::is(number)`.
pub(super) fn instrument(text: &str, sites: &[Site], number: impl Fn(usize) -> Option<u32>) -> Instrumented {
    let mut edits = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        if let Some(number) = number(index) {
            edits.extend(site.edits.iter().map(|(range, edit)| (range.clone(), edit, number, index)));
        }
    }
    // Outer ones first; of the same place in the order in which they were found, which is from outside, too.
    edits.sort_by(|a, b| (a.0.start, b.0.end).cmp(&(b.0.start, a.0.end)));
    let mut output = Instrumented { text: String::new(), places: Vec::new() };
    let mut rest = &edits[..];
    render(text, 0..text.len(), &mut rest, &mut output);
    output
}

type Placed<'e> = (Range<usize>, &'e Edit, u32, usize);

fn render(text: &str, range: Range<usize>, rest: &mut &[Placed<'_>], output: &mut Instrumented) {
    let mut at = range.start;
    while let Some(((place, edit, number, site), others)) = rest.split_first() {
        if place.end > range.end || place.start >= range.end {
            break;
        }
        *rest = others;
        output.text += &text[at..place.start];
        let begin = output.text.len();
        let asked = format!("crate::mutants::is({number})");
        match edit {
            Edit::Other(other) => {
                output.text += &format!("(if {asked} {{ {other} }} else {{ ");
                render(text, place.clone(), rest, output);
                output.text += " })";
            }
            Edit::Body(other) => {
                output.text += &format!("{{ if {asked} {{ {other} }} else {{ ");
                render(text, place.clone(), rest, output);
                output.text += " } }";
            }
            Edit::Negated => {
                output.text += &format!("({asked} != (");
                render(text, place.clone(), rest, output);
                output.text += "))";
            }
            Edit::Deleted => {
                output.text += &format!("if !{asked} {{ ");
                render(text, place.clone(), rest, output);
                output.text += " }";
            }
        }
        let end = output.text.len();
        output.places.push((*site, begin..end));
        at = place.end;
    }
    output.text += &text[at..range.end];
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: u32) -> u32 {\n    if a < 3 {\n        g(a + 1);\n    }\n    match a { 0 => 5, _ => 6 }\n}\n\
        const fn c() -> u32 { 1 + 1 }\n#[cfg(test)]\nmod tests { fn t() { h(1 + 2); } }\nconst N: u32 = 4 * 2;\n";

    #[test]
    fn sites_are_found_where_code_runs_and_only_there() {
        let found: Vec<String> =
            find(SOURCE).unwrap().iter().map(|site| format!("{} {}", site.kind.name(), site.what)).collect();
        assert_eq!(
            found,
            [
                "condition if a < 3 → if not",
                "operator a < 3 → (a) <= 3",
                "constant 3 → 3 + 1",
                "statement deleted: g(a + 1);",
                "operator a + 1 → (a) - 1",
                "constant 1 → 0",
                "arms 0, _: bodies swapped",
                "constant 5 → 5 + 1",
                "constant 6 → 6 + 1",
            ]
        );
    }

    #[test]
    fn room_that_a_collection_begins_with_has_no_mutant() {
        let sites = find("fn f(n: usize) -> Vec<u8> { Vec::with_capacity(n + 1) }").unwrap();
        assert_eq!(sites.len(), 0);
        assert_eq!(find("fn f(n: usize) -> Vec<u8> { with(n + 1) }").unwrap().len(), 2);
    }

    #[test]
    fn what_only_brings_memory_near_has_no_mutant() {
        let calls = "fn f(&self) { self.a.prefetch(1 + 2); sys::prefetch_for_write(3); self.touch_ahead(); }";
        assert_eq!(find(calls).unwrap().len(), 0);
        assert_eq!(find("fn touch_ahead(&mut self) { self.at = self.at + 1; }").unwrap().len(), 0);
        assert_eq!(find("fn f(&self) { self.fetch(); self.retouch(1); }").unwrap().len(), 3);
    }

    #[test]
    fn the_instrumented_file_chooses_each_mutant_by_its_number() {
        let sites = find(SOURCE).unwrap();
        let only = |wanted: usize| instrument(SOURCE, &sites, |index| (index == wanted).then_some(9)).text;
        assert!(only(0).contains("if (crate::mutants::is(9) != (a < 3)) {"));
        assert!(only(1).contains("if (if crate::mutants::is(9) { (a) <= 3 } else { a < 3 }) {"));
        assert!(only(3).contains("if !crate::mutants::is(9) { g(a + 1); }"));
        let arms = only(6);
        assert!(arms.contains("0 => { if crate::mutants::is(9) { 6 } else { 5 } }, _ => { if"), "{arms}");
        let all = instrument(SOURCE, &sites, |index| Some(index as u32));
        assert!(syn::parse_file(&all.text).is_ok(), "{}", all.text);
        let at = all.text.find("(a) <= 3").unwrap();
        assert_eq!(all.site_at(&(at..at + 8)), Some(1));
    }
}
