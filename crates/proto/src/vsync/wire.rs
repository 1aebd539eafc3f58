//! The messages of a group, as bytes: what a process and a group say to each other before the
//! process has a row, and the state of a shard on its way.
//!
//! Everything else is told by rows. A message that cannot be read is dropped.

use super::Position;
use super::clock::Time;
use super::shard::{SHARDS_MAX, SUBGROUPS_MAX, Seating, Shard, ShardId, ViewId};
use super::view::{Change, Knock, Member, View};
use crate::MESSAGE_CHANNEL;
use crate::codec::{self, Coded, Malformed, Out, Reader, Words};
use alloc::vec::Vec;
use base::{Rank, SEATS_MAX, SeatSet};

codec::coded! {
    /// A message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) enum Message<'a> in Words {
        /// A process asks to be a member. A member that does not lead passes it on to its leader.
        Knock(Knock) = 1,
        /// A view, and the trims of the one before it (empty if it had no predecessor, or they are
        /// not known). The receiver is a member of it from now on; or is told that its log is
        /// older.
        Welcome { trims: Vec<u64>, view: View } = 2,
        /// A process that restarts a durable group asks for promises (`restart`).
        Call(Call) = 5,
        /// A promise, or a word of a later ballot or another view.
        Report(Report) = 6,
        /// The change of a restart, to be accepted.
        Propose { call: Call, change: Change } = 7,
        /// It was accepted.
        Accepted(Call) = 8,
        /// A newcomer to a shard asks for its state.
        WantState(ShardId) = 3,
        /// A piece of a shard's state.
        Piece(Piece<'a>) = 4,
    }
}

codec::coded! {
    /// A piece of a shard's state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Piece<'a> in Words {
        pub(super) shard: ShardId,
        /// The position that the state covers everything before.
        pub(super) at: Position,
        /// The number of bytes of the whole state.
        pub(super) n_bytes: u64,
        /// The number of bytes before this piece.
        pub(super) offset: u64,
        pub(super) bytes: &'a [u8],
    }
}

codec::coded! {
    /// A ballot of a restart, in a view of a group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Call in Words {
        pub(super) group: u64,
        pub(super) view: ViewId,
        pub(super) ballot: u64,
    }
}

codec::coded! {
    /// What a returning process has, when it has promised `call.ballot`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Report in Words {
        pub(super) call: Call,
        pub(super) process: Knock,
        /// The latest time that it knows of (K4).
        pub(super) clock: Time,
        /// By subgroup, if it has the state of its shard: how much of the view's order it has.
        pub(super) ends: Vec<Option<u64>> as OneMore,
        /// The change of the view that it accepted last, and the ballot.
        pub(super) accepted: Option<(u64, Change)> as UnlessAtEnd,
    }
}

/// The longest piece.
pub(super) const PIECE_BYTES: usize = 8 << 10;

impl<'a> Message<'a> {
    /// The bytes of the message.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = alloc::vec![MESSAGE_CHANNEL];
        self.put(&mut out);
        out
    }

    /// The message with these bytes.
    pub(super) fn decoded(bytes: &'a [u8]) -> Option<Message<'a>> {
        codec::decode(bytes.strip_prefix(&[MESSAGE_CHANNEL])?).ok()
    }
}

/// Nothing as 0, and any other number as one more.
enum OneMore {}

impl Coded<'_, OneMore> for Vec<Option<u64>> {
    fn put(&self, out: &mut impl Out) {
        let numbers: Vec<u64> = self.iter().map(|end| end.map_or(0, |n| n + 1)).collect();
        Coded::<Words>::put(&numbers, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let numbers = <Vec<u64> as Coded<'_, Words>>::take(from)?;
        Ok(numbers.into_iter().map(|n| n.checked_sub(1)).collect())
    }
}

/// What ends with the message, or is not there.
enum UnlessAtEnd {}

impl Coded<'_, UnlessAtEnd> for Option<(u64, Change)> {
    fn put(&self, out: &mut impl Out) {
        self.iter().for_each(|last| last.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.is_at_end() { Ok(None) } else { Coded::<Words>::take(from).map(Some) }
    }
}

/// What a view begins with: its number, the group, its time, the number of its members.
type Head = ((ViewId, u64), (Time, u64));

/// Reaches to the end.
impl Coded<'_, Words> for View {
    fn put(&self, out: &mut impl Out) {
        let head: Head = ((self.id, self.group), (self.time, self.members.len() as u64));
        Coded::<Words>::put(&head, out);
        for member in &self.members {
            (member.since, member.process).put(out);
        }
        for seating in &self.roster {
            out.extend_from_slice(&[seating.is_adequate.into(), seating.shards.len() as u8]);
            for Shard { since, seats, bearers, senders } in &seating.shards {
                (*since, (*bearers, *senders)).put(out);
                codec::number(seats.len() as u64, out);
                seats.iter().for_each(|seat| codec::number(seat.index() as u64, out));
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<View, Malformed> {
        let ((id, group), (time, n_members)): Head = Coded::<Words>::take(from)?;
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..n_members {
            let (since, process) = <(ViewId, Knock)>::take(from)?;
            let is_new = members.iter().all(|member| member.seat() != process.seat);
            if !is_new || since > id || members.len() == SEATS_MAX {
                return Err(Malformed);
            }
            members.push(Member { process, since });
        }
        if id.0 == 0 || members.is_empty() {
            return Err(Malformed);
        }
        let (mut view, mut roster) = (View::new(id, members), Vec::new());
        while !from.is_at_end() {
            roster.push(take_seating(from, view.seats())?);
        }
        (view.roster, view.group, view.time) = (roster, group, time);
        if view.roster.len() > SUBGROUPS_MAX { Err(Malformed) } else { Ok(view) }
    }
}

/// L2 is looked at: no seat is twice in a subgroup.
fn take_seating(from: &mut Reader<'_>, members: SeatSet) -> Result<Seating, Malformed> {
    let is_adequate = from.byte()? == 1;
    let n_shards = usize::from(from.byte()?);
    let (mut shards, mut seated) = (Vec::new(), SeatSet::EMPTY);
    for _ in 0..n_shards.min(SHARDS_MAX + 1) {
        let (since, (bearers, senders)) = <(ViewId, (SeatSet, SeatSet))>::take(from)?;
        let mut seats = Vec::new();
        for _ in 0..from.count()? {
            let seat = usize::try_from(from.number()?).ok().and_then(Rank::seat);
            let seat = seat.ok_or(Malformed)?;
            if !members.contains(seat) || !seated.insert(seat) {
                return Err(Malformed);
            }
            seats.push(seat);
        }
        // L6
        if !seats.iter().copied().collect::<SeatSet>().covers(senders) {
            return Err(Malformed);
        }
        shards.push(Shard { since, seats, bearers, senders });
    }
    if shards.len() > SHARDS_MAX { Err(Malformed) } else { Ok(Seating { shards, is_adequate }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bytes::{self, Example};
    use crate::vsync::view::tests::{founded_by, process};

    #[test]
    fn golden_bytes_of_each_message() {
        let founded = founded_by(&[process(3, 1), process(9, 4)]);
        let view = View { time: Time(9), ..founded };
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
            time: Time(31),
            ..Change::default()
        };
        let messages = [
            Message::Knock(process(5, 8)),
            Message::Welcome { trims: [3, 1].to_vec(), view },
            Message::Call(call),
            Message::Report(Report {
                call,
                process: process(2, 7),
                clock: Time(17),
                accepted: None,
                ends: Vec::new(),
            }),
            Message::Report(Report {
                call,
                process: process(2, 7),
                clock: Time(17),
                accepted: Some((5, change.clone())),
                ends: [None, Some(0), Some(9)].to_vec(),
            }),
            Message::Propose { call, change },
            Message::Accepted(call),
            Message::WantState(shard),
            Message::Piece(Piece { shard, at, n_bytes: 9, offset: 4, bytes: b"state" }),
        ];
        bytes::check("vsync/scripts/bytes.txt", 1, &messages.map(example), &|bytes| {
            Message::decoded(bytes).map(example)
        });
        assert_eq!(Message::decoded(&[1, 1]), None, "of another channel");
    }

    #[test]
    fn a_view_with_two_members_on_one_seat_is_no_view() {
        let mut bytes = alloc::vec![MESSAGE_CHANNEL, 2, 0];
        let head: Head = ((ViewId(3), 0), (Time(0), 2));
        Coded::<Words>::put(&head, &mut bytes);
        for incarnation in [1, 2] {
            (ViewId(2), process(4, incarnation)).put(&mut bytes);
        }
        assert_eq!(Message::decoded(&bytes), None);
    }
}
