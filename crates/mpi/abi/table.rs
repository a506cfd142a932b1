//! Reads `functions.txt` and `constants.txt`, the one description of the ABI.
//!
//! Shared by `build.rs` (Rust constants, stubs, signature checks), `cargo xtask abi` (mpi.h, the ledger) and
//! the tests, each of which includes this file as a module. Plain text processing, no dependencies.

#![allow(dead_code, unreachable_pub, reason = "each of the three users needs its own part")]

/// A C function of the ABI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its MPI chapter, the file of `src/api` it belongs to.
    pub chapter: String,
    /// The C return type.
    pub result: String,
    /// `MPI_…`.
    pub name: String,
    /// Parameters in order; a variadic tail is not among them.
    pub params: Vec<Param>,
    /// The C parameter list as written.
    pub c_params: String,
}

/// A parameter of a C function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The Rust type that passes as the C type does: arrays are pointers.
    pub rust_type: String,
}

/// A line of `constants.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `## text`
    Heading(String),
    /// `handle TYPE STRUCT`
    Handle { name: String, tag: String },
    /// `TYPE NAME VALUE`
    Typed { ty: String, name: String, value: String },
    /// `int NAME VALUE`
    Int { name: String, value: String },
    /// `define NAME VALUE`
    Define { name: String, value: String },
    /// `alias NAME OTHER`
    Alias { name: String, other: String },
    /// `enum NAME`
    EnumBegin(String),
    /// `end`
    EnumEnd,
    /// `c TEXT`
    C(String),
}

/// The Rust type that passes in a call as `c` does. `depth` counts the pointers, arrays included.
fn rust_type(base: &str, constant: bool, depth: usize) -> String {
    if base.ends_with("_function") || base.ends_with("_fn") || base.ends_with("_function_c") {
        return "Callback".into();
    }
    let mut ty = match base {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "double" => "c_double",
        "char" => "c_char",
        "void" => "c_void",
        other => other,
    }
    .to_string();
    for level in 0..depth {
        let kind = if constant && level == 0 { "*const " } else { "*mut " };
        ty = format!("{kind}{ty}");
    }
    ty
}

/// Parses one parameter such as `const int ranges[][3]`.
fn parse_param(text: &str) -> Param {
    let (text, arrays) = match text.find('[') {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, ""),
    };
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    let (ty, name) = (&text[..at], &text[at..]);
    let constant = ty.contains("const ");
    let depth = ty.matches('*').count() + arrays.matches("[]").count();
    let base = ty.replace("const ", "").replace('*', "");
    let mut rust = rust_type(base.trim(), constant, depth);
    if arrays.ends_with("[3]") {
        rust = rust.replace("c_int", "[c_int; 3]");
    }
    Param { name: name.to_string(), rust_type: rust }
}

/// Parses `functions.txt`. Panics with the line on a malformed one: it is our own file.
pub fn functions(text: &str) -> Vec<Function> {
    let mut chapter = String::new();
    let mut all = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            chapter = name.to_string();
            continue;
        }
        let (head, tail) = line.split_once('(').unwrap_or_else(|| panic!("functions.txt: no '(' in: {line}"));
        let (result, name) =
            head.split_once(' ').unwrap_or_else(|| panic!("functions.txt: no type in: {line}"));
        let c_params =
            tail.strip_suffix(')').unwrap_or_else(|| panic!("functions.txt: no ')' at the end: {line}"));
        let params = c_params
            .split(',')
            .map(str::trim)
            .filter(|p| *p != "void" && *p != "..." && !p.is_empty())
            .map(parse_param)
            .collect();
        all.push(Function {
            chapter: chapter.clone(),
            result: result.into(),
            name: name.into(),
            params,
            c_params: c_params.into(),
        });
    }
    all
}

impl Function {
    /// The Rust return type.
    pub fn rust_result(&self) -> String {
        rust_type(&self.result, false, 0)
    }

    /// The parameter on whose object an error of this function is raised: the first communicator, window,
    /// file or session that is passed by value.
    pub fn raises_on(&self) -> Option<&Param> {
        let carriers = ["MPI_Comm", "MPI_Win", "MPI_File", "MPI_Session"];
        self.params.iter().find(|p| carriers.contains(&p.rust_type.as_str()))
    }
}

/// Parses `constants.txt`. Panics with the line on a malformed one.
pub fn constants(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if let Some(heading) = line.strip_prefix("## ") {
            items.push(Item::Heading(heading.into()));
        } else if let Some(c) = line.strip_prefix("c ") {
            items.push(Item::C(c.into()));
        } else if !line.is_empty() && !line.starts_with('#') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let word = |i: usize| words[i].to_string();
            items.push(match words[..] {
                ["handle", _, _] => Item::Handle { name: word(1), tag: word(2) },
                ["int", _, _] => Item::Int { name: word(1), value: word(2) },
                ["define", _, _] => Item::Define { name: word(1), value: word(2) },
                ["alias", _, _] => Item::Alias { name: word(1), other: word(2) },
                ["enum", _] => Item::EnumBegin(word(1)),
                ["end"] => Item::EnumEnd,
                [_, _, _] => Item::Typed { ty: word(0), name: word(1), value: word(2) },
                _ => panic!("constants.txt: cannot read: {line}"),
            });
        }
    }
    items
}

/// The names of the functions written out in a chapter's source: its `fn MPI_…` inside `api!` blocks, and the
/// `MPI_…` in the blocks of macros that make families of functions (`sends! { … }` at the start of a line).
pub fn written(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_family = false;
    for line in source.lines() {
        if let Some(rest) = line.trim_start().strip_prefix("fn MPI_") {
            names.push(first_name(rest));
        }
        if let Some((name, "{")) = line.split_once("! ") {
            in_family = name != "api" && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        } else if line == "}" {
            in_family = false;
        } else if in_family && !line.trim_start().starts_with("//") {
            names.extend(line.split("MPI_").skip(1).map(first_name));
        }
    }
    names
}

fn first_name(rest: &str) -> String {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    format!("MPI_{}", &rest[..end])
}

/// The names in a chapter's `forms! { … }`: operations of which one Rust function serves every form.
pub fn forms(source: &str) -> Vec<String> {
    let lines = source.lines().map(str::trim).skip_while(|line| !line.starts_with("forms! {")).skip(1);
    let names = lines.take_while(|line| *line != "}").flat_map(str::split_whitespace);
    names.map(str::to_string).collect()
}

/// How a form of a collective operation ends (MPI-5.0 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `MPI_X`
    Blocking,
    /// `MPI_Ix`
    Nonblocking,
    /// `MPI_X_init`
    Persistent,
}

/// The names of every form of operation `base` (`Bcast`): blocking, non-blocking and persistent, small and
/// large.
pub fn names_of_forms(base: &str) -> Vec<(String, Form)> {
    let nonblocking = format!("I{}{}", base[..1].to_lowercase(), &base[1..]);
    let stems = [
        (format!("MPI_{base}"), Form::Blocking),
        (format!("MPI_{nonblocking}"), Form::Nonblocking),
        (format!("MPI_{base}_init"), Form::Persistent),
    ];
    stems.into_iter().flat_map(|(stem, form)| [(stem.clone(), form), (format!("{stem}_c"), form)]).collect()
}

/// The names of the functions of the ABI that a chapter's source implements.
pub fn implemented(source: &str, functions: &[Function]) -> Vec<String> {
    let of_forms = forms(source).into_iter().flat_map(|base| names_of_forms(&base)).map(|(name, _)| name);
    let of_forms = of_forms.filter(|name| functions.iter().any(|f| f.name == *name));
    written(source).into_iter().chain(of_forms).collect()
}

/// The sources of all chapters: every Rust file in `src/api` under `crate_dir`.
pub fn sources(crate_dir: &std::path::Path) -> std::io::Result<Vec<String>> {
    let mut sources = Vec::new();
    let mut folders = vec![crate_dir.join("src/api")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                sources.push(std::fs::read_to_string(&path)?);
            }
        }
    }
    Ok(sources)
}

/// The names implemented in all chapters, sorted.
pub fn implemented_in(crate_dir: &std::path::Path, functions: &[Function]) -> std::io::Result<Vec<String>> {
    let sources = sources(crate_dir)?;
    let mut names: Vec<_> = sources.iter().flat_map(|source| implemented(source, functions)).collect();
    names.sort();
    Ok(names)
}

/// The ledger: every function that is not implemented, by chapter.
pub fn ledger(functions: &[Function], implemented: &[String]) -> String {
    let missing: Vec<_> = functions.iter().filter(|f| !implemented.contains(&f.name)).collect();
    let mut text = format!(
        "# Functions of the ABI that exist but answer MPI_ERR_UNSUPPORTED_OPERATION: {} of {}.\n\
         # Written by `cargo xtask abi`; a test checks that it is current.\n",
        missing.len(),
        functions.len()
    );
    let mut chapter = "";
    for function in missing {
        if function.chapter != chapter {
            chapter = &function.chapter;
            text.push_str(&format!("\n[{chapter}]\n"));
        }
        text.push_str(&format!("{}\n", function.name));
    }
    text
}
