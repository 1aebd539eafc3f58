//! What travels between PrimCast's processes.

use crate::amcast::linear::{Listed, encode_listed};
use crate::amcast::wire::{Malformed, Reader, Wire, list, number};
use crate::amcast::{GroupSet, Members, Message, MessageId, Place, Seen, Timestamp};
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::{Ballot, Incarnation};

/// What a process says about its clock, alone or with something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it has promised: from there on its clock says nothing about earlier epochs.
    pub epoch: Ballot,
    /// Its clock.
    pub clock: Timestamp,
    /// It is the primary of that epoch.
    pub as_primary: bool,
    /// Up to which place it has delivered.
    pub delivered: Place,
    /// If so, and if the rule is `hop`: its undelivered proposals that concern others.
    pub listed: Vec<Listed>,
    /// An epoch that has begun, and its members: if those who are told this do not know yet.
    pub members: Option<Arc<(Ballot, Members)>>,
}

/// How an epoch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Which epoch.
    pub epoch: Ballot,
    /// How many tuples the log ever had.
    pub length: u64,
    /// What is missing in it was delivered up to here.
    pub floor: Place,
    /// The log that it began with: what others hold of that they need not be sent.
    pub source: Held,
    /// Those that are left, or some of them.
    pub part: Part,
    /// No clock of this epoch is below.
    pub clock: Timestamp,
    /// Its members.
    pub members: Members,
    /// A quorum of them has accepted it.
    pub has_begun: bool,
}

/// How far a log goes. Logs of one epoch are beginnings of one another, and timestamps rise in
/// them, so this says what a process with a log of the same epoch lacks (P23).
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
    /// Above which.
    pub after: Timestamp,
    /// In order.
    pub log: Vec<Told>,
    /// Nothing comes after these.
    pub is_last: bool,
}

/// A tuple of a log, and what its teller knows of the message beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The tuple.
    pub logged: Logged,
    /// The final timestamp, if the teller has delivered the message.
    pub at: Option<Timestamp>,
}

/// One tuple of a log (the listings' T), with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// In which epoch it was proposed.
    pub epoch: Ballot,
    /// The local timestamp.
    pub ts: Timestamp,
    /// For which message.
    pub message: Arc<Message>,
}

/// The state of a member, for another of its group that has fallen behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Everything up to here is in it.
    pub through: Place,
    /// What is missing in the sender's log was delivered up to here.
    pub floor: Place,
    /// Groups that share messages with this one, as far as the sender knows: whoever takes the
    /// state owes them word of how far it has delivered.
    pub audience: GroupSet,
    /// Which messages are in it.
    pub seen: Seen,
    /// Those of them that the sender still remembers, with their final timestamps.
    pub kept: Vec<(Timestamp, Arc<Message>)>,
    /// The application's.
    pub app: Vec<u8>,
}

/// Between processes of PrimCast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimcastWire {
    /// The sender's group gives a message this local timestamp; from the primary it is a proposal.
    Ack {
        /// The message.
        id: MessageId,
        /// Its destinations: whoever does not know the message yet learns here that it exists.
        dest: GroupSet,
        /// In which epoch the timestamp was proposed.
        epoch: Ballot,
        /// The timestamp.
        ts: Timestamp,
        /// A later epoch began with it, among other members: it is decided.
        chosen: bool,
        /// The sender's clock.
        report: Report,
    },
    /// What a primary has just proposed to the same groups, in the order of its log.
    Proposals {
        /// The messages' destinations.
        dest: GroupSet,
        /// In which epoch.
        epoch: Ballot,
        /// The messages and their timestamps, which rise.
        batch: Vec<(MessageId, Timestamp)>,
        /// The sender's clock, if nothing else is to be said with it.
        report: Option<Report>,
    },
    /// The sender's clock (the listings' BUMP).
    Clock(Report),
    /// The sender has acknowledged all that the primary of `epoch` proposed up to `upto` (P9).
    Acked {
        /// Whose proposals.
        epoch: Ballot,
        /// Up to which timestamp.
        upto: Timestamp,
        /// The sender's clock.
        report: Report,
    },
    /// Raise your clock to `ts` and report it to these groups (`all-groups` only).
    Raise {
        /// Up to where.
        ts: Timestamp,
        /// Who waits for it.
        to: GroupSet,
    },
    /// Tell me (again) what you know of this message.
    Pull {
        /// Which.
        id: MessageId,
        /// Its destinations.
        dest: GroupSet,
        /// Send the message too.
        body: bool,
    },
    /// The message that was asked for.
    Body(Arc<Message>),
    /// Promise this epoch to its leader.
    NewEpoch {
        /// Which.
        epoch: Ballot,
        /// What its leader holds, if that is the sender.
        held: Held,
    },
    /// The epoch is promised.
    Promise {
        /// Which.
        epoch: Ballot,
        /// The promiser's clock.
        clock: Timestamp,
        /// The epoch that its log belongs to.
        current: Ballot,
        /// The members of that epoch.
        members: Members,
        /// How many tuples its log ever had.
        length: u64,
        /// What is missing in it was delivered up to here.
        floor: Place,
        /// The timestamp of the last tuple in it.
        upto: Timestamp,
        /// Those that it still holds and the leader may lack, or some of them.
        part: Part,
    },
    /// The epoch begins here.
    NewState(Beginning),
    /// The sender lacks what stands above this in the log that was promised or begun with.
    More {
        /// Of which epoch.
        epoch: Ballot,
        /// Above which timestamp.
        after: Timestamp,
    },
    /// The sender is in this epoch. It counts as a report, since NEW-STATE may have raised the
    /// clock.
    Accept {
        /// Which.
        epoch: Ballot,
        /// The sender's clock.
        report: Report,
    },
    /// The sender has delivered up to here.
    Delivered(Place),
    /// The sender has come back: what it was told is lost.
    Returned,
    /// The sender has delivered this message at this final timestamp.
    Final {
        /// Which.
        id: MessageId,
        /// Where.
        at: Timestamp,
    },
    /// The sender cannot follow in any epoch up to this one: begin another.
    Stand(Ballot),
    /// The sender has delivered up to here, and others have forgotten what it lacks.
    Fetch(Place),
    /// What a member needs that has fallen behind.
    State(Handover),
    /// The sender, whose host brings states itself, has forgotten what was delivered up to here.
    Forgotten(Place),
    /// The sender is of this incarnation, has promised so much, and wants the seat that it sits on.
    Join {
        /// Its incarnation.
        incarnation: Incarnation,
        /// What it has promised.
        promised: Ballot,
    },
    /// This incarnation is no member any more, and never will be.
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
                    // Small, as long as they rise; whatever they do, they come back.
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
