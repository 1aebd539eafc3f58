//! Planted mistakes: a protocol with one rule left out.
//!
//! Each protocol lists its own in a file `bugs.rs` in its folder, with a text and the way in which
//! each is caught. A machine has a parameter `P: Planting<Bug>` and asks `self.planted.has(bug)` at
//! the rule.
//!
//! - I1 The released protocol has none, and cannot be given one: [`Sound`] answers false in a
//!   constant, so the compiler removes the question.
//! - I2 One type, [`Planted`], stands for every mistake of a protocol, so a simulator compiles each
//!   machine twice and not once a mistake.
//!
//! A mistake that nothing catches reveals a check that does not work.

use core::fmt::Debug;

/// The mistake in one machine, if it has one.
pub trait Planting<B>: Copy + Debug + 'static {
    /// Whether the mistake is this one.
    fn has(self, bug: B) -> bool;
}

/// No mistake: the released protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

impl<B> Planting<B> for Sound {
    #[inline(always)]
    fn has(self, _: B) -> bool {
        false
    }
}

/// One mistake, chosen when the machine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planted<B>(pub B);

impl<B: Bugs> Planting<B> for Planted<B> {
    #[inline]
    fn has(self, bug: B) -> bool {
        self.0 == bug
    }
}

/// One mistake or none: for code that a simulator is to compile once.
impl<B: Bugs> Planting<B> for Option<B> {
    #[inline]
    fn has(self, bug: B) -> bool {
        self == Some(bug)
    }
}

/// A protocol's list of planted mistakes ([`planted_bugs`](crate::planted_bugs)).
pub trait Bugs: Copy + Debug + PartialEq + 'static {
    /// Every mistake.
    const ALL: &'static [Self];

    /// Its name in reports.
    fn name(self) -> &'static str;

    /// The description of the machine's fault, in a sentence.
    fn text(self) -> &'static str;

    /// The way in which it is caught.
    fn caught(self) -> Caught;
}

/// The first mistake of a list that is not told by a sentence, or has the name of another one.
///
/// ```
/// proto::planted_bugs! {
///     /// One vote is enough.
///     ElectByOne = ELECT_BY_ONE: tests,
///     /// No sentence
///     TornAck = TORN_ACK: tests,
/// }
/// assert_eq!(proto::planted::badly_listed(), Some(Bug::TornAck));
/// ```
pub fn badly_listed<B: Bugs>() -> Option<B> {
    let is_told = |bug: &B| bug.text().trim().ends_with('.');
    let is_alone = |bug: &B| B::ALL.iter().filter(|other| other.name() == bug.name()).count() == 1;
    B::ALL.iter().copied().find(|bug| !is_told(bug) || !is_alone(bug))
}

/// The way in which a planted mistake is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// By seeds of these kinds in the simulator.
    Sweep(&'static [&'static str]),
    /// By tests that step through a schedule which seeds meet too rarely.
    Tests,
}

impl Caught {
    /// Whether a sweep of `kind` has to catch it.
    pub fn is_hunted_in(self, kind: &str) -> bool {
        matches!(self, Caught::Sweep(kinds) if kinds.contains(&kind))
    }
}

/// Lists planted mistakes: a text, a name in code, a name in reports, and how each is caught.
///
/// ```
/// proto::planted_bugs! {
///     /// One vote is enough.
///     ElectByOne = ELECT_BY_ONE: sweep ["durable"],
///     /// An acknowledgement is believed without its checksum.
///     TornAck = TORN_ACK: tests,
/// }
/// use proto::planted::{Bugs, Planted, Planting, Sound};
/// assert_eq!(Bug::ElectByOne.name(), "ELECT_BY_ONE");
/// assert!(Bug::ElectByOne.caught().is_hunted_in("durable"));
/// assert!(Planted(Bug::TornAck).has(Bug::TornAck) && !Sound.has(Bug::TornAck));
/// ```
#[macro_export]
macro_rules! planted_bugs {
    (@caught sweep $kinds:expr) => { $crate::planted::Caught::Sweep(&$kinds) };
    (@caught tests) => { $crate::planted::Caught::Tests };
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $text:ident: $how:ident $($kinds:expr)?
    ),* $(,)?) => {
        /// One planted mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $doc])+ $name,)*
        }

        impl $crate::planted::Bugs for Bug {
            const ALL: &'static [Bug] = &[$(Bug::$name,)*];

            fn name(self) -> &'static str {
                match self {
                    $(Bug::$name => stringify!($text),)*
                }
            }

            fn text(self) -> &'static str {
                match self {
                    $(Bug::$name => concat!($($doc),+),)*
                }
            }

            fn caught(self) -> $crate::planted::Caught {
                match self {
                    $(Bug::$name => $crate::planted_bugs!(@caught $how $($kinds)?),)*
                }
            }
        }
    };
}
