//! A state from another member, read as it arrives: a bounded part of it in each turn.
//!
//! ```text
//! transfer   bytes | bytes | ... | the end
//! application  read beside the state that is here ...  | takes its place, at once
//! ```
//! - R1 a turn reads one piece, or continues one: as much as the application does in one call
//!   ([`Application::restore_piece`]). So heartbeats, votes and clients wait no longer while a
//!   member is given a state of gigabytes. Test `a_state_is_read_one_step_a_turn`.
//! - R2 the state that was here stays, and stays in use, until the other one is whole and its
//!   checksum is right. By construction: [`Fetch::whole`] is asked before it is put in place.
//! - R3 of a state that is given up, or that starts again, nothing stays. By construction: what is
//!   read belongs to a number of [`Fetch::state`].
//! - R4 a state that is not ahead of what is executed here takes the place of nothing.
//!
//! [`Fetch::whole`]: crate::transfer::Fetch::whole
//! [`Fetch::state`]: crate::transfer::Fetch::state

use crate::bugs::Bug;
use crate::catchup::{HEAD_BYTES, replace, split_head};
use crate::core::Core;
use crate::order::Place;
use crate::plant::Plant;
use crate::service::{Application, Door};
use base::Prefix;
use proto::Replicator;

/// What was read of a state.
#[derive(Debug)]
pub(crate) struct Restoring {
    /// See R3.
    of: u64,
    /// What stands before the service's bytes, as far as it has come.
    head: Vec<u8>,
    /// The length of a piece that the service has not done with.
    unread: Option<usize>,
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// Whether there is something of a state to be read now.
    pub(crate) fn has_state_to_read(&self) -> bool {
        self.fetch.has_bytes() || self.restoring.as_ref().is_some_and(|of| of.unread.is_some())
    }

    /// Reads the next part of a state that is arriving (R1). True if it did.
    pub(crate) fn mind_restoring(&mut self) -> bool {
        let present = self.fetch.state();
        if self.restoring.as_ref().is_some_and(|restoring| Some(restoring.of) != present) {
            self.restoring = None; // R3
            self.host.app.give_up_restore();
        }
        let Some(of) = present.filter(|_| self.has_state_to_read()) else { return false };
        let (app, now) = (&mut self.host.app, self.host.desk.now);
        let restoring = self.restoring.get_or_insert_with(|| {
            app.begin_restore();
            Restoring { of, head: Vec::new(), unread: None }
        });
        let (read, n_bytes) = match restoring.unread.take() {
            Some(n_bytes) => (app.restore_piece(&[]), n_bytes),
            None => {
                let bytes = self.fetch.bytes().unwrap_or_default();
                let n_head = (HEAD_BYTES - restoring.head.len()).min(bytes.len());
                let (head, body) = bytes.split_at(n_head);
                restoring.head.extend_from_slice(head);
                (app.restore_piece(body), bytes.len())
            }
        };
        match read {
            Ok(true) => restoring.unread = Some(n_bytes),
            Ok(false) => self.fetch.taken(n_bytes, now, &mut self.host.flows),
            Err(why) => self.refuse_state(&why),
        }
        self.end_restoring();
        true
    }

    /// Puts the state in place, if all of it is here.
    pub(crate) fn end_restoring(&mut self) {
        let Some(prefix) = self.fetch.whole() else { return };
        let restoring = self.restoring.take();
        let executed = self.host.executed();
        if prefix <= executed && executed > Prefix::ZERO {
            // R4: the machine has gone on by itself. What follows may be news nevertheless.
            self.host.app.give_up_restore();
            let now = self.now();
            return self.fetch.installed(true, now);
        }
        let unknown = || "it has not the form that this version writes".to_owned();
        let place = restoring.and_then(|restoring| split_head(&restoring.head)).ok_or_else(unknown);
        let put = place.and_then(|place| {
            self.host.app.end_restore()?;
            Ok(place)
        });
        match put {
            Ok(place) => {
                let has_bug = self.host.plant.has_planted(Bug::StateWithoutPlace);
                let place = if has_bug { Place::default() } else { place };
                replace(&mut self.host, prefix, place);
                // A live member's state shows the time to the measure of `ticks`, I2.
                self.host.state_moved = (self.host.app.state_ms(), self.host.plant.boot_now());
                // It was of the state that was replaced.
                self.saving = None;
                let now = self.now();
                self.fetch.installed(true, now);
            }
            Err(why) => self.refuse_state(&why),
        }
    }

    fn refuse_state(&mut self, why: &str) {
        let line = format!("a state from another member was refused: {why}");
        self.host.plant.say(&line);
        self.restoring = None;
        self.host.app.give_up_restore();
        let now = self.now();
        self.fetch.installed(false, now);
    }
}
