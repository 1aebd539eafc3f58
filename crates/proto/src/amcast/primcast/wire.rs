//! The messages between PrimCast's processes.

use crate::amcast::linear::Listed;
use crate::amcast::wire::Wire;
use crate::amcast::{GroupSet, Members, Message, MessageId, Place, Seen, Timestamp};
use crate::codec::{self, Coded, Malformed, Out, Reader, Varints, list, number};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Incarnation};

/// A process's report of its clock, alone or with another message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The promise: the clock says nothing about earlier epochs from there on.
    pub epoch: Ballot,
    /// Its clock.
    pub clock: Timestamp,
    /// Whether the process is the primary of that epoch.
    pub as_primary: bool,
    /// The place up to which it has delivered.
    pub delivered: Place,
    /// The undelivered proposals that concern others, from a primary under `hop`.
    pub listed: Vec<Listed>,
    /// An epoch that has begun, and its members, if the receivers do not know them yet.
    pub members: Option<Arc<(Ballot, Members)>>,
}

codec::coded! {
    /// The beginning of an epoch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Beginning in Varints {
        /// The epoch.
        pub epoch: Ballot,
        /// The number of tuples that the log ever had.
        pub length: u64,
        /// The place at or below which the messages missing in it were delivered.
        pub floor: Place,
        /// The log that it began with: others need not be sent the part of it that they hold.
        pub source: Held,
        /// The tuples that are left, or some of them.
        pub part: Part,
        /// A lower bound of this epoch's clocks.
        pub clock: Timestamp,
        /// Its members.
        pub members: Members,
        /// Whether a quorum of them has accepted it.
        pub has_begun: bool,
    }
}

codec::coded! {
    /// The end of a log. Logs of one epoch are beginnings of one another, and timestamps rise in
    /// them, so it determines what a process with a log of the same epoch lacks (P23).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Held in Varints {
        /// The epoch that the log belongs to.
        pub epoch: Ballot,
        /// The timestamp of the last tuple in it.
        pub upto: Timestamp,
    }
}

codec::coded! {
    /// A part of a log: all tuples above one timestamp, up to the last one here.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Part in Varints {
        /// The timestamp above which the part begins.
        pub after: Timestamp,
        /// The tuples in order.
        pub log: Vec<Told>,
        /// Whether these are the last.
        pub is_last: bool,
    }
}

codec::coded! {
    /// A tuple of a log, and its sender's knowledge about the message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Told in Varints {
        /// The tuple.
        pub logged: Logged,
        /// The final timestamp, if the sender has delivered the message.
        pub at: Option<Timestamp>,
    }
}

codec::coded! {
    /// One tuple of a log (the listings' T), with its message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Logged in Varints {
        /// The epoch in which it was proposed.
        pub epoch: Ballot,
        /// The local timestamp.
        pub ts: Timestamp,
        /// The message.
        pub message: Arc<Message>,
    }
}

codec::coded! {
    /// The state of a member, for another of its group that has fallen behind.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Handover in Varints {
        /// The place up to which it covers everything.
        pub through: Place,
        /// The place at or below which the messages missing in the sender's log were delivered.
        pub floor: Place,
        /// Groups that share messages with this one, as far as the sender knows: a process that
        /// takes the state must report to them how far it has delivered.
        pub audience: GroupSet,
        /// The names of the messages in it.
        pub seen: Seen,
        /// The messages among them that the sender still remembers, with their final timestamps.
        pub kept: Vec<(Timestamp, Arc<Message>)>,
        /// The application's state.
        pub app: Vec<u8>,
    }
}

codec::coded! {
    /// A message between processes of PrimCast.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum PrimcastWire in Varints {
        /// The sender's group gives a message this local timestamp; from the primary it is a
        /// proposal.
        Ack {
            /// The message.
            id: MessageId,
            /// Its destinations: a process that does not know the message yet learns of it here.
            dest: GroupSet,
            /// The epoch in which the timestamp was proposed.
            epoch: Ballot,
            /// The timestamp.
            ts: Timestamp,
            /// Whether a later epoch began with it, among other members: then it is decided.
            chosen: bool,
            /// The sender's clock.
            report: Report,
        } = 0,
        /// A primary's new proposals to the same groups, in the order of its log.
        Proposals {
            /// The messages' destinations.
            dest: GroupSet,
            /// The epoch.
            epoch: Ballot,
            /// The messages and their timestamps, which rise.
            batch: Vec<(MessageId, Timestamp)> as Rising,
            /// The sender's clock, if no other message carries it.
            report: Option<Report>,
        } = 13,
        /// The sender's clock (the listings' BUMP).
        Clock(Report) = 1,
        /// A report that the sender has acknowledged all that the primary of `epoch` proposed up to
        /// `upto` (P9).
        Acked {
            /// The epoch of the proposals.
            epoch: Ballot,
            /// The last timestamp.
            upto: Timestamp,
            /// The sender's clock.
            report: Report,
        } = 12,
        /// A request to raise the clock to `ts` and report it to these groups (the rules of real
        /// time, and cuts).
        Raise {
            /// The value to reach.
            ts: Timestamp,
            /// The groups that wait for it.
            to: GroupSet,
        } = 2,
        /// A request to report (again) what is known of this message.
        Pull {
            /// The message.
            id: MessageId,
            /// Its destinations.
            dest: GroupSet,
            /// Whether to send the message too.
            body: bool,
        } = 3,
        /// The requested message.
        Body(Arc<Message>) = 4,
        /// A request to promise this epoch to its leader.
        NewEpoch {
            /// The epoch.
            epoch: Ballot,
            /// The log of its leader, if that is the sender.
            held: Held,
        } = 5,
        /// A promise of the epoch.
        Promise {
            /// The epoch.
            epoch: Ballot,
            /// The promiser's clock.
            clock: Timestamp,
            /// The epoch that its log belongs to.
            current: Ballot,
            /// The members of that epoch.
            members: Members,
            /// The number of tuples that its log ever had.
            length: u64,
            /// The place at or below which the messages missing in it were delivered.
            floor: Place,
            /// The timestamp of the last tuple in it.
            upto: Timestamp,
            /// The tuples that it still holds and the leader may lack, or some of them.
            part: Part,
        } = 6,
        /// The beginning of an epoch.
        NewState(Beginning) = 7,
        /// A request for what is above this in the log that was promised or begun with.
        More {
            /// The epoch.
            epoch: Ballot,
            /// The timestamp above which the sender lacks the log.
            after: Timestamp,
        } = 19,
        /// A report that the sender is in this epoch. It counts as a clock report, since NEW-STATE
        /// may have raised the clock.
        Accept {
            /// The epoch.
            epoch: Ballot,
            /// The sender's clock.
            report: Report,
        } = 8,
        /// A report that the sender has delivered up to this place.
        Delivered(Place) = 9,
        /// A report that the sender has come back: what it received before is lost.
        Returned = 14,
        /// A report that the sender has delivered this message at this final timestamp.
        Final {
            /// The message.
            id: MessageId,
            /// The timestamp.
            at: Timestamp,
        } = 15,
        /// A request to begin another epoch, since the sender cannot follow in any up to this one.
        Stand(Ballot) = 16,
        /// A request for a state: the sender has delivered up to this place, and others have
        /// forgotten what it lacks.
        Fetch(Place) = 10,
        /// The state for a member that has fallen behind.
        State(Handover) = 11,
        /// A report that the sender, whose host brings states itself, has forgotten what was
        /// delivered up to this place.
        Forgotten(Place) = 20,
        /// A request of a process of this incarnation, with this promise, for the seat that it sits
        /// on.
        Join {
            /// Its incarnation.
            incarnation: Incarnation,
            /// Its promise.
            promised: Ballot,
        } = 17,
        /// A report that this incarnation is no longer a member, and never will be.
        Parted(Incarnation) = 18,
    }
}

impl Coded<'_, Varints> for Report {
    fn put(&self, out: &mut impl Out) {
        Coded::<Varints>::put(&(self.epoch, self.clock), out);
        out.push(u8::from(self.as_primary) | u8::from(self.members.is_some()) << 1);
        self.delivered.put(out);
        self.listed.put(out);
        if let Some(told) = &self.members {
            told.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, clock) = Wire::decode(from)?;
        let flags = from.byte()?;
        if flags > 3 {
            return Err(Malformed);
        }
        let (delivered, listed) = Wire::decode(from)?;
        let members = if flags & 2 == 0 { None } else { Some(Arc::new(Wire::decode(from)?)) };
        Ok(Report { epoch, clock, as_primary: flags & 1 == 1, delivered, listed, members })
    }
}

/// Timestamps as differences, which are small as long as they rise; in any order they are read as
/// they were.
enum Rising {}

impl Coded<'_, Rising> for Vec<(MessageId, Timestamp)> {
    fn put(&self, out: &mut impl Out) {
        let mut before = 0;
        list(self, out, |(id, ts), out| {
            id.put(out);
            number(ts.0.wrapping_sub(before), out);
            before = ts.0;
        });
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut ts = 0u64;
        from.list(|from| {
            let id = MessageId::take(from)?;
            ts = ts.wrapping_add(from.number()?);
            Ok((id, Timestamp(ts)))
        })
    }
}
