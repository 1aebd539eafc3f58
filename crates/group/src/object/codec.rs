//! Arguments, results and states as bytes (postcard).

use super::done::Once;
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

/// The same; `None` if the type's own `Serialize` fails.
pub(super) fn try_encode(value: &impl Serialize) -> Option<Vec<u8>> {
    postcard::to_allocvec(value).ok()
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

/// The mark of a call to which each member replies, beside its method's number.
const EACH: u16 = 1 << 15;

/// The bytes of a call beside its arguments.
pub(super) const CALL_HEAD_BYTES: usize = 10;

/// A call on its way: the ticket of its caller, the number of its method, its arguments.
pub(super) fn encode_call_bytes(ticket: u64, method: u16, arguments: &[u8]) -> Vec<u8> {
    assert!(method < EACH, "a type has fewer methods");
    [&ticket.to_le_bytes()[..], &method.to_le_bytes(), arguments].concat()
}

/// The same, of one to which each member replies.
pub(super) fn encode_each_bytes(ticket: u64, method: u16, once: Once, arguments: &[u8]) -> Vec<u8> {
    assert!(method < EACH, "a type has fewer methods");
    let method = (method | EACH).to_le_bytes();
    [&ticket.to_le_bytes()[..], &method, &once.encode(), arguments].concat()
}

/// A call that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent<'a> {
    pub(super) ticket: u64,
    pub(super) method: u16,
    /// Its number, if each member replies to it.
    pub(super) once: Option<Once>,
    pub(super) arguments: &'a [u8],
}

/// The parts of a call.
pub(super) fn decode_call(bytes: &[u8]) -> Option<Sent<'_>> {
    let (ticket, rest) = bytes.split_first_chunk()?;
    let (method, rest) = rest.split_first_chunk()?;
    let (ticket, method) = (u64::from_le_bytes(*ticket), u16::from_le_bytes(*method));
    let (once, arguments) = match method & EACH {
        0 => (None, rest),
        _ => Once::decode(rest).map(|(once, arguments)| (Some(once), arguments))?,
    };
    Some(Sent { ticket, method: method & !EACH, once, arguments })
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
        let arguments = &encode(&value)[..];
        let call = encode_call_bytes(9, 3, arguments);
        assert_eq!(call.len(), CALL_HEAD_BYTES + arguments.len());
        let sent = Sent { ticket: 9, method: 3, once: None, arguments };
        assert_eq!((decode_call(&call), decode(arguments)), (Some(sent), Ok(value)));
        assert_eq!(decode_call(&call[..9]), None);
        let once = Once { number: 1 << 50, n_open: 2 };
        let each = encode_each_bytes(9, 3, once, arguments);
        assert_eq!(decode_call(&each), Some(Sent { once: Some(once), ..sent }));
        assert_eq!(decode_call(&each[..18]), None);
    }
}
