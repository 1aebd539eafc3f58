//! The shm provider keeps every promise, and the suite detects each broken one.

mod support;

use fabric::conformance::broken::{Fault, expect_caught};
use fabric::conformance::{self, child};
use support::ShmGroup;

fabric::litmus_tests!(ShmGroup::new);

/// The entry of the litmus tests' child processes; nothing to test otherwise.
#[test]
fn child_process() {
    if let Some(place) = child::place() {
        child::serve(ShmGroup::open_place(&place));
    }
}

macro_rules! canaries {
    ($(
        $name:ident:
        $fault:ident breaks $promise:literal in $litmus:ident of $members:literal;
    )*) => {$(
        #[test]
        fn $name() {
            let group = || ShmGroup::new($members);
            expect_caught(group, Fault::$fault, $promise, conformance::$litmus);
        }
    )*};
}

canaries! {
    the_suite_catches_a_torn_word:
        TornWord breaks "T1" in words_are_whole of 2;
    the_suite_catches_a_reordered_guard:
        OvertakenWrite breaks "T2" in a_guard_publishes_its_payload of 3;
    the_suite_catches_an_accepted_torn_record:
        OvertakenWrite breaks "T2" in a_torn_record_is_never_accepted of 2;
    the_suite_catches_a_read_that_overtakes:
        OvertakenWrite breaks "T2" in a_read_never_overtakes_a_write of 2;
    the_suite_catches_a_message_that_overtakes:
        OvertakenWrite breaks "T2" in a_message_arrives_behind_the_writes_before_it of 2;
    the_suite_catches_a_second_completion:
        CompletedTwice breaks "T4" in every_verb_completes_once_and_in_order of 3;
    the_suite_catches_a_lost_completion:
        CompletionLost breaks "T4" in every_verb_completes_once_and_in_order of 3;
    the_suite_catches_a_late_effect:
        TriedAgain breaks "T4" in what_is_unknown_takes_no_effect_later of 2;
    the_suite_catches_an_effect_behind_a_break:
        TriedAgain breaks "T10" in a_break_is_a_cut of 2;
    the_suite_catches_a_blind_cas:
        BlindCas breaks "T6" in a_stale_cas_changes_nothing of 2;
    the_suite_catches_a_split_fetch_add:
        SplitFetchAdd breaks "T6" in concurrent_fetch_adds_sum_up of 3;
    the_suite_catches_a_lost_message:
        MessageLost breaks "T7" in messages_arrive_whole_once_and_in_order of 2;
    the_suite_catches_a_second_message:
        MessageTwice breaks "T7" in messages_arrive_whole_once_and_in_order of 2;
    the_suite_catches_a_cut_message:
        MessageCut breaks "T7" in messages_arrive_whole_once_and_in_order of 2;
    the_suite_catches_a_silent_death:
        Silent breaks "T8" in the_death_of_a_process_is_an_event of 2;
    the_suite_catches_a_silent_loss:
        Silent breaks "T8" in the_loss_of_a_member_is_an_event of 3;
    the_suite_catches_a_false_alarm:
        FalseAlarm breaks "T8" in a_stale_cas_changes_nothing of 2;
    the_suite_catches_an_unannounced_sleep:
        SleepUnannounced breaks "T9" in no_wake_up_by_message_is_lost of 2;
    the_suite_catches_a_lost_wake_up:
        WakeLost breaks "T9" in no_wake_up_after_a_write_is_lost of 2;
}
