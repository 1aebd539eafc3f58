//! A command in fragments, until the last of them.

use crate::entry::{Origin, Place, Sequence};

/// The collector of fragments. At most one command is in fragments at a time, since a leader
/// proposes the fragments of one directly after each other; so this holds at most one command's
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assembly {
    pub(crate) pending: Option<Pending>,
}

/// The beginning of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) origin: Origin,
    pub(crate) sequence: Sequence,
    /// The length of the command.
    pub(crate) total: usize,
    /// The bytes so far, fewer than that.
    pub(crate) bytes: Vec<u8>,
}

impl Assembly {
    /// Adds a fragment; returns the whole command if it was the last.
    pub(crate) fn add(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        place: Place,
        piece: &[u8],
    ) -> Option<Vec<u8>> {
        let mut pending = match self.pending.take() {
            Some(pending)
                if (pending.origin, pending.sequence) == (origin, sequence)
                    && (pending.bytes.len(), pending.total) == (place.offset, place.total) =>
            {
                pending
            }
            // The fragment begins a command, or continues one whose beginning was lost.
            _ if place.offset == 0 => {
                let bytes = Vec::with_capacity(place.total);
                Pending { origin, sequence, total: place.total, bytes }
            }
            _ => return None,
        };
        pending.bytes.extend_from_slice(piece);
        if pending.bytes.len() == pending.total {
            return Some(pending.bytes);
        }
        self.pending = Some(pending);
        None
    }

    /// Drops the fragments: another frame came, so the rest will not follow.
    pub(crate) fn drop_it(&mut self) {
        self.pending = None;
    }
}
