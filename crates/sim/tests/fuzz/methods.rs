//! Which public methods of `Process` and of its chapters (`windows`, `collectives`, `survivors`) no fault run
//! calls. Each of them needs a reason in `uncalled.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The types whose methods are looked at, and how a method of each is called in `uncalled.txt`.
const TYPES: [(&str, &str); 4] =
    [("Process", ""), ("Windows", "windows."), ("Collectives", "collectives."), ("Survivors", "survivors.")];

/// Public methods of these types.
#[derive(Default)]
struct Public(BTreeSet<String>);

impl<'ast> Visit<'ast> for Public {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let is_of = |name: &str| of.path.segments.last().is_some_and(|segment| segment.ident == name);
        let Some((_, prefix)) = TYPES.iter().find(|(name, _)| item.trait_.is_none() && is_of(name)) else {
            return;
        };
        for member in &item.items {
            if let syn::ImplItem::Fn(function) = member
                && matches!(function.vis, syn::Visibility::Public(_))
                && !function.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"))
            {
                self.0.insert(format!("{prefix}{}", function.sig.ident));
            }
        }
    }
}

/// Methods called on something named `process`, or on `self.nodes[…].0`.
#[derive(Default)]
struct Called(BTreeSet<String>);

fn is_process(receiver: &syn::Expr) -> bool {
    match receiver {
        syn::Expr::Path(path) => path.path.is_ident("process"),
        syn::Expr::Field(field) => match (&*field.base, &field.member) {
            (syn::Expr::Index(index), syn::Member::Unnamed(place)) if place.index == 0 => {
                matches!(&*index.expr, syn::Expr::Field(nodes)
                    if matches!(&nodes.member, syn::Member::Named(name) if name == "nodes"))
            }
            _ => false,
        },
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Called {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if is_process(&call.receiver) {
            self.0.insert(call.method.to_string());
        }
        if let syn::Expr::MethodCall(chapter) = &*call.receiver
            && is_process(&chapter.receiver)
        {
            self.0.insert(format!("{}.{}", chapter.method, call.method));
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        let segments: Vec<String> =
            expression.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., of, function] = &segments[..]
            && of == "Process"
        {
            self.0.insert(function.clone());
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn visit(folder: &str, mut visitor: impl FnMut(&syn::File)) {
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
        let text = std::fs::read_to_string(&path).unwrap();
        visitor(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
}

#[test]
fn every_method_of_process_is_called_or_has_a_reason() {
    let (mut public, mut called) = (Public::default(), Called::default());
    visit("../core/src", |file| public.visit_file(file));
    visit("src/fuzz", |file| called.visit_file(file));
    assert!(public.0.contains("isend") && called.0.contains("isend"), "the sources have moved");
    let entry = |line: &'static str| line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}"));
    let reasons: BTreeMap<&str, &str> = include_str!("uncalled.txt").lines().map(entry).collect();
    let uncalled: BTreeSet<&str> = public.0.difference(&called.0).map(String::as_str).collect();
    let listed: BTreeSet<&str> = reasons.keys().copied().collect();
    let without_reason: Vec<_> = uncalled.difference(&listed).collect();
    assert!(
        without_reason.is_empty(),
        "no fault run calls {without_reason:?}: call them or list them in uncalled.txt"
    );
    let stale: Vec<_> = listed.difference(&uncalled).collect();
    assert!(stale.is_empty(), "remove from uncalled.txt, for they are called or gone: {stale:?}");
}
