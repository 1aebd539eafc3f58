//! The points of a copy, where its answers are hashed and it may be saved, and the ends of
//! connections, which are fed at rest (`feeder`, I6).
//!
//! - I14 a program may move while it saves, and do nothing else. It was at rest when its save was
//!   begun at a point, and is fed nothing there. So until that is over the save alone is asked
//!   for, which has a deadline of its own: the copy does not stall meanwhile, be it that the
//!   checkpoint was given up. Its hash is taken when it is at rest behind that (it may have ended),
//!   and until then it stalls as any other.

use super::{Audience, Feeder, LOOK_EVERY, Phase, SOON_AFTER};
use crate::bugs::Bug;
use crate::checkpoint::Header;
use crate::entry::{ConnectionId, Entry};
use crate::hash::Taken;
use crate::program::Program;
use crate::session::Session;
use crate::shown::Shown;
use crate::state::State;
use crate::transcript::Transcript;
use base::Instant;
use proto::planted::Planting;

/// A save of a program that was at rest when it was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The point.
    pub(super) at: u64,
    pub(super) is_over: bool,
}

/// A copy that was saved, or could not be.
#[derive(Debug)]
pub(crate) struct Saved {
    /// The point.
    pub(crate) at: u64,
    /// The header and the number of bytes that are the program's; or the reason why nothing was
    /// saved.
    pub(crate) made: Result<(Vec<u8>, u64), String>,
}

impl<B: Planting<Bug>> Feeder<B> {
    /// I6: takes the hash of a point, if the copy is at one, and saves the copy, if it is chosen.
    /// Returns whether it may be fed on.
    pub(super) fn pass_point<H: Transcript>(
        &mut self,
        state: &State<H, B>,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        if !self.hashes.is_due() {
            return true;
        }
        let making = state.checkpoints().making();
        let saves = making.is_some_and(|making| {
            let me = (self.config.me, self.config.run);
            making.at == self.position() && making.maker == me && making.len == 0
        });
        let renews = self.config.renews && self.hashes.is_halted();
        if saves
            && !renews
            && self.planted.has(Bug::SavedBeforeRest)
            && self.renewal.saved.is_none()
        {
            self.save(program, now);
        }
        let is_careless = self.planted.has(Bug::HashBeforeRest);
        self.end_turn(program);
        let begun = self.renewal.saving.filter(|begun| begun.at == self.position());
        let is_saving = begun.is_some_and(|begun| !begun.is_over);
        if is_saving && !self.poll_save(saves, program, now) && saves {
            return false; // I14
        }
        if !is_careless && (self.is_awaited() || !self.is_settled(program, audience, now)) {
            return false;
        }
        let is_to_save = saves && !renews && begun.is_none() && self.renewal.saved.is_none();
        if is_to_save && !self.save(program, now) {
            self.renewal.saving = Some(Begun { at: self.position(), is_over: false });
            return false;
        }
        self.renewal.saving = None;
        for leg in self.legs.iter_mut().filter(|leg| !leg.is_over) {
            let mut answers = std::mem::take(&mut leg.answers);
            if !leg.is_masked() {
                self.hashes.add(leg.id, &mut answers, false);
            }
            let n_owed = leg.n_owed;
            leg.session.iter_mut().for_each(|one| one.pass_point(n_owed, self.planted));
            leg.shown.iter_mut().for_each(Shown::pass_point);
        }
        self.common.pass_point();
        let taken = self.hashes.take();
        audience.pass_point(taken, now);
        !renews || self.begin_renewal(saves, program, now)
    }

    /// Saves the copy, which is at rest. Returns whether that is done, or was in vain.
    pub(super) fn save(&mut self, program: &mut impl Program, now: Instant) -> bool {
        let at = self.position();
        let made = match self.header() {
            Ok(header) => match program.save(self.place_of_save()) {
                Ok(Some(len)) => Ok((header.bytes(), len)),
                Ok(None) => {
                    self.await_save(now);
                    return false;
                }
                Err(why) => Err(why),
            },
            Err(why) => Err(why.to_owned()),
        };
        self.renewal.saved = Some(Saved { at, made });
        true
    }

    /// I14: whether the save that was begun here is over. If it is no longer wanted, the members
    /// have given it up.
    fn poll_save(&mut self, is_wanted: bool, program: &mut impl Program, now: Instant) -> bool {
        let is_over = if is_wanted {
            self.save(program, now)
        } else {
            program.save(self.place_of_save()) != Ok(None)
        };
        if !is_wanted && !is_over {
            self.await_save(now);
        }
        self.renewal.saving = Some(Begun { at: self.position(), is_over });
        is_over
    }

    /// The save is not over: it is asked for again a moment later, and has a deadline of its own.
    fn await_save(&mut self, now: Instant) {
        (self.moved_at, self.look_at) = (now, Some(now.plus(LOOK_EVERY)));
    }

    fn place_of_save(&self) -> u64 {
        if self.planted.has(Bug::SavedElsewhere) { 0 } else { self.position() }
    }

    /// What a copy that begins here has to be told (`checkpoint`, K5).
    ///
    /// # Errors
    /// The reason why that cannot be told.
    pub(super) fn header(&self) -> Result<Header, &'static str> {
        let mut connections = Vec::new();
        for (_, leg) in self.legs.iter() {
            let is_quiet = leg.n_owed == 0 && leg.is_written() && !leg.has_ended
                || self.planted.has(Bug::SavedBeforeRest);
            let explain = |session: &Session| session.explanation();
            let requests = leg.session.as_ref().filter(|_| is_quiet).and_then(explain);
            let requests = requests.ok_or("a connection is in the middle of something")?;
            connections.push((leg.id, requests));
        }
        let common = self.common.requests().ok_or(
            "a client's setting or script cannot be repeated (its answer is not known, or it is \
             too long), so the transcript grows: say --program-save files or criu",
        )?;
        Ok(Header { common, connections })
    }

    /// I6: whether the program sleeps, and all that it has sent was read. If not, it is looked at
    /// again a moment later.
    pub(super) fn is_settled(
        &mut self,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        let n_read = self.n_read;
        let is_settled = program.is_asleep() && !self.has_found_room(program, now) && {
            // What is read now may have been sent before it slept, or wake it: it has had no room.
            for key in 0..self.legs.end_key() {
                self.on_ready(key, program, audience, now);
            }
            self.n_read == n_read
        };
        if !is_settled {
            // Where answers are held, clients wait for this.
            let soon = if self.hashes.counts_values() { SOON_AFTER } else { LOOK_EVERY };
            self.look_at = Some(now.plus(soon));
        }
        is_settled
    }

    /// I6: whether `entry` ends connections whose answers, or whose end by the program, may not all
    /// have been read.
    pub(super) fn ends_early(
        &mut self,
        entry: &Entry<'_>,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        if !self.hashes.is_on() || self.planted.has(Bug::EndedBeforeRest) {
            return false;
        }
        let keys: Vec<u64> = match *entry {
            Entry::HalfClose { id, .. } | Entry::Close { id, .. } | Entry::Abort { id } => {
                self.legs.key(id).into_iter().collect()
            }
            Entry::Begin { owner, .. } | Entry::Left { owner, .. } => {
                self.legs.keys_of(|id| id.owner == owner)
            }
            Entry::Gone { owner, run, below } => {
                self.legs.keys_of(|id| id.owner == owner && id.run <= run && id.number < below)
            }
            Entry::Halt { .. } => self.legs.keys_of(|_| true),
            Entry::Open { .. } | Entry::Input { .. } | Entry::Compare { .. } => Vec::new(),
            Entry::Hash { .. } | Entry::Piece { .. } => unreachable!("it is no input"),
        };
        if keys.iter().any(|key| self.legs.busy().contains(key)) {
            return true;
        }
        // A leg may be busy no longer because the program slept, and was not read since. Without
        // known replies nothing tells that all of them were read.
        let is_quiet = |key: &u64| {
            let leg = self.leg(*key);
            let is_plain = leg.session.as_ref().is_some_and(Session::is_plain);
            let is_counted = self.config.replies.is_some();
            is_counted && is_plain && !leg.has_ended && !self.legs.blocked().contains(key)
        };
        if self.planted.has(Bug::OwnEndUnread) {
            return false;
        }
        if !keys.iter().all(is_quiet) {
            return !self.is_settled(program, audience, now);
        }
        // Another connection may have had it closed.
        keys.iter().for_each(|key| self.on_ready(*key, program, audience, now));
        false
    }

    /// The first byte of the transcript that the copy still needs.
    pub fn needs_from(&self) -> u64 {
        match &self.phase {
            Phase::Waiting => 0,
            Phase::Restoring(restoring) => restoring.offset,
            Phase::Feeding => self.cursor,
        }
    }

    /// Whether the state continues behind entries that the copy was never fed: another member's
    /// took its place.
    pub fn is_behind(&self, transcript: &impl Transcript) -> bool {
        !matches!(self.phase, Phase::Waiting) && transcript.start() > self.needs_from()
    }

    /// The copy that was saved, once.
    pub(crate) fn take_saved(&mut self) -> Option<Saved> {
        self.renewal.saved.take()
    }

    /// The number of entries of connections that were executed by the copy, those before its
    /// beginning included.
    pub fn position(&self) -> u64 {
        self.hashes.position()
    }

    /// A hash of the copy's answers that was not handed on.
    pub fn take_hash(&mut self) -> Option<Taken> {
        self.hashes.pop()
    }

    /// The open legs with their connections, and whether each is that of an own client.
    pub fn legs(&self) -> impl Iterator<Item = (u64, ConnectionId, bool)> + '_ {
        self.legs.iter().map(|(key, leg)| (key, leg.id, self.is_own(leg.id)))
    }

    /// The answers of a leg end; `is_closed` if the program has closed it. (If that is its answer
    /// to a read, the other copies have not seen why.)
    pub(super) fn end_answers(&mut self, key: u64, is_closed: bool) {
        let leg = self.legs.get_mut(key);
        let is_closed = is_closed && !leg.is_reading;
        if self.hashes.is_on() && !leg.is_over && !leg.is_masked() {
            self.hashes.end(leg.id, &mut leg.answers, is_closed);
        }
    }

    /// The connection of a leg is over: its input ends, and its output is dropped from now on. A
    /// client that did not end it is told: the others took this process for dead.
    pub(super) fn leave(
        &mut self,
        key: u64,
        program: &mut impl Program,
        audience: &mut impl Audience,
    ) {
        self.end(key, program);
        self.end_answers(key, false);
        let leg = self.leg_mut(key);
        leg.is_over = true;
        let id = leg.id;
        self.legs.forget_name(id);
        if self.is_own(id) {
            audience.ended(id.number);
        }
    }

    pub(super) fn leave_all(
        &mut self,
        program: &mut impl Program,
        audience: &mut impl Audience,
        ends: impl Fn(&ConnectionId) -> bool,
    ) {
        for key in self.legs.keys_of(ends) {
            self.leave(key, program, audience);
        }
    }
}
