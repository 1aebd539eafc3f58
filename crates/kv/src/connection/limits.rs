//! The limit of unsent answers of a client, as Redis's `client-output-buffer-limit`.

use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of clients, as Redis names them, with their default limits. There are no clients of
/// the kind `slave` here; their limit is stored and reported.
const CLASSES: [(&str, OutputLimit); 3] = [
    // Redis has no limit here. Reads stop long before this one; `pace`'s C10 describes what may
    // reach it.
    ("normal", OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_s: 60 }),
    ("slave", OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_s: 60 }),
    ("pubsub", OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_s: 60 }),
];

/// The limit of one kind. Zero bytes mean no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// The number of bytes at which the connection is closed at once.
    pub hard_bytes: u64,
    /// The number of bytes at which it is closed after some time.
    pub soft_bytes: u64,
    /// That time, in seconds.
    pub soft_s: u64,
}

/// The kind of limit that applies to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    /// A client that sends requests and is answered.
    Normal,
    /// A client that receives published messages.
    PubSub,
}

/// The limits of all connections of a replica; CONFIG SET changes them for all.
#[derive(Clone, Debug)]
pub struct OutputLimits(Arc<Mutex<[OutputLimit; 3]>>);

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        OutputLimits(Arc::new(Mutex::new(CLASSES.map(|(_, limit)| limit))))
    }
}

impl OutputLimits {
    fn all(&self) -> [OutputLimit; 3] {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of connections of `class`.
    pub fn of(&self, class: OutputClass) -> OutputLimit {
        let at = match class {
            OutputClass::Normal => 0,
            OutputClass::PubSub => 2,
        };
        self.all()[at]
    }

    /// The limits as CONFIG GET reports them.
    pub(super) fn describe(&self) -> String {
        let describe = |((name, _), limit): (&(&str, OutputLimit), OutputLimit)| {
            format!("{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_s)
        };
        CLASSES.iter().zip(self.all()).map(describe).collect::<Vec<_>>().join(" ")
    }

    /// Applies `CLASS hard soft seconds [...]`; classes that are not named stay unchanged.
    ///
    /// # Errors
    /// The text is malformed; the error says how, and nothing has changed.
    pub(super) fn set(&self, text: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut limits = self.all();
        let (groups, rest) = words.as_chunks::<4>();
        if !rest.is_empty() || groups.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        for [class, hard, soft, seconds] in groups {
            let class = if class.eq_ignore_ascii_case("replica") { "slave" } else { class };
            let Some(at) = CLASSES.iter().position(|(name, _)| name.eq_ignore_ascii_case(class))
            else {
                return Err("Invalid client class specified in buffer limit configuration.");
            };
            let (Some(hard_bytes), Some(soft_bytes), Ok(soft_s)) =
                (bytes_of(hard), bytes_of(soft), seconds.parse())
            else {
                return Err("Error in hard, soft or soft_seconds setting in buffer limit \
                            configuration.");
            };
            limits[at] = OutputLimit { hard_bytes, soft_bytes, soft_s };
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        Ok(())
    }
}

/// A number of bytes with Redis's units: `1k` is 1000, `1kb` is 1024. `None` if it is malformed.
pub fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_units_of_redis() {
        for (unit, factor) in [("", 1), ("k", 1000), ("M", 1_000_000), ("g", 1_000_000_000)] {
            assert_eq!(bytes_of(&format!("3{unit}")), Some(3 * factor), "{unit}");
        }
        for (unit, shift) in [("b", 0), ("kB", 10), ("mb", 20), ("Gb", 30)] {
            assert_eq!(bytes_of(&format!("3{unit}")), Some(3 << shift), "{unit}");
        }
        for wrong in ["", "k", "-1", "3t", "3 k", "99999999999g"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_are_set_by_class_and_all_or_none() {
        let limits = OutputLimits::default();
        limits.set(b"normal 2mb 1k 7 replica 0 0 0").unwrap();
        let normal = OutputLimit { hard_bytes: 2 << 20, soft_bytes: 1000, soft_s: 7 };
        assert_eq!(limits.of(OutputClass::Normal), normal);
        let told = "normal 2097152 1000 7 slave 0 0 0 pubsub 33554432 8388608 60";
        assert_eq!(limits.describe(), told);
        let wrong =
            ["", "normal 1 2", "nobody 0 0 0", "normal 0 0 0 pubsub 1x 0 0", "normal 0 0 -1"];
        for text in wrong {
            assert!(limits.set(text.as_bytes()).is_err(), "{text}");
            assert_eq!(limits.describe(), told, "{text}");
        }
    }
}
