//! Validity: every delivered value was proposed, byte for byte.
//!
//! Every batch carries a number that is given once, so a torn value, or one put together from two,
//! is seen even if each of its words is genuine. The empty value is the protocol's own filler.
//!
//! Why no false alarm: a batch is noted before it is handed to the machine.

use crate::kv;

/// The proposer of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) node: u8,
    pub(crate) life: u32,
}

/// The proposed batches.
#[derive(Default)]
pub(crate) struct Proposals(Vec<(u64, Origin)>);

impl Proposals {
    /// The number of the next batch.
    pub(crate) fn next_number(&self) -> u64 {
        self.0.len() as u64
    }

    /// Notes that `value`, with that number in it, is proposed now.
    pub(crate) fn proposed(&mut self, value: &[u8], origin: Origin) {
        self.0.push((kv::hash(value), origin));
    }

    /// The proposer of `value`; none for the filler.
    pub(crate) fn delivered(&self, value: &[u8]) -> Result<Option<Origin>, String> {
        if value.is_empty() {
            return Ok(None);
        }
        kv::number(value)
            .and_then(|number| self.0.get(usize::try_from(number).ok()?))
            .filter(|(hash, _)| *hash == kv::hash(value))
            .map(|(_, origin)| Some(*origin))
            .ok_or_else(|| format!("nobody proposed the {} bytes {value:x?}", value.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{Ask, Command, encode};

    #[test]
    fn only_what_was_proposed_is_valid() {
        let origin = Origin { node: 1, life: 2 };
        let mut proposals = Proposals::default();
        let mut values = [Vec::new(), Vec::new()];
        for (number, value) in values.iter_mut().enumerate() {
            let ask = Ask::Write(number as u64 + 100);
            encode(number as u64, &[Command { client: 0, sequence: 1, key: 0, ask }], value);
            proposals.proposed(value, origin);
        }
        assert_eq!(proposals.delivered(&values[1]), Ok(Some(origin)));
        assert_eq!(proposals.delivered(&[]), Ok(None));
        let torn = [&values[0][..16], &values[1][16..]].concat();
        assert!(proposals.delivered(&torn).is_err());
        assert!(proposals.delivered(&values[1][1..]).is_err());
        assert!(proposals.delivered(&u64::MAX.to_le_bytes()).is_err());
    }
}
