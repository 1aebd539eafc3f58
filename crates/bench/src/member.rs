//! One member of a real group: a fabric, a machine, and a loop that spins or sleeps.
//!
//! The product's loop is `runtime`, which also serves clients. This loop only decides, so that the
//! measurement covers the protocol over the fabric. Its state machine counts: a state for a member
//! that fell behind the ring is the applied prefix and nothing else.

use crate::clock::Cheap;
use base::verb::Relay;
use base::{Event, Inbox, Prefix, Rank, Slot};
use fabric::Fabric;
use proto::members::StateHead;
use proto::node::{Node, NodeConfig, Start, Timing};
use proto::planted::Sound;
use proto::registry;
use proto::velos::{self, Shape, Velos};
use proto::{Host, Note, Refused, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The way in which a loop waits for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// The loop looks repeatedly.
    Spin,
    /// The loop sleeps until it is woken.
    Sleep,
}

impl Wait {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Spin => "spin",
            Wait::Sleep => "sleep",
        }
    }
}

/// An observer of the events that a benchmark needs.
pub trait Witness {
    /// A value was delivered here.
    fn delivered(&mut self, slot: Slot, value: &[u8]);

    /// The machine reported something.
    fn noted(&mut self, note: Note);

    /// Values were skipped: a state that contains them was installed.
    fn skipped(&mut self);

    /// The fabric brought an event.
    fn brought(&mut self, event: &Event<'_>);
}

/// The machine's host.
#[derive(Debug)]
struct World<F, W> {
    fabric: F,
    witness: W,
    /// The least prefix of a state for which the machine asks.
    wanted: Option<Prefix>,
}

/// One member.
#[derive(Debug)]
pub struct Member<F, W> {
    world: World<F, W>,
    me: Rank,
    node: Node<Velos>,
    inbox: Inbox,
    clock: Cheap,
}

/// The longest sleep: a worker looks for orders that often.
const SLEEP_MAX: Duration = Duration::from_millis(20);

impl<F: Fabric, W: Witness> Member<F, W> {
    /// A member of a new group.
    pub fn new(fabric: F, me: Rank, members: usize, shape: &Shape, witness: W) -> Member<F, W> {
        let capabilities = fabric.capabilities();
        let config = NodeConfig {
            me,
            members,
            start: Start::Bootstrap,
            timing: Timing::default(),
            memory_outlives_process: capabilities.memory_outlives_process,
            peer_works: capabilities.peer_works,
        };
        let mut world = World { fabric, witness, wanted: None };
        let node = registry::member::<velos::Spec, _, _>(config, shape, Sound, &mut world);
        let node = node.expect("velos runs on any memory");
        Member { world, me, node, inbox: Inbox::new(), clock: Cheap::new() }
    }

    /// The witness.
    pub fn witness(&mut self) -> &mut W {
        &mut self.world.witness
    }

    /// Whether it should look again rather than sleep.
    pub fn is_alert(&mut self) -> bool {
        self.world.fabric.is_alert()
    }

    /// The clock.
    pub fn clock(&self) -> &Cheap {
        &self.clock
    }

    /// Looks at everything once. True if there was an event.
    pub fn turn(&mut self) -> bool {
        self.inbox.clear();
        self.world.fabric.poll(&mut self.inbox);
        let now = self.clock.now();
        for event in self.inbox.iter() {
            self.world.witness.brought(&event);
            match StateMessage::parse(&event) {
                None => self.node.on_event(event, now, &mut self.world),
                Some((from, StateMessage::Want(prefix))) => {
                    let status = self.node.status();
                    if status.role != Role::Learner
                        && status.applied >= prefix
                        && let Some(head) = self.node.state_head(status.applied)
                    {
                        self.world.tell(from, StateMessage::Have(status.applied, head));
                    }
                }
                Some((_, StateMessage::Have(prefix, head))) => {
                    if prefix > self.node.status().applied {
                        self.world.witness.skipped();
                        self.node.install(prefix, Some(head), now, &mut self.world);
                    }
                }
            }
        }
        self.node.poll(now, &mut self.world);
        if let Some(prefix) = self.world.wanted.take() {
            // The machine asks again if no member answers.
            for peer in self.node.able().iter().filter(|peer| *peer != self.me) {
                self.world.tell(peer, StateMessage::Want(prefix));
            }
        }
        self.world.fabric.flush();
        !self.inbox.is_empty()
    }

    /// Sleeps until an event, until the machine has something to do, or for a moment.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sleep(&mut self) -> rustix::io::Result<()> {
        self.world.fabric.prepare_sleep();
        // T9: once more after the announcement, before blocking.
        if !self.turn() {
            let left = self.node.deadline().since(self.clock.now()).min(SLEEP_MAX);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let fd = self.world.fabric.wait_fd();
            match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.world.fabric.awake();
        Ok(())
    }

    /// Proposes `value` and sends it.
    ///
    /// # Errors
    /// [`Refused`]: nothing was proposed.
    pub fn propose(&mut self, value: &[u8]) -> Result<Slot, Refused> {
        let slot = self.node.propose(value, self.clock.now(), &mut self.world)?;
        self.world.fabric.flush();
        Ok(slot)
    }
}

impl<F: Fabric, W: Witness> Host for World<F, W> {
    type Disk = proto::disk::NoDisk;

    fn deliver(&mut self, slot: Slot, value: &[u8]) {
        self.witness.delivered(slot, value);
    }

    fn notify(&mut self, note: Note) {
        match note {
            Note::NeedState(prefix) => self.wanted = Some(prefix),
            Note::Leading { .. } => self.fabric.lead(true),
            Note::Deposed { .. } => self.fabric.lead(false),
            Note::ReadReady(_) | Note::ReadRefused(_) => {}
        }
        self.witness.noted(note);
    }
}

impl<F: Fabric, W> World<F, W> {
    fn tell(&mut self, to: Rank, message: StateMessage) {
        // Without room now, the next question brings another answer.
        let _room = self.fabric.send(to, &message.bytes());
    }
}

/// A message of the transfer of a state to a member that fell behind; they have a channel of their
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateMessage {
    /// A request for a state of at least this prefix.
    Want(Prefix),
    /// A state, and its head.
    Have(Prefix, StateHead),
}

/// The first byte of these messages: not [`proto::MESSAGE_CHANNEL`].
const CHANNEL: u8 = 1;

impl StateMessage {
    fn bytes(self) -> Vec<u8> {
        let (kind, prefix, head) = match self {
            StateMessage::Want(prefix) => (0, prefix, Vec::new()),
            StateMessage::Have(prefix, head) => (1, prefix, head.encode()),
        };
        [&[CHANNEL, kind], &prefix.0.to_le_bytes()[..], &head].concat()
    }

    fn parse(event: &Event<'_>) -> Option<(Rank, StateMessage)> {
        let Event::Message { from, bytes: [CHANNEL, kind, rest @ ..] } = event else {
            return None;
        };
        let (prefix, head) = rest.split_first_chunk()?;
        let prefix = Prefix(u64::from_le_bytes(*prefix));
        match kind {
            0 => Some((*from, StateMessage::Want(prefix))),
            1 => Some((*from, StateMessage::Have(prefix, StateHead::decode(head)?))),
            _ => None,
        }
    }
}

impl<F: Fabric, W> Relay for World<F, W> {
    type Port = F;

    fn port(&self) -> &F {
        &self.fabric
    }

    fn port_mut(&mut self) -> &mut F {
        &mut self.fabric
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Ballot, MAX_MEMBERS, MemberSet};
    use proto::members::Members;

    #[test]
    fn a_state_message_is_read_as_it_was_written() {
        let from = Rank::at(2);
        let members = Members {
            voters: MemberSet::all(3),
            learners: MemberSet::EMPTY,
            incarnations: [1; MAX_MEMBERS],
        };
        let (ballot, members_at) = (Ballot(3), Prefix(5));
        let head = StateHead { ballot, members_at, members, coming: None };
        for message in [StateMessage::Want(Prefix(7)), StateMessage::Have(Prefix(u64::MAX), head)] {
            let event = Event::Message { from, bytes: &message.bytes() };
            assert_eq!(StateMessage::parse(&event), Some((from, message)));
        }
        let other = Event::Message { from, bytes: &[proto::MESSAGE_CHANNEL, 0, 0] };
        assert_eq!(StateMessage::parse(&other), None);
    }
}
