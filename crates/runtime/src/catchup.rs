//! State transfer, joined to the machine and the service.
//!
//! ```text
//! state = format (4: 1) | last executed place (16) | the service's bytes
//! ```
//! - I1 after a state was installed, own commands without an answer go out again: their answers may
//!   lie in slots that this member never executed itself. The state remembers them.

use crate::core::Core;
use crate::order::{HEADER_BYTES, Order, Place};
use crate::service::Service;
use crate::transfer::Step;
use crate::wire::Frame;
use base::{MemberSet, Prefix, Rank, Slot};
use fabric::Fabric;
use proto::{Replicator, Role};

/// The version of the bytes in front of the service's.
const FORMAT: [u8; 4] = 1u32.to_le_bytes();

impl<F: Fabric, R: Replicator, S: Service> Core<F, R, S> {
    /// The machine cannot go on by itself.
    pub(crate) fn need_state(&mut self) {
        if !self.fetch.is_active() {
            self.start_fetch();
        }
    }

    fn start_fetch(&mut self) {
        let me: MemberSet = [self.world.origin.rank].into_iter().collect();
        let able = self.node.able().difference(me);
        // Nobody says that it has the state: ask whoever is there, and learn that nobody has.
        let sources = if able.is_empty() { self.node.heard().difference(me) } else { able };
        let (have, now) = (self.world.executed(), self.now());
        self.fetch.start(have, sources, now, &mut self.world.flows);
    }

    /// Asks another member if the one that was asked is silent.
    pub(crate) fn mind_fetch(&mut self) {
        if self.fetch.is_overdue(self.now()) {
            self.start_fetch();
        }
    }

    /// A frame of a transfer, as the giving or the lacking side.
    pub(crate) fn on_state_frame(&mut self, from: Rank, frame: &Frame<'_>) {
        let now = self.now();
        match *frame {
            Frame::StateWanted { transfer, have } => self.give_state(from, transfer, have),
            Frame::StateTaken { .. } | Frame::ValuesTaken { .. } => {
                let world = &mut self.world;
                self.give.on_frame(from, frame, &world.backlog, &mut world.flows);
            }
            _ => match self.fetch.on_frame(from, frame, now, &mut self.world.flows) {
                Step::Nothing => {}
                Step::Install(prefix, state) => {
                    let well = install(&mut self.world, prefix, state);
                    self.fetch.installed(well, now);
                }
                Step::Execute(items) => {
                    for (slot, value) in items.iter() {
                        if Slot(slot) == self.world.executed().next_slot() {
                            self.world.execute(Slot(slot), value);
                        }
                    }
                    let last = matches!(frame, Frame::Values { last: true, .. });
                    let next = self.world.executed().next_slot();
                    if self.fetch.executed(next, last, &mut self.world.flows) {
                        let executed = self.world.executed();
                        self.node.install(executed, now, &mut self.world);
                        self.send_again(); // I1
                    }
                }
            },
        }
    }

    fn give_state(&mut self, to: Rank, transfer: u64, have: Prefix) {
        let learner = self.world.desk.view.role == Role::Learner;
        let world = &mut self.world;
        // Who is behind the asking one has nothing for it; two such members ask each other in vain
        // once and then somebody else.
        if learner || world.executed() < have {
            world.flows.push(to, &Frame::StateRefused { transfer, learner });
            return;
        }
        let place = world.order.last();
        let service = &mut world.service;
        self.give.begin(to, transfer, have, &world.backlog, &mut world.flows, |out| {
            out.extend_from_slice(&FORMAT);
            out.extend_from_slice(&place.to_bytes());
            service.save(out);
        });
    }
}

/// Puts a state in place. False if it is not one; then everything is as it was.
fn install<F, S: Service>(
    world: &mut crate::world::World<F, S>,
    prefix: Prefix,
    state: &[u8],
) -> bool {
    // Older than what is here: it cannot help.
    if prefix < world.executed() {
        return false;
    }
    let Some((&FORMAT, rest)) = state.split_first_chunk::<4>() else { return false };
    let Some((place, _)) = Place::split(rest) else { return false };
    match world.service.restore(&rest[HEADER_BYTES..]) {
        Ok(()) => {
            world.order = Order::resume(place);
            world.backlog.restart(prefix);
            true
        }
        Err(reason) => {
            eprintln!("gregale: a state from another member was refused: {reason}");
            false
        }
    }
}
