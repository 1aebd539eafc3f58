//! The end of a view, judged as the members agree on it: what each row says when its owner's turn
//! is over. Consequences show later and seldom; a rule that is broken shows at once.
//!
//! - A1 *Promise.* A row comes to show the change of a leader that its owner does not suspect,
//!   while it suspects every member before (C3, C4).
//! - A2 *One change of one leader.* Rows that show the same leader's change show the same change.
//! - A3 *Lead.* A member that proposes trusts a majority, and each member that it trusts has wedged
//!   and suspects every member before it (C4, C7).
//! - A4 *Adoption.* A member that proposes takes the change of the last leader before it that a
//!   trusted member's row shows, if one does (C5).
//! - A5 *Decision.* The first process that leaves a view for the next one does so when a majority
//!   has shown one leader's change (C8). Its own row counts, which it may have written in that
//!   turn.
//! - A6 *Newcomers.* Fewer than half of the members of a view are new, or one of two: else their
//!   failure could end the group. And in a group of one shard at most half of them lack the state
//!   then: else a minority's failure could lose it.
//! - A7 *Log.* While a view lasts, the change that a durable member's row shows is in its log (W3),
//!   behind what may be freed: a process that returns finds it.
//! - A8 *Promise of a restart.* What a process that returns has told of its promises is in its log:
//!   the next one on its seat finds it.
//!
//! A report is no false alarm: rows are judged as they are, which is behind nothing that another
//! member can have read of them. Words of a row rise alone, and a row shows what its owner has
//! accepted before it shows the suspicion that ends this. A process that leaves a view and ends in
//! one turn says what it told of that view.

use crate::disk::Disk;
use base::{Rank, SeatSet, Slot};
use proto::vsync::{self, Accepted, Ending, Member, Standing, View, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// What the rows of all members have said.
#[derive(Clone, Debug, Default)]
pub(super) struct Accord {
    views: BTreeMap<ViewId, View>,
    /// The last words of each row, by view and seat. Its `shown` is the latest of several.
    rows: BTreeMap<(ViewId, Rank), Ending>,
    /// By view and leader: the change, and the members whose rows have shown it.
    shown: BTreeMap<(ViewId, Standing), (Vec<u8>, SeatSet)>,
    /// The views that a process has left for the next one.
    left: BTreeSet<ViewId>,
    /// By seat, what A7 has judged: the view, the leader, and the end of the log then.
    logged: BTreeMap<Rank, (ViewId, Standing, Slot)>,
    /// By seat, what A8 has judged: the promise, and the end of the log then.
    promised: BTreeMap<Rank, (u64, Slot)>,
}

/// What a process did in a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// It has proposed a change of its view.
    pub(super) has_proposed: bool,
}

impl Accord {
    /// Notes what the process on `me` says after a turn that began in the view `before`.
    ///
    /// # Errors
    /// A rule that is broken.
    pub(super) fn note(
        &mut self,
        me: Rank,
        (before, after): (Option<ViewId>, Option<&View>),
        rows: Vec<Ending>,
    ) -> Result<Noted, String> {
        let mut noted = Noted::default();
        for row in rows {
            noted.has_proposed |= self.note_row(me, row)?;
        }
        let Some(after) = after.filter(|after| before != Some(after.id)) else { return Ok(noted) };
        if let Some(before) = before.filter(|before| before.next() == after.id) {
            self.judge_decision(me, before)?;
            judge_newcomers(after)?;
        }
        self.views.entry(after.id).or_insert_with(|| after.clone());
        Ok(noted)
    }

    /// Judges whether the log of the process on `me` has what its row of `view` shows.
    ///
    /// # Errors
    /// A7 is broken.
    pub(super) fn note_log(
        &mut self,
        me: Rank,
        view: ViewId,
        rows: &[Ending],
        disk: &mut Disk,
    ) -> Result<(), String> {
        // (What is known to be decided need not be accepted, and is acted upon at once.)
        let lasts = |row: &&Ending| row.view == view && !row.is_committed;
        let Some(row) = rows.iter().find(lasts) else { return Ok(()) };
        let Some((standing, _)) = row.shown else { return Ok(()) };
        let judged = (view, standing, proto::disk::Disk::end(disk));
        if self.logged.insert(me, judged) == Some(judged) {
            return Ok(());
        }
        judge_log(me, row, Accepted::on(disk).as_ref())
    }

    /// Judges what a process has told of its promises by its log.
    ///
    /// # Errors
    /// A8 is broken.
    pub(super) fn note_promise(
        &mut self,
        me: Rank,
        told: u64,
        disk: &mut Disk,
    ) -> Result<(), String> {
        let judged = (told, proto::disk::Disk::end(disk));
        if told == 0 || self.promised.insert(me, judged) == Some(judged) {
            return Ok(());
        }
        let logged = vsync::promised(disk);
        if logged >= told {
            return Ok(());
        }
        Err(format!("A8: {me} has told that it promised {told}, and its log has {logged}"))
    }

    /// Returns whether the row shows a change for the first time that its owner proposes.
    fn note_row(&mut self, me: Rank, row: Ending) -> Result<bool, String> {
        let at = (row.view, me);
        let shown = |row: &Ending| row.shown.as_ref().map(|(standing, _)| *standing);
        let (old, new) = (self.rows.get(&at).and_then(shown), shown(&row));
        let is_raised = new > old;
        let mut proposes = false;
        if let (true, Some((standing, change)), Some(view)) =
            (is_raised, row.shown.clone(), self.views.get(&row.view))
        {
            proposes = view.standing(me) == Some(standing);
            // (A committed row shows the decided change, and its leader may be suspected.)
            if proposes || !row.is_committed {
                judge_promise(me, view, standing, &row)?;
            }
            if proposes {
                self.judge_proposal(me, (view, standing), &row, &change)?;
            }
            let of = self.shown.entry((row.view, standing));
            let (first, owners) = of.or_insert_with(|| (change.clone(), SeatSet::EMPTY));
            owners.insert(me);
            if *first != change {
                return Err(format!(
                    "A2: the row of {me} shows another change of the leader of standing {} of view \
                     {} than that of another member",
                    standing.0, row.view
                ));
            }
        }
        self.rows.insert(at, row);
        Ok(proposes)
    }

    /// A3, A4
    fn judge_proposal(
        &self,
        me: Rank,
        (view, standing): (&View, Standing),
        own: &Ending,
        change: &[u8],
    ) -> Result<(), String> {
        let trusted = view.seats().difference(own.suspected);
        if !view.is_majority(trusted) {
            return Err(format!("A3: {me} proposes in {}, and trusts {trusted:?} alone", view.id));
        }
        let before = view.before(standing);
        for seat in trusted.iter().filter(|seat| *seat != me) {
            let row = self.rows.get(&(view.id, seat));
            if row.is_none_or(|row| !row.suspected.covers(before)) {
                return Err(format!(
                    "A3: {me} proposes in {}, and {seat}, which it trusts, has not wedged with it",
                    view.id
                ));
            }
        }
        let earlier = (view.id, Standing(0))..(view.id, standing);
        let is_seen = |owners: &SeatSet| !owners.intersection(trusted).is_empty();
        let mut adopted = self.shown.range(earlier).rev().filter(|(_, (_, of))| is_seen(of));
        match adopted.next() {
            Some(((_, last), (adopted, _))) if adopted != change => Err(format!(
                "A4: {me} proposes in {} another change than the leader of standing {}",
                view.id, last.0
            )),
            _ => Ok(()),
        }
    }

    /// A5
    fn judge_decision(&mut self, me: Rank, ended: ViewId) -> Result<(), String> {
        let Some(view) = self.views.get(&ended).filter(|_| self.left.insert(ended)) else {
            return Ok(());
        };
        let mut of_view = self.shown.range((ended, Standing(0))..=(ended, Standing(u16::MAX)));
        let is_decided = |owners: &SeatSet| {
            let mut owners = *owners;
            owners.insert(me);
            view.is_majority(owners)
        };
        if of_view.any(|(_, (_, owners))| is_decided(owners)) {
            return Ok(());
        }
        Err(format!("A5: {me} leaves {ended} for the next view, and no majority has accepted that"))
    }
}

/// A6
fn judge_newcomers(view: &View) -> Result<(), String> {
    let is_new = |member: &&Member| member.since == view.id;
    let (n_new, n_members) = (view.members.iter().filter(is_new).count(), view.members.len());
    if n_new == 0 || view.id == ViewId::FIRST {
        return Ok(());
    }
    if 2 * n_new >= n_members && (n_new, n_members) != (1, 2) {
        return Err(format!("A6: of {:?} in {}, {n_new} are new", view.seats(), view.id));
    }
    let [seating] = &view.roster[..] else { return Ok(()) };
    let [shard] = &seating.shards[..] else { return Ok(()) };
    let without = shard.members().difference(shard.bearers);
    if 2 * without.len() <= n_members {
        return Ok(());
    }
    Err(format!("A6: of {:?} in {}, {without:?} lack the state", view.seats(), view.id))
}

/// A1
fn judge_promise(me: Rank, view: &View, standing: Standing, row: &Ending) -> Result<(), String> {
    let leader = view.members.get(standing.index()).map(|member| member.seat());
    let is_suspected = leader.is_none_or(|leader| row.suspected.contains(leader));
    if is_suspected || !row.suspected.covers(view.before(standing)) {
        return Err(format!(
            "A1: {me} accepts in {} the change of {leader:?}, and suspects {:?}",
            view.id, row.suspected
        ));
    }
    Ok(())
}

/// A7
fn judge_log(me: Rank, row: &Ending, logged: Option<&Accepted>) -> Result<(), String> {
    let Some((standing, change)) = &row.shown else { return Ok(()) };
    let shown = u64::from(standing.0);
    let is_kept = logged.is_some_and(|logged| {
        let is_last = logged.standing == shown && logged.change == *change;
        logged.view == row.view && (is_last || logged.standing > shown)
    });
    if is_kept {
        return Ok(());
    }
    let found = logged.map(|logged| (logged.view, logged.standing));
    Err(format!(
        "A7: {me} shows in {} the change of standing {shown}, and its log has {found:?}",
        row.view
    ))
}

#[cfg(test)]
mod tests {
    use super::super::history::made_up::view;
    use super::*;

    const MEMBERS: &[usize] = &[0, 1, 2, 3, 4];

    fn seats(of: &[usize]) -> SeatSet {
        of.iter().map(|seat| Rank::at(*seat)).collect()
    }

    /// A row of view 3, which suspects these seats and shows the change of a leader.
    fn row(suspected: &[usize], shown: Option<(u16, &[u8])>) -> Ending {
        Ending {
            view: ViewId(3),
            suspected: seats(suspected),
            shown: shown.map(|(leader, change)| (Standing(leader), change.to_vec())),
            is_committed: false,
        }
    }

    /// All five members in view 3.
    fn in_view() -> Accord {
        let mut accord = Accord::default();
        for seat in MEMBERS {
            let view = view(3, MEMBERS);
            accord.note(Rank::at(*seat), (None, Some(&view)), Vec::new()).unwrap();
        }
        accord
    }

    fn say(accord: &mut Accord, seat: usize, row: Ending) -> Result<Noted, String> {
        let view = view(3, MEMBERS);
        accord.note(Rank::at(seat), (Some(view.id), Some(&view)), vec![row])
    }

    fn install(accord: &mut Accord, seat: usize) -> Result<Noted, String> {
        accord.note(Rank::at(seat), (Some(ViewId(3)), Some(&view(4, &[1, 2, 3, 4]))), Vec::new())
    }

    fn broken(result: Result<Noted, String>, rule: &str) {
        let said = result.unwrap_err();
        assert!(said.starts_with(rule), "{said}");
    }

    #[test]
    fn a1_the_change_of_a_suspected_leader_is_not_shown() {
        let mut accord = in_view();
        say(&mut accord, 2, row(&[0], None)).unwrap();
        broken(say(&mut accord, 2, row(&[0], Some((0, b"a")))), "A1");
        // The leader after it is one whose predecessors are all suspected.
        broken(say(&mut in_view(), 2, row(&[], Some((1, b"a")))), "A1");
        say(&mut in_view(), 2, row(&[0], Some((1, b"a")))).unwrap();
        // A member that commits shows what was decided.
        let committed = Ending { is_committed: true, ..row(&[0], Some((0, b"a"))) };
        say(&mut in_view(), 2, committed).unwrap();
    }

    #[test]
    fn a2_a_leader_has_one_change() {
        let mut accord = in_view();
        let noted = say(&mut accord, 0, row(&[], Some((0, b"a"))));
        broken(noted, "A3");
        for seat in 1..5 {
            say(&mut accord, seat, row(&[], None)).unwrap();
        }
        assert!(say(&mut accord, 0, row(&[], Some((0, b"a")))).unwrap().has_proposed);
        assert!(!say(&mut accord, 1, row(&[], Some((0, b"a")))).unwrap().has_proposed);
        broken(say(&mut accord, 2, row(&[], Some((0, b"b")))), "A2");
    }

    #[test]
    fn a3_all_that_a_leader_trusts_are_with_it_and_a_majority() {
        let mut accord = in_view();
        for seat in [2, 3] {
            say(&mut accord, seat, row(&[0], None)).unwrap();
        }
        broken(say(&mut accord, 1, row(&[0], Some((1, b"a")))), "A3");
        say(&mut accord, 4, row(&[], None)).unwrap();
        broken(say(&mut accord, 1, row(&[0], Some((1, b"a")))), "A3");
        broken(say(&mut accord, 1, row(&[0, 3, 4], Some((1, b"a")))), "A3");
        say(&mut accord, 1, row(&[0, 4], Some((1, b"a")))).unwrap();
    }

    #[test]
    fn a4_the_change_of_the_last_leader_is_adopted() {
        let mut accord = in_view();
        for seat in 1..5 {
            say(&mut accord, seat, row(&[], None)).unwrap();
        }
        say(&mut accord, 0, row(&[], Some((0, b"a")))).unwrap();
        say(&mut accord, 2, row(&[], Some((0, b"a")))).unwrap();
        for seat in 1..5 {
            let shown = (seat == 2).then_some((0, &b"a"[..]));
            say(&mut accord, seat, row(&[0], shown)).unwrap();
        }
        let mut other = accord.clone();
        broken(say(&mut other, 1, row(&[0], Some((1, b"b")))), "A4");
        // A row that is not trusted is not asked.
        say(&mut accord.clone(), 1, row(&[0, 2], Some((1, b"b")))).unwrap();
        say(&mut accord, 1, row(&[0], Some((1, b"a")))).unwrap();
    }

    #[test]
    fn a5_a_view_is_left_when_a_majority_has_accepted_one_change() {
        let mut accord = in_view();
        for seat in 1..5 {
            say(&mut accord, seat, row(&[], None)).unwrap();
        }
        say(&mut accord, 0, row(&[], Some((0, b"a")))).unwrap();
        broken(install(&mut accord.clone(), 1), "A5");
        say(&mut accord, 2, row(&[], Some((0, b"a")))).unwrap();
        install(&mut accord.clone(), 1).unwrap();
        broken(install(&mut accord.clone(), 2), "A5");
    }

    #[test]
    fn a6_newcomers_do_not_outnumber_those_with_the_state() {
        let mut crowded = view(4, MEMBERS);
        crowded.members[3].since = ViewId(4);
        crowded.roster[0].shards[0].bearers = seats(&[0, 1]);
        assert!(judge_newcomers(&crowded).unwrap_err().starts_with("A6"));
        crowded.roster[0].shards[0].bearers = seats(&[0, 1, 2]);
        judge_newcomers(&crowded).unwrap();
        let mut pair = view(4, &[0, 1]);
        pair.members[1].since = ViewId(4);
        pair.roster[0].shards[0].bearers = seats(&[0]);
        judge_newcomers(&pair).unwrap();
    }

    #[test]
    fn a8_a_promise_that_was_told_is_in_the_log() {
        let (mut accord, mut disk) = (Accord::default(), Disk::default());
        accord.note_promise(Rank::at(2), 0, &mut disk).unwrap();
        let said = accord.note_promise(Rank::at(2), 257, &mut disk).unwrap_err();
        assert!(said.starts_with("A8"), "{said}");
    }

    #[test]
    fn a7_what_a_row_shows_is_in_the_log() {
        let row = row(&[0], Some((1, b"a")));
        let kept = |view, standing, change: &[u8]| {
            let logged = Accepted { view: ViewId(view), standing, change: change.to_vec() };
            judge_log(Rank::at(2), &row, Some(&logged))
        };
        kept(3, 1, b"a").unwrap();
        kept(3, 2, b"b").unwrap();
        assert!(judge_log(Rank::at(2), &row, None).unwrap_err().starts_with("A7"), "it was freed");
        kept(3, 1, b"b").unwrap_err();
        kept(3, 0, b"a").unwrap_err();
        kept(2, 1, b"a").unwrap_err();
    }
}
