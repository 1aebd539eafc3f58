//! What the runtimes of two members say to one another: frames, over a [`crate::flow`].
//!
//! ```text
//! frame   = length of the rest (4, little endian) | kind (1) | body
//! numbers = 8 bytes, little endian
//! item    = id (8) | length (4) | bytes            several to a body, up to its end
//! ```
//! A peer has proved the cluster's secret, yet nothing here trusts a length: what does not parse is
//! a [`Malformed`]: the stream is given up and counted, and begun again (`flow`, I3).
//!
//! - I1 encoding and decoding are inverse. Tested with arbitrary frames.
//! - I2 no bytes make the decoder panic or read past its input. Tested with arbitrary bytes.
//! - I3 what answers an earlier life of this member is dropped: numbers begin again with each life,
//!   so it would be taken for the answer to something else. By [`Frame::meant_for`].

use base::{Prefix, Slot};
use proto::codec::{self, Coded, Malformed, Out, Reader, Words};

/// The longest frame. An answer that is longer is not sent to a peer but replaced by an error.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// The bytes in front of a body.
pub const FRAME_HEADER_BYTES: usize = 5;

codec::coded! {
    /// One frame. `life` names the life of the process whose numbers the items bear, so that what
    /// was meant for an earlier life is recognised.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Frame<'a> in Words {
        /// Commands of the sender's clients, for the leader to propose, in order. Ids are
        /// sequences.
        Commands {
            /// The sender's.
            life: u64,
            /// The sender's count of attempts: after a refusal only a higher one is listened to, so
            /// that a later command never overtakes a refused one.
            attempt: u64,
            /// The commands.
            items: Items<'a>,
        } = 1,
        /// The addressee's commands of this attempt, from some frame on, were not proposed.
        CommandsRefused {
            /// The addressee's.
            life: u64,
            /// Of which attempt.
            attempt: u64,
        } = 2,
        /// Answers to the addressee's commands. Ids are sequences.
        Answers {
            /// The addressee's.
            life: u64,
            /// They were executed in this slot (for WAIT).
            slot: Slot,
            /// The answers.
            items: Items<'a>,
        } = 3,
        /// Reads of the sender's clients. Ids are the sender's.
        Reads {
            /// The sender's.
            life: u64,
            /// The reads.
            items: Items<'a>,
        } = 4,
        /// Answers to the addressee's reads.
        ReadAnswers {
            /// The addressee's.
            life: u64,
            /// The answers.
            items: Items<'a>,
        } = 5,
        /// These reads of the addressee were not performed: their ids stand in items without bytes.
        ReadsRefused {
            /// The addressee's.
            life: u64,
            /// The reads.
            items: Items<'a>,
        } = 6,
        /// The sender has executed `have` and cannot continue by itself. It asks for the values
        /// from there, or for a state.
        StateWanted {
            /// The sender's number for this transfer.
            transfer: u64,
            /// What it has executed.
            have: Prefix,
        } = 7,
        /// The sender has no state to give, or cannot give it now.
        StateRefused {
            /// Which transfer.
            transfer: u64,
            /// It has none: it waits for one itself.
            learner: bool,
        } = 8,
        // Tags 9 and 10 were a state whose length was said before it.
        /// A state follows, in chunks, and then its end.
        StateBegins {
            /// Which transfer.
            transfer: u64,
            /// The slots that it has executed.
            prefix: Prefix,
        } = 17,
        /// The next bytes of the state.
        StateChunk {
            /// Which transfer.
            transfer: u64,
            /// Where they belong.
            offset: u64,
            /// XXH3 of them, seeded with that of the chunk before; of the first, with 0.
            check: u64,
            /// The bytes.
            bytes: &'a [u8],
        } = 18,
        /// The state is complete.
        StateEnds {
            /// Which transfer.
            transfer: u64,
            /// Its length.
            n_bytes: u64,
            /// The last chunk's.
            check: u64,
        } = 19,
        /// The link broke, or bytes were damaged: the state's bytes below `offset` have arrived,
        /// and all others are wanted again.
        StateAgain {
            /// Which transfer.
            transfer: u64,
            /// How many.
            offset: u64,
        } = 20,
        /// The state's bytes below `offset` have arrived.
        StateTaken {
            /// Which transfer.
            transfer: u64,
            /// How many.
            offset: u64,
        } = 11,
        /// Values of consecutive slots. Ids are slots.
        Values {
            /// Which transfer.
            transfer: u64,
            /// These are all that the sender has executed so far.
            last: bool,
            /// The values.
            items: Items<'a>,
        } = 12,
        /// What goes with the state that the addressee will have when it has executed `prefix`:
        /// sent before the values that lead there.
        StateHead {
            /// Which transfer.
            transfer: u64,
            /// The slots that the sender has executed.
            prefix: Prefix,
            /// [`proto::members::StateHead`], encoded.
            head: &'a [u8],
        } = 16,
        /// The sender is this incarnation of the member on its seat.
        Seat {
            /// Which.
            incarnation: u64,
            /// It begins with an empty disk: put it there.
            wants: bool,
        } = 14,
        /// The addressee takes part no more, if it is this incarnation.
        Parted {
            /// Which.
            incarnation: u64,
            /// The newest that ever had the seat.
            last: u64,
            /// That one has it now.
            is_replaced: bool,
        } = 15,
        /// The addressee is to pass `frame` on, which the sender cannot tell `to` itself.
        Pass {
            /// The rank of the member that it is for.
            to: u64,
            /// Of a request: the sender's attempt that it belongs to.
            attempt: u64,
            /// The frame, encoded.
            frame: &'a [u8],
        } = 21,
        /// `frame` is from `peer`, and the sender passes it on.
        Passed {
            /// The rank of the member that it is from.
            peer: u64,
            /// The frame, encoded.
            frame: &'a [u8],
        } = 22,
        /// The sender passes nothing more of this attempt of the addressee on.
        PassBroken {
            /// Which.
            attempt: u64,
        } = 23,
        /// The slots below `next` have been executed: continue from there.
        ValuesTaken {
            /// Which transfer.
            transfer: u64,
            /// The first slot that is missing.
            next: Slot,
        } = 13,
    }
}

/// A checked list of (id, bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    /// No items.
    pub const NONE: Items<'static> = Items(&[]);

    /// The items that [`push_item`] wrote into `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if the last of them is cut.
    pub fn check(bytes: &'a [u8]) -> Result<Items<'a>, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (_, _, behind) = split_item(rest).ok_or(Malformed)?;
            rest = behind;
        }
        Ok(Items(bytes))
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// In order.
    pub fn iter(self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            // `None` at the end only: `check` has walked this way.
            let (id, bytes, behind) = split_item(rest)?;
            rest = behind;
            Some((id, bytes))
        })
    }
}

impl<'a: 'b, 'b> Coded<'a, Words> for Items<'b> {
    fn put(&self, out: &mut impl Out) {
        out.extend_from_slice(self.0);
    }

    fn take(from: &mut Reader<'a>) -> Result<Items<'b>, Malformed> {
        Items::check(from.take_rest())
    }
}

/// Appends an item to a list.
pub fn push_item(list: &mut Vec<u8>, id: u64, bytes: &[u8]) {
    list.extend_from_slice(&id.to_le_bytes());
    list.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    list.extend_from_slice(bytes);
}

/// What an item adds to its bytes.
pub const ITEM_HEADER_BYTES: usize = 12;

fn split_item(list: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (id, rest) = list.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, behind) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((u64::from_le_bytes(*id), bytes, behind))
}

impl<'a> Frame<'a> {
    /// This frame, unless it answers what another life of the addressee than `own` asked (I3).
    pub fn meant_for(self, own: u64) -> Option<Frame<'a>> {
        match self {
            Frame::CommandsRefused { life, .. }
            | Frame::Answers { life, .. }
            | Frame::ReadAnswers { life, .. }
            | Frame::ReadsRefused { life, .. } => (life == own).then_some(self),
            Frame::Commands { .. }
            | Frame::Reads { .. }
            | Frame::StateWanted { .. }
            | Frame::StateTaken { .. }
            | Frame::ValuesTaken { .. }
            | Frame::StateRefused { .. }
            | Frame::StateBegins { .. }
            | Frame::StateHead { .. }
            | Frame::StateChunk { .. }
            | Frame::StateEnds { .. }
            | Frame::StateAgain { .. }
            | Frame::Values { .. }
            | Frame::Seat { .. }
            | Frame::Parted { .. }
            | Frame::Pass { .. }
            | Frame::Passed { .. }
            | Frame::PassBroken { .. } => Some(self),
        }
    }

    /// Appends this frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.put(out);
        let length = out.len() - start - 4;
        assert!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// The first frame of `bytes` and how many bytes it takes, or `None` if it is not all there.
    ///
    /// # Errors
    /// [`Malformed`]: nothing after this can be understood.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, Malformed> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(Malformed);
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        Ok(Some((codec::decode(frame)?, 4 + length)))
    }
}

#[cfg(test)]
mod tests;
