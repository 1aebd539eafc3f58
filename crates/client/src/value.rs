//! What a server answers.

/// A reply in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// There is nothing: a null string or array.
    Nil,
    /// A word, such as OK.
    Simple(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Several.
    Array(Vec<Value>),
    /// An error; only inside of the array that a transaction answers.
    Error(String),
}

impl Value {
    /// The number, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes, if there are any.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) => Some(bytes),
            Value::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }
}
