//! Rust source as the compiler's lexer and parser see it: words without comments and strings, and functions'
//! lengths.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// `text` with comments, string and character literals replaced by blanks; line breaks stay.
pub(super) fn blank(text: &str) -> String {
    let Ok(tokens) = text.parse::<TokenStream>() else { return text.to_owned() };
    let mut out: Vec<u8> = text.bytes().map(|byte| if byte == b'\n' { byte } else { b' ' }).collect();
    keep(tokens, text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Copies words, numbers and punctuation.
fn keep(tokens: TokenStream, text: &str, out: &mut [u8]) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                for (side, span) in [(0, group.span_open()), (1, group.span_close())] {
                    let delimiters = match group.delimiter() {
                        proc_macro2::Delimiter::Parenthesis => ["(", ")"],
                        proc_macro2::Delimiter::Brace => ["{", "}"],
                        proc_macro2::Delimiter::Bracket => ["[", "]"],
                        proc_macro2::Delimiter::None => continue,
                    };
                    copy(span.byte_range(), delimiters[side], text, out);
                }
                keep(group.stream(), text, out);
            }
            TokenTree::Literal(literal) => {
                let word = literal.to_string();
                if word.starts_with(|first: char| first.is_ascii_digit()) {
                    copy(literal.span().byte_range(), &word, text, out);
                }
            }
            other => copy(other.span().byte_range(), &other.to_string(), text, out),
        }
    }
}

/// Copies a word that stands at its place in the source. (A documentation comment is lexed as an attribute
/// there.)
fn copy(range: std::ops::Range<usize>, word: &str, text: &str, out: &mut [u8]) {
    if text.get(range.clone()) == Some(word) {
        out[range].copy_from_slice(word.as_bytes());
    }
}

/// A function and its length in lines, from the line of its `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// The functions with a body. Nested ones count in themselves and in the outer one.
///
/// # Errors
/// It is no Rust.
pub(super) fn functions(text: &str) -> syn::Result<Vec<Function>> {
    struct Finder(Vec<Function>);
    impl Finder {
        fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
            let line = signature.fn_token.span().start().line;
            let lines = body.brace_token.span.close().end().line - line + 1;
            self.0.push(Function { name: signature.ident.to_string(), line, lines });
        }
    }
    impl<'ast> Visit<'ast> for Finder {
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            self.add(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
        fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
            self.add(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
        fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
            if let Some(body) = &function.default {
                self.add(&function.sig, body);
            }
            visit::visit_trait_item_fn(self, function);
        }
    }
    let mut finder = Finder(Vec::new());
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_strings_and_characters_are_blanked() {
        let text = "a // unsafe\nb /* unsafe /* x */ unsafe */ c \"unsafe \\\" unsafe\" r#\"unsafe\"# b'\"' '{' 'a d\n/// unsafe\nfn e() {}";
        let blanked = blank(text);
        assert!(!blanked.contains("unsafe") && blanked.matches('{').count() == 1);
        assert_eq!(blanked.lines().count(), 4);
        for word in ["a ", "b ", "c ", "'a d", "fn e() {}"] {
            assert!(blanked.contains(word), "{word}");
        }
    }

    #[test]
    fn a_function_counts_from_its_name_to_its_closing_brace() {
        let text = "fn one() {}\nimpl A {\n    fn two(x: [u8; 3]) -> u8\n    {\n        if x { 1 }\n    }\n}\n\
            trait B {\n    fn no();\n}\n";
        let functions = functions(text).unwrap();
        let got: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(got, [("one", 1, 1), ("two", 3, 4)]);
    }
}
