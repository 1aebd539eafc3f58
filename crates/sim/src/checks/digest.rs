//! Equal prefixes, equal states: all nodes that have applied a prefix have the same state.
//!
//! Why no false alarm: applying is a function of the state and the value (`kv`, I2), and agreement
//! says that the values are the same.

use base::Prefix;

/// The first digest of the state at each prefix.
#[derive(Default)]
pub(crate) struct Digests(Vec<Option<u64>>);

impl Digests {
    pub(crate) fn reached(&mut self, prefix: Prefix, digest: u64) -> Result<(), String> {
        let index = prefix.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        let first = *self.0[index].get_or_insert(digest);
        if first == digest {
            Ok(())
        } else {
            Err(format!("states differ at prefix {prefix}: {first:#x} and {digest:#x}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_states_at_one_prefix_are_a_violation() {
        let mut digests = Digests::default();
        assert!(digests.reached(Prefix(4), 7).is_ok());
        assert!(digests.reached(Prefix(4), 7).is_ok());
        assert!(digests.reached(Prefix(5), 8).is_ok());
        assert!(digests.reached(Prefix(4), 8).is_err());
    }
}
