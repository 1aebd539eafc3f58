//! Planted mistakes of the engine. A simulation's plant has one of them; production has none
//! ([`crate::Plant::has_planted`] is false there, and the compiler removes what asks for it).

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident),* $(,)?) => {
        /// One planted mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Bug {
            /// Every one.
            pub const ALL: &'static [Bug] = &[$(Bug::$name,)*];

            /// What the engine does wrong, in a sentence.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Bug::$name => concat!($($doc),+),)*
                }
            }
        }
    };
}

bugs! {
    /// A read is performed before the check that it waits for.
    ReadWithoutCheck,
    /// A read whose check was refused is performed nevertheless.
    RefusedReadsServed,
    /// A member without the present state performs reads of it.
    LearnersRead,
    /// The answer to one check lets the reads of a later one pass, too.
    AnyCheckServesAll,
    /// A frame for an earlier run of this process is taken for the present run's.
    AnswersOfAnyLife,
    /// A stream of frames goes on over a new link, where the broken one left a gap.
    StreamsOutliveLinks,
    /// A command whose leader is gone is not sent to the next one.
    NothingIsSentAgain,
    /// A command that is sent again has another number, so it is executed twice.
    SentAgainAsAnother,
    /// A value is executed although its predecessor in its reign was lost.
    AnyPlaceIsAdmitted,
    /// An answer goes to the oldest open command, not to the one that it answers.
    AnswersTheOldest,
    /// A state is installed without the place of its last value.
    StateWithoutPlace,
    /// A state that has not come to its end leaves a part of itself in the next one.
    StatesAreMixed,
    /// The machine hears of another member's state before that is durable.
    InstalledBeforeDurable,
    /// The log is freed when a snapshot begins, and not when it is durable.
    SnapshotCountsEarly,
}

impl Bug {
    /// Whether it can only be noticed where members have disks.
    pub const fn needs_disk(self) -> bool {
        matches!(self, Bug::InstalledBeforeDurable | Bug::SnapshotCountsEarly)
    }

    /// Its name in scripts and on the command line: `read-without-check`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_a_sentence() {
        let mut names: Vec<String> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert_eq!(Bug::ReadWithoutCheck.name(), "read-without-check");
        assert!(Bug::ALL.iter().all(|bug| bug.text().trim().ends_with('.')));
        names.dedup();
        assert_eq!(names.len(), Bug::ALL.len());
    }
}
