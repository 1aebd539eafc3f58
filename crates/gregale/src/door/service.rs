//! The runtime's [`Service`], by what `kv` decides: each call is passed on, with the words of the
//! runtime for those of `kv`.

use super::{Door, KEY_CHANNEL, KEY_LISTENER, KEY_SIGNALS, KEY_STATUS};
use crate::control::ServiceFigures;
use base::{Incarnation, Slot};
use kv::door::{self, Discarded, Holds};
use kv::entry;
use runtime::{
    Answer, Answers, Appended, Asker, Changed, Desk, Origin, Performed, Poller, ReadAnswer, Ready,
    Saving, Sequence, Service, Stats, View,
};

const _: () = assert!(kv::reply::ANSWER_BYTES_MAX <= runtime::service::ANSWER_BYTES_MAX);

fn to_kv(origin: Origin) -> entry::Origin {
    entry::Origin { rank: origin.rank, incarnation: origin.life }
}

fn from_kv(origin: entry::Origin) -> Origin {
    Origin { rank: origin.rank, life: Incarnation(origin.incarnation.0) }
}

fn performed(how: door::Performed) -> Performed {
    match how {
        door::Performed::Done => Performed::Done,
        door::Performed::NeedsTick => Performed::NeedsTick,
    }
}

/// Gives the memory of a state back on a thread of its own: a million keys take a quarter of a
/// second, and the loop does not stand still for it.
fn drop_aside(state: Option<Discarded>) {
    let Some(state) = state else { return };
    // Without a thread it is dropped here.
    let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(state));
}

impl Service for Door {
    fn apply(&mut self, slot: Slot, value: &[u8], answers: &mut Answers) {
        let mut sink = |origin, sequence: entry::Sequence, reply: &[u8]| {
            answers.push(from_kv(origin), Sequence(sequence.0), reply);
        };
        if let Err(error) = self.state.apply(slot, value, &mut sink) {
            eprintln!("{}", super::skipped(slot, &error));
        }
        let published = self.state.take_published();
        // What was published before this life served anybody is not news.
        if self.reported {
            self.clients.tell(&published);
        }
    }

    fn state_ms(&self) -> u64 {
        self.state.state_ms()
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        self.state.next_expiry_ms()
    }

    fn begin_save(&mut self) -> Saving {
        Saving(self.state.begin_save().0)
    }

    fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        self.state.save_piece(door::Saving(saving.0), out)
    }

    fn end_save(&mut self, saving: Saving) {
        self.state.end_save(door::Saving(saving.0));
    }

    fn begin_restore(&mut self) {
        drop_aside(self.state.begin_restore());
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.state.restore_piece(bytes)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        self.state.end_restore().map(|before| drop_aside(Some(before)))
    }

    fn give_up_restore(&mut self) {
        drop_aside(self.state.give_up_restore());
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.state.begin(stamp_ms, out);
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        let sequence = entry::Sequence(sequence.0);
        match self.state.append(to_kv(origin), sequence, command, bytes_max, out) {
            entry::Appended::Whole => Appended::Whole,
            entry::Appended::Part => Appended::Part,
            entry::Appended::Full => Appended::Full,
        }
    }

    fn abandon(&mut self) {
        self.state.abandon();
    }

    fn perform(&mut self, asker: Asker, stamp_ms: u64, desk: &mut Desk) -> Performed {
        performed(self.clients.perform(asker, stamp_ms, &mut self.state, desk))
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        self.clients.describe_read(asker, out);
    }

    fn perform_described(&mut self, read: &[u8], stamp_ms: u64, reply: &mut Vec<u8>) -> Performed {
        performed(self.state.read(read, stamp_ms, self.now, reply))
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _desk: &mut Desk) {
        self.clients.answer(asker, answer);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _desk: &mut Desk) {
        self.clients.answer_read(asker, answer);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, _desk: &mut Desk) {
        self.clients.answer_wait(asker, n);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, _desk: &mut Desk) {
        self.clients.answer_change(asker, changed);
    }

    fn on_ready(&mut self, ready: Ready, poller: &Poller, desk: &mut Desk) {
        match ready.key {
            KEY_LISTENER => self.clients.accept(poller, desk),
            KEY_SIGNALS => self.on_signal(),
            KEY_CHANNEL => self.on_channel(),
            KEY_STATUS => self.clients.take_statuses(),
            _ => self.clients.on_ready(ready, poller, &self.state, desk),
        }
    }

    fn resume(&mut self, _poller: &Poller, desk: &mut Desk) -> bool {
        self.now = desk.now();
        self.clients.resume(&self.state, desk)
    }

    fn flush(&mut self, poller: &Poller, desk: &mut Desk) {
        self.clients.listen_again(poller);
        self.clients.flush(poller, desk);
    }

    fn publish(&mut self, view: &View, stats: &Stats) {
        self.report(view);
        self.state.sweep(self.now);
        let holding = self.state.holding();
        let figures = ServiceFigures {
            keys: holding.keys,
            memory_bytes: holding.memory_bytes,
            state_time_ahead_ms: stats.state_time_ahead_ms,
            ..self.clients.figures()
        };
        self.clients.note_state_time(stats.state_time_ahead_ms);
        self.clients.disk.clone_from(&stats.disk);
        self.board.leave(view, stats, figures);
    }
}
