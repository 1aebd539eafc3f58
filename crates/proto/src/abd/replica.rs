//! The replica: queries and stores of all members' operations.

use super::bugs::Bug;
use super::wire::Body;
use super::{Abd, BEAT_EVERY};
use crate::keyed::{KeyedHost, Tag};
use crate::planted::Planting;
use alloc::vec::Vec;
use base::{Instant, Rank};

/// Stores that were acknowledged before they are made (`Bug::AckBeforeStore`).
#[derive(Debug, Default)]
pub(super) struct Late(Vec<(Instant, Vec<u8>, Tag, Vec<u8>)>);

impl Late {
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.0.first().map(|(at, ..)| *at)
    }
}

impl<P: Planting<Bug>> Abd<P> {
    /// Whether requests of others are answered (A5).
    fn answers(&self) -> bool {
        self.is_serving() || self.planted.has(Bug::MergingCounts)
    }

    /// Takes a version, if it is newer than what is there (A2).
    pub(super) fn place<H: KeyedHost>(&self, key: &[u8], tag: Tag, value: &[u8], host: &mut H) {
        let held = host.register(key).map(|(tag, _)| tag);
        let is_newer = match held {
            None => true,
            Some(_) if self.planted.has(Bug::OlderReplaces) => true,
            Some(held) if self.planted.has(Bug::TiesUnbroken) => tag.counter > held.counter,
            Some(held) => tag > held,
        };
        if is_newer {
            host.put_register(key, tag, value);
        }
    }

    pub(super) fn on_query<H: KeyedHost>(
        &mut self,
        from: Rank,
        run: u64,
        number: u64,
        key: &[u8],
        host: &mut H,
    ) {
        if !self.answers() {
            return;
        }
        let held = host.register(key).map(|(tag, value)| (tag, value.to_vec()));
        let (tag, value) = held.unwrap_or((Tag::NONE, Vec::new()));
        // One that finds no room is asked for again.
        let _ = self.send(from, &Body::Value { number, run, tag, value: &value }, host);
    }

    pub(super) fn on_store<H: KeyedHost>(
        &mut self,
        from: Rank,
        run: u64,
        number: u64,
        (key, tag, value): (&[u8], Tag, &[u8]),
        now: Instant,
        host: &mut H,
    ) {
        if !self.answers() {
            return;
        }
        if self.planted.has(Bug::AckBeforeStore) {
            self.late.0.push((now.plus(BEAT_EVERY / 4), key.to_vec(), tag, value.to_vec()));
        } else {
            self.place(key, tag, value, host);
        }
        let _ = self.send(from, &Body::Stored { number, run }, host);
    }

    pub(super) fn store_late<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        while self.late.due_at().is_some_and(|at| at <= now) {
            let (_, key, tag, value) = self.late.0.remove(0);
            self.place(&key, tag, &value, host);
        }
    }
}
