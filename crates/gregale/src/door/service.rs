//! The door as a replica sees it: `kv`'s decisions, and this process's part beside them.

use super::process::give_statuses;
use super::{Door, KEY_CHANNEL, KEY_LISTENER, KEY_ORDERS, KEY_SIGNALS, KEY_STATUS};
use kv::door::{Discarded, Serves};
use runtime::{
    Answer, Application, Asker, Changed, Desk, Orders, Performed, ReadAnswer, Ready, Sockets,
    Stats, View,
};

/// Frees the memory of states on a thread of its own: a million keys take a quarter of a second,
/// for which the loop must not stand still.
fn drop_aside(states: Vec<Discarded>) {
    if !states.is_empty() {
        // Without a thread they are freed here.
        let _ = std::thread::Builder::new().name("drop".into()).spawn(move || drop(states));
    }
}

impl<A: Serves> runtime::Door<A> for Door {
    fn applied(&mut self, state: &mut A)
    where
        A: Application,
    {
        self.door.applied(state);
        if let Some(complaint) = state.take_complaint() {
            runtime::complain(format_args!("{complaint}"));
        }
    }

    fn perform(&mut self, asker: Asker, stamp_ms: u64, state: &mut A, desk: &mut Desk) -> Performed
    where
        A: Application,
    {
        self.door.perform(asker, stamp_ms, state, desk)
    }

    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        runtime::Door::<A>::describe_read(&mut self.door, asker, out);
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, desk: &mut Desk) {
        runtime::Door::<A>::answer(&mut self.door, asker, answer, desk);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, desk: &mut Desk) {
        runtime::Door::<A>::answer_read(&mut self.door, asker, answer, desk);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, desk: &mut Desk) {
        runtime::Door::<A>::answer_wait(&mut self.door, asker, n, desk);
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed, desk: &mut Desk) {
        if Orders::is_own(asker) {
            self.orders.answer(asker, changed);
            return self.supervision.end_orders(&mut self.orders);
        }
        runtime::Door::<A>::answer_change(&mut self.door, asker, changed, desk);
    }

    fn resume(&mut self, state: &mut A, desk: &mut Desk) -> bool {
        drop_aside(state.take_discarded());
        let worked = self.orders.resume(desk);
        self.supervision.end_orders(&mut self.orders);
        self.door.resume(state, desk) | worked
    }

    fn flush(&mut self, desk: &mut Desk) {
        self.door.streams.listen_again();
        runtime::Door::<A>::flush(&mut self.door, desk);
    }

    fn publish(&mut self, view: &View, stats: &Stats, state: &mut A) {
        // Before a client is let in again because this member serves.
        self.supervision.report_seats(view);
        self.door.publish(view, stats, state);
        self.supervision.report(self.door.has_served(), view);
        self.door.clients.outside.disk.clone_from(&stats.disk);
        self.board.leave(view, stats, self.door.figures());
    }
}

impl<A: Serves> Sockets<A> for Door {
    fn on_ready(&mut self, ready: Ready, state: &mut A, desk: &mut Desk) {
        match ready.key {
            KEY_LISTENER => self.door.accept(desk),
            KEY_SIGNALS => self.supervision.on_signal(),
            KEY_CHANNEL => self.supervision.on_channel(),
            KEY_ORDERS => self.supervision.on_orders(&mut self.orders),
            KEY_STATUS => give_statuses(&mut self.door.clients),
            _ => self.door.on_ready(ready, state, desk),
        }
    }
}
