//! The messages of a group, as bytes: what a process and a group say to each other before the
//! process has a row, and the state of a shard on its way.
//!
//! Everything else is told by rows. A message that cannot be read is dropped.

use super::Position;
use super::shard::{SHARDS_MAX, SUBGROUPS_MAX, Seating, Shard, ShardId, ViewId};
use super::view::{Change, Knock, METADATA_WORDS, Member, View};
use crate::MESSAGE_CHANNEL;
use alloc::vec::Vec;
use base::{Incarnation, Rank, SEATS_MAX, SeatSet};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// A process asks to be a member. A member that does not lead passes it on to its leader.
    Knock(Knock),
    /// A view, and the trims of the one before it (empty if it had no predecessor, or they are not
    /// known).
    /// The receiver is a member of it from now on; or is told that its log is older.
    Welcome(View, Vec<u64>),
    /// A process that restarts a durable group asks for promises (`restart`).
    Call(Call),
    /// A promise, or a word of a later ballot or another view.
    Report(Report),
    /// The change of a restart, to be accepted.
    Propose(Call, Change),
    /// It was accepted.
    Accepted(Call),
    /// A newcomer to a shard asks for its state.
    WantState(ShardId),
    /// A piece of a shard's state.
    Piece(Piece<'a>),
}

/// A piece of a shard's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) shard: ShardId,
    /// The position that the state covers everything before.
    pub(super) at: Position,
    /// The number of bytes of the whole state.
    pub(super) n_bytes: u64,
    /// The number of bytes before this piece.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

/// A ballot of a restart, in a view of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) group: u64,
    pub(super) view: ViewId,
    pub(super) ballot: u64,
}

/// What a returning process has, when it has promised `call.ballot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) call: Call,
    pub(super) process: Knock,
    /// The change of the view that it accepted last, and the ballot.
    pub(super) accepted: Option<(u64, Change)>,
    /// By subgroup, if it has the state of its shard: how much of the view's order it has.
    pub(super) ends: Vec<Option<u64>>,
}

/// The longest piece.
pub(super) const PIECE_BYTES: usize = 8 << 10;

const KNOCK: u8 = 1;
const WELCOME: u8 = 2;
const WANT_STATE: u8 = 3;
const PIECE: u8 = 4;
const CALL: u8 = 5;
const REPORT: u8 = 6;
const PROPOSE: u8 = 7;
const ACCEPTED: u8 = 8;

impl<'a> Message<'a> {
    /// The bytes of the message.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = alloc::vec![MESSAGE_CHANNEL];
        match self {
            Message::Knock(knock) => {
                out.push(KNOCK);
                put_knock(&mut out, knock);
            }
            Message::Welcome(view, trims) => {
                out.push(WELCOME);
                put_trims(&mut out, trims);
                put_view(&mut out, view);
            }
            Message::Call(call) => {
                out.push(CALL);
                put_call(&mut out, call);
            }
            Message::Report(Report { call, process, accepted, ends }) => {
                out.push(REPORT);
                put_call(&mut out, call);
                put_knock(&mut out, process);
                put_trims(
                    &mut out,
                    &ends.iter().map(|end| end.map_or(0, |n| n + 1)).collect::<Vec<_>>(),
                );
                if let Some((ballot, change)) = accepted {
                    put(&mut out, *ballot);
                    put_change(&mut out, change);
                }
            }
            Message::Propose(call, change) => {
                out.push(PROPOSE);
                put_call(&mut out, call);
                put_change(&mut out, change);
            }
            Message::Accepted(call) => {
                out.push(ACCEPTED);
                put_call(&mut out, call);
            }
            Message::WantState(shard) => {
                out.push(WANT_STATE);
                put_shard(&mut out, *shard);
            }
            Message::Piece(piece) => {
                out.push(PIECE);
                put_shard(&mut out, piece.shard);
                for word in [piece.at.view.0, piece.at.at, piece.n_bytes, piece.offset] {
                    put(&mut out, word);
                }
                out.extend(piece.bytes);
            }
        }
        out
    }

    /// The message with these bytes.
    pub(super) fn decoded(bytes: &'a [u8]) -> Option<Message<'a>> {
        let mut rest = bytes;
        if take_byte(&mut rest)? != MESSAGE_CHANNEL {
            return None;
        }
        match take_byte(&mut rest)? {
            KNOCK => {
                let knock = take_knock(&mut rest)?;
                rest.is_empty().then_some(Message::Knock(knock))
            }
            WELCOME => {
                let trims = take_trims(&mut rest)?;
                take_view(rest).map(|view| Message::Welcome(view, trims))
            }
            CALL => {
                let call = take_call(&mut rest)?;
                rest.is_empty().then_some(Message::Call(call))
            }
            REPORT => take_report(rest).map(Message::Report),
            PROPOSE => {
                let (call, change) = (take_call(&mut rest)?, take_change(&mut rest)?);
                rest.is_empty().then_some(Message::Propose(call, change))
            }
            ACCEPTED => {
                let call = take_call(&mut rest)?;
                rest.is_empty().then_some(Message::Accepted(call))
            }
            WANT_STATE => {
                let shard = take_shard(&mut rest)?;
                rest.is_empty().then_some(Message::WantState(shard))
            }
            PIECE => {
                let shard = take_shard(&mut rest)?;
                let at = Position { view: ViewId(take(&mut rest)?), at: take(&mut rest)? };
                let (n_bytes, offset) = (take(&mut rest)?, take(&mut rest)?);
                Some(Message::Piece(Piece { shard, at, n_bytes, offset, bytes: rest }))
            }
            _ => None,
        }
    }
}

pub(super) fn put(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_le_bytes());
}

pub(super) fn put_knock(out: &mut Vec<u8>, knock: &Knock) {
    put(out, knock.seat.index() as u64);
    put(out, knock.incarnation.0);
    knock.metadata.iter().for_each(|word| put(out, *word));
}

pub(super) fn put_shard(out: &mut Vec<u8>, ShardId { subgroup, shard }: ShardId) {
    out.extend(subgroup.to_le_bytes());
    out.extend(shard.to_le_bytes());
}

/// The numbers of a list, which is short.
pub(super) fn put_trims(out: &mut Vec<u8>, trims: &[u64]) {
    out.push(trims.len() as u8);
    trims.iter().for_each(|trim| put(out, *trim));
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    for word in [call.group, call.view.0, call.ballot] {
        put(out, word);
    }
}

pub(super) fn put_change(out: &mut Vec<u8>, change: &Change) {
    let Change { removed, left, joined, renewed, trims, bearers } = change;
    put(out, removed.bits());
    put(out, left.bits());
    put_trims(out, trims);
    put_trims(out, &bearers.iter().map(|seats| seats.bits()).collect::<Vec<_>>());
    for knocks in [joined, renewed] {
        out.push(knocks.len() as u8);
        knocks.iter().for_each(|knock| put_knock(out, knock));
    }
}

pub(super) fn put_view(out: &mut Vec<u8>, view: &View) {
    put(out, view.id.0);
    put(out, view.group);
    put(out, view.members.len() as u64);
    for member in &view.members {
        put(out, member.since.0);
        put_knock(out, &member.process);
    }
    view.roster.iter().for_each(|seating| put_seating(out, seating));
}

fn put_seating(out: &mut Vec<u8>, seating: &Seating) {
    out.push(u8::from(seating.is_adequate));
    out.push(seating.shards.len() as u8);
    for Shard { since, seats, bearers } in &seating.shards {
        put(out, since.0);
        put(out, bearers.bits());
        out.push(seats.len() as u8);
        out.extend(seats.iter().map(|seat| seat.index() as u8));
    }
}

pub(super) fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

pub(super) fn take(rest: &mut &[u8]) -> Option<u64> {
    let (word, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*word))
}

pub(super) fn take_shard(rest: &mut &[u8]) -> Option<ShardId> {
    let (subgroup, behind) = rest.split_first_chunk()?;
    let (shard, behind) = behind.split_first_chunk()?;
    *rest = behind;
    let (subgroup, shard) = (u16::from_le_bytes(*subgroup), u16::from_le_bytes(*shard));
    Some(ShardId { subgroup, shard })
}

pub(super) fn take_trims(rest: &mut &[u8]) -> Option<Vec<u64>> {
    (0..take_byte(rest)?).map(|_| take(rest)).collect()
}

fn take_call(rest: &mut &[u8]) -> Option<Call> {
    let (group, view) = (take(rest)?, ViewId(take(rest)?));
    Some(Call { group, view, ballot: take(rest)? })
}

fn take_report(mut rest: &[u8]) -> Option<Report> {
    let (call, process) = (take_call(&mut rest)?, take_knock(&mut rest)?);
    let ends = take_trims(&mut rest)?.into_iter().map(|end| end.checked_sub(1)).collect();
    let accepted = match rest {
        [] => None,
        _ => Some((take(&mut rest)?, take_change(&mut rest)?)),
    };
    rest.is_empty().then_some(Report { call, process, accepted, ends })
}

pub(super) fn take_change(rest: &mut &[u8]) -> Option<Change> {
    let (removed, left) = (SeatSet::from_bits(take(rest)?), SeatSet::from_bits(take(rest)?));
    let trims = take_trims(rest)?;
    let bearers = take_trims(rest)?.into_iter().map(SeatSet::from_bits).collect();
    let mut knocks = || (0..take_byte(rest)?).map(|_| take_knock(rest)).collect::<Option<Vec<_>>>();
    let (joined, renewed) = (knocks()?, knocks()?);
    Some(Change { removed, left, joined, renewed, trims, bearers })
}

/// L2 is looked at: no seat is twice in a subgroup.
fn take_seating(rest: &mut &[u8], members: SeatSet) -> Option<Seating> {
    let is_adequate = take_byte(rest)? == 1;
    let n_shards = usize::from(take_byte(rest)?);
    let (mut shards, mut seated) = (Vec::new(), SeatSet::EMPTY);
    for _ in 0..n_shards.min(SHARDS_MAX + 1) {
        let (since, bearers) = (ViewId(take(rest)?), SeatSet::from_bits(take(rest)?));
        let mut seats = Vec::new();
        for _ in 0..take_byte(rest)? {
            let seat = Rank::seat(usize::from(take_byte(rest)?))?;
            if !members.contains(seat) || !seated.insert(seat) {
                return None;
            }
            seats.push(seat);
        }
        shards.push(Shard { since, seats, bearers });
    }
    (shards.len() <= SHARDS_MAX).then_some(Seating { shards, is_adequate })
}

pub(super) fn take_knock(rest: &mut &[u8]) -> Option<Knock> {
    let seat = Rank::seat(usize::try_from(take(rest)?).ok()?)?;
    let incarnation = Incarnation(take(rest)?);
    let mut metadata = [0; METADATA_WORDS];
    for word in &mut metadata {
        *word = take(rest)?;
    }
    Some(Knock { seat, incarnation, metadata })
}

pub(super) fn take_view(mut rest: &[u8]) -> Option<View> {
    let (id, group) = (ViewId(take(&mut rest)?), take(&mut rest)?);
    let mut members: Vec<Member> = Vec::new();
    for _ in 0..take(&mut rest)? {
        let since = ViewId(take(&mut rest)?);
        let process = take_knock(&mut rest)?;
        let is_new = members.iter().all(|member| member.seat() != process.seat);
        if !is_new || since > id || members.len() == SEATS_MAX {
            return None;
        }
        members.push(Member { process, since });
    }
    if id.0 == 0 || members.is_empty() {
        return None;
    }
    let (mut view, mut roster) = (View::new(id, members), Vec::new());
    while !rest.is_empty() {
        roster.push(take_seating(&mut rest, view.seats())?);
    }
    (view.roster, view.group) = (roster, group);
    (view.roster.len() <= SUBGROUPS_MAX).then_some(view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};
    use crate::vsync::view::tests::{founded_by, process};

    #[test]
    fn golden_bytes_of_each_message() {
        let view = founded_by(&[process(3, 1), process(9, 4)]);
        let example = |message: Message<'_>| Example::new(&message, message.encoded());
        let at = Position { view: ViewId(7), at: 12 };
        let shard = ShardId { subgroup: 3, shard: 513 };
        let call = Call { group: 77, view: ViewId(3), ballot: 259 };
        let change = Change {
            removed: SeatSet::from_bits(5),
            joined: [process(4, 2)].to_vec(),
            renewed: [process(3, 9)].to_vec(),
            trims: [8].to_vec(),
            bearers: [SeatSet::from_bits(2)].to_vec(),
            ..Change::default()
        };
        let messages = [
            Message::Knock(process(5, 8)),
            Message::Welcome(view, [3, 1].to_vec()),
            Message::Call(call),
            Message::Report(Report {
                call,
                process: process(2, 7),
                accepted: None,
                ends: Vec::new(),
            }),
            Message::Report(Report {
                call,
                process: process(2, 7),
                accepted: Some((5, change.clone())),
                ends: [None, Some(0), Some(9)].to_vec(),
            }),
            Message::Propose(call, change),
            Message::Accepted(call),
            Message::WantState(shard),
            Message::Piece(Piece { shard, at, n_bytes: 9, offset: 4, bytes: b"state" }),
        ];
        bytes::check("vsync/scripts/bytes.txt", 1, &messages.map(example), &|bytes| {
            Message::decoded(bytes).map(example)
        });
        assert_eq!(Message::decoded(&[1, KNOCK]), None, "of another channel");
    }

    #[test]
    fn a_view_with_two_members_on_one_seat_is_no_view() {
        let mut bytes = alloc::vec![MESSAGE_CHANNEL, WELCOME, 0];
        put(&mut bytes, 3);
        put(&mut bytes, 0);
        put(&mut bytes, 2);
        for incarnation in [1, 2] {
            put(&mut bytes, 2);
            put_knock(&mut bytes, &process(4, incarnation));
        }
        assert_eq!(Message::decoded(&bytes), None);
    }
}
