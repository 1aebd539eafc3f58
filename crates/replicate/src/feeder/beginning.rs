//! The beginning of a copy: in the program's first state, or with a checkpoint.

use super::{Audience, Config, Feeder, Phase};
use crate::bugs::Bug;
use crate::hash::{Answers, Hashes};
use crate::program::Program;
use crate::restoring::{COMMON_LEG, Restoring};
use crate::session::Common;
use crate::state::State;
use crate::transcript::Transcript;
use base::Instant;
use proto::planted::Planting;

impl<B: Planting<Bug>> Feeder<B> {
    /// Begins the copy, a step at a time. Returns whether there is more to do at once.
    pub(super) fn begin<H: Transcript>(
        &mut self,
        state: &State<H, B>,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        let step = match &mut self.phase {
            Phase::Waiting if state.transcript().is_empty() => return false,
            Phase::Waiting if state.base().position == 0 => {
                let time_ms = self.first_time(state.transcript());
                self.begin_at(time_ms, program, now);
                program.start(0).map(|()| {
                    self.phase = Phase::Feeding;
                    true
                })
            }
            Phase::Waiting => {
                self.phase = Phase::Restoring(Restoring::new(state.base()));
                Ok(true)
            }
            Phase::Restoring(restoring) if !restoring.is_started => {
                let found = restoring.find(state.transcript(), program);
                found.and_then(|is_whole| self.start_again(is_whole, program, now))
            }
            Phase::Restoring(_) => Ok(self.open_again(program, audience, now)),
            Phase::Feeding => Ok(false),
        };
        step.unwrap_or_else(|why| {
            self.failure = Some(why);
            false
        })
    }

    /// Starts a copy that begins with a checkpoint, once `is_whole`.
    fn start_again(
        &mut self,
        is_whole: bool,
        program: &mut impl Program,
        now: Instant,
    ) -> Result<bool, String> {
        let Phase::Restoring(restoring) = &mut self.phase else { return Ok(true) };
        if is_whole {
            self.common = Common::of(&restoring.read_header()?);
            restoring.is_started = true;
            let (position, time_ms) = (restoring.position, restoring.time_ms);
            if !self.planted.has(Bug::TimeNotRestored) {
                self.begin_at(time_ms, program, now);
            }
            program.start(position)?;
        }
        Ok(true)
    }

    /// Makes the connections again that were open at the checkpoint. Returns whether all are.
    pub(super) fn open_again(
        &mut self,
        program: &mut impl Program,
        audience: &mut impl Audience,
        now: Instant,
    ) -> bool {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(program, now);
        }
        let Phase::Restoring(restoring) = &mut self.phase else { return false };
        let Restoring { position, offset, .. } = *restoring;
        let mut legs = std::mem::take(&mut restoring.legs);
        while self.legs.busy().is_empty()
            && let Some((id, requests)) = legs.front()
            && self.open(*id, program, now)
        {
            self.moved_at = now;
            let key = self.legs.key(*id).expect("it was just opened");
            let is_forgotten = requests.is_empty() || self.planted.has(Bug::PrologueForgotten);
            match *id {
                _ if is_forgotten => {}
                COMMON_LEG => self.put(key, requests, program), // what the program was told is kept
                _ => self.input(key, requests, program),
            }
            legs.pop_front();
        }
        let is_done = legs.is_empty() && self.legs.busy().is_empty();
        if let Phase::Restoring(restoring) = &mut self.phase {
            restoring.legs = legs;
        }
        if !is_done || !self.is_settled(program, audience, now) {
            if !self.legs.busy().is_empty() && self.look_at.is_none() {
                self.look_at = Some(self.moved_at.plus(self.patience()));
            }
            return false;
        }
        // What the program has said to that was said at the first time.
        for leg in self.legs.iter_mut() {
            leg.answers = Answers::default();
            if let Some(session) = &mut leg.session {
                session.pass_point(leg.n_owed, self.planted);
            }
        }
        if let Some(key) = self.legs.key(COMMON_LEG) {
            self.drop_leg(key, program);
        }
        let Config { compare, output, .. } = self.config;
        self.hashes = Hashes::new(compare, position, self.planted).of(output);
        self.cursor = offset;
        self.phase = Phase::Feeding;
        true
    }
}
