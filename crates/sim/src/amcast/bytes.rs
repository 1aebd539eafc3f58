//! Wire messages, encoded and decoded.

use proto::amcast::wire::{Reader, Wire};

/// Checks that a message decodes from its bytes to the same.
pub(super) fn round_trip<W: Wire>(wire: &W) {
    let mut bytes = Vec::new();
    wire.encode(&mut bytes);
    let mut reader = Reader::new(&bytes);
    let back = W::decode(&mut reader);
    assert_eq!(back.as_ref(), Ok(wire), "what travels comes back from its bytes");
    assert!(reader.is_at_end(), "nothing is left over");
}
