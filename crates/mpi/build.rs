//! Generates code from `abi/*.txt` and from the functions that `src/api` implements: the constants, a stub
//! for each unimplemented function, and a check of each implemented one's signature.

#[path = "abi/table.rs"]
mod table;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};
use table::{Function, Item, Param};

/// Rust constants for the C ones. Handles and special pointers become their integers.
fn constants(items: &[Item]) -> String {
    let mut out = String::new();
    let mut names = Vec::new();
    for item in items {
        match item {
            Item::Int { name, value } | Item::Define { name, value } => {
                writeln!(out, "pub(crate) const {name}: c_int = {value};").unwrap();
            }
            Item::Alias { name, other } => {
                // Both aliases of the ABI name datatypes; the compiler rejects a new one that does not.
                writeln!(out, "pub(crate) const {name}: MPI_Datatype = {other};").unwrap();
            }
            Item::Typed { ty, name, value } if ty.ends_with("function*") || ty.ends_with("function_c*") => {
                writeln!(out, "pub(crate) const {name}: Callback = Callback({value});").unwrap();
            }
            Item::Typed { ty, name, value } if ty.ends_with('*') => {
                writeln!(out, "pub(crate) const {name}: usize = {value};").unwrap();
            }
            Item::Typed { ty, name, value } if ty == "MPI_Offset" => {
                writeln!(out, "pub(crate) const {name}: MPI_Offset = {value};").unwrap();
            }
            Item::Typed { ty, name, value } => {
                writeln!(out, "pub(crate) const {name}: {ty} = {ty}({value});").unwrap();
                if !ty.starts_with("MPI_T_") {
                    names.push((value, name));
                }
            }
            _ => {}
        }
    }
    writeln!(
        out,
        "/// The predefined handles and their names.\npub(crate) const HANDLE_NAMES: &[(usize, &str)] = &["
    )
    .unwrap();
    for (value, name) in names {
        writeln!(out, "    ({value}, {name:?}),").unwrap();
    }
    out.push_str(
        "];\n/// The error classes and their names.\npub(crate) const CLASS_NAMES: &[(c_int, &str)] = &[\n",
    );
    for item in items {
        if let Item::Int { name, .. } = item
            && (name.starts_with("MPI_ERR_") || name.starts_with("MPI_T_ERR_") || name == "MPI_SUCCESS")
        {
            writeln!(out, "    ({name}, {name:?}),").unwrap();
        }
    }
    out.push_str("];\n");
    out
}

/// Stubs for the functions that are not implemented.
fn stubs(functions: &[Function], implemented: &[String]) -> String {
    let mut out = String::from("api! {\n");
    for f in functions.iter().filter(|f| !implemented.contains(&f.name)) {
        let params: Vec<_> = f.params.iter().map(|p| format!("r#{}: {}", p.name, p.rust_type)).collect();
        let on = f.raises_on().map_or(String::new(), |p| format!(" on {}", p.name));
        assert_eq!(f.result, "int", "a stub can only return an error code: {}", f.name);
        writeln!(out, "fn {}({}){on} {{ Err(Fault::unsupported()) }}", f.name, params.join(", ")).unwrap();
    }
    out.push_str("}\n");
    out
}

/// What a form passes on for a parameter: counts and arrays of them widened, the rest as it is.
fn passed_on(param: &Param) -> Option<String> {
    let name = format!("r#{}", param.name);
    match (param.name.as_str(), param.rust_type.as_str()) {
        ("info" | "request", _) => None,
        (_, "*const c_int" | "*const MPI_Count" | "*const MPI_Aint") => Some(format!("Array::from({name})")),
        (count, "c_int" | "MPI_Count") if count.contains("count") => Some(format!("MPI_Count::from({name})")),
        _ => Some(name),
    }
}

/// The forms of the operations in `forms! { … }`: each calls the one function that serves them all.
fn forms(functions: &[Function], sources: &[String]) -> String {
    let mut out = String::from("api! {\n");
    for base in sources.iter().flat_map(|source| table::forms(source)) {
        for (name, form) in table::names_of_forms(&base) {
            let Some(f) = functions.iter().find(|f| f.name == name) else { continue };
            let params: Vec<_> = f.params.iter().map(|p| format!("r#{}: {}", p.name, c_or_in(p))).collect();
            let mode = match form {
                table::Form::Blocking => "Mode::Blocking",
                table::Form::Nonblocking => "Mode::Nonblocking(request)",
                table::Form::Persistent => "Mode::Persistent(info, request)",
            };
            let mut args: Vec<_> = f.params.iter().filter_map(passed_on).collect();
            args.push(mode.into());
            let (chapter, function, args) = (&f.chapter, base.to_lowercase(), args.join(", "));
            let params = params.join(", ");
            writeln!(out, "fn {name}({params}) on comm {{ crate::api::{chapter}::{function}({args}) }}")
                .unwrap();
        }
    }
    out.push_str("}\n");
    out
}

/// The type a form takes for a parameter: what is read or written through is typed as the boundary does.
fn c_or_in(param: &Param) -> String {
    match param.rust_type.as_str() {
        "*mut MPI_Request" => "Out<MPI_Request>".into(),
        "*const c_void" => "*const c_void".into(),
        ty => match ty.strip_prefix("*const ") {
            Some(element) => format!("In<{element}>"),
            None => ty.into(),
        },
    }
}

/// A check, by the type system, that each written function has the signature of the table.
fn signatures(functions: &[Function], implemented: &[String]) -> String {
    let mut out = String::new();
    for f in functions.iter().filter(|f| implemented.contains(&f.name)) {
        let letters: Vec<_> = (0..f.params.len()).map(|i| format!("A{i}")).collect();
        let bounds: Vec<_> =
            f.params.iter().enumerate().map(|(i, p)| format!("A{i}: PassesAs<{}>", p.rust_type)).collect();
        writeln!(
            out,
            "const _: () = {{ const fn check<{}>(_: unsafe extern \"C-unwind\" fn({}) -> {}) {{}} \
             check(crate::api::{}::{}) }};",
            bounds.join(", "),
            letters.join(", "),
            f.rust_result(),
            f.chapter,
            f.name
        )
        .unwrap();
    }
    out
}

/// The names of our own functions, `fn MPIX_…` in a chapter's source.
fn extensions(source: &str) -> impl Iterator<Item = String> {
    let names = source.lines().filter_map(|line| line.trim_start().strip_prefix("fn MPIX_"));
    names.map(|rest| format!("MPIX_{}", rest.split('(').next().unwrap_or(rest)))
}

/// The functions' names and, as constants, their numbers.
fn calls(names: &[String]) -> String {
    let mut out = String::from("/// A line each.\npub(super) const NAMES: &str = \"");
    names.iter().for_each(|name| write!(out, "{name}\\n").unwrap());
    out.push_str(
        "\";\n/// The name of a number; empty for none.\npub(crate) fn name(call: u32) -> &'static str {\n",
    );
    out.push_str(
        "    (call as usize).checked_sub(1).and_then(|at| NAMES.lines().nth(at)).unwrap_or_default()\n}\n",
    );
    out.push_str(
        "#[allow(dead_code, non_upper_case_globals, reason = \"MPI's own names\")]\npub(crate) mod ids {\n",
    );
    for (at, name) in names.iter().enumerate() {
        writeln!(out, "    pub(crate) const {name}: u32 = {};", at + 1).unwrap();
    }
    out.push_str("}\n");
    out
}

fn main() {
    let dir = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let out = env::var("OUT_DIR").expect("set by cargo");
    println!("cargo::rerun-if-changed=abi");
    println!("cargo::rerun-if-changed=src/api");
    println!("cargo::rustc-check-cfg=cfg(weak_alias)");

    let read =
        |name: &str| fs::read_to_string(Path::new(&dir).join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let functions = table::functions(&read("abi/functions.txt"));
    let items = table::constants(&read("abi/constants.txt"));
    let sources = table::sources(Path::new(&dir)).expect("src/api can be read");
    let written: Vec<_> = sources.iter().flat_map(|source| table::written(source)).collect();
    let implemented = table::implemented_in(Path::new(&dir), &functions).expect("src/api can be read");
    for name in &implemented {
        assert!(
            functions.iter().any(|f| f.name == *name),
            "src/api implements {name}, which is not in abi/functions.txt"
        );
    }
    let write = |name: &str, text: String| {
        fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written")
    };
    write("constants.rs", constants(&items));
    let standard = functions.iter().map(|f| f.name.to_string());
    let names: Vec<_> = standard.chain(sources.iter().flat_map(|source| extensions(source))).collect();
    write("calls.rs", calls(&names));
    write("forms.rs", forms(&functions, &sources));
    write("stubs.rs", stubs(&functions, &implemented));
    write("signatures.rs", signatures(&functions, &written));

    // rustc exports from a cdylib what it knows of, through a version script of its own; the weak aliases,
    // which are assembled, need a second one. LLD, rustc's linker on x86-64 Linux, merges the two; GNU ld
    // refuses a second anonymous script, so other targets get a second Rust function for each name instead
    // (boundary.rs).
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    if target("OS") == "linux" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-cfg=weak_alias");
        write("exports.map", "{ global: MPI_*; PMPI_*; MPIX_*; PMPIX_*; };\n".into());
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={out}/exports.map");
    } else if target("OS") == "linux" {
        // The second function calls the first. Bound by name, that could be a translator's.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
}
