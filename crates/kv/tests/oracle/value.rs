//! Replies as trees, for comparisons that are less strict than bytes.

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Value {
    /// The line of a simple string, error, number, null ...
    Line(String),
    Bulk(String),
    /// Arrays, sets, pushes and maps, with their kind.
    Many(char, Vec<Value>),
}

impl Value {
    /// Parses `bytes` as one value, to the last byte.
    pub(crate) fn parse(bytes: &[u8]) -> Value {
        let mut rest = bytes;
        let value = Value::take(&mut rest);
        assert!(rest.is_empty(), "more than one reply: {:?}", String::from_utf8_lossy(bytes));
        value
    }

    pub(crate) fn take(rest: &mut &[u8]) -> Value {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        *rest = &rest[end + 2..];
        let kind = line.chars().next().expect("a line has a kind");
        match (kind, line[1..].parse::<i64>()) {
            ('$' | '=', Ok(bytes @ 0..)) => {
                let (bulk, after) = rest.split_at(bytes as usize);
                *rest = after.strip_prefix(b"\r\n").expect("a string ends with its line");
                Value::Bulk(String::from_utf8_lossy(bulk).into_owned())
            }
            ('*' | '~' | '>', Ok(len @ 0..)) => {
                Value::Many(kind, (0..len).map(|_| Value::take(rest)).collect())
            }
            ('%', Ok(len)) => Value::Many(kind, (0..2 * len).map(|_| Value::take(rest)).collect()),
            _ => Value::Line(line),
        }
    }

    /// The value with every array in ascending order.
    pub(crate) fn sorted(self) -> Value {
        match self {
            Value::Many(kind, values) => {
                let mut values: Vec<Value> = values.into_iter().map(Value::sorted).collect();
                values.sort();
                Value::Many(kind, values)
            }
            other => other,
        }
    }

    /// The value without these words.
    pub(crate) fn without(self, word: &str) -> Value {
        match self {
            Value::Many(kind, values) => {
                let is_another = |value: &Value| !matches!(value, Value::Bulk(of) if of == word);
                let values = values.into_iter().filter(is_another);
                Value::Many(kind, values.map(|value| value.without(word)).collect())
            }
            other => other,
        }
    }

    /// The value without its random parts: only kinds and lengths are left.
    pub(crate) fn shape(self) -> Value {
        match self {
            Value::Many(kind, values) => {
                Value::Many(kind, values.into_iter().map(Value::shape).collect())
            }
            Value::Bulk(_) => Value::Bulk(String::new()),
            Value::Line(line) => Value::Line(line.chars().take(1).collect()),
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Value::Line(line) => line.strip_prefix(':')?.parse().ok(),
            Value::Bulk(_) | Value::Many(..) => None,
        }
    }
}
