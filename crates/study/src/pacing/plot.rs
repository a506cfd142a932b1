//! Plots in the paper's form: a panel for each number of nodes (or rank order), pacing effect over gap, a
//! line for each length. The text of a plot depends on the curves alone.

use anyhow::Context as _;
use plotters::prelude::*;

use super::curves::{Curve, length};

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Width and height of a panel. Coordinates are whole numbers, so panels are larger than they are shown.
const PANEL: (u32, u32) = (600, 440);
const TITLE_HEIGHT: u32 = 60;
const TITLE_FONT: (&str, u32) = ("sans-serif", 28);
const FONT: (&str, u32) = ("sans-serif", 22);
const COLUMNS: usize = 3;
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xd1, 0x49, 0x5b),
    RGBColor(0x2e, 0x8b, 0x57),
    RGBColor(0xe0, 0x9f, 0x3e),
    RGBColor(0x6a, 0x4c, 0x93),
    RGBColor(0x44, 0x44, 0x44),
];

/// A line of a panel: effect over gap.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    /// A curve, named by its length.
    pub(super) fn of(curve: &Curve) -> Line {
        Line { name: length(curve.case.bytes), points: curve.points.clone() }
    }
}

/// A panel's name and its lines.
pub(super) type Panel = (String, Vec<Line>);

/// An SVG image of panels with effects from `effect.0` to `effect.1`. Curves are cut off at the upper end.
pub(super) fn panels(title: &str, panels: &[Panel], effect: (f64, f64)) -> anyhow::Result<String> {
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let size = (COLUMNS as u32 * PANEL.0, rows as u32 * PANEL.1 + TITLE_HEIGHT);
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&root, title, panels, effect).with_context(|| format!("cannot draw {title}"))?;
    drop(root);
    Ok(text)
}

fn draw(root: &Area<'_>, title: &str, panels: &[Panel], effect: (f64, f64)) -> anyhow::Result<()> {
    root.fill(&WHITE)?;
    let title = format!("{title}: time over time without gap, by gap in packet times");
    let below = root.titled(&title, TITLE_FONT)?;
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    for (area, (name, curves)) in below.split_evenly((rows, COLUMNS)).iter().zip(panels) {
        panel(area, name, curves, effect)?;
    }
    root.present()?;
    Ok(())
}

fn panel(area: &Area<'_>, name: &str, all: &[Line], (low, high): (f64, f64)) -> anyhow::Result<()> {
    let gap_max = all.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let mut chart = ChartBuilder::on(area)
        .caption(name, FONT)
        .margin(10)
        .margin_right(24)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..gap_max, low..high)?;
    chart.configure_mesh().label_style(FONT).max_light_lines(0).draw()?;
    chart.draw_series(LineSeries::new([(0.0, 1.0), (gap_max, 1.0)], BLACK.mix(0.4)))?;
    for (number, Line { name, points }) in all.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let style = colour.stroke_width(3);
        let lines = below(points, high).into_iter().map(|line| PathElement::new(line, style));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style);
        chart.draw_series(lines)?.label(name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .label_font(FONT)
        .background_style(WHITE.mix(0.6))
        .draw()?;
    Ok(())
}

/// The parts of a line through these points that lie at or below `high`.
fn below(points: &[(f64, f64)], high: f64) -> Vec<Vec<(f64, f64)>> {
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut line = Vec::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if let Some(&(before_x, before_y)) = index.checked_sub(1).and_then(|before| points.get(before))
            && (before_y <= high) != (y <= high)
        {
            line.push((before_x + (x - before_x) * (high - before_y) / (y - before_y), high));
        }
        match y <= high {
            true => line.push((x, y)),
            false if line.is_empty() => {}
            false => lines.push(std::mem::take(&mut line)),
        }
    }
    lines.extend(Some(line).filter(|line| !line.is_empty()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::curves::tests::curve;

    #[test]
    fn a_panel_for_each_and_a_line_for_each_length() {
        let points = [(0.0, 1.0), (8.0, 0.5), (16.0, 3.0)];
        let curves = [curve(0, 1 << 14, &points), curve(0, 1 << 20, &points), curve(1, 1 << 20, &points)];
        let line = |index: usize| Line::of(&curves[index]);
        let all = [("24 nodes".into(), vec![line(0), line(1)]), ("48 nodes".into(), vec![line(2)])];
        let text = panels("Ring", &all, (0.0, 2.0)).unwrap();
        assert_eq!((text.matches("24 nodes").count(), text.matches("48 nodes").count()), (1, 1));
        assert_eq!((text.matches("16 KiB").count(), text.matches("1 MiB").count()), (1, 2));
        assert!(!text.contains("NaN"));
        assert_eq!(text, panels("Ring", &all, (0.0, 2.0)).unwrap(), "the same curves give the same text");
    }

    #[test]
    fn lines_are_cut_where_they_leave_the_panel() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (3.0, 1.0)];
        let expected = [vec![(0.0, 1.0), (0.5, 2.0)], vec![(2.5, 2.0), (3.0, 1.0)]];
        assert_eq!(below(&points, 2.0), expected);
        assert_eq!(below(&points, 4.0), [points.to_vec()]);
    }
}
