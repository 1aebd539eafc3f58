//! A newcomer's way to a state that counts (A5).
//!
//! It asks every other member for all registers, a piece at a time: the next one is asked for when
//! the last one is here, so no more than one piece of a giver is on its way. A giver keeps nothing:
//! each request says behind which key it continues, and of which run of the giver: pieces of two
//! runs end at different keys, and what lies between would be in neither. Registers change
//! meanwhile; what a giver stores behind the place that was reached it stores with the newcomer's
//! run noted (A3, A6).

use super::bugs::Bug;
use super::wire::{Body, Entries, put_entries};
use super::{Abd, RESEND_AFTER};
use crate::keyed::{Claim, KeyedHost};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Instant, MAX_MEMBERS, Rank, majority};
use core::time::Duration;

/// How long `Bug::BeginsEmpty` waits for a state.
const EMPTY_AFTER: Duration = Duration::from_millis(60);

/// What one member has given.
#[derive(Debug, Default)]
struct Given {
    /// The run that gives; zero before its first piece.
    run: u64,
    /// Pieces that are here.
    n_pieces: u64,
    /// The last key of the last piece.
    after: Option<Vec<u8>>,
    is_whole: bool,
}

/// The states that are being merged.
#[derive(Debug, Default)]
pub(super) struct Merge {
    of: [Given; MAX_MEMBERS],
    /// When those whose next piece has not come are asked again.
    pub(super) ask_at: Instant,
    /// Of `Bug::BeginsEmpty` alone.
    began_at: Option<Instant>,
}

impl Merge {
    /// So many other members' states are merged: a majority, and of two members the other, which is
    /// in every majority. One alone has no other to ask.
    pub(super) fn needed(members: usize) -> usize {
        majority(members).min((members - 1).max(1))
    }
}

impl<P: Planting<Bug>> Abd<P> {
    /// Asks those whose pieces are due.
    pub(super) fn ask_for_states<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        let Some(merge) = &mut self.merge else { return };
        let began_at = *merge.began_at.get_or_insert(now);
        if self.planted.has(Bug::BeginsEmpty) && now.since(began_at) > EMPTY_AFTER {
            return self.end_merge(now, host);
        }
        if now >= merge.ask_at {
            merge.ask_at = now.plus(RESEND_AFTER);
            for to in self.others() {
                self.ask_for_state(to, host);
            }
        }
        self.try_to_end_merge(now, host);
    }

    fn ask_for_state<H: KeyedHost>(&mut self, to: Rank, host: &mut H) {
        let runs = self.runs;
        let Some(merge) = &mut self.merge else { return };
        let given = &mut merge.of[to.index()];
        let is_over = given.run != 0 && given.run < runs[to.index()];
        if is_over && !self.planted.has(Bug::MixedStates) {
            // What its earlier run gave may lack what that one was told later.
            *given = Given::default();
        }
        if !given.is_whole {
            let (piece, giver, after) = (given.n_pieces, given.run, given.after.clone());
            let _ = self.send(to, &Body::Fetch { piece, giver, after: after.as_deref() }, host);
        }
    }

    /// Gives a piece of the own state.
    pub(super) fn on_fetch<H: KeyedHost>(
        &mut self,
        from: Rank,
        run: u64,
        (piece, giver, after): (u64, u64, Option<&[u8]>),
        host: &mut H,
    ) {
        if !self.is_serving() {
            return;
        }
        let is_meant = giver == 0 || giver == self.run();
        if !is_meant && !self.planted.has(Bug::FetchOutlivesGiver) {
            self.counts.outdated += 1;
            return;
        }
        let mut bytes = core::mem::take(&mut self.piece);
        let is_last = put_entries(host, after, &mut bytes);
        let entries = Entries::of(&bytes);
        let _ = self.send(from, &Body::Piece { piece, run, is_last, entries }, host);
        self.piece = bytes;
    }

    pub(super) fn on_piece<H: KeyedHost>(
        &mut self,
        (from, run): (Rank, u64),
        piece: u64,
        is_last: bool,
        entries: Entries<'_>,
        now: Instant,
        host: &mut H,
    ) {
        let mixes = self.planted.has(Bug::MixedStates);
        let Some(merge) = &mut self.merge else { return };
        let given = &mut merge.of[from.index()];
        if given.run != run && given.run != 0 && !mixes {
            // Its giver has another run than the pieces before: they begin again.
            self.ask_for_state(from, host);
            return;
        }
        if piece != given.n_pieces || given.is_whole {
            return; // a late copy of one that is here
        }
        given.run = run;
        given.n_pieces += 1;
        given.is_whole = is_last;
        given.after = entries.iter().last().map(|(key, ..)| key.to_vec()).or(given.after.take());
        for (key, tag, value) in entries.iter() {
            let keeps = self.planted.has(Bug::MergeKeepsFirst) && host.register(key).is_some();
            self.counts.keys_merged += 1;
            if !keeps {
                self.place(key, tag, value, host);
            }
        }
        if !is_last {
            self.ask_for_state(from, host);
        }
        self.try_to_end_merge(now, host);
    }

    fn try_to_end_merge<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        let Some(merge) = &self.merge else { return };
        let mixes = self.planted.has(Bug::MixedStates);
        // A5: a state whose giver's run is over does not count.
        let is_given = |given: &Given, run: u64| given.is_whole && (given.run == run || mixes);
        let whole = merge.of.iter().zip(self.runs).filter(|(given, run)| is_given(given, *run));
        let of_one = self.planted.has(Bug::MergeOfOne);
        let needed = if of_one { 1 } else { Merge::needed(self.members) };
        if whole.count() >= needed {
            self.end_merge(now, host);
        }
    }

    fn end_merge<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        self.merge = None;
        self.counting.insert(self.me);
        self.counts.merges += 1;
        host.claim(Claim::Counts);
        // The others hear at once that they may count on it.
        self.beat(now, host);
    }
}
