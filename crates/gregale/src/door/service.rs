//! The door as a replica sees it: `kv`'s decisions, and this process's part beside them.

use super::process::give_statuses;
use super::{Door, KEY_CHANNEL, KEY_LISTENER, KEY_SIGNALS, KEY_STATUS};
use kv::door::{Discarded, State};
use runtime::{Answer, Asker, Changed, Desk, Performed, ReadAnswer, Ready, Sockets, Stats, View};

/// Frees the memory of states on a thread of its own: a million keys take a quarter of a second,
/// for which the loop must not stand still.
fn drop_aside(states: Vec<Discarded>) {
    if !states.is_empty() {
        // Without a thread they are freed here.
        let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(states));
    }
}

impl runtime::Door<State> for Door {
    fn applied(&mut self, state: &mut State) {
        self.door.applied(state);
        if let Some(complaint) = state.take_complaint() {
            eprintln!("gregale: {complaint}");
        }
    }

    fn perform(
        &mut self,
        asker: Asker,
        stamp_ms: u64,
        state: &mut State,
        desk: &mut Desk,
    ) -> Performed {
        self.door.perform(asker, stamp_ms, state, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        self.door.describe_read(asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, desk: &mut Desk) {
        self.door.answer(asker, answer, desk);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, desk: &mut Desk) {
        self.door.answer_read(asker, answer, desk);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, desk: &mut Desk) {
        self.door.answer_wait(asker, n, desk);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, desk: &mut Desk) {
        self.door.answer_change(asker, changed, desk);
    }

    fn resume(&mut self, state: &mut State, desk: &mut Desk) -> bool {
        drop_aside(state.take_discarded());
        self.door.resume(state, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        self.door.streams.listen_again();
        self.door.flush(desk);
    }

    fn publish(&mut self, view: &View, stats: &Stats, state: &mut State) {
        // This comes before clients are admitted again because this member serves.
        self.report_seats(view);
        self.door.publish(view, stats, state);
        self.report(view);
        self.door.clients.outside.disk.clone_from(&stats.disk);
        self.board.leave(view, stats, self.door.figures());
    }
}

impl Sockets<State> for Door {
    fn on_ready(&mut self, ready: Ready, state: &mut State, desk: &mut Desk) {
        match ready.key {
            KEY_LISTENER => self.door.accept(desk),
            KEY_SIGNALS => self.on_signal(),
            KEY_CHANNEL => self.on_channel(),
            KEY_STATUS => give_statuses(&mut self.door.clients),
            _ => self.door.on_ready(super::sockets::ready(ready), state, desk),
        }
    }
}
