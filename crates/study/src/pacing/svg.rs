//! Plots in the paper's form: one panel a number of nodes (or rank order), pacing effect over gap, one line a length.

use std::fmt::Write as _;

use super::curves::{Curve, length};

const PANEL_WIDTH: f64 = 300.0;
const PANEL_HEIGHT: f64 = 220.0;
const MARGIN: f64 = 40.0;
const TITLE_HEIGHT: f64 = 34.0;
const COLUMNS: usize = 3;
const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#444444"];

/// A panel's name and its curves.
pub(super) type Panel<'a> = (String, Vec<&'a Curve>);

/// Panels from (gap, effect) curves; effects above `effect_max` run out of the panel.
pub(super) fn panels(title: &str, panels: &[Panel<'_>], effect: (f64, f64)) -> String {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (COLUMNS as f64 * PANEL_WIDTH, rows as f64 * PANEL_HEIGHT + TITLE_HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"12\" y=\"20\" \
         font-size=\"14\">{title}: time over time without gap, by gap in packet times</text>\n"
    );
    for (index, (name, curves)) in panels.iter().enumerate() {
        let (column, row) = (index % COLUMNS, index / COLUMNS);
        let (x, y) = (column as f64 * PANEL_WIDTH, TITLE_HEIGHT + row as f64 * PANEL_HEIGHT);
        let _ = writeln!(out, "<g transform=\"translate({x},{y})\">");
        panel(&mut out, index, name, curves, effect);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn panel(
    out: &mut String,
    index: usize,
    name: &str,
    curves: &[&Curve],
    (effect_min, effect_max): (f64, f64),
) {
    let (left, right, top, bottom) = (MARGIN, PANEL_WIDTH - 14.0, 22.0, PANEL_HEIGHT - 40.0);
    let gap_max = curves.iter().map(|curve| curve.last().0).fold(0.0, f64::max).max(1e-9);
    let x = |gap: f64| left + (right - left) * gap / gap_max;
    let y = |effect: f64| bottom - (bottom - top) * (effect - effect_min) / (effect_max - effect_min);
    let _ = writeln!(out, "<text x=\"{left}\" y=\"14\" font-weight=\"bold\">{name}</text>");
    for step in 0..=4 {
        let tick = effect_min + (effect_max - effect_min) * f64::from(step) / 4.0;
        let at = y(tick);
        let _ = writeln!(
            out,
            "<path d=\"M{left} {at:.1}H{right}\" stroke=\"{}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.2}</text>",
            if (tick - 1.0).abs() < 1e-9 { "#888" } else { "#ddd" },
            left - 5.0,
            at + 4.0
        );
        let gap = gap_max * f64::from(step) / 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{gap}</text>",
            x(gap),
            bottom + 14.0
        );
    }
    let _ = writeln!(
        out,
        "<clipPath id=\"p{index}\"><rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/></clipPath>",
        right - left,
        bottom - top
    );
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> =
            curve.points.iter().map(|&(gap, effect)| format!("{:.1},{:.1}", x(gap), y(effect))).collect();
        let _ = writeln!(
            out,
            "<polyline clip-path=\"url(#p{index})\" points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.join(" ")
        );
        let (at, base) = (left + 50.0 * number as f64, PANEL_HEIGHT - 8.0);
        let _ = writeln!(
            out,
            "<text x=\"{at}\" y=\"{base}\" fill=\"{colour}\">{}</text>",
            length(curve.case.bytes)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::curves::tests::curve;

    #[test]
    fn a_panel_for_each_and_a_line_for_each_length() {
        let points = [(0.0, 1.0), (8.0, 0.5), (16.0, 3.0)];
        let curves = [curve(0, 1 << 14, &points), curve(0, 1 << 20, &points), curve(1, 1 << 20, &points)];
        let all = [("24".into(), vec![&curves[0], &curves[1]]), ("48".into(), vec![&curves[2]])];
        let text = panels("Ring", &all, (0.0, 2.0));
        assert_eq!((text.matches("<g ").count(), text.matches("<polyline").count()), (2, 3));
        assert!(text.contains("1 MiB") && !text.contains("NaN"));
    }
}
