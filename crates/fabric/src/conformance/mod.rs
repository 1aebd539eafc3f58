//! Litmus tests of the promises T1..T9, for every provider.
//!
//! A provider's test file says how to make a [`Group`] and calls [`litmus_tests!`]; each litmus is a
//! function from a fresh group to a verdict, which names the promise that was broken. So that a green
//! run means something, a wrapper puts one fault at a time into a provider, and the same litmus must
//! then fail (`the_suite_catches_...`).
//!
//! A litmus waits for conditions with a deadline ([`DEADLINE`]); it never judges how long anything
//! took.

pub mod child;
mod node;

pub use node::{Happening, Node, Party, Reply};

use crate::Fabric;
use base::Rank;
use std::fmt;
use std::time::Duration;

/// How long a litmus waits for something that is promised.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The words that each region of a group must have at least.
pub const N_WORDS: u32 = 1 << 16;

/// A group of members of one provider, in a place of its own, with nothing open yet.
///
/// Whatever it made is gone when it is dropped.
pub trait Group: Sync {
    /// The provider.
    type Fabric: Fabric;

    /// How many members.
    fn members(&self) -> usize;

    /// Opens member `me`, on the thread that will poll it: for the first time, or again after a
    /// [`Group::withdraw`], with new and zeroed memory, else with the memory that its last life left.
    fn open(&self, me: Rank) -> Self::Fabric;

    /// Ends a member together with its memory: the next [`Group::open`] makes a new one.
    fn withdraw(&self, me: Rank, fabric: Self::Fabric);

    /// Starts a process that opens member `me` as above and serves it with [`child::serve`].
    fn spawn(&self, me: Rank) -> child::Child;
}

/// A promise was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: `T1` to `T9`.
    pub promise: &'static str,
    /// What happened instead.
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

/// One `#[test]` for each litmus: `litmus_tests!(make_group)`, where `make_group(members)` gives a
/// [`Group`].
#[macro_export]
macro_rules! litmus_tests {
    ($make:expr) => {
        $crate::litmus_tests!($make;
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
