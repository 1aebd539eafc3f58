//! The runtime's [`Service`], by what `kv` decides: each call is passed on, with the words of the
//! runtime for those of `kv`.

use super::desk::{self, OnDesk};
use super::process::give_statuses;
use super::{Door, KEY_CHANNEL, KEY_LISTENER, KEY_SIGNALS, KEY_STATUS};
use base::{Incarnation, Slot};
use kv::door::{self, Discarded};
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
        if let Err(error) = self.door.apply(slot, value, &mut sink) {
            eprintln!("{}", super::skipped(slot, &error));
        }
    }

    fn state_ms(&self) -> u64 {
        self.door.state.state_ms()
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        self.door.state.next_expiry_ms()
    }

    fn begin_save(&mut self) -> Saving {
        Saving(self.door.state.begin_save().0)
    }

    fn save_piece(&mut self, saving: Saving, out: &mut Vec<u8>) -> Option<bool> {
        self.door.state.save_piece(door::Saving(saving.0), out)
    }

    fn end_save(&mut self, saving: Saving) {
        self.door.state.end_save(door::Saving(saving.0));
    }

    fn begin_restore(&mut self) {
        drop_aside(self.door.state.begin_restore());
    }

    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.door.state.restore_piece(bytes)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        self.door.state.end_restore().map(|before| drop_aside(Some(before)))
    }

    fn give_up_restore(&mut self) {
        drop_aside(self.door.state.give_up_restore());
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        self.door.state.begin(stamp_ms, out);
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
        match self.door.state.append(to_kv(origin), sequence, command, bytes_max, out) {
            entry::Appended::Whole => Appended::Whole,
            entry::Appended::Part => Appended::Part,
            entry::Appended::Full => Appended::Full,
        }
    }

    fn abandon(&mut self) {
        self.door.state.abandon();
    }

    fn perform(&mut self, asker: Asker, stamp_ms: u64, desk: &mut Desk) -> Performed {
        performed(self.door.perform(desk::asker(asker), stamp_ms, &mut OnDesk(desk)))
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        self.door.clients.describe_read(desk::asker(asker), out);
    }

    fn perform_described(&mut self, read: &[u8], stamp_ms: u64, reply: &mut Vec<u8>) -> Performed {
        performed(self.door.perform_described(read, stamp_ms, reply))
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _desk: &mut Desk) {
        self.door.clients.answer(desk::asker(asker), desk::answer(answer));
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _desk: &mut Desk) {
        self.door.clients.answer_read(desk::asker(asker), desk::read_answer(answer));
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, _desk: &mut Desk) {
        self.door.clients.answer_wait(desk::asker(asker), n);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, _desk: &mut Desk) {
        self.door.clients.answer_change(desk::asker(asker), desk::changed(changed));
    }

    fn on_ready(&mut self, ready: Ready, poller: &Poller, desk: &mut Desk) {
        let mut sockets = self.sockets.watched(poller);
        match ready.key {
            KEY_LISTENER => self.door.clients.accept(&mut sockets, desk.now()),
            KEY_SIGNALS => self.on_signal(),
            KEY_CHANNEL => self.on_channel(),
            KEY_STATUS => give_statuses(&mut self.door.clients),
            _ => self.door.on_ready(desk::ready(ready), &mut sockets, &mut OnDesk(desk)),
        }
    }

    fn resume(&mut self, _poller: &Poller, desk: &mut Desk) -> bool {
        self.door.resume(&mut OnDesk(desk))
    }

    fn flush(&mut self, poller: &Poller, desk: &mut Desk) {
        self.sockets.listen_again(poller);
        self.door.clients.flush(&mut self.sockets.watched(poller), &mut OnDesk(desk));
    }

    fn publish(&mut self, view: &View, stats: &Stats) {
        // Before anybody is let in again because this member serves.
        self.report_seats(view);
        let figures = self.door.publish(&desk::view(view), stats.state_time_ahead_ms);
        self.report(view);
        self.door.clients.outside.disk.clone_from(&stats.disk);
        self.board.leave(view, stats, figures);
    }
}
