//! Schedules for planted bugs that random ones rarely meet: each breaks the bug and nothing else.
//!
//! All but the last play the same trick on `Past` (docs/protocols/linearizable-multicast.md). `A`
//! goes to both groups; group 1's clock is ahead, so `A` ends at 9; group 0 gives it 1, and some of
//! group 0 do not learn of the 9. A machine that is too easily convinced that group 0 is beyond 9
//! delivers `A` in group 1. Then `B` is multicast to group 0, where it gets 2 and is delivered
//! before `A`: against real time.

use super::script::{Script, pid};
use proto::amcast::bugs::Bug;
use proto::amcast::linear::Rule;
use proto::amcast::{Pid, primcast};

const A: u64 = 100;
const B: u64 = 101;
/// A time longer than anything that matters in a schedule.
const LATE: u64 = 60;

/// Group 0 of `members`, and group 1 of one process whose clock is ahead; its messages reach these
/// members of group 0 late.
fn ahead(bug: Option<Bug>, members: usize, late: &[usize]) -> Script<primcast::Spec> {
    let mut script = Script::planted(bug, &[members, 1], Rule::AllGroups);
    (1..=8).for_each(|number| script.multicast(number, &[1]));
    script.pass(20);
    for rank in late {
        script.slow_link(pid(1, 0), pid(0, *rank), LATE);
    }
    script
}

/// Multicasts `A`; then the messages of some to others are late, and process 2 of group 0 takes
/// over.
fn overtaken(script: &mut Script<primcast::Spec>, late: &[(Pid, Pid)]) {
    script.multicast(A, &[0, 1]);
    script.pass(4);
    late.iter().for_each(|(from, to)| script.slow_link(*from, *to, LATE));
    script.trust_by(pid(0, 2), 2);
}

/// Multicasts `B` after a time, and lets everything that is late arrive.
fn ended_by_b(mut script: Script<primcast::Spec>, after: u64) -> Script<primcast::Spec> {
    script.pass(after);
    script.multicast(B, &[0]);
    script.pass(300);
    script
}

/// Only the primary and one follower of five are beyond 9, and both die: the other three continue
/// from 1.
pub(super) fn minority_ahead_dies(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = ahead(bug, 5, &[2, 3, 4]);
    script.multicast(A, &[0, 1]);
    script.pass(8);
    script.crash(pid(0, 0));
    script.crash(pid(0, 1));
    script.trust(0, 2);
    ended_by_b(script, 10)
}

/// Of five, process 2 has taken over, with 3 and 4, from 1; 0 and 1 do not know, and are beyond 9.
/// Then 4 learns of the 9: under its later promise, which lends the old epoch no clock.
pub(super) fn later_promise_of_five(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = ahead(bug, 5, &[2, 3]);
    script.slow_link(pid(1, 0), pid(0, 4), 12);
    overtaken(&mut script, &[(pid(0, 2), pid(0, 0)), (pid(0, 2), pid(0, 1))]);
    ended_by_b(script, 12)
}

/// Both followers are beyond 9, and the primary continues from 1.
pub(super) fn primary_behind(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = ahead(bug, 3, &[0]);
    script.multicast(A, &[0, 1]);
    ended_by_b(script, 8)
}

/// Process 2 has taken over, with process 1, from 1; process 0 does not know. Then 0 and 1 learn of
/// the 9: 0 as primary of an epoch that is over, 1 under its later promise.
pub(super) fn overtaken_primary_and_a_later_promise(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = ahead(bug, 3, &[2]);
    script.slow_link(pid(1, 0), pid(0, 0), 12);
    script.slow_link(pid(1, 0), pid(0, 1), 12);
    let late = [(pid(0, 1), pid(0, 0)), (pid(0, 2), pid(0, 0)), (pid(0, 2), pid(1, 0))];
    overtaken(&mut script, &late);
    ended_by_b(script, 12)
}

/// The same, but process 1 learns of the 9 between its promise, at 1, and the new epoch's state.
pub(super) fn promised_and_then_ahead(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = ahead(bug, 3, &[2]);
    script.slow_link(pid(1, 0), pid(0, 0), 8);
    script.slow_link(pid(1, 0), pid(0, 1), 8);
    let late = [(pid(0, 1), pid(0, 0)), (pid(0, 2), pid(0, 0)), (pid(0, 2), pid(1, 0))];
    overtaken(&mut script, &late);
    // NEW-EPOCH left; the state is slow.
    script.pass(0);
    script.slow_link(pid(0, 2), pid(0, 1), 10);
    ended_by_b(script, 20)
}

/// Group 0 receives the same high timestamp from group 1 and then from group 2: the second raises
/// no clock, and yet group 2 has not received one that high.
pub(super) fn raised_by_another(bug: Option<Bug>) -> Script<primcast::Spec> {
    let mut script = Script::planted(bug, &[1, 1, 1], Rule::AllGroups);
    for group in [1, 2] {
        (1..=8).for_each(|number| script.multicast(8 * group as u64 + number, &[group]));
    }
    script.pass(20);
    script.multicast(A, &[0, 1]);
    script.multicast(B, &[0, 2]);
    script.pass(300);
    script
}
