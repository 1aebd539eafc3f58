//! The replicated state without its door, for commands that fold a log.

use base::Slot;
use kv::door::{Serves, State};
use runtime::{Answers, Application};

/// An empty state. The limit has to be the cluster's: writes that were refused for it have to be
/// refused again.
pub(crate) fn offline_state(memory_bytes_max: u64) -> impl runtime::offline::State {
    // No client reads the state, so the seed of RANDOMKEY does not matter.
    Offline(State::new(memory_bytes_max, 0))
}

struct Offline(State);

impl runtime::offline::State for Offline {
    fn apply(&mut self, slot: Slot, value: &[u8]) {
        self.0.apply(slot, value, &mut Answers::default());
        if let Some(complaint) = self.0.take_complaint() {
            runtime::complain(format_args!("{complaint}"));
        }
    }

    fn save(&mut self, out: &mut Vec<u8>) {
        self.0.save(out);
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        self.0.restore(state)
    }
}
