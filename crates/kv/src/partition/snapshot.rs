//! Reads of several partitions at one timestamp, without a message.
//!
//! The executor's owner has every partition that is read report the moment at which exactly the
//! messages up to a timestamp t were delivered (`multicast::Desk::snapshot`). At that moment the
//! read joins the partition's queue, behind everything up to t and before everything above:
//! - R1 a read at t sees of each partition the state after every message with a final timestamp up
//!   to t, and no other. By the cut, and by the gate's W1.
//! - R2 it changes nothing, and only the process that asked executes it. By
//!   [`Executor::snapshot_of`], which takes reads only, and a stamp of zero, which does not advance
//!   time.
//!
//! docs/partitions.md ("Snapshots") describes what this promises.

use super::executor::Executor;
use super::hash::Partitions;
use super::plan::{Shape, is_read};
use super::{Name, Place};
use crate::entry::{Appended, BATCH_BYTES_MIN, BatchWriter, Command, Sequence};
use std::sync::Arc;

/// The first byte of a snapshot read, before the read itself; no command begins with it.
pub const REQUEST: u8 = 0x61;

/// The error for a read that no partition can answer for itself.
pub const NOT_BY_PIECES: &str =
    "ERR this command needs several partitions at once; send it without GREGALE.SNAPSHOT";

/// The sender in the names of snapshots: no process has this name.
pub(super) const SENDER: u64 = u64::MAX;

impl Executor {
    /// The partitions that a read wants to see at one timestamp; `None` if it cannot be answered
    /// piece by piece, or is not a read.
    pub fn snapshot_of(&self, command: &[u8]) -> Option<Partitions> {
        let command = Command::decode(command).ok()?;
        match self.map().shape(&command) {
            shape @ (Shape::One(_) | Shape::Each(..)) if is_read(&command) => {
                Some(shape.partitions())
            }
            _ => None,
        }
    }

    /// Encodes a read for [`Executor::snapshot`]; its answer will be given to this sequence.
    pub fn snapshot_payload(&self, sequence: Sequence, command: &[u8]) -> Arc<[u8]> {
        let mut batch = Vec::new();
        let mut writer = BatchWriter::new();
        writer.begin(0, &mut batch);
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

    /// Withdraws snapshot `number`, which no client waits for.
    pub fn forget_snapshot(&mut self, number: u64, answers: &mut impl FnMut(Sequence, &[u8])) {
        self.withdraw(Name { sender: SENDER, sequence: number }, answers);
    }
}
