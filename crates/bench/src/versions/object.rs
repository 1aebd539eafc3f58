//! The object whose versions are measured, and the bytes that are its values.

use group::{Persistent, Time, Volatile, replicated};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hint::black_box;

/// Bytes that are encoded in one piece, where a `Vec<u8>` is encoded byte by byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes))
            }
        }

        deserializer.deserialize_byte_buf(Whole)
    }
}

/// The first argument of a list.
pub(super) const NAME: &str = "sixteen bytes...";

/// The last argument of a list of about `n_bytes`: numbers that take five bytes each, as all large
/// ones do.
pub(super) fn values(n_bytes: usize) -> Vec<u32> {
    vec![u32::MAX; n_bytes.saturating_sub(NAME.len() + 8) / 5]
}

/// Two values with their versions, of which each update changes one or none.
#[derive(Default, Serialize, Deserialize)]
pub struct Store {
    volatile: Volatile<Blob>,
    persistent: Persistent<Blob>,
}

impl Store {
    /// Values that keep so many versions.
    pub fn new(n_kept: usize) -> Store {
        Store {
            volatile: Volatile::new(Blob::default()).keep(n_kept),
            persistent: Persistent::new(Blob::default()).keep(n_kept),
        }
    }
}

#[replicated]
impl Store {
    /// Keeps nothing: the arguments alone are measured.
    #[ordered]
    pub fn ignore(&mut self, value: Blob) {
        black_box(&value);
    }

    /// The same of arguments of several types.
    #[ordered]
    pub fn ignore_list(&mut self, name: String, number: u64, values: Vec<u32>) {
        black_box((&name, number, &values));
    }

    /// A version in memory alone.
    #[ordered]
    pub fn put_volatile(&mut self, value: Blob) {
        *self.volatile.change() = value;
    }

    /// A version that is a part of the object's state.
    #[ordered]
    pub fn put_persistent(&mut self, value: Blob) {
        *self.persistent.change() = value;
    }

    /// The length of both values at a time, 0 where that is not kept any longer.
    #[temporal]
    pub fn bytes_then(&self, then: Time) -> u64 {
        let volatile = self.volatile.at(then).map_or(0, |value| value.0.len());
        let persistent = self.persistent.at(then).map_or(0, |value| value.0.len());
        (volatile + persistent) as u64
    }

    /// The value in memory at a time, if that is kept.
    #[temporal]
    pub fn value_then(&self, then: Time) -> Option<Blob> {
        self.volatile.at(then).ok().map(|value| value.into_owned())
    }

    /// The value in memory.
    #[query]
    pub fn value(&self) -> Option<Blob> {
        Some((*self.volatile).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_they_are() {
        let blob = Blob(vec![7; 300]);
        let bytes = group::encode(&blob);
        assert_eq!(bytes.len(), 302, "behind their number");
        assert_eq!(group::decode::<Blob>(&bytes), Ok(blob));
    }
}
