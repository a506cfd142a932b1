//! What the paper's text says of one topology beside another, and whether the simulated times have the same
//! order.
//!
//! Figures 3, 4, 6, 7 and 8 are drawings; what the text gives in numbers stands here.

use std::fmt::Write as _;

use super::times::Times;
use crate::report::Table;

/// A benchmark that the paper says is faster on one topology than on another.
struct Said {
    benchmark: &'static str,
    faster: &'static str,
    slower: &'static str,
    /// How many times as fast, from and to.
    times: (f64, f64),
}

const fn said(benchmark: &'static str, faster: &'static str, slower: &'static str, times: f64) -> Said {
    Said { benchmark, faster, slower, times: (times, times) }
}

/// The paper on one of its clusters.
pub(super) struct Paper {
    /// HPL's efficiency, %, best first: variants by their labels.
    efficiencies: &'static [(&'static str, f64)],
    said: &'static [Said],
}

/// Section 4.1: figures 3 and 4.
pub(super) const SUPERNOVA: Paper = Paper {
    // Tree(1) from "93.5 % more" of compl(2).
    efficiencies: &[
        ("complete(2)", 66.7),
        ("torus(3)", 66.3),
        ("complete(1)", 66.0),
        ("tree(6)", 63.8),
        ("mesh(3)", 63.1),
        ("tree(1)", 66.7 / 1.935),
    ],
    said: &[
        said("FT.128", "torus(6)", "tree(6)", 1.636),
        said("IS.128", "torus(6)", "tree(6)", 1.207),
        said("CG.128", "tree(6)", "tree(1)", 5.267),
        said("CG.128", "complete(2)", "tree(1)", 7.544),
        // The quotient of the two above.
        said("CG.128", "complete(2)", "tree(6)", 7.544 / 5.267),
        said("MG.128", "ring(8)", "tree(6)", 2.156),
        said("HPL", "complete(2)", "tree(1)", 1.935),
        said("HPL", "complete(2)", "tree(6)", 66.7 / 63.8),
    ],
};

/// Section 4.2: figures 6 to 8. The NPB ran over one NIC a host.
pub(super) const MISC: Paper = Paper {
    // Complete(5,2) from "38.7 % more" of tree(1,1); tree(5,2) from "a difference of 2.1 %" to that.
    efficiencies: &[
        ("complete(5,2)", 48.2 * 1.387),
        ("tree(5,2)", 48.2 * 1.387 - 2.1),
        ("tree(5,1)", 60.8),
        ("tree(1,1)", 48.2),
    ],
    said: &[
        said("FT.128", "tree(5,1)", "tree(1,1)", 3.319),
        said("MG.64", "tree(5,1)", "tree(1,1)", 4.599),
        Said {
            benchmark: "CG FT IS MG.64",
            faster: "complete(5,1)",
            slower: "tree(5,1)",
            times: (1.524, 3.221),
        },
        Said {
            benchmark: "CG.128",
            faster: "tree(3,1)",
            slower: "complete(1,1)",
            times: (1.0, f64::INFINITY),
        },
        said("HPL", "tree(5,1)", "tree(1,1)", 60.8 / 48.2),
        said("HPL", "complete(5,2)", "tree(1,1)", 1.387),
    ],
};

/// What was simulated, by name.
pub(super) type Measure = (&'static str, fn(&Times) -> Option<f64>);
pub(super) const MEASURES: [Measure; 3] = [
    ("all-to-all", |times| times.all_to_all),
    ("ranks at random hosts", |times| times.placed),
    ("random ring", |times| times.ring),
];

/// The paper's words as a table beside the simulated times, and the order of topologies under it.
pub(super) fn beside(paper: &Paper, times: &[Times]) -> String {
    let mut table = Table::new(
        "How many times as fast the first is as the second",
        &["paper's", "first", "second", "paper", MEASURES[0].0, MEASURES[1].0, MEASURES[2].0],
    );
    for Said { benchmark, faster, slower, times: (least, most) } in paper.said {
        let printed = match (least, most) {
            _ if least == most => format!("{least:.2}"),
            (_, most) if most.is_infinite() => "faster".into(),
            _ => format!("{least:.2} to {most:.2}"),
        };
        let mut row = vec![(*benchmark).into(), (*faster).into(), (*slower).into(), printed];
        row.extend(MEASURES.map(|(_, of)| {
            speedup(times, of, faster, slower).map_or("-".into(), |ratio| format!("{ratio:.2}"))
        }));
        table.rows.push(row);
    }
    let mut text = table.text();
    let said: Vec<String> =
        paper.efficiencies.iter().map(|(label, percent)| format!("{label} {percent:.1} %")).collect();
    let _ = writeln!(text, "Order, best first\n  HPL's efficiency, paper: {}", said.join(", "));
    for (name, of) in MEASURES {
        let (order, same, pairs) = order(paper, times, of);
        let order = order.join(", ");
        let _ = writeln!(text, "  {name}: {order}; {same} of {pairs} pairs in HPL's order");
    }
    text
}

/// How many times as fast the first is as the second.
pub(super) fn speedup(
    times: &[Times],
    of: fn(&Times) -> Option<f64>,
    first: &str,
    second: &str,
) -> Option<f64> {
    let time = |label: &str| times.iter().find(|times| times.label == label).and_then(of);
    Some(time(second)? / time(first)?)
}

/// The variants that the paper gives an efficiency of, the fastest first, and how many pairs of them have the
/// paper's order.
fn order(paper: &Paper, times: &[Times], of: fn(&Times) -> Option<f64>) -> (Vec<&'static str>, usize, usize) {
    let labels: Vec<&'static str> = paper.efficiencies.iter().map(|(label, _)| *label).collect();
    let mut order = labels.clone();
    let time = |label: &str| {
        let found = times.iter().find(|times| times.label == label).and_then(of);
        found.unwrap_or(f64::INFINITY)
    };
    order.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let pairs = (0..labels.len()).flat_map(|a| (a + 1..labels.len()).map(move |b| (a, b)));
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let same = pairs.iter().filter(|&&(a, b)| time(labels[a]) < time(labels[b])).count();
    (order, same, pairs.len())
}
