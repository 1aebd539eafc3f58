//! Planted mistakes of the engine. A simulation's plant has one of them; production has none
//! ([`crate::Plant::has_planted`] is false there, and the compiler removes what asks for it).

/// Declares planted mistakes: an enumeration `Bug`, each with its name in reports and, for its
/// documentation, a sentence.
#[macro_export]
macro_rules! planted_bugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal),* $(,)?) => {
        /// One planted mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Bug {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Bug {
            /// Every one.
            pub const ALL: &'static [Bug] = &[$(Bug::$name,)*];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Bug::$name => $text,)*
                }
            }

            /// What is done wrong, in a sentence.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Bug::$name => concat!($($doc),+),)*
                }
            }
        }
    };
}

planted_bugs! {
    /// A read is performed before the check that it waits for.
    ReadWithoutCheck = "READ_WITHOUT_CHECK",
    /// A read whose check was refused is performed nevertheless.
    RefusedReadsServed = "REFUSED_READS_SERVED",
    /// A member without the present state performs reads of it.
    LearnersRead = "LEARNERS_READ",
    /// A stream of frames goes on over a new link, where the broken one left a gap.
    StreamsOutliveLinks = "STREAMS_OUTLIVE_LINKS",
    /// A command whose leader is gone is not sent to the next one.
    NothingIsSentAgain = "NOTHING_IS_SENT_AGAIN",
    /// A command that is sent again has another number, so it is executed twice.
    SentAgainAsAnother = "SENT_AGAIN_AS_ANOTHER",
    /// An answer goes to the oldest open command, not to the one that it answers.
    AnswersTheOldest = "ANSWERS_THE_OLDEST",
    /// A state is installed without the place of its last value.
    StateWithoutPlace = "STATE_WITHOUT_PLACE",
    /// The machine hears of another member's state before that is durable.
    InstalledBeforeDurable = "INSTALLED_BEFORE_DURABLE",
    /// The answer to a read goes to the oldest read that another member was asked.
    ReadAnswersTheOldest = "READ_ANSWERS_THE_OLDEST",
    /// What is sent again to a leader is not told apart from what it has refused.
    AttemptStays = "ATTEMPT_STAYS",
    /// That a leader has refused commands is not heard.
    RefusalsUnheard = "REFUSALS_UNHEARD",
    /// A command at its deadline is called done.
    UnknownCalledDone = "UNKNOWN_CALLED_DONE",
    /// A command at its deadline is called failed.
    UnknownCalledFailed = "UNKNOWN_CALLED_FAILED",
    /// Something else may follow the first part of a command that fits into no batch.
    HalfIsForgotten = "HALF_IS_FORGOTTEN",
    /// A snapshot is written without the place of its last value.
    SnapshotWithoutPlace = "SNAPSHOT_WITHOUT_PLACE",
    /// A snapshot says that it covers a value more than it does.
    SnapshotClaimsMore = "SNAPSHOT_CLAIMS_MORE",
    /// The log is freed when a snapshot begins, and not when it is durable.
    SnapshotCountsEarly = "SNAPSHOT_COUNTS_EARLY",
    /// A member that was removed or replaced does not hear of it, and serves.
    StaleSeatServes = "STALE_SEAT_SERVES",
    /// A change of the members is called done when it was begun.
    ChangeDoneEarly = "CHANGE_DONE_EARLY",
    /// A newcomer asks for its seat once, and not until it has it.
    SeatAskedOnce = "SEAT_ASKED_ONCE",
}

impl Bug {
    /// Whether it can only be noticed where members have disks.
    pub const fn needs_disk(self) -> bool {
        matches!(
            self,
            Bug::InstalledBeforeDurable
                | Bug::SnapshotCountsEarly
                | Bug::SnapshotWithoutPlace
                | Bug::SnapshotClaimsMore
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_a_sentence() {
        let mut names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        assert!(Bug::ALL.iter().all(|bug| bug.text().trim().ends_with('.')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bug::ALL.len());
    }
}
