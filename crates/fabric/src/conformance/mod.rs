//! Litmus tests of the promises T1..T10, for every provider.
//!
//! A provider's test file defines how to make a [`Group`] and calls [`litmus_tests!`]; each litmus
//! is a function from a fresh group to a verdict, which names the promise that was broken. So that
//! a green run means something, [`broken`] wraps a provider in one fault at a time, and the same
//! litmus must then fail (`the_suite_catches_...`).
//!
//! A litmus waits for conditions with a deadline ([`DEADLINE`]); it never judges a duration.

pub mod broken;
pub mod child;
mod failures;
mod messages;
mod node;
mod order;
mod sleep;
mod verbs;

pub use failures::*;
pub use messages::*;
pub use node::{Happening, Node, Party, Reply};
pub use order::*;
pub use sleep::*;
pub use verbs::*;

use crate::Fabric;
use base::Rank;
use std::fmt;
use std::time::Duration;

/// The time for which a litmus waits for something promised, unless its group sets another.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The least number of words of each region of a group.
pub const N_WORDS: u32 = 1 << 16;

/// A group of members of one provider, in a place of its own, with nothing open yet.
///
/// Everything that it made is removed when it is dropped.
pub trait Group: Sync {
    /// The provider.
    type Fabric: Fabric;

    /// The number of members.
    fn members(&self) -> usize;

    /// The time for which a litmus waits for something promised.
    fn deadline(&self) -> Duration {
        DEADLINE
    }

    /// Opens member `me`, on the thread that will poll it. The memory is new and zeroed the first
    /// time, and after a [`Group::withdraw`]; otherwise it is the memory of its last life.
    fn open(&self, me: Rank) -> Self::Fabric;

    /// Ends a member together with its memory: the next [`Group::open`] makes a new one.
    fn withdraw(&self, me: Rank, fabric: Self::Fabric);

    /// Starts a process that opens member `me` as above and serves it with [`child::serve`].
    fn spawn(&self, me: Rank) -> child::Child;
}

/// A promise was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the promise: `T1` to `T10`.
    pub promise: &'static str,
    /// The observation that breaks it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.promise, self.what)
    }
}

/// The verdict of a litmus.
pub type Verdict = Result<(), Violation>;

pub(crate) fn broken_promise<T>(
    promise: &'static str,
    what: impl Into<String>,
) -> Result<T, Violation> {
    Err(Violation { promise, what: what.into() })
}

/// Makes a `#[test]` for each litmus: `litmus_tests!(make_group)`, where `make_group(members)`
/// returns a [`Group`].
#[macro_export]
macro_rules! litmus_tests {
    ($make:expr) => {
        $crate::litmus_tests!($make;
            words_are_whole 2,
            a_guard_publishes_its_payload 3,
            a_torn_record_is_never_accepted 2,
            a_read_never_overtakes_a_write 2,
            every_verb_completes_once_and_in_order 3,
            a_stale_cas_changes_nothing 2,
            cas_is_atomic_with_the_owner 2,
            concurrent_fetch_adds_sum_up 3,
            messages_arrive_whole_once_and_in_order 2,
            a_message_arrives_behind_the_writes_before_it 2,
            a_message_to_oneself_arrives 2,
            no_wake_up_by_message_is_lost 2,
            no_wake_up_after_a_write_is_lost 2,
            a_message_that_crosses_a_falling_asleep_wakes 2,
            a_sleeper_in_another_process_is_woken 2,
            the_death_of_a_process_is_an_event 2,
            the_death_of_a_process_wakes_a_sleeper 2,
            a_process_that_restarts_is_back 2,
            the_loss_of_a_member_is_an_event 3,
            what_is_unknown_takes_no_effect_later 2,
            a_break_is_a_cut 2,
        );
    };
    ($make:expr; $($litmus:ident $members:literal),* $(,)?) => {$(
        #[test]
        fn $litmus() {
            if let Err(violation) = $crate::conformance::$litmus(&($make)($members)) {
                panic!("{violation}");
            }
        }
    )*};
}
