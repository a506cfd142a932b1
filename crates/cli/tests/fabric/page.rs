//! The page of `ayatori plan show`, opened and clicked.

use super::browser::{Browser, installed};
use super::{ayatori, machine, text};
use serde_json::json;
use std::path::Path;

fn shown(name: &str, folder: &Path, more: &[&str]) -> std::path::PathBuf {
    let page = folder.join("plan.html");
    let file = machine(name);
    let show = ["plan", "show", file.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let output = ayatori(&[&show, more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    page
}

/// Where a person finds the pictures: `target/…/screenshots`.
fn picture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots").join(name)
}

#[test]
fn a_vlans_tree_and_the_routes_of_two_hosts_are_shown_on_hover_and_click() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("lab-torus.toml", folder.path(), &[]));
    assert_eq!(browser.value("document.querySelectorAll('.switch').length"), json!(8));
    let link_count = browser.value("document.querySelectorAll('.link').length");
    assert_eq!(browser.value("document.querySelectorAll('.link.tree').length"), json!(0));

    // Eight switches in a tree have seven links.
    browser.hover("#vlan-102");
    assert_eq!(browser.value("document.querySelectorAll('.link.tree').length"), json!(7));
    browser.hover("#machine");
    assert_eq!(
        browser.value("document.querySelectorAll('.link.tree').length"),
        json!(0),
        "hovering keeps nothing"
    );
    browser.click("#vlan-103");
    browser.hover("#machine");
    assert_eq!(browser.value("document.querySelectorAll('.link.tree').length"), json!(7), "a click keeps it");
    assert_eq!(
        browser.value("document.querySelector('#vlan-103').getAttribute('aria-pressed')"),
        json!("true")
    );
    browser.screenshot(&picture("torus-vlan.png"));

    browser.type_into("#from", "node0");
    browser.type_into("#to", "node13");
    let there = browser.value("document.querySelector('#there').textContent");
    let back = browser.value("document.querySelector('#back').textContent");
    assert!(there.as_str().unwrap().starts_with("node0 to node13: VLAN 101"), "{there}");
    assert!(back.as_str().unwrap().starts_with("node13 to node0: VLAN "), "{back}");
    let drawn = "[...document.querySelectorAll('.way-line')].length > 0";
    assert_eq!(browser.value(drawn), json!(true));
    browser.click("#switch-0 circle");
    let hint = browser.value("document.querySelector('#hint').textContent");
    assert!(hint.as_str().unwrap().contains("2 hosts: node0, node1. They send on VLAN 101."), "{hint}");
    browser.screenshot(&picture("torus-routes.png"));

    browser.type_into("#to", "nobody");
    assert_eq!(browser.value("document.querySelectorAll('.way-line').length"), json!(0));
    assert_eq!(browser.value("document.querySelector('#to').classList.contains('wrong')"), json!(true));

    browser.click("#loads tr td");
    assert_eq!(browser.value("document.querySelectorAll('.link.chosen').length"), json!(1));
    assert!(link_count.as_u64().unwrap() >= 12, "{link_count}");
}

/// Every flow crosses as many links as its route has, so the sum of the loads is the sum of the distances.
#[test]
fn the_loads_on_the_page_add_up_to_all_routes() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("misc.toml", folder.path(), &[]));
    browser.screenshot(&picture("misc.png"));
    // 66 hosts, complete: each of the 6 x 5 directions carries 11 x 11 flows.
    let sum = browser.value("flows.flat().reduce((sum, count) => sum + count, 0)");
    assert_eq!(sum, json!(6 * 5 * 11 * 11));
    assert_eq!(browser.value("Math.max(...flows.flat())"), json!(121));
    let drawn = shown("supernova.toml", folder.path(), &[]);
    let mut browser = Browser::open(program, &drawn);
    browser.click("#vlan-101");
    browser.screenshot(&picture("supernova.png"));
    assert_eq!(browser.value("document.querySelectorAll('.link.tree').length"), json!(7));
}

#[test]
fn a_given_traffic_is_shown_in_the_place_of_all_flows() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job");
    // node0 is at s0.0, node4 at s2.0: two links there.
    std::fs::write(&file, "node0 node4 1500000\n").unwrap();
    let page = shown("lab-torus.toml", folder.path(), &["--traffic", file.to_str().unwrap()]);
    let mut browser = Browser::open(program, &page);
    assert_eq!(browser.value("flows.flat().reduce((sum, count) => sum + count, 0)"), json!(3_000_000));
    let title = browser.value("document.querySelector('#load-title').textContent");
    assert!(title.as_str().unwrap().starts_with("Load of links - bytes of "), "{title}");
    browser.click("#loads tr td");
    let hint = browser.value("document.querySelector('#hint').textContent");
    assert!(hint.as_str().unwrap().contains("1500000 bytes"), "{hint}");
    browser.screenshot(&picture("torus-traffic.png"));
}

#[test]
fn all_studies_stand_on_one_page_with_their_charts() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = ayatori(&["study", "all", "--out", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut browser = Browser::open(program, &folder.path().join("index.html"));
    let sections = "[...document.querySelectorAll('section')].map(section => section.id).join()";
    assert_eq!(browser.value(sections), json!("trunking,cenju3,comet,vlan,pacing"));
    // Each chart is drawn: it has a size and lines in it.
    let drawn = "[...document.querySelectorAll('section svg')].filter(svg => svg.clientWidth > 100 && \
                 svg.querySelectorAll('polyline').length > 2).length";
    assert_eq!(browser.value(drawn), json!(9));
    assert_eq!(browser.value("document.querySelectorAll('#trunking td').length > 50"), json!(true));
}
