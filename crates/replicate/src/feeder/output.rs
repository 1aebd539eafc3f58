//! What a program sends: to the own clients, and into the hashes.

use super::leg::Leg;
use super::{Audience, Feeder};
use crate::bugs::Bug;
use crate::entry::ConnectionId;
use crate::program::Program;
use base::Instant;
use engine::streams::Received;
use proto::planted::Planting;

/// The most reads of one leg in one call.
const READS_MAX: usize = 16;
const READ_BYTES: usize = 16 << 10;

impl<B: Planting<Bug>> Feeder<B> {
    /// A leg is ready: reads output, and writes what is left of the last input.
    pub fn on_ready(
        &mut self,
        key: u64,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) {
        if !self.legs.is_open(key) {
            return;
        }
        if self.write(key, program) {
            self.moved_at = now;
        }
        let mut piece = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            match program.read(key, &mut piece) {
                Ok(Received::Bytes(n)) => {
                    self.moved_at = now;
                    self.n_read += 1;
                    self.take_output(key, &piece[..n], audience);
                    if n < READ_BYTES {
                        return; // that was all; what comes later makes the leg ready again
                    }
                }
                Ok(Received::Nothing) => return,
                Ok(Received::End) | Err(_) => {
                    self.moved_at = now;
                    self.n_read += 1;
                    let Leg { id, is_over, .. } = *self.leg(key);
                    if !is_over && self.is_own(id) {
                        audience.ended(id.number);
                    }
                    self.drop_leg(key, program);
                    return;
                }
            }
        }
    }

    fn take_output(&mut self, key: u64, bytes: &[u8], audience: &mut impl Audience) {
        let is_one_enough = self.planted.has(Bug::RestAfterOneReply);
        let is_hashed = self.hashes.is_on();
        let hashes_reads = self.planted.has(Bug::ReadHashed);
        let leg = self.legs.get_mut(key);
        if let Some(session) = leg.session.as_mut().filter(|_| !leg.is_reading) {
            session.hear(bytes, &mut self.common);
        }
        if is_hashed && !leg.is_over && (!leg.is_reading || hashes_reads) {
            leg.answers.take(bytes);
        }
        if let Some(framing) = &mut leg.framing {
            // More replies than requests are told to a client that listens.
            leg.n_owed = leg.n_owed.saturating_sub(framing.replies(bytes));
            leg.n_owed *= u64::from(!is_one_enough);
        }
        let has_read = leg.n_owed == 0 && std::mem::take(&mut leg.is_reading);
        let Leg { id, is_over, .. } = *leg;
        if !is_over && self.is_own(id) {
            audience.output(id.number, bytes); // I4
            if has_read {
                audience.has_read(id.number);
            }
        }
        self.settle(key);
    }

    pub(super) fn is_own(&self, id: ConnectionId) -> bool {
        (id.owner, id.run) == (self.config.me, self.config.run)
    }

    pub(super) fn drop_leg(&mut self, key: u64, program: &mut impl Program) {
        program.close(key);
        self.end_answers(key, true);
        if let Some(session) = &mut self.legs.get_mut(key).session {
            session.end(&mut self.common);
        }
        self.legs.close(key);
    }
}
