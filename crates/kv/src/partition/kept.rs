//! A partition's replica as bytes, for the disk below its process, and for another process.
//!
//! ```text
//! executed (8) | last place delivered, if any (1 + 24)
//! | messages that some partition has not executed: n (4), in the order of the queue, each place
//!   (24), all (4), stands (4; none if executed here), length (4) and payload
//! | keys, values, expiries and sessions (`crate::snapshot`)
//! ```
//! - Q1 the states of all partitions of a process, saved at one moment and installed one after the
//!   other together with what was delivered since, restore the process that saved them: a message
//!   that waits for several partitions waits again until it has reached each. Test
//!   `q1_a_process_comes_back`. The states of different processes, or moments, do not fit together:
//!   a command that was executed in several partitions at once would be present in only some of
//!   them.
//! - Q2 another process that installs all of them, after [`Executor::begin_again`], and is
//!   delivered the later messages in each partition, becomes a replica of the process that saved
//!   them, whatever it had executed itself: nothing of its own state remains. Test
//!   `q2_a_process_takes_anothers_states`.

use super::executor::{Executor, Message};
use super::hash::Partitions;
use super::{Name, Place};
use crate::machine::Machine;
use crate::snapshot::{self, SnapshotError};
use std::sync::Arc;

/// Bytes that [`Executor::save`] did not write.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The bytes are cut off.
    #[error("the state of a partition is cut off or garbled")]
    Garbled,
    /// The bytes of the keys and values are wrong.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], KeptError> {
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(KeptError::Garbled)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, KeptError> {
        let bytes = self.take(4)?.try_into().map_err(|_| KeptError::Garbled)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, KeptError> {
        let bytes = self.take(8)?.try_into().map_err(|_| KeptError::Garbled)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn place(&mut self) -> Result<Place, KeptError> {
        let at = self.u64()?;
        let (sender, sequence) = (self.u64()?, self.u64()?);
        Ok(Place { at, name: Name { sender, sequence } })
    }
}

fn put_place(place: Place, out: &mut Vec<u8>) {
    for word in [place.at, place.name.sender, place.name.sequence] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

impl Executor {
    /// Appends one partition's replica (Q1).
    pub fn save(&self, partition: usize, out: &mut Vec<u8>) {
        let part = &self.parts[partition];
        out.extend_from_slice(&part.executed.to_le_bytes());
        out.push(u8::from(part.delivered.is_some()));
        if let Some(place) = part.delivered {
            put_place(place, out);
        }
        // Reads that wait for a timestamp end with this process's life, and so do their clients.
        let is_kept = |name: &Name| name.sender != super::snapshot::SENDER;
        let waiting = self.gate.queue(partition).filter(|(name, _)| is_kept(name));
        let waiting = waiting.map(|(name, stands)| (&self.messages[&name], stands));
        let is_done = |of: &&Message| {
            let is_left = of.left.contains(partition);
            of.all.contains(partition) && !is_left && is_kept(&of.place.name)
        };
        let done = self.messages.values().filter(is_done).map(|of| (of, Partitions::NONE));
        let messages: Vec<_> = waiting.chain(done).collect();
        out.extend_from_slice(&(messages.len() as u32).to_le_bytes());
        for (message, stands) in messages {
            put_place(message.place, out);
            let length = message.payload.len() as u32;
            for bits in [message.all.bits(), stands.bits(), length] {
                out.extend_from_slice(&bits.to_le_bytes());
            }
            out.extend_from_slice(&message.payload);
        }
        let (store, clients) = (part.store.clone(), part.clients.clone());
        snapshot::save(&Machine::of_state(store, clients), out);
    }

    /// Installs what an earlier life of this process saved, before anything is delivered to the
    /// partition. Commands of that life have no client that waits for an answer.
    ///
    /// # Errors
    /// [`KeptError`]: the replica is unchanged, and must not be used.
    pub fn restore(&mut self, partition: usize, bytes: &[u8]) -> Result<(), KeptError> {
        let mut from = Bytes(bytes);
        let executed = from.u64()?;
        let delivered = if from.take(1)? == [1] { Some(from.place()?) } else { None };
        let mut waiting = Vec::new();
        for _ in 0..from.u32()? {
            let place = from.place()?;
            let all = Partitions::from_bits(from.u32()?);
            let stands = Partitions::from_bits(from.u32()?);
            let length = from.u32()? as usize;
            let payload: Arc<[u8]> = from.take(length)?.into();
            if !all.contains(partition) || !stands.is_empty() && !stands.contains(partition) {
                return Err(KeptError::Garbled);
            }
            waiting.push((Message::kept(place, all, payload), stands));
        }
        let machine = snapshot::restore(from.0, self.share)?;
        let part = &mut self.parts[partition];
        (part.store, part.clients) = (machine.store, machine.clients);
        (part.executed, part.delivered) = (executed, delivered);
        for (message, stands) in waiting {
            let name = message.place.name;
            let message = self.messages.entry(name).or_insert(message);
            if !stands.is_empty() {
                self.gate.join(partition, name, stands);
                continue;
            }
            message.left = message.left.without(partition);
            if message.left.is_empty() {
                self.messages.remove(&name);
            }
        }
        self.pass(&mut |_, _| {});
        Ok(())
    }
}
