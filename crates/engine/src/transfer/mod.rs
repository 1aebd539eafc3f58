//! A member that cannot continue by itself gets what it lacks from another: the values that it
//! missed if they are still kept somewhere, else a whole state and the values after it.
//!
//! ```text
//! taker:     StateWanted(have) ------------------------------> giver
//!            <--------------- StateBegins, StateChunk..., StateEnds   (have is older than its
//!            StateTaken(offset) for each chunk ------------->          backlog)
//!            StateAgain(offset), if a link broke or bytes were damaged ->
//!            <------------------- StateHead, Values..., the last marked
//!            ValuesTaken(next) ------------------------------>  (until the mark)
//! ```
//! The values follow the state because the ring moves on while the state travels: without them a
//! member would never catch up with a busy group. The giving side keeps serving: the state is as
//! it was when it was asked for, and is made a piece at a time, when there is room for one.
//!
//! - I1 a state is put in place only if all its bytes arrived and their checksum is right: each
//!   chunk's, which is seeded with that of the chunk before, so that the last is one of all.
//! - I2 values are executed in slot order, none twice: what is not the next slot is dropped.
//! - I3 at most [`WINDOW_BYTES`] of a state, and a chunk, are made and not acknowledged: so a
//!   transfer cannot fill a flow, and this is what the giving side holds of it.
//! - I4 a giver that sends nothing for [`PATIENCE`] is given up and another is asked, unless it
//!   waits for this side: while bytes are unread, or all are here, the time does not count. (Else a
//!   process that was stopped for longer would throw away what has arrived.) A state for whose
//!   bytes no frame has come for [`KEPT_FOR`] is given up. So each wait has an end.
//! - I5 frames of another transfer than the present one are dropped.
//! - I7 the lacking side acknowledges what it has *read*: so at most a window waits there (two,
//!   after a link broke in the middle), however slowly it reads, and it need not read all at once.
//! - I6 a link that breaks costs no more than what was under way: the giving side keeps what was
//!   not acknowledged, and continues from where the other one says.

mod fetch;
mod give;
#[cfg(test)]
mod tests;

pub use fetch::{Fetch, Step};
pub use give::{Give, is_kept};

use core::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How long the giving side may be silent, and how long a broken link is waited for.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which the giving side keeps a state that no member asks for.
pub const KEPT_FOR: Duration = Duration::from_secs(10);
/// How much of a state may be sent ahead of the acknowledgement.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// The bytes of values in one frame, about.
pub(crate) const VALUES_BYTES: usize = 256 << 10;
/// The longest state that is believed to exist; a peer that sends more is refused.
pub const STATE_BYTES_MAX: u64 = 64 << 30;
/// See I7.
const WAITING_BYTES_MAX: u64 = 3 * WINDOW_BYTES;
/// So often damaged bytes are asked for again before another member is.
const DAMAGES_MAX: u32 = 3;

/// See I1.
fn check_of(bytes: &[u8], before: u64) -> u64 {
    xxh3_64_with_seed(bytes, before)
}
