//! Sessions: the record of each member's executed commands and their replies.
//!
//! A member that loses its leader hands its commands without an answer to the next leader, and a
//! command can then be decided twice. It is executed once, because every command carries (origin,
//! sequence) and this table, which is part of the replicated state, remembers what was executed.
//!
//! The memory is bounded: of each member's latest life, the last [`WINDOW`] sequences. A member may
//! have no more than that between its oldest command without an answer and its newest, so every
//! command that it can still hand over again is remembered. A sequence below the window is refused
//! with a definite "unknown": it may have been executed long ago.
//!
//! - S1 a (origin, sequence) is [`Verdict::Fresh`] at most once. By construction: `record` marks
//!   it, the mark stays while the sequence is in the window, and no sequence below the window is
//!   fresh.
//! - S2 sequences within the window may come in any order, and each is fresh once. Property test
//!   `s2_any_order_within_the_window`.
//! - S3 a life that is not the latest of its member is refused. By comparison in `judge`.
//! - S4 remembered replies take at most [`LONG_BYTES_MAX`] bytes per member beside the ring; the
//!   oldest are dropped first, and a retry is then answered that it was executed. Asserted in
//!   `record`.
//! - S5 all of this is a function of the calls: replicas agree on verdicts and replies.
//!
//! Cost: one ring index and a 32-byte record per command, no allocation for replies up to
//! [`SHORT_BYTES_MAX`] bytes.

use std::collections::BTreeMap;

use base::{Incarnation, MAX_MEMBERS, Rank};

use crate::entry::{Origin, Sequence};

/// The number of a member's sequences that are remembered, from its highest down; a power of two.
pub const WINDOW: u64 = 4096;

/// The longest reply that lies in the ring.
pub const SHORT_BYTES_MAX: usize = 23;

/// The longest reply that is remembered. A retry of a longer one is told only that it was executed.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// The most bytes of all longer replies of one member.
pub const LONG_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(WINDOW.is_power_of_two() && REPLY_BYTES_MAX <= LONG_BYTES_MAX);

/// The decision about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The command is to be executed, and its reply recorded.
    Fresh,
    /// The command has been executed; this is its reply.
    Answered(&'a [u8]),
    /// The command has been executed; its reply is not remembered.
    Forgotten,
    /// The command is too old: whether it was executed is unknown.
    BelowWindow,
    /// The command is of a life that has ended: it was not and will not be executed, unless it was
    /// before the next life began.
    PastLife,
}

/// One place of the ring: the sequence that is recorded here, or 0.
#[derive(Clone, Copy, Debug)]
struct Record {
    sequence: u64,
    /// The bytes of a short reply; [`LONG`] if it is in the map of long ones or forgotten.
    len: u8,
    short: [u8; SHORT_BYTES_MAX],
}

const LONG: u8 = u8::MAX;
const EMPTY: Record = Record { sequence: 0, len: 0, short: [0; SHORT_BYTES_MAX] };
const _: () = assert!(size_of::<Record>() == 32, "two records a cache line");

/// One member's latest life.
#[derive(Clone, Debug)]
struct Session {
    incarnation: Incarnation,
    highest: u64,
    ring: Box<[Record]>,
    /// The longer replies, by sequence; all of them in the window.
    long: BTreeMap<u64, Box<[u8]>>,
    long_bytes: usize,
}

/// The executed commands of every member.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    members: [Option<Session>; MAX_MEMBERS],
}

/// One record, for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'a> {
    /// The member and life of the command.
    pub origin: Origin,
    /// The command's sequence.
    pub sequence: Sequence,
    /// The reply; `None` if it is not remembered.
    pub reply: Option<&'a [u8]>,
}

/// The error for a record that no history of commands leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a snapshot's sessions are out of order or over their limits")]
pub struct ImpossibleRecord;

impl Session {
    fn new(incarnation: Incarnation) -> Session {
        Session {
            incarnation,
            highest: 0,
            ring: vec![EMPTY; WINDOW as usize].into_boxed_slice(),
            long: BTreeMap::new(),
            long_bytes: 0,
        }
    }

    /// The lowest sequence that is remembered.
    fn lowest(&self) -> u64 {
        self.highest.saturating_sub(WINDOW - 1).max(1)
    }

    fn at(sequence: u64) -> usize {
        (sequence & (WINDOW - 1)) as usize
    }

    fn judge(&self, sequence: u64) -> Verdict<'_> {
        // This check comes first, although the ring may still hold an older mark: whether it does
        // depends on which sequences came since, and a replica that was restored from a snapshot
        // holds none (S5).
        if sequence < self.lowest() {
            return Verdict::BelowWindow;
        }
        let record = &self.ring[Session::at(sequence)];
        if record.sequence == sequence {
            return match record.len {
                LONG => match self.long.get(&sequence) {
                    Some(reply) => Verdict::Answered(reply),
                    None => Verdict::Forgotten,
                },
                len => Verdict::Answered(&record.short[..len as usize]),
            };
        }
        Verdict::Fresh
    }

    fn record(&mut self, sequence: u64, reply: Option<&[u8]>) {
        if sequence > self.highest {
            self.highest = sequence;
            if !self.long.is_empty() {
                self.forget_long_below(self.lowest());
            }
        }
        let record = &mut self.ring[Session::at(sequence)];
        assert!(record.sequence != sequence && sequence != 0, "S1: recorded twice");
        *record = Record { sequence, len: LONG, ..EMPTY };
        match reply {
            Some(reply) if reply.len() <= SHORT_BYTES_MAX => {
                record.len = reply.len() as u8;
                record.short[..reply.len()].copy_from_slice(reply);
            }
            Some(reply) if reply.len() <= REPLY_BYTES_MAX => {
                self.long_bytes += reply.len();
                self.long.insert(sequence, reply.into());
                while self.long_bytes > LONG_BYTES_MAX
                    && let Some((_, forgotten)) = self.long.pop_first()
                {
                    self.long_bytes -= forgotten.len();
                }
            }
            Some(_) | None => {}
        }
        assert!(self.long_bytes <= LONG_BYTES_MAX, "S4");
    }

    fn forget_long_below(&mut self, lowest: u64) {
        while let Some(first) = self.long.first_entry()
            && *first.key() < lowest
        {
            self.long_bytes -= first.remove().len();
        }
    }
}

impl Sessions {
    /// A table without commands.
    pub fn new() -> Sessions {
        Sessions::default()
    }

    /// Judges a command; a member's new life begins here.
    pub fn judge(&mut self, origin: Origin, sequence: Sequence) -> Verdict<'_> {
        let member = &mut self.members[origin.rank.index()];
        if let Some(session) = member
            && session.incarnation > origin.incarnation
        {
            return Verdict::PastLife;
        }
        // A new life replaces the previous one: the clients of the previous life are gone.
        let stale = member.as_ref().is_none_or(|session| session.incarnation < origin.incarnation);
        if stale {
            *member = Some(Session::new(origin.incarnation));
        }
        member.as_ref().expect("there, or just begun").judge(sequence.0)
    }

    /// The record of a command, without beginning a life; `None` for an unknown command.
    pub fn recall(&self, origin: Origin, sequence: Sequence) -> Option<Verdict<'_>> {
        let session = self.members[origin.rank.index()].as_ref()?;
        (session.incarnation == origin.incarnation).then(|| session.judge(sequence.0))
    }

    /// Remembers the reply of a command that [`Sessions::judge`] has just called fresh.
    ///
    /// # Panics
    /// If it has not.
    pub fn record(&mut self, origin: Origin, sequence: Sequence, reply: &[u8]) {
        let session = self.members[origin.rank.index()].as_mut();
        let session = session.filter(|session| session.incarnation == origin.incarnation);
        session.expect("judge has begun this life").record(sequence.0, Some(reply));
    }

    /// The latest life of each member, by rank.
    pub fn lives(&self) -> impl Iterator<Item = Origin> {
        self.members.iter().enumerate().filter_map(|(at, session)| {
            let incarnation = session.as_ref()?.incarnation;
            Some(Origin { rank: Rank::at(at), incarnation })
        })
    }

    /// The records of a life, in order of sequences, from one of them on.
    pub fn executed(&self, origin: Origin, from: Sequence) -> impl Iterator<Item = Executed<'_>> {
        let session = self.members[origin.rank.index()].as_ref();
        let session = session.filter(|session| session.incarnation == origin.incarnation);
        session.into_iter().flat_map(move |session| {
            (session.lowest().max(from.0)..=session.highest).filter_map(move |sequence| {
                let reply = match session.judge(sequence) {
                    Verdict::Answered(reply) => Some(reply),
                    Verdict::Forgotten => None,
                    Verdict::Fresh | Verdict::BelowWindow | Verdict::PastLife => return None,
                };
                Some(Executed { origin, sequence: Sequence(sequence), reply })
            })
        })
    }

    /// Begins a life in a table that is being restored.
    ///
    /// # Errors
    /// That member has a life already.
    pub fn restore_life(&mut self, origin: Origin) -> Result<(), ImpossibleRecord> {
        let member = &mut self.members[origin.rank.index()];
        if member.is_some() {
            return Err(ImpossibleRecord);
        }
        *member = Some(Session::new(origin.incarnation));
        Ok(())
    }

    /// Adds a record to a table that is being restored, in order of sequences.
    ///
    /// # Errors
    /// The record is not one that [`Sessions::executed`] gives.
    pub fn restore(&mut self, record: Executed<'_>) -> Result<(), ImpossibleRecord> {
        let Executed { origin, sequence: Sequence(sequence), reply } = record;
        let session = self.members[origin.rank.index()].as_mut();
        let session = session.filter(|session| session.incarnation == origin.incarnation);
        let session = session.ok_or(ImpossibleRecord)?;
        let long = reply.map_or(0, |reply| reply.len());
        let fits = long <= SHORT_BYTES_MAX
            || long <= REPLY_BYTES_MAX && session.long_bytes + long <= LONG_BYTES_MAX;
        if sequence <= session.highest || !fits {
            return Err(ImpossibleRecord);
        }
        session.record(sequence, reply);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin(rank: usize, incarnation: u64) -> Origin {
        Origin { rank: Rank::at(rank), incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn s1_a_sequence_is_fresh_once() {
        let mut sessions = Sessions::new();
        let me = origin(0, 1);
        for sequence in 1..3 * WINDOW {
            let reply = format!(":{sequence}\r\n");
            assert_eq!(sessions.judge(me, Sequence(sequence)), Verdict::Fresh);
            sessions.record(me, Sequence(sequence), reply.as_bytes());
            let again = sessions.judge(me, Sequence(sequence));
            assert_eq!(again, Verdict::Answered(reply.as_bytes()));
        }
        let highest = 3 * WINDOW - 1;
        let lowest = highest - WINDOW + 1;
        assert!(matches!(sessions.judge(me, Sequence(lowest)), Verdict::Answered(_)));
        assert_eq!(sessions.judge(me, Sequence(lowest - 1)), Verdict::BelowWindow);
        assert_eq!(sessions.judge(me, Sequence(1)), Verdict::BelowWindow);
    }

    #[test]
    fn s1_a_jump_leaves_no_mark_of_what_was_overtaken() {
        let mut sessions = Sessions::new();
        let me = origin(0, 1);
        sessions.judge(me, Sequence(5));
        sessions.record(me, Sequence(5), b"+OK\r\n");
        sessions.judge(me, Sequence(WINDOW + 4));
        sessions.record(me, Sequence(WINDOW + 4), b"+OK\r\n");
        assert_eq!(sessions.judge(me, Sequence(5)), Verdict::Answered(b"+OK\r\n"));
        sessions.judge(me, Sequence(2 * WINDOW + 4));
        sessions.record(me, Sequence(2 * WINDOW + 4), b"+OK\r\n");
        assert_eq!(sessions.judge(me, Sequence(WINDOW + 5)), Verdict::Fresh, "the ring's old mark");
        assert_eq!(sessions.judge(me, Sequence(WINDOW + 4)), Verdict::BelowWindow);
        // The mark is still in the ring, but a replica restored from a snapshot has none (S5).
        assert_eq!(sessions.judge(me, Sequence(5)), Verdict::BelowWindow);
        assert_eq!(sessions.executed(me, Sequence(1)).count(), 1);
    }

    #[test]
    fn s3_a_past_life_is_refused_and_a_new_one_begins_anew() {
        let mut sessions = Sessions::new();
        sessions.judge(origin(1, 4), Sequence(1));
        sessions.record(origin(1, 4), Sequence(1), b"+OK\r\n");
        assert_eq!(sessions.judge(origin(1, 5), Sequence(1)), Verdict::Fresh);
        assert_eq!(sessions.judge(origin(1, 4), Sequence(1)), Verdict::PastLife);
        assert_eq!(sessions.judge(origin(1, 4), Sequence(2)), Verdict::PastLife);
        assert_eq!(sessions.recall(origin(1, 4), Sequence(1)), None);
        assert_eq!(sessions.judge(origin(2, 4), Sequence(1)), Verdict::Fresh, "another member");
    }

    #[test]
    fn s4_long_replies_are_bounded_and_the_oldest_go_first() {
        let mut sessions = Sessions::new();
        let me = origin(0, 1);
        let reply = vec![b'x'; REPLY_BYTES_MAX];
        let n = (LONG_BYTES_MAX / REPLY_BYTES_MAX) as u64;
        for sequence in 1..=n + 1 {
            sessions.judge(me, Sequence(sequence));
            sessions.record(me, Sequence(sequence), &reply);
        }
        assert_eq!(sessions.judge(me, Sequence(1)), Verdict::Forgotten);
        assert_eq!(sessions.judge(me, Sequence(2)), Verdict::Answered(&reply));
        let longer = vec![b'x'; REPLY_BYTES_MAX + 1];
        sessions.judge(me, Sequence(n + 2));
        sessions.record(me, Sequence(n + 2), &longer);
        assert_eq!(sessions.judge(me, Sequence(n + 2)), Verdict::Forgotten);
        // A record that leaves the window leaves the memory.
        sessions.judge(me, Sequence(2 * WINDOW));
        sessions.record(me, Sequence(2 * WINDOW), b"+OK\r\n");
        assert_eq!(sessions.members[0].as_ref().unwrap().long_bytes, 0);
    }

    proptest! {
        #[test]
        fn s2_any_order_within_the_window(
            order in Just((1..=WINDOW).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut sessions = Sessions::new();
            let me = origin(3, 7);
            for sequence in &order {
                prop_assert_eq!(sessions.judge(me, Sequence(*sequence)), Verdict::Fresh);
                sessions.record(me, Sequence(*sequence), &sequence.to_le_bytes());
            }
            for sequence in order {
                let again = sessions.judge(me, Sequence(sequence));
                prop_assert_eq!(again, Verdict::Answered(&sequence.to_le_bytes()));
            }
        }
    }
}
