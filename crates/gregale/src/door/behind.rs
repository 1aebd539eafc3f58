//! The door and its state, as the engine behind them sees both.

use super::state::State;
use super::{Door, KEY_CHANNEL, KEY_LISTENER, KEY_SIGNALS, KEY_STATUS};
use crate::control::ServiceFigures;
use base::Slot;
use runtime::{
    Answer, Answers, Appended, Application, Asker, Changed, Desk, Origin, Performed, ReadAnswer,
    Ready, Saving, Sequence, Sockets, Stats, View,
};

impl Application for State {
    fn apply(&mut self, slot: Slot, value: &[u8], answers: &mut Answers) {
        State::apply(self, slot, value, answers);
    }

    fn state_ms(&self) -> u64 {
        self.machine.state_ms()
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        self.machine.store().next_expiry_ms()
    }

    fn read(&mut self, read: &[u8], stamp_ms: u64, reply: &mut Vec<u8>) -> Performed {
        State::read(self, read, stamp_ms, reply)
    }

    fn begin_save(&mut self) -> Saving {
        State::begin_save(self)
    }

    fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        State::save_piece(self, saving, out)
    }

    fn end_save(&mut self, saving: Saving) {
        State::end_save(self, saving);
    }

    fn begin_restore(&mut self) {
        State::begin_restore(self);
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        State::restore_piece(self, bytes)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        State::end_restore(self)
    }

    fn give_up_restore(&mut self) {
        State::give_up_restore(self);
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        State::begin(self, stamp_ms, out);
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        State::append(self, origin, sequence, command, bytes_max, out)
    }

    fn abandon(&mut self) {
        State::abandon(self);
    }
}

impl runtime::Door<State> for Door {
    fn applied(&mut self, state: &mut State) {
        let published = state.machine.take_published();
        // What was published before this life served anybody is not news.
        if self.reported {
            self.clients.tell(&published);
        }
    }

    fn perform(
        &mut self,
        asker: Asker,
        stamp_ms: u64,
        state: &mut State,
        desk: &mut Desk,
    ) -> Performed {
        self.clients.perform(asker, stamp_ms, state, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        self.clients.describe_read(asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        self.clients.answer(asker, answer);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _: &mut Desk) {
        self.clients.answer_read(asker, answer);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, _: &mut Desk) {
        self.clients.answer_wait(asker, n);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, _: &mut Desk) {
        self.clients.answer_change(asker, changed);
    }

    fn resume(&mut self, state: &mut State, desk: &mut Desk) -> bool {
        self.clients.resume(state, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        let Some(poller) = &self.poller else { return };
        self.clients.listen_again(poller);
        self.clients.flush(poller, desk);
    }

    fn publish(&mut self, view: &View, stats: &Stats, state: &mut State) {
        self.report(view);
        state.sweep();
        let store = state.machine.store();
        let figures = ServiceFigures {
            keys: store.len() as u64,
            memory_bytes: store.used_bytes(),
            state_time_ahead_ms: stats.state_time_ahead_ms,
            ..self.clients.figures()
        };
        self.clients.note_state_time(stats.state_time_ahead_ms);
        self.clients.disk.clone_from(&stats.disk);
        self.board.leave(view, stats, figures);
    }
}

impl Sockets<State> for Door {
    fn on_ready(&mut self, ready: Ready, state: &mut State, desk: &mut Desk) {
        let Some(poller) = &self.poller else { return };
        match ready.key {
            KEY_LISTENER => self.clients.accept(poller, desk),
            KEY_SIGNALS => self.on_signal(),
            KEY_CHANNEL => self.on_channel(),
            KEY_STATUS => self.clients.take_statuses(),
            _ => self.clients.on_ready(ready, poller, state, desk),
        }
    }
}
