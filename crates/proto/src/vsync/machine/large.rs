//! Large messages of a process: the places for its own, and what its application has of others.

use super::super::bugs::Plantings;
use super::super::landing::Blank;
use super::super::payload::Payload;
use super::super::shard::{Mode, ShardId};
use super::{Machine, Output};
use base::Port;

impl<P: Plantings> Machine<P> {
    /// A place for a message, where all members look into this process's memory and one is free. It
    /// is filled, and then multicast.
    pub fn blank(&mut self, port: &impl Port) -> Option<Blank> {
        self.landing.blank(port)
    }

    /// A message as its shard carries it: through rings, where there is no order.
    pub(super) fn as_it_travels(&mut self, shard: ShardId, message: Payload) -> Payload {
        match self.config.mode(shard.subgroup.into()) {
            Mode::Unordered => self.landing.take_back(message),
            Mode::Ordered | Mode::Durable => message,
        }
    }

    /// Notes what the application is given (`landing`, V22).
    pub(super) fn note_given(&mut self, out: &[Output]) {
        for output in out {
            if let Output::Deliver(delivery) = output {
                self.landing.note(&delivery.message);
            }
        }
    }

    /// Copies the messages that the application has been given and that are in other processes'
    /// memory: to be called when this process has ended, before the others know.
    pub fn copy_held(&self) {
        self.landing.copy_held();
    }
}
