//! The processes that ask a member to be let in.
//!
//! - V33 *A knock is fresh.* A process is let in only while it asks: its knock counts for a few
//!   [`Timing::ask_every`](super::super::Timing), in which a process that still asks repeats it,
//!   and no longer than until its failure, or that of the link to it, is told. One that has given
//!   up would be a member that is dead from the beginning, and a view of two ends with it. Tested
//!   by `v33_a_process_that_asks_no_longer_is_not_let_in`.

use super::super::bugs::Plantings;
use super::super::view::Knock;
use super::super::wire::Message;
use super::{Life, Machine};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Instant, Port, Rank};
use core::time::Duration;

/// The number of knocks that may be lost before a process is taken for one that asks no longer.
const N_MISSED_MAX: u32 = 5;

/// The latest knock of each seat, and when it came. See the module's text.
#[derive(Debug, Default)]
pub(super) struct Knocks(BTreeMap<Rank, (Knock, Instant)>);

impl Knocks {
    fn take(&mut self, knock: Knock, now: Instant) {
        let known = self.0.entry(knock.seat).or_insert((knock, now));
        if known.0.incarnation <= knock.incarnation {
            *known = (knock, now);
        }
    }

    /// Forgets the knock of `seat`.
    pub(super) fn forget(&mut self, seat: Rank) {
        self.0.remove(&seat);
    }

    /// V33: those of processes that knock every `ask_every`.
    pub(super) fn fresh(&mut self, ask_every: Duration, now: Instant) -> Vec<Knock> {
        let span = ask_every.saturating_mul(N_MISSED_MAX);
        self.0.retain(|_, (_, at)| now.since(*at) <= span);
        self.0.values().map(|(knock, _)| *knock).collect()
    }
}

impl<P: Plantings> Machine<P> {
    /// Any member takes a knock, and passes it on to the one that leads.
    pub(super) fn on_knock(
        &mut self,
        from: Rank,
        knock: Knock,
        now: Instant,
        port: &mut impl Port,
    ) {
        if let Life::Outside { returning: Some(returning), .. } = &self.life {
            return returning.on_knock(&knock, port);
        }
        let Life::Inside(inside) = &mut self.life else { return };
        let current = &inside.current;
        if knock.seat.index() >= self.config.shape.n_seats {
            return;
        }
        if current.view.has(&knock) {
            // It has not heard of its first view.
            let _ = port.send(knock.seat, &current.welcome().encoded());
            return;
        }
        if let Some(member) = current.view.member(knock.seat) {
            if member.process.incarnation > knock.incarnation {
                return;
            }
            // The seat is taken by another process, so the member's has ended.
            inside.reported.insert(knock.seat);
        }
        inside.knocks.take(knock, now);
        let leader = current.leader();
        if leader != current.me && from == knock.seat {
            let _ = port.send(leader, &Message::Knock(knock).encoded());
        }
    }

    /// V33: takes it that the process on `seat` is gone, or the link to it.
    pub(super) fn forget_knock(&mut self, seat: Rank) {
        if let Life::Inside(inside) = &mut self.life {
            inside.knocks.forget(seat);
        }
    }

    /// Asks to be let in, at every seat: any member will do.
    pub(super) fn knock(&self, port: &mut impl Port) {
        let knock = Message::Knock(self.config.me).encoded();
        let seats = Rank::all(self.config.shape.n_seats);
        for seat in seats.filter(|seat| *seat != self.config.me.seat) {
            // A knock that finds no room is repeated with the next.
            let _ = port.send(seat, &knock);
        }
    }
}
