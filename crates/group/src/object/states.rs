//! States: given to newcomers, kept in this process's log, and taken.
//!
//! - T1 *A state that is kept comes back.* On disk a state takes the place of the calls that led to
//!   it. It is read from its own bytes first; one that cannot be read ends the process, whose log
//!   still has the calls. Tested by `t1_a_state_that_cannot_be_read_frees_no_call`.
//! - T2 *A newcomer without its copy leaves in order*: one that cannot read it, and one that gets
//!   none in time. So the others do not take it for failed: of two members, the other one stays.
//!   Tested by `t2_a_newcomer_that_cannot_read_its_copy_leaves_the_founder_alone`,
//!   `t2_a_newcomer_that_gets_no_copy_in_time_leaves_the_founder_alone`.

use super::codec::{decode_state, encode_state};
use super::host::Host;
use crate::door::Group;
use crate::event::{Ended, Event, StateWanted};
use proto::vsync::ShardId;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest time for leaving in order.
const FAREWELL: Duration = Duration::from_secs(5);

impl Host {
    /// Gives the state that is wanted. An error ends the process (T1).
    pub(super) fn give_state(&self, wanted: StateWanted) -> Result<(), Ended> {
        let subgroup = wanted.shard().subgroup;
        let state = match self.part(subgroup) {
            Some(part) if self.options.is_kept(subgroup) => Some(part.state()?),
            Some(part) => part.bytes(),
            None => Some(Vec::new()),
        };
        // O5. (A newcomer can read no state without a time.)
        let state = state.map(|state| encode_state(self.latest(), &state)).unwrap_or_default();
        self.group.give(wanted, state);
        Ok(())
    }

    /// Takes the state that was given. An error ends the process.
    pub(super) fn take_state(&self, shard: ShardId, bytes: &[u8]) -> Result<(), Ended> {
        let taken = decode_state(bytes).and_then(|(time, state)| {
            self.learn(time);
            self.part(shard.subgroup).map_or(Ok(()), |part| part.take(state))
        });
        if taken.is_err() {
            self.is_unreadable.store(true, Ordering::SeqCst);
            farewell(&self.group);
            return Err(Ended::Os("the copy that was given cannot be read".into()));
        }
        self.announce();
        Ok(())
    }

    /// T2, while the executing thread takes the events.
    pub(super) fn say_farewell(&self) {
        self.group.leave(FAREWELL);
        let _late = self.calls.wait_end(FAREWELL);
    }
}

/// T2: leaves a group whose events no thread takes.
pub(super) fn farewell(group: &Group) {
    group.leave(FAREWELL);
    while let Some(event) = group.next(FAREWELL) {
        if matches!(event, Event::Ended(_)) {
            break;
        }
    }
}
