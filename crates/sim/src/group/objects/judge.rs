//! The promises of replicated objects (`group::object`), judged on the whole book of a run.
//!
//! - J1 *What was answered is there.* A call that its caller knows to be executed is at its place
//!   in each copy of that life of its shard which is as long, and in each one at the end of the
//!   run.
//! - J2 *Once, or never.* No copy has a call twice, and none has a call that is said not to be
//!   executed.
//! - J3 *Copies agree.* Of two copies of one life of a shard, one begins with the other.
//! - J4 *Real time.* A call that begins when the outcome of another one is known has a later place.
//! - J5 *P2p calls* are executed once at most, by the process that was asked; once, if that was
//!   answered; never, if they are said not to be executed.
//! - J6 *Replies.* Each member replies once at most, and all with the same result.
//! - J7 *Queries see causes.* A query of a copy sees every call whose outcome its caller knew when
//!   it asked for what is as late as that.
//! - J8 *Callers' order.* What a process calls in its own shard has places in the order of its
//!   calls (`group::boarded`, N2).
//!
//! Lives of shards are those of callers' views, so a call in whose time a shard begins again is
//! left out of J1, J4, J7 and J8.

use super::book::{Book, CallId, Called, Known, ShardLife, What};
use crate::coverage::Mark;
use std::collections::{BTreeMap, BTreeSet};

/// The first promise that was broken.
pub(crate) fn judge(book: &Book) -> Result<(), String> {
    let longest = agreed(book)?;
    once_or_never(book)?;
    are_there(book, &longest)?;
    in_real_time(book)?;
    jots(book)?;
    replies(book)?;
    counts(book)?;
    callers_order(book)
}

/// The cases that the run has met.
pub(crate) fn marks(book: &Book) -> impl Iterator<Item = Mark> {
    book.calls.iter().filter_map(|called| {
        let (known, ..) = called.ended.as_ref()?;
        match (known, called.what) {
            (Known::NotExecuted, _) => Some(Mark::ObjectUncalled),
            (Known::Unknown, _) => Some(Mark::ObjectCallUnknown),
            (Known::Executed(_), What::Append) => Some(Mark::ObjectCalled),
            (Known::Executed(_), What::AppendThere) => Some(Mark::ObjectCalledThere),
            (Known::Executed(_), What::AppendEach) => {
                let replied = called.replies.iter().filter(|(_, said)| said.is_some());
                (replied.count() >= 3).then_some(Mark::AllReplied)
            }
            (Known::Executed(_), What::Jot(_)) => Some(Mark::PeerCalled),
            (Known::Executed(_), What::Count(_)) => Some(Mark::ObjectQueried),
        }
    })
}

fn is_append(called: &Called) -> bool {
    matches!(called.what, What::Append | What::AppendEach | What::AppendThere)
}

/// The place and the life of a call that was appended, where both are known; and when that was.
fn appended(called: &Called) -> Option<(u64, ShardLife, u64)> {
    let (Known::Executed(place), at_ns, Some(life)) = called.ended.as_ref()? else { return None };
    (is_append(called) && *life == called.life).then_some((*place, *life, *at_ns))
}

/// J3. Returns the longest copy of each life.
fn agreed(book: &Book) -> Result<BTreeMap<ShardLife, &[CallId]>, String> {
    let mut longest: BTreeMap<ShardLife, &[CallId]> = BTreeMap::new();
    for copy in &book.copies {
        let most = longest.entry(copy.life).or_default();
        let n = most.len().min(copy.entries.len());
        if most[..n] != copy.entries[..n] {
            return Err(format!("J3: the copy of {:?} differs from another one's", copy.of));
        }
        if copy.entries.len() > most.len() {
            *most = &copy.entries;
        }
    }
    Ok(longest)
}

/// J2
fn once_or_never(book: &Book) -> Result<(), String> {
    for copy in &book.copies {
        let mut seen = BTreeSet::new();
        for CallId(call) in &copy.entries {
            if !seen.insert(call) {
                return Err(format!("J2: {:?} has call {call} twice", copy.of));
            }
            let called = &book.calls[*call as usize];
            if matches!(called.ended, Some((Known::NotExecuted, ..))) {
                return Err(format!("J2: {:?} has executed {called:?}", copy.of));
            }
        }
    }
    Ok(())
}

/// J1
fn are_there(book: &Book, longest: &BTreeMap<ShardLife, &[CallId]>) -> Result<(), String> {
    for (call, called) in (0..).zip(&book.calls) {
        let Some((place, life, _)) = appended(called) else { continue };
        let is_there = |entries: &[CallId]| entries.get(place as usize - 1) == Some(&CallId(call));
        let is_as_long = |entries: &[CallId]| entries.len() as u64 >= place;
        if let Some(entries) = longest.get(&life)
            && is_as_long(entries)
            && !is_there(entries)
        {
            return Err(format!("J1: call {call} is not at its place: {called:?}"));
        }
        let lacks = book
            .copies
            .iter()
            .find(|copy| copy.is_last && copy.life == life && !is_there(&copy.entries));
        if let Some(copy) = lacks {
            return Err(format!("J1: {:?} lacks call {call} at the end: {called:?}", copy.of));
        }
    }
    Ok(())
}

/// J4
fn in_real_time(book: &Book) -> Result<(), String> {
    let mut by_life: BTreeMap<ShardLife, Vec<(u64, &Called)>> = BTreeMap::new();
    for called in &book.calls {
        if let Some((place, life, _)) = appended(called) {
            by_life.entry(life).or_default().push((place, called));
        }
    }
    for calls in by_life.values_mut() {
        calls.sort_by_key(|(place, _)| *place);
        // The first end of all that come later must not be before a call's begin.
        let mut first_end: Option<(u64, &Called)> = None;
        for (_, called) in calls.iter().rev() {
            let ended_ns = called.ended.as_ref().map_or(u64::MAX, |(_, at_ns, _)| *at_ns);
            if let Some((later, other)) = first_end
                && later < called.begun_ns
            {
                return Err(format!("J4: {other:?} is before {called:?}, and has a later place"));
            }
            if first_end.is_none_or(|(later, _)| ended_ns < later) {
                first_end = Some((ended_ns, called));
            }
        }
    }
    Ok(())
}

/// J5
fn jots(book: &Book) -> Result<(), String> {
    let mut executed = BTreeMap::new();
    for (call, at) in &book.jots {
        let called = &book.calls[call.0 as usize];
        if executed.insert(*call, *at).is_some() {
            return Err(format!("J5: {at:?} has executed this twice: {called:?}"));
        }
        if called.what != What::Jot(*at) {
            return Err(format!("J5: {at:?} has executed {called:?}"));
        }
    }
    for (call, called) in (0..).zip(&book.calls).filter(|(_, one)| matches!(one.what, What::Jot(_)))
    {
        let is_executed = executed.contains_key(&CallId(call));
        let is_wrong = match &called.ended {
            Some((Known::Executed(_), ..)) => !is_executed,
            Some((Known::NotExecuted, ..)) => is_executed,
            Some((Known::Unknown, ..)) | None => false,
        };
        if is_wrong {
            return Err(format!("J5: executed {is_executed}, and its caller knows: {called:?}"));
        }
    }
    Ok(())
}

/// J6
fn replies(book: &Book) -> Result<(), String> {
    for called in book.calls.iter().filter(|called| called.what == What::AppendEach) {
        let mut heard = BTreeSet::new();
        let results: BTreeSet<u64> = called.replies.iter().filter_map(|(_, said)| *said).collect();
        let is_once = called.replies.iter().all(|(member, _)| heard.insert(*member));
        if !is_once || results.len() > 1 {
            return Err(format!("J6: members reply differently, or twice: {called:?}"));
        }
    }
    Ok(())
}

/// J7
fn counts(book: &Book) -> Result<(), String> {
    for called in &book.calls {
        let (What::Count(known), Some((Known::Executed(n), _, life))) =
            (&called.what, &called.ended)
        else {
            continue;
        };
        if *life == Some(called.life) && n < known {
            return Err(format!("J7: its caller knew of {known} calls, and sees {n}: {called:?}"));
        }
    }
    Ok(())
}

/// J8
fn callers_order(book: &Book) -> Result<(), String> {
    let mut last = BTreeMap::new();
    for called in &book.calls {
        if called.what == What::AppendThere {
            continue;
        }
        let Some((place, life, _)) = appended(called) else { continue };
        let before = last.insert((called.by, life), place).unwrap_or(0);
        if place <= before {
            return Err(format!("J8: behind place {before} of an earlier call: {called:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::book::Seen;
    use super::*;
    use crate::group::history::ProcessId;
    use base::{Incarnation, Rank};
    use proto::vsync::ShardId;

    const LIFE: ShardLife = ShardLife { shard: ShardId { subgroup: 0, shard: 0 }, since: 1 };

    fn process(seat: usize) -> ProcessId {
        ProcessId(Rank::at(seat), Incarnation(1))
    }

    /// A call in the time `from..to` with this outcome.
    fn called(what: What, from: u64, to: u64, known: Known) -> Called {
        let ended = Some((known, to, Some(LIFE)));
        Called { by: process(0), what, life: LIFE, begun_ns: from, ended, replies: Vec::new() }
    }

    fn copy(seat: usize, entries: &[u64]) -> Seen {
        let entries = entries.iter().copied().map(CallId).collect();
        Seen { of: process(seat), life: LIFE, entries, is_last: true }
    }

    fn book(calls: Vec<Called>, copies: Vec<Seen>) -> Book {
        Book { calls, copies, jots: Vec::new() }
    }

    /// The promise that is broken, if one is.
    fn broken(book: &Book) -> Option<String> {
        judge(book).err().map(|text| text[..2].to_owned())
    }

    fn appends(places: &[u64]) -> Vec<Called> {
        let call = |(n, place): (u64, &u64)| {
            called(What::Append, 10 * n, 10 * n + 100, Known::Executed(*place))
        };
        (0..).zip(places).map(call).collect()
    }

    #[test]
    fn what_is_right_breaks_no_promise() {
        let mut right = book(appends(&[1, 2]), vec![copy(0, &[0, 1]), copy(1, &[0, 1])]);
        right.calls.push(called(What::Jot(process(1)), 0, 9, Known::Executed(1)));
        right.jots.push((CallId(2), process(1)));
        right.calls.push(called(What::Count(2), 300, 400, Known::Executed(2)));
        assert_eq!(broken(&right), None);
    }

    #[test]
    fn each_promise_is_broken_by_something() {
        let copies = || vec![copy(0, &[0, 1]), copy(1, &[0, 1])];
        let lacks = book(appends(&[1, 2, 3]), copies());
        assert_eq!(broken(&lacks).as_deref(), Some("J1"));
        let twice = book(appends(&[1, 2]), vec![copy(0, &[0, 0])]);
        assert_eq!(broken(&twice).as_deref(), Some("J2"));
        let mut never = book(appends(&[1, 2]), copies());
        never.calls[1].ended = Some((Known::NotExecuted, 9, Some(LIFE)));
        assert_eq!(broken(&never).as_deref(), Some("J2"));
        let parted = book(appends(&[1, 2]), vec![copy(0, &[0, 1]), copy(1, &[1, 0])]);
        assert_eq!(broken(&parted).as_deref(), Some("J3"));
        let mut late = book(appends(&[2, 1]), vec![copy(0, &[1, 0])]);
        late.calls[1].begun_ns = 101;
        assert_eq!(broken(&late).as_deref(), Some("J4"));
        late.calls[1].begun_ns = 99;
        assert_eq!(broken(&late).as_deref(), Some("J8"), "one caller's");
        late.calls[1].by = process(1);
        assert_eq!(broken(&late), None);
    }

    #[test]
    fn p2p_calls_replies_and_queries_are_judged() {
        let jot = |known| book(vec![called(What::Jot(process(1)), 0, 9, known)], Vec::new());
        let executed = |mut book: Book, at: &[usize]| {
            book.jots = at.iter().map(|seat| (CallId(0), process(*seat))).collect();
            broken(&book)
        };
        assert_eq!(executed(jot(Known::Executed(1)), &[1]), None);
        for (known, at) in [
            (Known::Executed(1), &[][..]),
            (Known::Executed(1), &[1, 1]),
            (Known::Unknown, &[0]),
            (Known::NotExecuted, &[1]),
        ] {
            assert_eq!(executed(jot(known), at).as_deref(), Some("J5"), "{at:?}");
        }
        let mut each =
            book(vec![called(What::AppendEach, 0, 9, Known::Executed(1))], vec![copy(0, &[0])]);
        let member = |seat| group::Member { seat, incarnation: 1, metadata: [0; 2] };
        each.calls[0].replies = vec![(member(1), Some(1)), (member(2), Some(1))];
        assert_eq!(broken(&each), None);
        each.calls[0].replies.push((member(2), None));
        assert_eq!(broken(&each).as_deref(), Some("J6"));
        each.calls[0].replies[2] = (member(3), Some(2));
        assert_eq!(broken(&each).as_deref(), Some("J6"));
        let stale = book(vec![called(What::Count(2), 0, 9, Known::Executed(1))], Vec::new());
        assert_eq!(broken(&stale).as_deref(), Some("J7"));
    }
}
