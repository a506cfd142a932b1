//! Every page of `docs/` is in the book's summary, and every link of a page leads somewhere: to a file of the
//! repository, and to a heading of it where the link names one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Findings;
use crate::paths;

const SUMMARY: &str = "docs/SUMMARY.md";

/// What other pages can say of a page.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

pub(super) fn check(files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        pages.insert(file.clone(), page(&std::fs::read_to_string(paths::root().join(file))?));
    }
    let exists = |path: &Path| paths::root().join(path).exists();
    check_pages(&pages, &exists, findings);
    Ok(())
}

fn check_pages(pages: &BTreeMap<PathBuf, Page>, exists: &dyn Fn(&Path) -> bool, findings: &mut Findings) {
    for (file, page) in pages {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { Some(file.clone()) } else { resolved(file, path) };
            let Some(target) = target.filter(|target| exists(target)) else {
                findings.push(format!("{}: the link {link} leads to no file", file.display()));
                continue;
            };
            let has_anchor = pages.get(&target).is_none_or(|page| page.anchors.contains(anchor));
            if !anchor.is_empty() && !has_anchor {
                findings.push(format!("{}: the link {link} leads to no heading", file.display()));
            }
        }
    }
    let Some(summary) = pages.get(Path::new(SUMMARY)) else { return };
    let listed: BTreeSet<PathBuf> =
        summary.links.iter().filter_map(|link| resolved(Path::new(SUMMARY), link)).collect();
    for file in pages.keys().filter(|file| file.starts_with("docs") && *file != Path::new(SUMMARY)) {
        if !listed.contains(file) {
            findings.push(format!("{}: is not in {SUMMARY}; add a line there", file.display()));
        }
    }
}

/// A relative link of a page, from the root; `None` if it leaves the repository.
fn resolved(file: &Path, link: &str) -> Option<PathBuf> {
    let mut path = file.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if !path.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

fn page(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|text| anchor(&text))),
            Event::Text(words) | Event::Code(words) => {
                heading.iter_mut().for_each(|heading| *heading += &words);
            }
            _ => {}
        }
    }
    page
}

/// A heading's name in a link, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(texts: &[(&str, &str)]) -> Findings {
        let pages: BTreeMap<PathBuf, Page> =
            texts.iter().map(|(name, text)| (PathBuf::from(name), page(text))).collect();
        let mut findings = Findings::new();
        check_pages(&pages, &|path| pages.contains_key(path), &mut findings);
        findings
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let summary = ("docs/SUMMARY.md", "[a](a.md)");
        let ok = "# One way\n[here](#one-way) [up](../README.md#so-it-is) <https://example.org/x>";
        assert!(findings(&[summary, ("docs/a.md", ok), ("README.md", "## So `it` is!")]).is_empty());
        let broken = "[b](b.md) [c](#two) [d](../../etc/passwd)\n\n```\n[not a link](x.md)\n```\n";
        let found = findings(&[summary, ("docs/a.md", broken)]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].contains("#two leads to no heading"), "{found:?}");
    }

    #[test]
    fn a_page_outside_the_summary_is_named() {
        let found = findings(&[("docs/SUMMARY.md", "[a](a.md)"), ("docs/a.md", ""), ("docs/b.md", "")]);
        assert_eq!(found, ["docs/b.md: is not in docs/SUMMARY.md; add a line there"]);
    }
}
