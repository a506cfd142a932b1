//! Rust source with comments, strings and characters blanked out, line by line: enough to look for words and braces.

/// `text` with the content of comments, string and character literals replaced by blanks; line breaks stay.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let end = match bytes[i] {
            b'/' if bytes[i..].starts_with(b"//") => find(bytes, i, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes[i..].starts_with(b"/*") => block_comment(bytes, i),
            b'r' | b'b' | b'c' if starts_word(bytes, i) => match raw_string(bytes, i) {
                Some(end) => end,
                None => {
                    i += 1;
                    continue;
                }
            },
            b'"' => string(bytes, i),
            b'\'' => match character(bytes, i) {
                Some(end) => end,
                None => {
                    i += 1;
                    continue;
                }
            },
            _ => {
                i += 1;
                continue;
            }
        };
        for byte in &mut out[i..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        i = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// Block comments nest.
fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i < bytes.len() {
        if bytes[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if bytes[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    bytes.len()
}

/// The end of `"…"` that starts at `start`.
fn string(bytes: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"`, `br#"…"#`, `b"…"`, `c"…"`; `None` where it is just a word.
fn raw_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut i = start;
    let prefix = bytes[i..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let raw = bytes[i..i + prefix].contains(&b'r');
    if prefix > 2 {
        return None;
    }
    i += prefix;
    let hashes = bytes[i..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(i + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    if !raw {
        return Some(string(bytes, i));
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    Some(find(bytes, i + hashes + 1, &close).map_or(bytes.len(), |at| at + close.len()))
}

/// The end of a character literal; `None` for a lifetime.
fn character(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        return find(bytes, start + 3, b"'").map(|at| at + 1);
    }
    // One character of up to four bytes, then the quote.
    (2..=5).map(|length| start + length).find(|end| bytes.get(*end) == Some(&b'\'')).and_then(|end| {
        let inner = std::str::from_utf8(&bytes[start + 1..end]).ok()?;
        (inner.chars().count() == 1).then_some(end + 1)
    })
}

/// A function and its length in lines, from the line of its `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// The functions with a body in blanked source. Nested ones count in themselves and in the outer one.
pub(super) fn functions(blanked: &str) -> Vec<Function> {
    let bytes = blanked.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = find(bytes, at, b"fn ") {
        at = start + 3;
        if !starts_word(bytes, start) {
            continue;
        }
        let name: String =
            blanked[at..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // The body begins at the first brace; a `;` outside brackets before it means a declaration.
        let Some(open) = body(bytes, at) else { continue };
        if name.is_empty() {
            continue;
        }
        let close = closing(bytes, open);
        let count = |range: &[u8]| range.iter().filter(|byte| **byte == b'\n').count();
        found.push(Function {
            name,
            line: count(&bytes[..start]) + 1,
            lines: count(&bytes[start..close]) + 1,
        });
    }
    found
}

fn body(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b';' | b',' if depth == 0 && *byte == b';' => return None,
            b'{' if depth == 0 => return Some(i),
            b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn closing(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_strings_and_characters_are_blanked() {
        let text = "a // unsafe\nb /* unsafe /* x */ unsafe */ c \"unsafe \\\" unsafe\" r#\"unsafe\"# b'\"' '{' 'a d";
        let blanked = blank(text);
        assert!(!blanked.contains("unsafe") && !blanked.contains('{'));
        assert_eq!(blanked.lines().count(), 2);
        for word in ["a ", "b ", "c ", "'a d"] {
            assert!(blanked.contains(word), "{word}");
        }
    }

    #[test]
    fn a_function_counts_from_its_name_to_its_closing_brace() {
        let text = "fn one() {}\nimpl A {\n    fn two(x: [u8; 3]) -> u8\n    {\n        if x { 1 }\n    }\n    fn no();\n}\n";
        let functions = functions(&blank(text));
        let got: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(got, [("one", 1, 1), ("two", 3, 4)]);
    }
}
