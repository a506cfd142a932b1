//! Line charts, as SVG text that depends on the points alone.

use anyhow::Context as _;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 600);
const FONT: (&str, u32) = ("sans-serif", 20);
const TITLE_FONT: (&str, u32) = ("sans-serif", 26);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xd1, 0x49, 0x5b),
    RGBColor(0x2e, 0x8b, 0x57),
    RGBColor(0xe0, 0x9f, 0x3e),
    RGBColor(0x6a, 0x4c, 0x93),
    RGBColor(0x44, 0x44, 0x44),
    RGBColor(0x17, 0xa2, 0xb8),
    RGBColor(0x8c, 0x56, 0x4b),
];

/// A line and its name.
pub(crate) type Line = (String, Vec<(f64, f64)>);

/// What stands at the axes.
pub(crate) struct Axes<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    /// Whether lengths double along x.
    pub(crate) is_logarithmic: bool,
}

/// A chart from zero upwards.
pub(crate) fn lines(axes: &Axes<'_>, lines: &[Line]) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(0.0, f64::max).max(1e-9);
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min).max(1e-9);
    let (x_max, y_max) = (most(|point| point.0), 1.05 * most(|point| point.1));
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let drawn = if axes.is_logarithmic {
        draw(&root, axes, lines, (least.min(x_max / 2.0)..x_max).log_scale(), y_max)
    } else {
        draw(&root, axes, lines, 0.0..x_max, y_max)
    };
    drawn.with_context(|| format!("cannot draw {}", axes.title))?;
    drop(root);
    Ok(text)
}

fn draw<X>(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    axes: &Axes<'_>,
    lines: &[Line],
    x: X,
    y_max: f64,
) -> anyhow::Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(axes.title, TITLE_FONT)
        .margin(14)
        .margin_right(30)
        .x_label_area_size(56)
        .y_label_area_size(84)
        .build_cartesian_2d(x, 0.0..y_max)?;
    chart
        .configure_mesh()
        .label_style(FONT)
        .axis_desc_style(FONT)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|value| short(*value))
        .max_light_lines(0)
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let style = COLOURS[number % COLOURS.len()].stroke_width(3);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?.label(name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(FONT)
        .background_style(WHITE.mix(0.7))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A length as people say it.
fn short(value: f64) -> String {
    match value {
        1_000_000.0.. => format!("{:.0}M", value / 1e6),
        1_000.0.. => format!("{:.0}k", value / 1e3),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_lines_and_is_the_same_again() {
        let axes = Axes { title: "T", x: "bytes", y: "GB/s", is_logarithmic: true };
        let both = [("alpha".into(), vec![(8.0, 1.0), (4_096.0, 3.0)]), ("beta".into(), vec![(8.0, 2.0)])];
        let text = lines(&axes, &both).unwrap();
        assert_eq!((text.matches("alpha").count(), text.matches("GB/s").count()), (1, 1));
        assert!(!text.contains("NaN"));
        assert_eq!(text, lines(&axes, &both).unwrap());
    }
}
