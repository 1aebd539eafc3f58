//! The messages between PrimCast's processes.

use crate::amcast::linear::{Listed, encode_listed};
use crate::amcast::wire::{Malformed, Reader, Wire, list, number};
use crate::amcast::{GroupSet, Members, Message, MessageId, Place, Seen, Timestamp};
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

/// The beginning of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
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

/// The end of a log. Logs of one epoch are beginnings of one another, and timestamps rise in them,
/// so it determines what a process with a log of the same epoch lacks (P23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The epoch that the log belongs to.
    pub epoch: Ballot,
    /// The timestamp of the last tuple in it.
    pub upto: Timestamp,
}

/// A part of a log: all tuples above one timestamp, up to the last one here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The timestamp above which the part begins.
    pub after: Timestamp,
    /// The tuples in order.
    pub log: Vec<Told>,
    /// Whether these are the last.
    pub is_last: bool,
}

/// A tuple of a log, and its sender's knowledge about the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The tuple.
    pub logged: Logged,
    /// The final timestamp, if the sender has delivered the message.
    pub at: Option<Timestamp>,
}

/// One tuple of a log (the listings' T), with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The epoch in which it was proposed.
    pub epoch: Ballot,
    /// The local timestamp.
    pub ts: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

/// The state of a member, for another of its group that has fallen behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The place up to which it covers everything.
    pub through: Place,
    /// The place at or below which the messages missing in the sender's log were delivered.
    pub floor: Place,
    /// Groups that share messages with this one, as far as the sender knows: a process that takes
    /// the state must report to them how far it has delivered.
    pub audience: GroupSet,
    /// The names of the messages in it.
    pub seen: Seen,
    /// The messages among them that the sender still remembers, with their final timestamps.
    pub kept: Vec<(Timestamp, Arc<Message>)>,
    /// The application's state.
    pub app: Vec<u8>,
}

/// A message between processes of PrimCast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimcastWire {
    /// The sender's group gives a message this local timestamp; from the primary it is a proposal.
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
    },
    /// A primary's new proposals to the same groups, in the order of its log.
    Proposals {
        /// The messages' destinations.
        dest: GroupSet,
        /// The epoch.
        epoch: Ballot,
        /// The messages and their timestamps, which rise.
        batch: Vec<(MessageId, Timestamp)>,
        /// The sender's clock, if no other message carries it.
        report: Option<Report>,
    },
    /// The sender's clock (the listings' BUMP).
    Clock(Report),
    /// A report that the sender has acknowledged all that the primary of `epoch` proposed up to
    /// `upto` (P9).
    Acked {
        /// The epoch of the proposals.
        epoch: Ballot,
        /// The last timestamp.
        upto: Timestamp,
        /// The sender's clock.
        report: Report,
    },
    /// A request to raise the clock to `ts` and report it to these groups (the rules of real time,
    /// and cuts).
    Raise {
        /// The value to reach.
        ts: Timestamp,
        /// The groups that wait for it.
        to: GroupSet,
    },
    /// A request to report (again) what is known of this message.
    Pull {
        /// The message.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// Whether to send the message too.
        body: bool,
    },
    /// The requested message.
    Body(Arc<Message>),
    /// A request to promise this epoch to its leader.
    NewEpoch {
        /// The epoch.
        epoch: Ballot,
        /// The log of its leader, if that is the sender.
        held: Held,
    },
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
    },
    /// The beginning of an epoch.
    NewState(Beginning),
    /// A request for what is above this in the log that was promised or begun with.
    More {
        /// The epoch.
        epoch: Ballot,
        /// The timestamp above which the sender lacks the log.
        after: Timestamp,
    },
    /// A report that the sender is in this epoch. It counts as a clock report, since NEW-STATE may
    /// have raised the clock.
    Accept {
        /// The epoch.
        epoch: Ballot,
        /// The sender's clock.
        report: Report,
    },
    /// A report that the sender has delivered up to this place.
    Delivered(Place),
    /// A report that the sender has come back: what it received before is lost.
    Returned,
    /// A report that the sender has delivered this message at this final timestamp.
    Final {
        /// The message.
        id: MessageId,
        /// The timestamp.
        at: Timestamp,
    },
    /// A request to begin another epoch, since the sender cannot follow in any up to this one.
    Stand(Ballot),
    /// A request for a state: the sender has delivered up to this place, and others have forgotten
    /// what it lacks.
    Fetch(Place),
    /// The state for a member that has fallen behind.
    State(Handover),
    /// A report that the sender, whose host brings states itself, has forgotten what was delivered
    /// up to this place.
    Forgotten(Place),
    /// A request of a process of this incarnation, with this promise, for the seat that it sits on.
    Join {
        /// Its incarnation.
        incarnation: Incarnation,
        /// Its promise.
        promised: Ballot,
    },
    /// A report that this incarnation is no longer a member, and never will be.
    Parted(Incarnation),
}

impl Wire for Report {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.clock.encode(out);
        out.push(u8::from(self.as_primary) | u8::from(self.members.is_some()) << 1);
        place(self.delivered, out);
        encode_listed(&self.listed, out);
        if let Some(told) = &self.members {
            told.0.encode(out);
            told.1.encode(out);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, clock) = (Ballot::decode(from)?, Timestamp::decode(from)?);
        let flags = from.byte()?;
        if flags > 3 {
            return Err(Malformed);
        }
        let delivered = read_place(from)?;
        let listed = from.list(Listed::decode)?;
        let members = match flags & 2 {
            0 => None,
            _ => Some(Arc::new((Ballot::decode(from)?, Members::decode(from)?))),
        };
        Ok(Report { epoch, clock, as_primary: flags & 1 == 1, delivered, listed, members })
    }
}

impl Wire for Beginning {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        number(self.length, out);
        place(self.floor, out);
        self.source.encode(out);
        self.part.encode(out);
        self.clock.encode(out);
        self.members.encode(out);
        out.push(u8::from(self.has_begun));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Beginning {
            epoch: Ballot::decode(from)?,
            length: from.number()?,
            floor: read_place(from)?,
            source: Held::decode(from)?,
            part: Part::decode(from)?,
            clock: Timestamp::decode(from)?,
            members: Members::decode(from)?,
            has_begun: from.flag()?,
        })
    }
}

impl Wire for Held {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.upto.encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Held { epoch: Ballot::decode(from)?, upto: Timestamp::decode(from)? })
    }
}

impl Wire for Part {
    fn encode(&self, out: &mut Vec<u8>) {
        self.after.encode(out);
        list(&self.log, out, |told, out| {
            told.logged.encode(out);
            out.push(u8::from(told.at.is_some()));
            if let Some(at) = told.at {
                at.encode(out);
            }
        });
        out.push(u8::from(self.is_last));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let after = Timestamp::decode(from)?;
        let log = from.list(|from| {
            let logged = Logged::decode(from)?;
            let at = if from.flag()? { Some(Timestamp::decode(from)?) } else { None };
            Ok(Told { logged, at })
        })?;
        Ok(Part { after, log, is_last: from.flag()? })
    }
}

impl Wire for Logged {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.ts.encode(out);
        self.message.encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Logged {
            epoch: Ballot::decode(from)?,
            ts: Timestamp::decode(from)?,
            message: Wire::decode(from)?,
        })
    }
}

impl Wire for Handover {
    fn encode(&self, out: &mut Vec<u8>) {
        place(self.through, out);
        place(self.floor, out);
        self.audience.encode(out);
        self.seen.encode(out);
        list(&self.kept, out, |(at, message), out| {
            at.encode(out);
            message.encode(out);
        });
        number(self.app.len() as u64, out);
        out.extend_from_slice(&self.app);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Handover {
            through: read_place(from)?,
            floor: read_place(from)?,
            audience: GroupSet::decode(from)?,
            seen: Seen::decode(from)?,
            kept: from.list(|from| Ok((Timestamp::decode(from)?, Wire::decode(from)?)))?,
            app: from.bytes()?.to_vec(),
        })
    }
}

impl Wire for PrimcastWire {
    fn asks(&self) -> bool {
        matches!(
            self,
            PrimcastWire::Pull { .. }
                | PrimcastWire::NewEpoch { .. }
                | PrimcastWire::Promise { .. }
                | PrimcastWire::More { .. }
                | PrimcastWire::Fetch(_)
        )
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            PrimcastWire::Ack { id, dest, epoch, ts, chosen, report } => {
                out.push(0);
                id.encode(out);
                dest.encode(out);
                epoch.encode(out);
                ts.encode(out);
                out.push(u8::from(*chosen));
                report.encode(out);
            }
            PrimcastWire::Clock(report) => {
                out.push(1);
                report.encode(out);
            }
            PrimcastWire::Acked { epoch, upto, report } => {
                out.push(12);
                epoch.encode(out);
                upto.encode(out);
                report.encode(out);
            }
            PrimcastWire::Proposals { dest, epoch, batch, report } => {
                out.push(13);
                dest.encode(out);
                epoch.encode(out);
                let mut before = 0;
                list(batch, out, |(id, ts), out| {
                    id.encode(out);
                    // The differences are small as long as timestamps rise; in any order they
                    // decode to the same values.
                    number(ts.0.wrapping_sub(before), out);
                    before = ts.0;
                });
                out.push(u8::from(report.is_some()));
                if let Some(report) = report {
                    report.encode(out);
                }
            }
            PrimcastWire::Raise { ts, to } => {
                out.push(2);
                ts.encode(out);
                to.encode(out);
            }
            PrimcastWire::Pull { id, dest, body } => {
                out.push(3);
                id.encode(out);
                dest.encode(out);
                out.push(u8::from(*body));
            }
            PrimcastWire::Body(message) => {
                out.push(4);
                message.encode(out);
            }
            PrimcastWire::NewEpoch { epoch, held } => {
                out.push(5);
                epoch.encode(out);
                held.encode(out);
            }
            PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part } => {
                out.push(6);
                epoch.encode(out);
                clock.encode(out);
                current.encode(out);
                members.encode(out);
                number(*length, out);
                place(*floor, out);
                upto.encode(out);
                part.encode(out);
            }
            PrimcastWire::More { epoch, after } => {
                out.push(19);
                epoch.encode(out);
                after.encode(out);
            }
            PrimcastWire::NewState(beginning) => {
                out.push(7);
                beginning.encode(out);
            }
            PrimcastWire::Accept { epoch, report } => {
                out.push(8);
                epoch.encode(out);
                report.encode(out);
            }
            PrimcastWire::Delivered(through) => {
                out.push(9);
                place(*through, out);
            }
            PrimcastWire::Returned => out.push(14),
            PrimcastWire::Final { id, at } => {
                out.push(15);
                id.encode(out);
                at.encode(out);
            }
            PrimcastWire::Stand(upto) => {
                out.push(16);
                upto.encode(out);
            }
            PrimcastWire::Fetch(last) => {
                out.push(10);
                place(*last, out);
            }
            PrimcastWire::State(state) => {
                out.push(11);
                state.encode(out);
            }
            PrimcastWire::Forgotten(floor) => {
                out.push(20);
                place(*floor, out);
            }
            PrimcastWire::Join { incarnation, promised } => {
                out.push(17);
                number(incarnation.0, out);
                promised.encode(out);
            }
            PrimcastWire::Parted(incarnation) => {
                out.push(18);
                number(incarnation.0, out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.byte()? {
            0 => PrimcastWire::Ack {
                id: MessageId::decode(from)?,
                dest: GroupSet::decode(from)?,
                epoch: Ballot::decode(from)?,
                ts: Timestamp::decode(from)?,
                chosen: from.flag()?,
                report: Report::decode(from)?,
            },
            1 => PrimcastWire::Clock(Report::decode(from)?),
            2 => PrimcastWire::Raise { ts: Timestamp::decode(from)?, to: GroupSet::decode(from)? },
            3 => PrimcastWire::Pull {
                id: MessageId::decode(from)?,
                dest: GroupSet::decode(from)?,
                body: from.flag()?,
            },
            4 => PrimcastWire::Body(Wire::decode(from)?),
            5 => PrimcastWire::NewEpoch { epoch: Ballot::decode(from)?, held: Held::decode(from)? },
            6 => PrimcastWire::Promise {
                epoch: Ballot::decode(from)?,
                clock: Timestamp::decode(from)?,
                current: Ballot::decode(from)?,
                members: Members::decode(from)?,
                length: from.number()?,
                floor: read_place(from)?,
                upto: Timestamp::decode(from)?,
                part: Part::decode(from)?,
            },
            19 => {
                PrimcastWire::More { epoch: Ballot::decode(from)?, after: Timestamp::decode(from)? }
            }
            7 => PrimcastWire::NewState(Beginning::decode(from)?),
            8 => {
                PrimcastWire::Accept { epoch: Ballot::decode(from)?, report: Report::decode(from)? }
            }
            9 => PrimcastWire::Delivered(read_place(from)?),
            10 => PrimcastWire::Fetch(read_place(from)?),
            11 => PrimcastWire::State(Handover::decode(from)?),
            12 => PrimcastWire::Acked {
                epoch: Ballot::decode(from)?,
                upto: Timestamp::decode(from)?,
                report: Report::decode(from)?,
            },
            14 => PrimcastWire::Returned,
            15 => {
                PrimcastWire::Final { id: MessageId::decode(from)?, at: Timestamp::decode(from)? }
            }
            16 => PrimcastWire::Stand(Ballot::decode(from)?),
            20 => PrimcastWire::Forgotten(read_place(from)?),
            17 => PrimcastWire::Join {
                incarnation: Incarnation(from.number()?),
                promised: Ballot::decode(from)?,
            },
            18 => PrimcastWire::Parted(Incarnation(from.number()?)),
            13 => {
                let (dest, epoch) = (GroupSet::decode(from)?, Ballot::decode(from)?);
                let mut ts = 0u64;
                let batch = from.list(|from| {
                    let id = MessageId::decode(from)?;
                    ts = ts.wrapping_add(from.number()?);
                    Ok((id, Timestamp(ts)))
                })?;
                let report = if from.flag()? { Some(Report::decode(from)?) } else { None };
                PrimcastWire::Proposals { dest, epoch, batch, report }
            }
            _ => return Err(Malformed),
        })
    }
}

pub(super) fn place(at: Place, out: &mut Vec<u8>) {
    at.0.encode(out);
    at.1.encode(out);
}

pub(super) fn read_place(from: &mut Reader<'_>) -> Result<Place, Malformed> {
    Ok((Timestamp::decode(from)?, MessageId::decode(from)?))
}
