//! Reads of several partitions at one timestamp, without a message.
//!
//! The executor's owner has every partition that is read report the moment at which exactly the
//! messages up to a timestamp t were delivered (`multicast::Desk::snapshot`). At that moment the
//! read joins the partition's queue, behind everything up to t and before everything above:
//! - R1 a read at t sees of each partition the state after every message with a final timestamp up
//!   to t, and no other. By the cut, and by the gate's W1.
//! - R2 it changes nothing. Only the process that asked executes it, so a change would make that
//!   process's replicas differ from the others'. By type: [`Executor::seen`] has the replicas by
//!   shared reference. Test `r2_a_read_at_a_timestamp_removes_no_expired_key`.
//! - R3 it shows no key whose time had come when it was asked for, by the clock of the process that
//!   asked: the process has such a read multicast like any other, which decides the time for all
//!   replicas ([`Executor::sees_an_expiry`]). A key that is found so only at t puts the read off,
//!   and it is asked for again ([`PUT_OFF`]). Test `r3_no_key_is_seen_behind_its_time`.
//!
//! docs/partitions.md ("Snapshots") describes what this promises.

use super::executor::{Executor, Message, PUT_OFF};
use super::hash::Partitions;
use super::merge::{self, Merging};
use super::plan::{Merge, Shape};
use super::together::Own;
use super::{Name, Place};
use crate::command::{Args, CommandSpec, resolve};
use crate::entry::{Appended, BATCH_BYTES_MIN, Batch, BatchWriter, Command, Sequence};
use crate::exec::Call;
use crate::reply::{Protocol, Reply};
use crate::store::Db;
use std::sync::Arc;

/// The first byte of a snapshot read, before the read itself; no command begins with it.
pub const REQUEST: u8 = 0x61;

/// The error for a read that no partition can answer for itself.
pub const NOT_BY_PIECES: &str =
    "ERR this command needs several partitions at once; send it without GREGALE.SNAPSHOT";

/// The sender in the names of snapshots: no process has this name.
pub(super) const SENDER: u64 = u64::MAX;

/// A read that partitions answer one by one.
struct Read<'a> {
    db: Db,
    protocol: Protocol,
    spec: &'static CommandSpec,
    args: Args<'a>,
    all: Partitions,
    /// The combination of the answers; `None` of one partition's.
    how: Option<Merge>,
}

impl Executor {
    /// The partitions that a read wants to see at one timestamp; `None` if it cannot be answered
    /// piece by piece, or is not a read of keys.
    pub fn snapshot_of(&self, command: &[u8]) -> Option<Partitions> {
        self.read_of(command).map(|read| read.all)
    }

    fn read_of<'a>(&self, command: &'a [u8]) -> Option<Read<'a>> {
        let Ok(Command::Plain { db, protocol, args }) = Command::decode(command) else {
            return None;
        };
        let spec = resolve(&args, &mut Reply::default())?;
        if !spec.is_for_store() || spec.is_write() {
            return None;
        }
        let (all, how) = match self.map().shape_of(spec, &args) {
            Shape::One(at) => (Partitions::one(at), None),
            Shape::Each(all, how) => (all, Some(how)),
            Shape::Together(_) => return None,
        };
        Some(Read { db, protocol, spec, args, all, how })
    }

    /// Whether a read that [`Executor::snapshot_of`] has taken would find a key expired at
    /// `unix_ms` that its partition's time has not expired yet (R3).
    pub fn sees_an_expiry(&self, command: &[u8], unix_ms: u64) -> bool {
        self.read_of(command).is_some_and(|read| self.some_would_expire(&read, read.all, unix_ms))
    }

    fn some_would_expire(&self, read: &Read<'_>, of: Partitions, unix_ms: u64) -> bool {
        let Read { db, spec, args, .. } = read;
        of.iter().any(|at| self.parts[at].store.sees_an_expiry(*db, spec, args, unix_ms))
    }

    /// Encodes a read for [`Executor::snapshot`], which was asked for at `unix_ms`; its answer will
    /// be given to this sequence.
    pub fn snapshot_payload(&self, sequence: Sequence, command: &[u8], unix_ms: u64) -> Arc<[u8]> {
        let mut batch = Vec::new();
        let mut writer = BatchWriter::new();
        writer.begin(unix_ms, &mut batch);
        let bytes_max = BATCH_BYTES_MIN + command.len();
        let appended = writer.append(self.origin(), sequence, command, bytes_max, &mut batch);
        assert_eq!(appended, Appended::Whole, "there is room for it");
        batch.into()
    }

    /// Adds the read of snapshot `number` to `partition`, one of `all` that it concerns, at the
    /// moment when exactly the messages up to its timestamp were delivered (R1).
    pub fn snapshot(
        &mut self,
        partition: usize,
        number: u64,
        all: Partitions,
        payload: &Arc<[u8]>,
        answers: &mut impl FnMut(Sequence, &[u8]),
    ) {
        let place = Place { at: 0, name: Name { sender: SENDER, sequence: number } };
        self.stand(partition, place, (all, Partitions::one(partition)), payload, answers);
    }

    /// Answers a read at a timestamp, which is first in the queues of `passed`.
    pub(super) fn seen(&self, mut message: Message, passed: Partitions) -> Message {
        let payload = Arc::clone(&message.payload);
        let batch = Batch::check(&payload).expect("`snapshot_payload` has made it");
        for (at, frame) in batch.frames().enumerate() {
            let read = self.read_of(frame.bytes).expect("`snapshot_of` has taken it");
            if message.put_off.contains(&at) {
                continue;
            }
            if self.some_would_expire(&read, passed, batch.stamp_ms) {
                message.put_off.insert(at);
                message.merging.remove(&at);
                message.answers.push((frame.sequence, PUT_OFF.to_vec()));
                continue;
            }
            for partition in passed.iter() {
                let answer = self.answer_of_one(&read, partition, batch.stamp_ms);
                let places = merge::places(&self.map(), read.spec, &read.args, partition);
                let new = || Merging::new(read.how.unwrap_or(Merge::First), read.all);
                let merging = message.merging.entry(at).or_insert_with(new);
                merging.add(partition, &answer, &places);
                if merging.is_complete()
                    && let Some(merging) = message.merging.remove(&at)
                {
                    let whole = merge::answer_of(read.protocol, |reply| merging.put(reply));
                    message.answers.push((frame.sequence, whole));
                }
            }
        }
        message.left = passed.iter().fold(message.left, Partitions::without);
        message
    }

    /// The answer of one partition to its piece of a read at `unix_ms`.
    fn answer_of_one(&self, read: &Read<'_>, partition: usize, unix_ms: u64) -> Vec<u8> {
        let Read { db, protocol, spec, args, how, .. } = read;
        let (map, store) = (self.map(), &self.parts[partition].store);
        merge::answer_of(*protocol, |reply| {
            let piece = match how {
                Some(_) => merge::piece(&map, spec, args, partition),
                None => args.clone(),
            };
            let call = Call { spec, db: *db, args: &piece, seed: 0 };
            Own { map, at: partition }.query(store, unix_ms, &call, reply);
        })
    }

    /// Withdraws snapshot `number`, which no client waits for.
    pub fn forget_snapshot(&mut self, number: u64, answers: &mut impl FnMut(Sequence, &[u8])) {
        self.withdraw(Name { sender: SENDER, sequence: number }, answers);
    }
}
