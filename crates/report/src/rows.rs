//! The shape of every result: `{"bench": name, "machine": {...}, "runs": n, "rows": [...]}`.
//!
//! A row is `{"case": "...", ...}`. Names of numbers end in their unit (`p50_ns`, `per_s`,
//! `bytes_per_s`, `cpu_percent`); `floor_*` is the machine's floor measured in the same run, `peer`
//! and `peer_*` the program it was run against, `ratio` ours over the peer's. What a row was
//! measured for stands in it too: `value_bytes`, `members`, `clients`, `fabric` and so on.
//!
//! - I1 A row has each name once, and `case` first. By construction: [`Row::with`] replaces.
//! - I2 A number is finite: a ratio over nothing is left out, never written as null.

use crate::Machine;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use thiserror::Error;

/// One field of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A count.
    Count(u64),
    /// A measured number; its name ends in its unit.
    Number(f64),
    /// A name.
    Text(String),
}

impl Value {
    /// The number that it is, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Count(count) => Some(*count as f64),
            Value::Number(number) => Some(*number),
            Value::Flag(_) | Value::Text(_) => None,
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Value {
        Value::Count(count.into())
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

/// One measured case: named fields in the order in which they were added.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    fields: Vec<(String, Value)>,
}

impl Row {
    /// A row about `case`.
    pub fn new(case: impl Into<String>) -> Row {
        Row { fields: vec![("case".to_owned(), Value::Text(case.into()))] }
    }

    /// Adds a field, or replaces the one of that name (I1). A number that is not finite removes it
    /// (I2).
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Row {
        self.set(name, value);
        self
    }

    /// Like [`Row::with`], in place.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        if matches!(value, Value::Number(number) if !number.is_finite()) {
            self.fields.retain(|(present, _)| present != name);
            return;
        }
        match self.fields.iter_mut().find(|(present, _)| present == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// What it is about.
    pub fn case(&self) -> &str {
        match self.get("case") {
            Some(Value::Text(case)) => case,
            _ => "",
        }
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(present, _)| present == name).map(|(_, value)| value)
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::number)
    }

    /// Every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        self.fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Row;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row of named numbers and texts, with a `case`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Row::new("");
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    row.set(&name, value);
                }
                Ok(row)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A finished benchmark or sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which.
    pub bench: String,
    /// Where and when.
    pub machine: Machine,
    /// How many runs each number is the median of.
    pub runs: u32,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// A text that is no report.
#[derive(Debug, Error)]
#[error("not a benchmark report: {0}")]
pub struct ReportError(#[from] serde_json::Error);

impl Report {
    /// The JSON that `--format json` prints: one object on several lines.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings and writers that fail can make this fail.
        serde_json::to_string_pretty(self).unwrap_or_else(|e| panic!("a report is plain data: {e}"))
    }

    /// Reads what [`Report::to_json`] wrote, now or in an earlier version.
    ///
    /// # Errors
    /// [`ReportError`] says where the text stops being a report.
    pub fn from_json(text: &str) -> Result<Report, ReportError> {
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let machine = Machine {
            cpu: "Some CPU".into(),
            cores: 2,
            memory_bytes: 1 << 30,
            kernel: "Linux 6.18".into(),
            date: "2026-11-21".into(),
        };
        let row = Row::new("decide")
            .with("value_bytes", 64u64)
            .with("fabric", "shm")
            .with("p50_ns", 480.5);
        Report { bench: "decide".into(), machine, runs: 5, rows: vec![row] }
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        let expected = r#"{"bench":"decide","machine":{"cpu":"Some CPU","cores":2,"memory_bytes":1073741824,"kernel":"Linux 6.18","date":"2026-11-21"},"runs":5,"rows":[{"case":"decide","value_bytes":64,"fabric":"shm","p50_ns":480.5}]}"#;
        assert_eq!(serde_json::to_string(&report()).expect("plain"), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(Report::from_json(&report().to_json()).expect("own"), report());
        assert!(Report::from_json("{\"bench\":1}").is_err());
    }

    #[test]
    fn i1_a_name_stands_once_and_case_first() {
        let row = Row::new("a").with("x", 1u64).with("x", 2u64);
        assert_eq!(row.fields().map(|(name, _)| name).collect::<Vec<_>>(), ["case", "x"]);
        assert_eq!(row.number("x"), Some(2.0));
    }

    #[test]
    fn i2_a_ratio_over_nothing_is_left_out() {
        let row = Row::new("a").with("ratio", 1.0 / 0.0).with("p50_ns", f64::NAN);
        assert_eq!(row.fields().count(), 1);
    }
}
