//! A report for people: one line a row, numbers with units that fit them.
//!
//! What is the same in every row and says what was measured for, not what was measured, stands
//! above the table once.

use crate::{Report, Row, Value};

/// Fields that say what a row was measured for.
const CIRCUMSTANCES: [&str; 13] = [
    "key_bytes",
    "state_bytes",
    "value_bytes",
    "message_bytes",
    "members",
    "senders",
    "clients",
    "pipeline",
    "fabric",
    "durability",
    "protocol",
    "samples",
    "peer",
];

/// What fields begin with that are there to be drawn: too many for a table.
pub const DISTRIBUTION: &str = "distribution_";

impl Report {
    /// The table that `--format table` prints.
    pub fn table(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.rows.iter().flat_map(Row::fields) {
            if !names.contains(&name) && !name.starts_with(DISTRIBUTION) {
                names.push(name);
            }
        }
        let mut common: Vec<String> = Vec::new();
        if let [first, second, ..] = self.rows.as_slice()
            && first != second
        {
            names.retain(|name| {
                let value = first.get(name);
                let is_common = CIRCUMSTANCES.contains(name)
                    && self.rows.iter().all(|row| row.get(name) == value);
                if is_common && let Some(value) = value {
                    common.push(format!("{} {}", title(name), cell(name, value)));
                }
                !is_common
            });
        }
        let mut lines = vec![names.iter().map(|name| title(name)).collect::<Vec<_>>()];
        for row in &self.rows {
            let cells = names.iter().map(|name| {
                row.get(name).map_or_else(|| "-".to_owned(), |value| cell(name, value))
            });
            lines.push(cells.collect());
        }
        let is_text =
            |name: &&str| self.rows.iter().any(|row| matches!(row.get(name), Some(Value::Text(_))));
        let left: Vec<bool> = names.iter().map(is_text).collect();
        let runs = match self.runs {
            1 => "1 run".to_owned(),
            runs => format!("medians of {runs} runs"),
        };
        let mut text = format!("{}: {runs}\n{}\n", self.bench, self.machine);
        if !common.is_empty() {
            text += &format!("{}\n", common.join(", "));
        }
        text.push('\n');
        text + &align(&lines, &left)
    }
}

/// Pads every column to its widest cell.
fn align(lines: &[Vec<String>], left: &[bool]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let mut text = String::new();
    for line in lines {
        let mut out = String::new();
        for (column, (cell, left)) in line.iter().zip(left).enumerate() {
            let width = width(column).unwrap_or(0);
            let gap = if column == 0 { "" } else { "  " };
            out += &match left {
                true => format!("{gap}{cell:<width$}"),
                false => format!("{gap}{cell:>width$}"),
            };
        }
        text += out.trim_end();
        text.push('\n');
    }
    text
}

/// A column's name without its unit, for the unit stands in the cells.
fn title(name: &str) -> String {
    let bare = name
        .strip_suffix("_ns")
        .or_else(|| name.strip_suffix("_bytes"))
        .or_else(|| name.strip_suffix("_percent"))
        .unwrap_or(name);
    bare.replace('_', " ")
}

fn cell(name: &str, value: &Value) -> String {
    let number = match value {
        Value::Flag(true) => return "yes".to_owned(),
        Value::Flag(false) => return "no".to_owned(),
        Value::Text(text) => return text.clone(),
        Value::Count(_) | Value::Number(_) => value.number().unwrap_or(f64::NAN),
    };
    if name.ends_with("_ns") || name == "ns_per_entry" {
        scaled(number, &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")])
    } else if name.ends_with("bytes_per_s") {
        scaled(number, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")])
    } else if name.ends_with("per_s") {
        scaled(number, &[(1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")])
    } else if name.ends_with("_bytes") {
        let (kibi, mebi, gibi) = (1024.0, 1024.0 * 1024.0, 1024.0 * 1024.0 * 1024.0);
        scaled(number, &[(gibi, " GiB"), (mebi, " MiB"), (kibi, " KiB"), (1.0, " B")])
    } else if name.ends_with("_percent") {
        format!("{} %", digits(number))
    } else if name.ends_with("ratio") {
        format!("{number:.2}x")
    } else {
        digits(number)
    }
}

/// `number` in the largest unit of which it is at least one.
fn scaled(number: f64, units: &[(f64, &str)]) -> String {
    let fits = |(size, _): &&(f64, &str)| number.abs() >= *size;
    let (size, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{}{unit}", digits(number / size))
}

/// Three significant digits, but whole numbers whole.
fn digits(number: f64) -> String {
    match number.abs() {
        _ if number.fract() == 0.0 => format!("{number:.0}"),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 0.01 => format!("{number:.2}"),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn numbers_get_units_that_fit() {
        let shown = |name, number: f64| cell(name, &Value::Number(number));
        assert_eq!(shown("p50_ns", 480.0), "480 ns");
        assert_eq!(shown("p99_ns", 1234.0), "1.23 us");
        assert_eq!(shown("max_ns", 12_340_000.0), "12.3 ms");
        assert_eq!(shown("per_s", 98_123.0), "98.1 k/s");
        assert_eq!(shown("bytes_per_s", 2_500_000_000.0), "2.50 GB/s");
        assert_eq!(shown("value_bytes", 1024.0), "1 KiB");
        assert_eq!(shown("cpu_percent", 1.25), "1.25 %");
        assert_eq!(shown("ratio", 0.834), "0.83x");
        assert_eq!(shown("p50_ns", 0.0), "0 ns");
    }

    #[test]
    fn columns_line_up_and_what_is_common_stands_above() {
        let row = |case: &str, bytes: u64, p50: f64| {
            Row::new(case).with("fabric", "shm").with("value_bytes", bytes).with("p50_ns", p50)
        };
        let machine = Machine {
            cpu: "CPU".into(),
            cores: 2,
            memory_bytes: 1 << 30,
            kernel: "Linux".into(),
            date: "today".into(),
        };
        let mut rows = vec![row("small", 1, 480.0), row("larger", 1024, 1500.0)];
        rows[1].set("ratio", 2.0);
        let report = Report { bench: "decide".into(), machine, runs: 5, rows };
        let expected = "\
decide: medians of 5 runs
CPU, 2 cores, 1 GiB, Linux, today
fabric shm

case    value      p50  ratio
small     1 B   480 ns      -
larger  1 KiB  1.50 us  2.00x
";
        assert_eq!(report.table(), expected);
    }
}
