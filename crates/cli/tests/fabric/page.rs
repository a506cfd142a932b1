//! The page of `ayatori plan show`, opened and clicked.

use super::browser::{Browser, installed};
use super::{ayatori, machine, text};
use serde_json::json;
use std::path::Path;
use std::sync::OnceLock;

fn shown(name: &str, folder: &Path, more: &[&str]) -> std::path::PathBuf {
    page_of(&machine(name), folder, more)
}

fn page_of(file: &Path, folder: &Path, more: &[&str]) -> std::path::PathBuf {
    let page = folder.join("plan.html");
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
fn hover_shows_a_vlans_tree_and_clicks_show_routes() {
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
    assert!(title.as_str().unwrap().starts_with("Load of links: bytes of "), "{title}");
    browser.click("#loads tr td");
    let hint = browser.value("document.querySelector('#hint').textContent");
    assert!(hint.as_str().unwrap().contains("1500000 bytes"), "{hint}");
    browser.screenshot(&picture("torus-traffic.png"));
}

/// The picture's place on the screen and how near it is.
fn view(browser: &mut Browser) -> (f64, f64, f64) {
    let view = browser.value("[view.k, view.x, view.y]");
    (view[0].as_f64().unwrap(), view[1].as_f64().unwrap(), view[2].as_f64().unwrap())
}

fn middle_of(browser: &mut Browser, switch: usize) -> (f64, f64) {
    browser.middle(&format!("#switch-{switch} circle"))
}

#[test]
fn the_picture_is_moved_and_enlarged_by_mouse_and_keys() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("lab-torus.toml", folder.path(), &[]));
    let fitted = view(&mut browser);
    // The point under the mouse stays there; the mouse's place is in whole pixels, and its error grows with
    // the picture.
    let before = middle_of(&mut browser, 5);
    browser.wheel("#switch-5 circle", 800);
    let near = view(&mut browser);
    let after = middle_of(&mut browser, 5);
    assert!(near.0 > 2.5 * fitted.0, "{near:?} {fitted:?}");
    assert!((before.0 - after.0).abs() < 4.0 && (before.1 - after.1).abs() < 4.0, "{before:?} {after:?}");
    // So near, ports and LAGs are written.
    let ports =
        browser.value("[...document.querySelectorAll('.port')].map((own) => own.textContent).join('|')");
    assert!(ports.as_str().unwrap().contains("1 x 1 Gbit/s"), "{ports}");
    browser.screenshot(&picture("torus-near.png"));

    // Dragging moves it, and is no click.
    browser.drag((after.0, after.1), (-120.0, 40.0));
    let moved = middle_of(&mut browser, 5);
    assert!(
        (moved.0 - after.0 + 120.0).abs() < 7.0 && (moved.1 - after.1 - 40.0).abs() < 7.0,
        "{after:?} {moved:?}"
    );
    assert_eq!(browser.value("document.querySelectorAll('.switch.chosen').length"), json!(0));
    browser.click("#fit");
    let again = view(&mut browser);
    assert!((again.0 - fitted.0).abs() < 1e-6 && (again.1 - fitted.1).abs() < 0.1, "{again:?} {fitted:?}");

    browser.value("graph.focus()");
    browser.keys(&["+", "+", "ArrowRight"]);
    let near = view(&mut browser);
    assert!((near.0 / fitted.0 - 1.69).abs() < 0.01, "{near:?}");
    browser.keys(&["0"]);
    assert!((view(&mut browser).0 - fitted.0).abs() < 1e-6);

    // From switch to switch by arrows: s0.0 is top left, s1.0 right of it, s1.1 below.
    browser.value("switches[0].group.focus()");
    browser.keys(&["ArrowRight", "ArrowDown", "Enter"]);
    let chosen = browser.value("document.querySelector('.switch.chosen').getAttribute('aria-label')");
    assert_eq!(chosen, json!("s1.1, 2 hosts"));
    // In the lists too.
    browser.value("document.querySelector('#vlans button').focus()");
    browser.keys(&["ArrowDown"]);
    assert_eq!(browser.value("document.activeElement.id"), json!("vlan-102"));
    browser.value("document.querySelector('#loads tr').focus()");
    browser.keys(&["ArrowDown", "Enter"]);
    assert_eq!(browser.value("document.querySelectorAll('.link.chosen').length"), json!(1));
    browser.keys(&["Escape"]);
    assert_eq!(browser.value("document.querySelectorAll('.chosen').length"), json!(0));
}

/// With MSTP no configuration changes: the page has the trees that the instances elect, and the table of
/// loads with them.
#[test]
fn a_failure_of_a_plan_with_mstp_shows_the_elected_trees() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let torus = std::fs::read_to_string(machine("lab-torus.toml")).unwrap();
    let torus =
        torus.replace("\"linux-bridge\"", "\"dell-os6\"").replace("\"dimension-order\"", "\"up-down\"");
    let torus = torus.replace("[plan]\n", "[plan]\nspanning_tree = \"mstp\"\n");
    std::fs::write(&file, torus.replace("dimension_order = [1, 0]\n", "")).unwrap();

    let mut browser = Browser::open(program, &page_of(&file, folder.path(), &[]));
    let told = "document.querySelector('#failure-text').textContent";
    let hidden = "document.querySelector('#repair').hidden";
    browser.type_into("#failure", "link s0.0 - s1.0");
    let broken = browser.value(told);
    let end =
        "MSTP then elects other links by itself. The page does not have them: ayatori plan show --failures.";
    assert!(broken.as_str().unwrap().ends_with(end), "{broken}");
    assert_eq!(browser.value(hidden), json!(true));

    let mut browser = Browser::open(program, &page_of(&file, folder.path(), &["--failures"]));
    let trees = "plan.vlans.map(({ vid, tree }) => [vid, tree])";
    let planned = browser.value(trees);
    browser.type_into("#failure", "link s0.0 - s1.0");
    let broken = browser.value(told);
    assert!(broken.as_str().unwrap().ends_with("MSTP then elects other links by itself."), "{broken}");
    assert_eq!(browser.value(hidden), json!(false));
    browser.click("#repair");
    let elected = browser.value(told);
    let elected = elected.as_str().unwrap();
    assert!(
        elected.starts_with("Elected by MSTP without link s0.0 - s1.0: 0 pairs cannot talk; "),
        "{elected}"
    );
    assert!(elected.ends_with("; nothing is configured again."), "{elected}");
    assert_eq!(browser.value("document.querySelectorAll('.switch.changed').length"), json!(0));
    // The same VLANs, on trees of all eight switches without the link, which some of them had.
    let wrong = "plan.vlans.some(({ tree }) => tree.includes(0) || tree.length !== 7)";
    assert_eq!(browser.value(wrong), json!(false));
    assert_ne!(browser.value(trees), planned);
    browser.screenshot(&picture("torus-elected.png"));
    browser.click("#whole");
    assert_eq!(browser.value(trees), planned);
}

/// The numbers are those of `ayatori lab --verify` on the same machine (docs/lab.md): 56 pairs lost, 6
/// switches.
#[test]
fn a_failure_shows_what_breaks_and_the_repair() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("lab-torus.toml", folder.path(), &["--failures"]));
    browser.type_into("#failure", "link s0.0 - s1.0");
    let told = browser.value("document.querySelector('#failure-text').textContent");
    assert!(told.as_str().unwrap().ends_with("56 ordered pairs of hosts cannot talk."), "{told}");
    assert_eq!(browser.value("document.querySelectorAll('.link.failed').length"), json!(1));
    browser.screenshot(&picture("torus-broken.png"));
    browser.click("#repair");
    let told = browser.value("document.querySelector('#failure-text').textContent");
    assert!(told.as_str().unwrap().contains(": 0 pairs cannot talk; busiest link "), "{told}");
    assert!(told.as_str().unwrap().contains("free of deadlock; 6 switches configured again: "), "{told}");
    assert_eq!(browser.value("document.querySelectorAll('.switch.changed').length"), json!(6));
    // No repaired tree uses what failed, and each reaches all eight switches.
    assert_eq!(
        browser.value("plan.vlans.some(({ tree }) => tree.includes(0) || tree.length !== 7)"),
        json!(false)
    );
    browser.screenshot(&picture("torus-repaired.png"));
    browser.type_into("#failure", "switch s2.1");
    let told = browser.value("document.querySelector('#failure-text').textContent");
    assert!(told.as_str().unwrap().contains("2 hosts are cut off"), "{told}");
    browser.type_into("#failure", "switch nowhere");
    assert_eq!(browser.value("document.querySelector('#failure').classList.contains('wrong')"), json!(true));
    browser.click("#whole");
    assert_eq!(browser.value("document.querySelector('#failure-box').hidden && plan === whole"), json!(true));
}

/// A file that another program can draw: no rule or variable of the page is needed.
#[test]
fn the_picture_is_exported_as_svg() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("lab-torus.toml", folder.path(), &[]));
    let svg = browser.value("exportedSvg()").as_str().unwrap().to_owned();
    for (what, count) in [("var(--", 0), ("class=", 0), ("<circle", 8), ("calc(", 0)] {
        assert_eq!(svg.matches(what).count(), count, "{what}");
    }
    let file = folder.path().join("torus.svg");
    std::fs::write(&file, &svg).unwrap();
    let mut alone = Browser::open(program, &file);
    assert_eq!(alone.value("document.documentElement.tagName"), json!("svg"));
    let drawn = "[...document.querySelectorAll('path')].filter((own) => own.getBoundingClientRect().width + \
                 own.getBoundingClientRect().height > 20).length";
    assert!(alone.value(drawn).as_u64().unwrap() >= 24, "two lines a link");
    alone.screenshot(&picture("torus-exported.png"));
}

#[test]
fn fingers_move_and_enlarge_the_picture_on_a_phone() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(program, &shown("supernova.toml", folder.path(), &[]));
    browser.become_phone();
    browser.value("fit()");
    assert_eq!(
        browser.value("document.documentElement.scrollWidth <= 390"),
        json!(true),
        "nothing is cut off"
    );
    let fitted = view(&mut browser);
    browser.screenshot(&picture("phone.png"));
    browser.touch(&[(150.0, 200.0), (240.0, 200.0)], &[(60.0, 200.0), (330.0, 200.0)]);
    let near = view(&mut browser);
    assert!((near.0 / fitted.0 - 3.0).abs() < 0.2, "{near:?} {fitted:?}");
    browser.touch(&[(200.0, 250.0)], &[(140.0, 300.0)]);
    let moved = view(&mut browser);
    assert!(
        (moved.1 - near.1 + 60.0).abs() < 8.0 && (moved.2 - near.2 - 50.0).abs() < 8.0,
        "{near:?} {moved:?}"
    );
    browser.value("fit()");
    // A tap is the browser's to make a click of.
    browser.click("#switch-3 circle");
    assert_eq!(browser.value("document.querySelectorAll('.switch.chosen').length"), json!(1));
    browser.click("#vlans button");
    assert_eq!(browser.value("document.querySelectorAll('button[aria-pressed=true]').length"), json!(1));
}

/// 64 and 256 switches; the small machines above have eight.
#[test]
fn large_machines_are_drawn_whole() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("torus-64", "kind = \"torus\"\nextents = [8, 8]", 64, 128),
        ("dragonfly-256", "kind = \"dragonfly\"\ngroup_size = 8\nglobal_ports = 4\ngroups = 32", 256, 1392),
        ("mesh-256", "kind = \"mesh\"\nextents = [16, 16]", 256, 480),
    ];
    for (name, topology, switch_count, link_count) in cases {
        let text = format!(
            "name = \"{name}\"\n[switch_models.s]\nports = 48\nrate_gbps = 1\nvlans_max = 1000\n\
             mac_table_max = 1000000\ndialect = \"linux-bridge\"\n[host_models.h]\n\
             nic = [{{ name = \"eth0\", rate_gbps = 1 }}]\n[topology]\n{topology}\nswitch_model = \"s\"\n\
             [hosts]\nmodel = \"h\"\nper_switch = 1\n\
             [plan]\nvlans = \"per-source\"\n"
        );
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        let page = folder.path().join(format!("{name}.html"));
        let output = ayatori(&["plan", "show", file.to_str().unwrap(), "--html", page.to_str().unwrap()]);
        assert!(output.status.success(), "{}", super::text(&output.stderr));
        let mut browser = Browser::open(program, &page);
        assert_eq!(browser.value("document.querySelectorAll('.switch').length"), json!(switch_count));
        assert_eq!(browser.value("document.querySelectorAll('.link').length"), json!(link_count));
        // All inside the picture, none on another.
        let inside = "(() => { const { left, top, right, bottom } = box(); \
                      return switches.every(({ circle }) => { const own = circle.getBoundingClientRect(); \
                      return own.left >= left && own.top >= top && own.right <= right && \
                      own.bottom <= bottom; }); })()";
        assert_eq!(browser.value(inside), json!(true), "{name}");
        assert_eq!(browser.value("2 * radius < nearest * view.k"), json!(true), "{name}");
        browser.screenshot(&picture(&format!("{name}.png")));
        // The list of VLANs scrolls.
        let scrolls = "plan.vlans.length < 30 || \
             byId('vlans').scrollHeight > byId('vlans').clientHeight && byId('vlans').clientHeight <= 170";
        assert_eq!(browser.value(scrolls), json!(true), "{name}");
        browser.wheel("#switch-20 circle", 2200);
        browser.click("#switch-20 circle");
        browser.screenshot(&picture(&format!("{name}-near.png")));
        assert_eq!(browser.value("document.querySelectorAll('.port').length > 3"), json!(true), "{name}");
    }
}

/// The page of all studies with the repository's results of packet pacing, and how many charts those name.
/// Made once, as that takes seconds.
fn studies() -> &'static (String, usize) {
    static PAGE: OnceLock<(String, usize)> = OnceLock::new();
    PAGE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (machine("../studies/pacing"), folder.path().join("pacing"));
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(&from).unwrap() {
            let name = entry.unwrap().file_name();
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
        let report = std::fs::read_to_string(to.join("report.md")).unwrap();
        let output = ayatori(&["study", "all", "--out", folder.path().to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
        (page, report.matches(".svg)").count())
    })
}

/// The page alone in a folder, opened.
fn opened_studies(program: &str, folder: &Path) -> Browser {
    let page = folder.join("page.html");
    std::fs::write(&page, &studies().0).unwrap();
    Browser::open(program, &page)
}

#[test]
fn all_studies_stand_on_one_page_with_their_charts() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = opened_studies(program, folder.path());
    let sections = "[...document.querySelectorAll('section')].map(section => section.id).join()";
    assert_eq!(browser.value(sections), json!("trunking,cenju3,vlan,pacing,comet"));
    // Each chart is drawn: it has a size and lines in it.
    let drawn = "[...document.querySelectorAll('section svg')].filter(svg => svg.clientWidth > 100 && \
                 svg.querySelectorAll('polyline').length > 2).length";
    assert_eq!(browser.value(drawn), json!(9 + studies().1));
    let nothing = "document.querySelectorAll('script, img, link, pre').length + \
                   performance.getEntriesByType('resource').length";
    assert_eq!(browser.value(nothing), json!(0));
    let markup =
        "[/\\|---/, /\\*\\*/, /^#/m, /\\]\\(/].filter(mark => mark.test(document.body.innerText)).length";
    assert_eq!(browser.value(markup), json!(0));
    browser.screenshot(&picture("studies.png"));
    browser.value("document.querySelector('#pacing').scrollIntoView()");
    browser.screenshot(&picture("studies-pacing.png"));
    browser.become_phone();
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 390"), json!(true));
}

/// The summary's counts are those of the sections' tables.
#[test]
fn the_page_of_all_studies_sums_up_its_sections() {
    let Some(program) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut browser = opened_studies(program, folder.path());
    let row = "row => [row.querySelector('a').hash.slice(1), ...[1, 2, 3].map(at => \
               Number(row.querySelectorAll('td.count')[at - 1].textContent))]";
    let summary = format!("[...document.querySelectorAll('#summary tr')].slice(1).map({row})");
    let counted = "[...document.querySelectorAll('section')].map(section => [section.id, \
                   ...['same', 'partly', 'differs'].map(verdict => [...section.querySelectorAll('tr')].filter( \
                   row => row.querySelector('.' + verdict) && row.cells[0].firstChild.nodeName != 'EM').length)])";
    let (summary, mut counted) = (browser.value(&summary), browser.value(counted));
    // Of tables 2 and 7 the section shows both numbers and no verdict: three figures of six topologies.
    let vlan = counted.as_array_mut().unwrap().iter_mut().find(|row| row[0] == "vlan").unwrap();
    vlan[1] = json!(vlan[1].as_u64().unwrap() + 18);
    assert_eq!(summary, counted);
    let worst =
        "document.querySelector('#summary a[href=\"#comet\"]').closest('tr').querySelector('li').textContent";
    let worst = browser.value(worst);
    assert!(worst.as_str().unwrap().ends_with(" %: Comet-NP, 1000 B"), "{worst}");
}
