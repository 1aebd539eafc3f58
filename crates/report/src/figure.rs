//! Figures as SVG text: lines, bars, percentiles, timelines.
//!
//! Every figure names its axes with their units. Text is left to the viewer's fonts, so drawing
//! needs no font file; colours are told apart in print and by the colour-blind (Okabe and Ito).

use crate::Latency;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::fmt::Display;
use std::ops::Range;
use thiserror::Error;

const SIZE: (u32, u32) = (900, 520);
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
];

/// Why there is no figure.
#[derive(Debug, Error)]
pub enum FigureError {
    /// There is nothing to draw: no series has a finite point.
    #[error("nothing to draw: no case was measured")]
    Empty,
    /// Two rows would share a bar.
    #[error("no figure: two rows are both {0}, and one would hide the other")]
    Twice(String),
    /// The drawing library refused.
    #[error("cannot draw the figure: {0}")]
    Drawing(String),
}

fn drawing(e: impl Display) -> FigureError {
    FigureError::Drawing(e.to_string())
}

/// How an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// By powers; what is not above 0 is not drawn.
    Log,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it counts, and the unit.
    pub label: String,
    /// How.
    pub scale: Scale,
}

impl Axis {
    /// An even axis.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Log }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What they are, for the legend.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    Connected,
    Dots,
}

/// One line a series, with a dot at each measured point.
///
/// # Errors
/// [`FigureError::Empty`] if there is no point.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Result<String, FigureError> {
    plane(title, x, y, series, &[], Marks::Connected, &plain)
}

/// A dot for each thing that happened, over time in seconds, with named moments as vertical lines:
/// the figure of a failover.
///
/// # Errors
/// [`FigureError::Empty`] if there is no point.
pub fn timeline(
    title: &str,
    y: &Axis,
    series: &[Series],
    moments: &[(f64, String)],
) -> Result<String, FigureError> {
    plane(title, &Axis::linear("time (s)"), y, series, moments, Marks::Dots, &plain)
}

/// Times by percentile, each nine as wide as the last, in microseconds on a logarithmic axis.
///
/// # Errors
/// [`FigureError::Empty`] if nothing was recorded.
pub fn percentiles(title: &str, latencies: &[(&str, &Latency)]) -> Result<String, FigureError> {
    let series: Vec<Series> = latencies
        .iter()
        .filter(|(_, latency)| latency.count() > 0)
        .map(|(name, latency)| {
            // Further nines than the samples can show would be a picture of the maximum.
            let nines_max = (latency.count() as f64).log10();
            let steps = (nines_max * 20.0) as u32;
            let points = (0..=steps).map(|step| {
                let nines = f64::from(step) / 20.0;
                let percent = 100.0 * (1.0 - 10f64.powf(-nines));
                (nines, latency.percentile_ns(percent) as f64 / 1e3)
            });
            Series { name: (*name).to_owned(), points: points.collect() }
        })
        .collect();
    let nines = |nines: &f64| match nines.round() as i32 {
        // Between two whole nines there is no short name.
        _ if (nines - nines.round()).abs() > 1e-6 => String::new(),
        0 => "0".to_owned(),
        1 => "90".to_owned(),
        2 => "99".to_owned(),
        n => format!("99.{}", "9".repeat(n as usize - 2)),
    };
    let (x, y) = (Axis::linear("percentile"), Axis::log("time (us)"));
    plane(title, &x, &y, &series, &[], Marks::Connected, &nines)
}

/// Groups of bars, one bar a series in each group: `series[s].1[g]` is the bar of series `s` in
/// group `g`.
///
/// # Errors
/// [`FigureError::Empty`] if there is no bar.
pub fn bars(
    title: &str,
    y: &Axis,
    groups: &[String],
    series: &[(String, Vec<f64>)],
) -> Result<String, FigureError> {
    let heights = series.iter().flat_map(|(_, heights)| heights).copied();
    let range = range(heights, y.scale).ok_or(FigureError::Empty)?;
    let width = 0.8 / series.len() as f64;
    let floor = range.start;
    let boxes: Vec<Boxes> = series
        .iter()
        .enumerate()
        .map(|(n, (name, heights))| {
            let bar = |(group, height): (usize, &f64)| {
                let left = group as f64 - 0.4 + width * n as f64;
                [(left, floor), (left + 0.92 * width, height.max(floor))]
            };
            let drawn = heights.iter().enumerate().filter(|(_, height)| height.is_finite());
            Boxes { name, boxes: drawn.map(bar).collect() }
        })
        .collect();
    let name = |at: &f64| {
        let is_group = (at - at.round()).abs() < 1e-6 && at.round() >= 0.0;
        let group = is_group.then(|| groups.get(at.round() as usize)).flatten();
        group.cloned().unwrap_or_default()
    };
    let span = -0.5..groups.len().max(1) as f64 - 0.5;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        let mut builder = frame(&area, title);
        let labels = groups.len().max(1) * 2 + 1;
        let x = Axis::linear("");
        match y.scale {
            Scale::Linear => {
                let mut chart = builder.build_cartesian_2d(span, range).map_err(drawing)?;
                mesh(&mut chart, &x, y, &name, labels)?;
                draw_boxes(&mut chart, &boxes)?;
            }
            Scale::Log => {
                let log = range.log_scale();
                let mut chart = builder.build_cartesian_2d(span, log).map_err(drawing)?;
                mesh(&mut chart, &x, y, &name, labels)?;
                draw_boxes(&mut chart, &boxes)?;
            }
        }
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// The bars of one series, by their corners.
struct Boxes<'a> {
    name: &'a str,
    boxes: Vec<[(f64, f64); 2]>,
}

fn plane(
    title: &str,
    x: &Axis,
    y: &Axis,
    series: &[Series],
    moments: &[(f64, String)],
    marks: Marks,
    x_label: &dyn Fn(&f64) -> String,
) -> Result<String, FigureError> {
    let points = || series.iter().flat_map(|series| &series.points);
    let at = points().map(|(x, _)| *x).chain(moments.iter().map(|(x, _)| *x));
    let xs = range(at, x.scale).ok_or(FigureError::Empty)?;
    let ys = range(points().map(|(_, y)| *y), y.scale).ok_or(FigureError::Empty)?;
    let content = Content { series, moments, marks, x, y, ys: ys.clone() };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(drawing)?;
        match (x.scale, y.scale) {
            (Scale::Linear, Scale::Linear) => content.draw(&area, title, xs, ys, x_label)?,
            (Scale::Linear, Scale::Log) => {
                content.draw(&area, title, xs, ys.log_scale(), x_label)?;
            }
            (Scale::Log, Scale::Linear) => {
                content.draw(&area, title, xs.log_scale(), ys, x_label)?;
            }
            (Scale::Log, Scale::Log) => {
                content.draw(&area, title, xs.log_scale(), ys.log_scale(), x_label)?;
            }
        }
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

struct Content<'a> {
    series: &'a [Series],
    moments: &'a [(f64, String)],
    marks: Marks,
    x: &'a Axis,
    y: &'a Axis,
    ys: Range<f64>,
}

impl Content<'_> {
    fn draw<X, Y>(
        &self,
        area: &Area<'_>,
        title: &str,
        xs: X,
        ys: Y,
        x_label: &dyn Fn(&f64) -> String,
    ) -> Result<(), FigureError>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = frame(area, title).build_cartesian_2d(xs, ys).map_err(drawing)?;
        mesh(&mut chart, self.x, self.y, x_label, 11)?;
        for (at, name) in self.moments {
            let (bottom, top) = ((*at, self.ys.start), (*at, self.ys.end));
            let grey = RGBColor(120, 120, 120);
            chart.draw_series(LineSeries::new([bottom, top], grey)).map_err(drawing)?;
            let text = Text::new(name.clone(), top, ("sans-serif", 14).into_font().color(&grey));
            chart.draw_series([text]).map_err(drawing)?;
        }
        let is_drawn = |(x, y): &(f64, f64)| {
            let fits =
                |n: f64, axis: &Axis| n.is_finite() && (axis.scale == Scale::Linear || n > 0.0);
            fits(*x, self.x) && fits(*y, self.y)
        };
        for (n, series) in self.series.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let points: Vec<(f64, f64)> = series.points.iter().copied().filter(is_drawn).collect();
            if self.marks == Marks::Connected {
                let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
                chart.draw_series(line).map_err(drawing)?;
            }
            // Dots on a dense line are a thick line.
            let dots =
                if points.len() <= 40 || self.marks == Marks::Dots { points } else { vec![] };
            chart
                .draw_series(dots.into_iter().map(|at| Circle::new(at, 2, colour.filled())))
                .map_err(drawing)?
                .label(series.name.as_str())
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
                });
        }
        legend(&mut chart, self.series.len())
    }
}

fn frame<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(72);
    builder
}

fn mesh<X, Y>(
    chart: &mut Chart<'_, '_, X, Y>,
    x: &Axis,
    y: &Axis,
    x_label: &dyn Fn(&f64) -> String,
    x_labels: usize,
) -> Result<(), FigureError>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(x.label.as_str())
        .y_desc(y.label.as_str())
        .x_labels(x_labels)
        .x_label_formatter(&x_label)
        .y_label_formatter(&plain)
        .label_style(("sans-serif", 14))
        .draw()
        .map_err(drawing)
}

fn draw_boxes<'a, 'b: 'a, X, Y>(
    chart: &mut Chart<'a, 'b, X, Y>,
    series: &[Boxes<'_>],
) -> Result<(), FigureError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (n, Boxes { name, boxes }) in series.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        chart
            .draw_series(boxes.iter().map(|corners| Rectangle::new(*corners, colour.filled())))
            .map_err(drawing)?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    legend(chart, series.len())
}

/// One series needs no legend: the title says what it is.
fn legend<'a, 'b: 'a, X, Y>(
    chart: &mut Chart<'a, 'b, X, Y>,
    series: usize,
) -> Result<(), FigureError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    if series < 2 {
        return Ok(());
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 14))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()
        .map_err(drawing)
}

/// From 0 (or the smallest, on a logarithmic axis) to a little above the largest.
fn range(values: impl Iterator<Item = f64>, scale: Scale) -> Option<Range<f64>> {
    let values: Vec<f64> = values
        .filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
        .collect();
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    let largest = values.iter().copied().max_by(f64::total_cmp)?;
    Some(match scale {
        Scale::Linear if largest <= 0.0 => smallest.min(-1.0)..1.0,
        Scale::Linear => smallest.min(0.0)..largest * 1.05,
        Scale::Log => smallest / 1.3..largest * 1.3,
    })
}

/// A number on an axis: thousands and millions by letter.
fn plain(number: &f64) -> String {
    let (size, letter) = match number.abs() {
        n if n >= 1e9 => (1e9, "G"),
        n if n >= 1e6 => (1e6, "M"),
        n if n >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let rounded = (number / size * 1000.0).round() / 1000.0;
    format!("{rounded}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str) -> Series {
        Series { name: name.into(), points: vec![(1.0, 10.0), (16.0, 1000.0), (64.0, 5e6)] }
    }

    #[test]
    fn a_line_figure_names_axes_and_series() {
        for (x, y) in [
            (Axis::linear("clients"), Axis::linear("per s")),
            (Axis::log("clients"), Axis::log("per s")),
            (Axis::log("clients"), Axis::linear("per s")),
            (Axis::linear("clients"), Axis::log("per s")),
        ] {
            let svg =
                lines("Throughput", &x, &y, &[series("ours"), series("theirs")]).expect("drawn");
            for text in ["Throughput", "clients", "per s", "ours", "theirs"] {
                assert!(svg.contains(text), "{text} is missing in {x:?} {y:?}");
            }
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        }
    }

    #[test]
    fn bars_are_labelled_by_group() {
        let groups = ["-P 1".to_owned(), "-P 16".to_owned()];
        let heights =
            [("gregale".to_owned(), vec![90e3, 400e3]), ("redis".to_owned(), vec![98e3, 549e3])];
        for y in [Axis::linear("SET per s"), Axis::log("SET per s")] {
            let svg = bars("SET", &y, &groups, &heights).expect("drawn");
            for text in ["-P 1", "-P 16", "gregale", "redis", "SET per s"] {
                assert!(svg.contains(text), "{text} is missing");
            }
        }
    }

    #[test]
    fn percentiles_show_no_more_nines_than_there_are_samples_for() {
        let mut latency = Latency::new();
        (0..1000).for_each(|n| latency.record_ns(500 + n));
        let svg = percentiles("Decision", &[("shm", &latency)]).expect("drawn");
        assert!(svg.contains(">\n99.9\n"), "three nines: {svg}");
        assert!(!svg.contains(">\n99.99\n"), "and no fourth");
    }

    #[test]
    fn a_timeline_marks_its_moments() {
        let moments = [(2.0, "kill".to_owned())];
        let svg = timeline("Failover", &Axis::log("gap (us)"), &[series("values")], &moments);
        assert!(svg.expect("drawn").contains("kill"));
    }

    #[test]
    fn nothing_measured_is_an_error_and_no_empty_picture() {
        let none = lines("x", &Axis::linear("a"), &Axis::linear("b"), &[]);
        assert!(matches!(none, Err(FigureError::Empty)));
        let below = Series { name: "n".into(), points: vec![(1.0, -1.0), (2.0, f64::NAN)] };
        let none = lines("x", &Axis::linear("a"), &Axis::log("b"), &[below]);
        assert!(matches!(none, Err(FigureError::Empty)));
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!(plain(&1_500_000.0), "1.5M");
        assert_eq!(plain(&20_000.0), "20k");
        assert_eq!(plain(&500.0), "500");
        assert_eq!(plain(&0.25), "0.25");
    }
}
