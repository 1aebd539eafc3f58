//! Reads beside the log (I10 of the feeder).

use super::{Audience, Feeder, LOOK_EVERY, Order};
use crate::bugs::Bug;
use crate::entry::ConnectionId;
use crate::framing::Framing;
use crate::program::Program;
use crate::transcript::Transcript;
use base::Instant;
use proto::planted::Planting;

/// The most reads of a copy at one time of the log. A program reads its clock for each request, and
/// is shown another time when it has done so very often (docs/decisions/0024): the copies that have
/// not seen the reads would not be. (It is exceeded by those of one piece of a client's at most:
/// those that wait for their check, or for the copy, are fed at this time or at a later one, and
/// there are no more of them.)
const AT_ONE_TIME_MAX: u64 = 4096;

/// Reads of an own client whose check was made.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) id: ConnectionId,
    /// The bytes of the transcript that the check covers.
    pub(crate) at: u64,
    /// The requests.
    pub(crate) bytes: Vec<u8>,
    /// Their number.
    pub(crate) n: u64,
}

/// The reads that wait for the copy.
#[derive(Debug, Default)]
pub(super) struct Beside {
    waiting: Vec<Reads>,
    /// The requests of those.
    n_waiting: u64,
    /// Reads were fed, and no entry since.
    has_had_its_turn: bool,
    /// The requests that were fed since the log's time was another one.
    n_at_this_time: u64,
    /// The requests that were fed.
    n_fed: u64,
}

impl Beside {
    pub(super) fn follow_an_entry(&mut self) {
        self.has_had_its_turn = false;
    }

    pub(super) fn follow_a_time(&mut self) {
        self.n_at_this_time = 0;
    }
}

impl<B: Planting<Bug>> Feeder<B> {
    /// The number of reads beside the log that the copy takes now, less those that wait for their
    /// check. What it does not take is said in the log.
    pub(crate) fn n_reads_taken(&self) -> u64 {
        let has_log_time = self.clock.told_ms > 0;
        let is_serial = self.config.order == Order::Serial && self.config.replies.is_some();
        if !is_serial || !self.is_feeding() {
            0
        } else if has_log_time {
            let Beside { n_at_this_time, n_waiting, .. } = &self.beside;
            AT_ONE_TIME_MAX.saturating_sub(n_at_this_time + n_waiting)
        } else {
            u64::MAX
        }
    }

    /// Takes reads of an own client. They are fed when the copy is as far as that, and the audience
    /// is told when they are answered.
    pub(crate) fn read(&mut self, reads: Reads) {
        self.beside.n_waiting += reads.n;
        self.beside.waiting.push(reads);
    }

    /// The number of requests that were fed beside the log.
    pub fn n_read_beside(&self) -> u64 {
        self.beside.n_fed
    }

    /// Whether these reads may be fed when the program is at rest.
    fn is_ready(&self, reads: &Reads) -> bool {
        let key = self.legs.key(reads.id);
        let owes = |key| {
            let leg = self.leg(key);
            leg.n_owed > 0 || !leg.is_written()
        };
        // A place of 0 is that of a planted mistake, as what is not executed is: its leg is there.
        let is_early = reads.at == 0 || self.planted.has(Bug::ReadBeforeExecuted);
        let is_far_enough = if is_early { key.is_some() } else { reads.at <= self.cursor };
        is_far_enough && !key.is_some_and(owes)
    }

    /// Whether reads wait for nothing but the program's rest.
    pub(super) fn reads_are_next(&self, transcript: &impl Transcript) -> bool {
        let entry_waits = self.lag_bytes(transcript) > 0;
        let yields = self.hashes.is_due() || self.beside.has_had_its_turn && entry_waits;
        !yields && self.beside.waiting.iter().any(|reads| self.is_ready(reads))
    }

    /// Feeds the reads that may be fed now. Returns whether there were any.
    pub(super) fn feed_reads(
        &mut self,
        transcript: &impl Transcript,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        let is_early = self.is_awaited() && !self.planted.has(Bug::ReadBeforeExecuted);
        if is_early || !self.reads_are_next(transcript) {
            return false;
        }
        if self.may_be_awake(program, now) {
            self.look_at = Some(now.plus(LOOK_EVERY));
            return false;
        }
        let waiting = std::mem::take(&mut self.beside.waiting);
        let (ready, waiting): (Vec<_>, _) =
            waiting.into_iter().partition(|reads| self.is_ready(reads));
        self.beside.waiting = waiting;
        for Reads { id, bytes, n, .. } in ready {
            self.beside.n_waiting -= n;
            // (One that is over, or closed by the program, was told so.)
            let Some(key) = self.legs.key(id) else { continue };
            let leg = self.leg_mut(key);
            if leg.framing.as_ref().is_none_or(Framing::has_lost_requests) || leg.has_ended {
                audience.cut_off(id.number);
                continue;
            }
            leg.is_reading = true;
            self.put(key, &bytes, program);
            let n = self.leg(key).n_owed;
            if n == 0 {
                audience.cut_off(id.number); // the end of its answer would not be known
            }
            self.beside.n_fed += n;
            self.beside.n_at_this_time += n;
        }
        (self.turn, self.beside.has_had_its_turn) = (None, true);
        (self.has_slept, self.clock.is_calm, self.moved_at) = (false, false, now);
        true
    }
}
