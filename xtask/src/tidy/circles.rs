//! No circles of modules: two modules that name each other, directly or by way of others, can only be
//! understood together.
//!
//! A module is a file. It names another by a path that begins with `crate`, `super`, `self` or one of its own
//! children; a path through a `pub use` counts for the module behind it. Tests do not count, and neither does
//! what a macro names by `$crate`: that belongs to the place where the macro is used.
//!
//! In most crates no circle is allowed; in core one may stay inside of a folder. Today's exceptions are
//! listed in `xtask/tidy.toml` and may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;

use super::{Findings, rust};
use crate::paths;

/// Crates without circles, and those in which one may stay inside of a folder. A crate that is not there yet
/// is passed over.
const WHOLE: [&str; 6] = ["mpi", "devices", "fabric", "launch", "lab", "study"];
const WITHIN_FOLDERS: [&str; 1] = ["core"];

/// Today's exceptions, by crate: the modules of each circle.
pub(super) type Exceptions = BTreeMap<String, Vec<Vec<String>>>;

/// A module by its path below the crate's root, whose own path is empty.
type Module = Vec<String>;
/// Modules and their text without comments, literals and tests.
type Sources = BTreeMap<Module, String>;
/// Which modules each module names.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

pub(super) fn check(exceptions: &Exceptions, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let none = Vec::new();
    for name in WHOLE.iter().chain(&WITHIN_FOLDERS) {
        let sources = sources(name, files)?;
        let mut graph = graph(&sources);
        if WITHIN_FOLDERS.contains(name) {
            graph = of_folders(&graph);
        }
        compare(name, &circles(&graph), exceptions.get(*name).unwrap_or(&none), findings);
    }
    Ok(())
}

fn sources(name: &str, files: &[PathBuf]) -> Result<Sources> {
    let folder = PathBuf::from(format!("crates/{name}/src"));
    let mut sources = Sources::new();
    for file in files {
        let Ok(path) = file.strip_prefix(&folder) else { continue };
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let path = path.with_extension("");
        let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        if !module.iter().any(|part| part == "tests") {
            let text = std::fs::read_to_string(paths::root().join(file))?;
            sources.insert(module, without_tests(rust::blank(&text)));
        }
    }
    Ok(sources)
}

/// Cuts modules for tests off blanked source: they stand at the end of a file.
fn without_tests(mut text: String) -> String {
    if let Some(at) = text.find("#[cfg(test)]\nmod ")
        && text[at..]
            .split_once('\n')
            .is_some_and(|(_, module)| module.find('{').is_some_and(|brace| !module[..brace].contains(';')))
    {
        text.truncate(at);
    }
    text
}

/// The paths that begin at the start of `text`; more than one where it has braces. Also where they end.
fn expand(text: &str) -> (Vec<Module>, usize) {
    let (mut found, mut at) = (Vec::new(), 0);
    read_path(text, &mut at, Module::new(), &mut found);
    (found, at)
}

fn skip_blanks(text: &str, at: &mut usize) {
    *at += text[*at..].len() - text[*at..].trim_start().len();
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn read_path(text: &str, at: &mut usize, mut prefix: Module, found: &mut Vec<Module>) {
    loop {
        skip_blanks(text, at);
        if text[*at..].starts_with('{') {
            *at += 1;
            loop {
                skip_blanks(text, at);
                match text[*at..].chars().next() {
                    None => return,
                    Some('}') => {
                        *at += 1;
                        return;
                    }
                    Some(',') => *at += 1,
                    Some(_) => {
                        let before = *at;
                        read_path(text, at, prefix.clone(), found);
                        if *at == before {
                            // Not a list of paths, then.
                            return;
                        }
                    }
                }
            }
        }
        let next = word(&text[*at..]);
        if next.is_empty() {
            // `*`, which names all of the module, or the end of what is a path.
            *at += usize::from(text[*at..].starts_with('*'));
            found.push(prefix);
            return;
        }
        *at += next.len();
        prefix.push(next.to_owned());
        if !text[*at..].trim_start().starts_with("::") {
            if let Some(rest) = text[*at..].strip_prefix(" as ") {
                *at += " as ".len() + word(rest).len();
            }
            found.push(prefix);
            return;
        }
        skip_blanks(text, at);
        *at += 2;
    }
}

/// The names that modules pass on by `pub use`, and the path behind each.
fn exports(sources: &Sources) -> BTreeMap<Module, BTreeMap<String, Module>> {
    let mut exports = BTreeMap::<Module, BTreeMap<String, Module>>::new();
    for (module, text) in sources {
        for statement in public_uses(text) {
            for path in expand(statement).0 {
                if let Some(name) = path.last() {
                    exports.entry(module.clone()).or_default().insert(name.clone(), path.clone());
                }
            }
        }
    }
    exports
}

/// What stands after each `pub use`, of whatever visibility.
fn public_uses(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("use ")
        .filter(|(at, _)| is_public_use(text, *at))
        .map(|(at, what)| &text[at + what.len()..])
}

fn is_public_use(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end();
    let line = before.rsplit(['\n', ';', '}']).next().unwrap_or(before).trim_start();
    text[..at].ends_with([' ', '\n']) && line.starts_with("pub")
}

fn graph(sources: &Sources) -> Graph {
    let exports = exports(sources);
    let mut graph = Graph::new();
    for (module, text) in sources {
        let named = names(module, text, sources);
        let named = named.iter().filter_map(|path| resolve(module, path, sources, &exports, 0));
        graph.insert(module.clone(), named.filter(|other| other != module).collect());
    }
    graph
}

/// Every path in a module's text that may lead to a module of the crate.
fn names(module: &Module, text: &str, sources: &Sources) -> Vec<Module> {
    let mut paths = Vec::new();
    let mut last = 0;
    for (at, _) in text.match_indices("::") {
        if at < last {
            continue;
        }
        let head = text[..at].trim_end();
        let start = head.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |before| before + 1);
        let first = &head[start..];
        let of_child = || {
            let child = module.iter().cloned().chain([first.to_owned()]).collect::<Module>();
            sources.contains_key(&child)
        };
        let begins = !head[..start].ends_with(['$', ':']);
        if !begins || !(["crate", "super", "self"].contains(&first) || of_child()) {
            continue;
        }
        let (found, length) = expand(&text[start..]);
        last = start + length;
        // What is passed on counts where it is used.
        let before = text[..start].trim_end();
        let is_passed_on = before.strip_suffix("use").is_some_and(|before| is_public_use(text, before.len()));
        if !is_passed_on {
            paths.extend(found);
        }
    }
    paths
}

/// The module that a path leads to from `from`. `None`: it leads out of the crate.
fn resolve(
    from: &Module,
    path: &[String],
    sources: &Sources,
    exports: &BTreeMap<Module, BTreeMap<String, Module>>,
    depth: u32,
) -> Option<Module> {
    let first = path.first()?.as_str();
    let (mut at, mut rest) = match first {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        _ => (from.clone(), path),
    };
    while let [first, others @ ..] = rest
        && first == "super"
    {
        at.pop();
        rest = others;
    }
    let mut walked = first == "crate" || first == "self" || first == "super";
    while let [first, others @ ..] = rest {
        at.push(first.clone());
        if !sources.contains_key(&at) {
            at.pop();
            break;
        }
        walked = true;
        rest = others;
    }
    if !walked {
        return None;
    }
    match rest.first().and_then(|name| exports.get(&at)?.get(name)) {
        Some(behind) if depth < 8 => resolve(&at, behind, sources, exports, depth + 1).or(Some(at)),
        _ => Some(at),
    }
}

/// The same graph with each folder, and each file beside them, as one.
fn of_folders(graph: &Graph) -> Graph {
    let folder = |module: &Module| module.iter().take(1).cloned().collect::<Module>();
    let mut folders = Graph::new();
    for (module, named) in graph {
        let own = folder(module);
        let others = named.iter().map(&folder).filter(|other| *other != own).collect::<Vec<_>>();
        folders.entry(own).or_default().extend(others);
    }
    folders
}

/// The circles: modules each of which leads to all others.
fn circles(graph: &Graph) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|from| (from, reach(graph, from))).collect();
    let mut circles: Vec<BTreeSet<Module>> = Vec::new();
    for (from, to) in &reached {
        let of_circle =
            to.iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(*from)));
        let circle: BTreeSet<Module> = of_circle.map(|module| (*module).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The modules that `from` leads to in one step or more.
fn reach<'a>(graph: &'a Graph, from: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Module> = graph.get(from).into_iter().flatten().collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(graph.get(module).into_iter().flatten());
        }
    }
    reached
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

fn compare(name: &str, found: &[BTreeSet<Module>], listed: &[Vec<String>], findings: &mut Findings) {
    let found: Vec<BTreeSet<String>> =
        found.iter().map(|circle| circle.iter().map(shown).collect()).collect();
    for circle in &found {
        if !listed.iter().any(|listed| circle.iter().all(|module| listed.contains(module))) {
            let modules = circle.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            findings.push(format!(
                "crates/{name}: {modules} name each other in a circle; move what they share down"
            ));
        }
    }
    for module in listed.iter().flatten() {
        if !found.iter().any(|circle| circle.contains(module)) {
            findings.push(format!(
                "xtask/tidy.toml: {name}/{module} is in no circle any more; take it out of [circles]"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let sources: Sources =
            sources.iter().map(|(path, text)| (module(path), without_tests(rust::blank(text)))).collect();
        let shown = |circle: BTreeSet<Module>| circle.iter().map(shown).collect::<Vec<_>>().join(" ");
        circles(&graph(&sources)).into_iter().map(shown).collect()
    }

    #[test]
    fn a_circle_of_three_is_found_through_braces() {
        let sources = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::{b::{One, Two}, d};"),
            ("b", "fn f() { crate::c::g() }"),
            ("c", "use super::a;"),
            ("d", "use std::fmt;"),
        ];
        assert_eq!(found(&sources), ["a b c"]);
    }

    #[test]
    fn what_a_folder_passes_on_counts_for_the_file_behind() {
        let sources = [
            ("", ""),
            ("x", "pub(crate) use p::P;\nmod p; mod q;"),
            ("x/p", "use super::q::Q;"),
            ("x/q", ""),
        ];
        assert!(found(&sources).is_empty());
        let back =
            [("", ""), ("x", "pub(crate) use p::P;"), ("x/p", "use super::q::Q;"), ("x/q", "use super::P;")];
        assert_eq!(found(&back), ["x/p x/q"]);
    }

    #[test]
    fn a_parent_that_uses_its_child_is_in_a_circle_with_it() {
        let sources = [("", ""), ("x", "use p::P; struct S(P);"), ("x/p", "use super::S;")];
        assert_eq!(found(&sources), ["x x/p"]);
    }

    #[test]
    fn tests_comments_and_macros_for_others_do_not_count() {
        let sources = [
            ("", ""),
            ("a", "use crate::b;"),
            (
                "b",
                "// crate::a\nmacro_rules! m { () => { $crate::a::f() } }\n#[cfg(test)]\nmod tests {\n use crate::a;\n}\n",
            ),
        ];
        assert!(found(&sources).is_empty());
    }

    #[test]
    fn a_list_that_is_too_long_or_too_short_is_found() {
        let circle = BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned()]]);
        let list = |names: &[&str]| vec![names.iter().map(ToString::to_string).collect::<Vec<_>>()];
        let count = |listed: &[Vec<String>]| {
            let mut findings = Findings::new();
            compare("x", std::slice::from_ref(&circle), listed, &mut findings);
            findings.len()
        };
        assert_eq!(count(&list(&["a", "b"])), 0);
        assert_eq!(count(&list(&["a"])), 1);
        assert_eq!(count(&list(&["a", "b", "c"])), 1);
        assert_eq!(count(&[]), 1);
    }

    #[test]
    fn folders_count_as_one() {
        let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
        let graph = Graph::from([
            (module("a/x"), BTreeSet::from([module("a/y")])),
            (module("a/y"), BTreeSet::from([module("a/x"), module("b")])),
            (module("b"), BTreeSet::new()),
        ]);
        assert!(circles(&of_folders(&graph)).is_empty());
    }
}
