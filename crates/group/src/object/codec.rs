//! Arguments, results and states as bytes (postcard).

use crate::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A key, by which a shard is chosen: anything that can be serialized.
pub trait Key: Serialize {}

impl<T: Serialize> Key for T {}

/// Bytes that are no value of the type that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes that are no value of their type")]
pub struct Undecodable;

/// The bytes of a value.
///
/// # Panics
/// If the type's own `Serialize` fails.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    match postcard::to_allocvec(value) {
        Ok(bytes) => bytes,
        Err(error) => panic!("a value that cannot be serialized: {error}"),
    }
}

/// The value with exactly these bytes.
///
/// # Errors
/// [`Undecodable`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Undecodable> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(Undecodable),
    }
}

/// A call on its way: the ticket of its caller, the number of its method, its arguments.
pub(super) fn encode_call_bytes(ticket: u64, method: u16, arguments: &[u8]) -> Vec<u8> {
    [&ticket.to_le_bytes()[..], &method.to_le_bytes(), arguments].concat()
}

/// The parts of a call.
pub(super) fn decode_call(bytes: &[u8]) -> Option<(u64, u16, &[u8])> {
    let (ticket, rest) = bytes.split_first_chunk()?;
    let (method, arguments) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*ticket), u16::from_le_bytes(*method), arguments))
}

/// A state on its way, or on a disk: the latest time that its giver knows of, and its bytes.
pub(super) fn encode_state(latest: Time, state: &[u8]) -> Vec<u8> {
    [&latest.as_nanos().to_le_bytes()[..], state].concat()
}

/// The parts of a state.
pub(super) fn decode_state(bytes: &[u8]) -> Result<(Time, &[u8]), Undecodable> {
    let (time, state) = bytes.split_first_chunk().ok_or(Undecodable)?;
    Ok((Time::from_nanos(u64::from_le_bytes(*time)), state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_calls_come_back_and_bytes_too_many_are_none() {
        let value = ("a".to_owned(), 7u64, vec![true]);
        let mut bytes = encode(&value);
        assert_eq!(decode(&bytes), Ok(value.clone()));
        bytes.push(0);
        assert_eq!(decode::<(String, u64, Vec<bool>)>(&bytes), Err(Undecodable));
        let call = encode_call_bytes(9, 3, &encode(&value));
        let (ticket, method, arguments) = decode_call(&call).expect("a call");
        assert_eq!((ticket, method, decode(arguments)), (9, 3, Ok(value)));
        assert_eq!(decode_call(&call[..9]), None);
    }
}
