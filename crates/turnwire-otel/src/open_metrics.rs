//! Reads the text of `/metrics`, in the `OpenMetrics` format.
//!
//! It is the one description of all metrics that there is: whatever is registered is in it. Only
//! what the server writes is understood: gauges, counters and histograms, without times and
//! exemplars. The rest is an error, so that a metric of a new kind is noticed by the tests.

use thiserror::Error;

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {number} of the metrics is not understood")]
pub(crate) struct UnreadableLine {
    pub(crate) number: usize,
}

/// A metric, with all its series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: String,
    /// Such as `seconds`; empty if there is none.
    pub(crate) unit: String,
    pub(crate) points: Points,
}

/// The series of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Points {
    /// What the text says nothing about yet.
    Untyped,
    Gauge(Vec<(Labels, Number)>),
    Counter(Vec<(Labels, Number)>),
    Histogram(Vec<(Labels, Buckets)>),
}

pub(crate) type Labels = Vec<(String, String)>;

/// A number as the text has it: an integer stays one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

/// A histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Buckets {
    pub(crate) sum: f64,
    /// Upper bounds, the last of which is infinite, and how many values are not above each.
    pub(crate) cumulative: Vec<(f64, u64)>,
}

/// Reads all metrics.
pub(crate) fn read(text: &str) -> Result<Vec<Family>, UnreadableLine> {
    let mut families = Vec::new();
    for (index, line) in text.lines().enumerate() {
        read_line(line, &mut families).ok_or(UnreadableLine { number: index + 1 })?;
    }
    Ok(families)
}

fn read_line(line: &str, families: &mut Vec<Family>) -> Option<()> {
    if line == "# EOF" {
        return Some(());
    }
    let Some(about) = line.strip_prefix("# ") else {
        return read_sample(line, families.last_mut()?);
    };
    let (keyword, rest) = about.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    if keyword == "HELP" {
        let (name, help) = (name.to_owned(), rest.to_owned());
        families.push(Family { name, help, unit: String::new(), points: Points::Untyped });
        return Some(());
    }
    let family = families.last_mut().filter(|family| family.name == name)?;
    match (keyword, rest) {
        ("UNIT", unit) => unit.clone_into(&mut family.unit),
        ("TYPE", "gauge") => family.points = Points::Gauge(Vec::new()),
        ("TYPE", "counter") => family.points = Points::Counter(Vec::new()),
        ("TYPE", "histogram") => family.points = Points::Histogram(Vec::new()),
        _ => return None,
    }
    Some(())
}

/// Reads `name{label="value",…} number`.
fn read_sample(line: &str, family: &mut Family) -> Option<()> {
    let rest = line.strip_prefix(family.name.as_str())?;
    let at = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(at);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labels) => read_labels(labels)?,
        None => (Labels::new(), rest),
    };
    let value = rest.strip_prefix(' ')?;
    match (&mut family.points, suffix) {
        (Points::Gauge(points), "") | (Points::Counter(points), "_total") => {
            points.push((labels, number(value)?));
        }
        (Points::Histogram(points), _) => read_part(points, suffix, labels, value)?,
        _ => return None,
    }
    Some(())
}

/// Reads a part of a histogram. The parts of a series follow one another.
fn read_part(
    points: &mut Vec<(Labels, Buckets)>,
    suffix: &str,
    mut labels: Labels,
    value: &str,
) -> Option<()> {
    let bound = labels.iter().position(|(name, _)| name == "le");
    let bound = bound.map(|index| labels.remove(index).1);
    if points.last().is_none_or(|(known, _)| *known != labels) {
        points.push((labels, Buckets::default()));
    }
    let (_, buckets) = points.last_mut()?;
    match (suffix, bound) {
        ("_sum", None) => buckets.sum = value.parse().ok()?,
        // It is that of the last bucket.
        ("_count", None) => drop(value.parse::<u64>().ok()?),
        ("_bucket", Some(bound)) => {
            buckets.cumulative.push((bound.parse().ok()?, value.parse().ok()?));
        }
        _ => return None,
    }
    Some(())
}

fn number(text: &str) -> Option<Number> {
    let integer = text.parse().ok().map(Number::Integer);
    integer.or_else(|| text.parse().ok().map(Number::Float))
}

/// Reads labels up to the `}` that ends them, and returns what follows.
fn read_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    while !rest.starts_with('}') {
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = read_value(quoted)?;
        labels.push((name.to_owned(), value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some((labels, rest.strip_prefix('}')?))
}

/// Reads a value up to the quote that ends it, and returns what follows.
fn read_value(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some((value, letters.as_str())),
            '\\' => value.push(match letters.next()? {
                'n' => '\n',
                other => other,
            }),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
#[path = "open_metrics_tests.rs"]
mod tests;
