//! The input from other nodes: events of the fabric, and whole records of their streams.

use super::Node;
use crate::ground::Ground;
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::world::{Parcel, Record};
use base::{Event, Instant, Rank};
use proto::amcast::Multicast;
use proto::planted::Planting;

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    pub(super) fn poll(&mut self, ground: &mut impl Ground) -> bool {
        self.inbox.clear();
        ground.poll(&mut self.inbox);
        // It is read after everything has come whose timestamps follow it.
        self.world.clock = ground.real_clock();
        let streams = &mut self.world.streams;
        for event in self.inbox.iter() {
            match event {
                Event::Message { from, bytes } => {
                    if streams.receive(from, bytes) {
                        self.heard.insert(from);
                    }
                }
                Event::LinkUp(node) => streams.on_link_up(node),
                Event::LinkDown(node) => streams.on_link_down(node),
                Event::ProcessFailed(node) => {
                    streams.on_failed(node);
                    self.look_at = Instant::ZERO;
                    for member in &mut self.members {
                        if let Some(at) = member.nodes.iter().position(|on| *on == node) {
                            member.omega.on_event(&Event::ProcessFailed(Rank::at(at)));
                        }
                    }
                }
                // Only Ω posts verbs, and it needs no completions.
                Event::Completed { .. } => {}
            }
        }
        self.meet_newcomers();
        !self.inbox.is_empty()
    }

    /// Hands the records of other nodes to the members.
    pub(super) fn take_records(&mut self) -> bool {
        let heard = std::mem::take(&mut self.heard);
        for node in heard.iter() {
            let is_met = !self.world.streams.is_to_be_met(node);
            assert!(
                is_met,
                "N7: members meet an incarnation before anything of it is handed to them"
            );
            let mut input = self.world.streams.take_input(node);
            let outcome = loop {
                match input.next() {
                    Ok(None) => break Ok(()),
                    Err(malformed) => break Err(malformed),
                    Ok(Some(record)) => {
                        let bytes = input.bytes(record);
                        match Record::decode(bytes, node, &self.world.places) {
                            Ok(record) if self.passes_over(node, &record, bytes) => {}
                            Ok(record) => self.on_record(node, record),
                            Err(malformed) => break Err(malformed),
                        }
                    }
                }
            };
            self.world.streams.put_input(node, input);
            if outcome.is_err() {
                self.world.streams.give_up(node);
            }
        }
        !heard.is_empty()
    }

    /// Whether `record` asks a question that is not answered now (R1, R2).
    fn passes_over(&mut self, from: Rank, record: &Record<M::Wire>, bytes: &[u8]) -> bool {
        let Record::Parcel(_, Parcel::Wire(_, wire)) = record else { return false };
        let is_held = || self.world.streams.has_backlog(from);
        let asker = (from, self.world.streams.life(from));
        M::asks(wire) && (is_held() || self.repeats.has(asker, bytes, self.desk.now))
    }
}
