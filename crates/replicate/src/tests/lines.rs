//! A program for tests.

use crate::program::{Connected, Program, Repose};
use engine::streams::{Broken, Interest, Received};
use std::collections::BTreeMap;

/// A program that answers "$N" with the length of each line in Redis's framing, when it is told to.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) legs: BTreeMap<u64, (Vec<u8>, Vec<u8>, bool)>,
    /// Every line that was read, in order.
    pub(super) seen: Vec<Vec<u8>>,
    pub(super) is_started: bool,
    pub(crate) restored: Vec<u8>,
    pub(super) saved: Vec<u8>,
    /// What it saves, and at which place.
    saving: Option<(u64, Vec<u8>)>,
    /// It has not saved yet.
    pub(super) saves_slowly: bool,
    pub(super) is_busy: bool,
    /// The bytes of one leg that it leaves unread, at most; 0 for any number.
    pub(super) room_bytes: usize,
    /// It waits for something else than the input that it has not read.
    pub(super) reposes_unread: bool,
    /// It looks at nothing.
    pub(super) is_held: bool,
    /// It does not close a leg whose input has ended, and computes when the leg is closed.
    pub(super) keeps_legs: bool,
    /// The times that it was told, each with the number of lines that it had read.
    pub(super) told: Vec<(u64, usize)>,
    /// The places at which it was started.
    pub(super) starts: Vec<u64>,
    /// What it begins again with.
    files: Vec<u8>,
    /// It does not end yet.
    pub(super) ends_slowly: bool,
    /// It listens, and has accepted no connection yet.
    pub(super) is_listening: bool,
    /// When its timer ends; then it computes.
    pub(super) ends_at: Option<u64>,
}

impl Lines {
    /// The legs with input that was not read.
    pub(super) fn n_unread(&self) -> usize {
        self.legs.values().filter(|(input, ..)| !input.is_empty()).count()
    }

    /// Sends something on each leg that nothing was fed for.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        for (_, output, _) in self.legs.values_mut() {
            output.extend(bytes);
        }
    }

    pub(super) fn answer_all(&mut self) {
        assert!(!self.is_held, "it was released");
        for (input, output, _) in self.legs.values_mut() {
            for line in std::mem::take(input).split_inclusive(|byte| *byte == b'\n') {
                self.seen.push(line.trim_ascii_end().to_vec());
                output.extend(format!(":{}\r\n", line.trim_ascii_end().len()).bytes());
            }
        }
    }
}

impl Program for Lines {
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.restored.extend_from_slice(bytes);
        Ok(())
    }

    fn start(&mut self, at: u64) -> Result<(), String> {
        assert!(!std::mem::replace(&mut self.is_started, true), "it was started");
        self.starts.push(at);
        if !self.files.is_empty() {
            self.restored = std::mem::take(&mut self.files);
        }
        let lines = self.restored.split(|byte| *byte == b'\n');
        self.seen = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        Ok(())
    }

    /// The lines that it has seen are its files.
    fn end_for_renewal(&mut self, saves: bool) -> Result<bool, String> {
        assert!(self.legs.is_empty() && self.is_started, "it is at rest");
        if self.ends_slowly {
            return Ok(false);
        }
        self.is_started = false;
        self.files = self.seen.join(&b'\n');
        if saves {
            self.saved = self.files.clone();
        }
        Ok(true)
    }

    /// The lines that it has seen.
    fn save(&mut self, at: u64) -> Result<Option<u64>, String> {
        let begun = self.saving.take().filter(|(place, _)| *place == at);
        let (_, saved) = begun.unwrap_or_else(|| (at, self.seen.join(&b'\n')));
        if self.saves_slowly {
            self.saving = Some((at, saved));
            return Ok(None);
        }
        self.saved = saved;
        Ok(Some(self.saved.len() as u64))
    }

    fn read_saved(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        let there = &self.saved[at as usize..];
        let n = there.len().min(into.len());
        into[..n].copy_from_slice(&there[..n]);
        Ok(n)
    }

    fn connect(&mut self, key: u64) -> Connected {
        self.legs.insert(key, Default::default());
        Connected::Done
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        let (input, output, has_ended) = self.legs.get_mut(&key).ok_or(Broken)?;
        let n = output.len().min(into.len());
        into[..n].copy_from_slice(&output[..n]);
        output.drain(..n);
        Ok(match n {
            0 if *has_ended && input.is_empty() && !self.keeps_legs => Received::End,
            0 => Received::Nothing,
            n => Received::Bytes(n),
        })
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        let (input, _, _) = self.legs.get_mut(&key).ok_or(Broken)?;
        let n = match self.room_bytes {
            0 => bytes.len(),
            room => bytes.len().min(room.saturating_sub(input.len())),
        };
        input.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn end(&mut self, key: u64) {
        self.legs.get_mut(&key).expect("an open leg").2 = true;
    }

    fn watch(&mut self, _: u64, _: Interest) -> Result<(), Broken> {
        Ok(())
    }

    fn close(&mut self, key: u64) {
        self.legs.remove(&key);
        self.is_busy |= self.keeps_legs;
    }

    fn is_asleep(&mut self) -> bool {
        !self.is_busy && !self.is_held
    }

    fn has_accepted(&mut self) -> bool {
        !self.is_listening
    }

    fn repose(&mut self) -> Repose {
        let rests =
            !self.is_busy && (self.n_unread() == 0 || self.is_listening || self.reposes_unread);
        if rests { Repose::AtRest } else { Repose::Moves }
    }

    fn hold(&mut self) -> bool {
        self.is_held = self.repose() == Repose::AtRest;
        self.is_held
    }

    fn tell_time(&mut self, time_ms: u64) -> bool {
        self.told.push((time_ms, self.seen.len()));
        let ends = self.ends_at.take_if(|at| *at <= time_ms).is_some();
        self.is_busy |= ends;
        ends
    }

    fn awaited_ms(&mut self) -> Option<u64> {
        self.ends_at
    }

    fn let_go(&mut self) {
        self.is_held = false;
    }
}
