//! A command in pieces, until the last of them.

use crate::entry::{Origin, Place, Sequence};

/// At most one command is in pieces at a time, since a leader proposes the pieces of one directly
/// after each other; so this takes at most one command's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assembly {
    pub(crate) pending: Option<Pending>,
}

/// The beginning of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) origin: Origin,
    pub(crate) sequence: Sequence,
    /// How long the command is.
    pub(crate) total: usize,
    /// Shorter than that.
    pub(crate) bytes: Vec<u8>,
}

impl Assembly {
    /// Adds a fragment; all of the command if it was the last.
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
            // The beginning of a command, or what is left of one whose beginning was lost.
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

    /// Something else came: the rest will not follow.
    pub(crate) fn drop_it(&mut self) {
        self.pending = None;
    }
}
