//! What a simulated program saves.
//!
//! - P4 a program saves what it holds when it is asked to, in its own time, or refuses to. What it
//!   has not executed, and what its connections have told it, is not in that. One save in four
//!   takes long enough for the others to give it up.

use base::Rng;

/// The longest save, in questions about it, of which there is one a millisecond: the member
/// answers no client meanwhile.
const ASKED_MAX: u64 = 600;

/// A save under way.
#[derive(Debug)]
struct Save {
    /// The place where it was asked for.
    at: u64,
    held: Vec<u8>,
    /// The questions before which it is not over.
    n_asked_least: u64,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Saves {
    saved: Vec<u8>,
    under_way: Option<Save>,
}

impl Saves {
    /// Asks the program, which holds that, to save at a place. Returns whether it has.
    pub(super) fn ask(
        &mut self,
        at: u64,
        held: impl FnOnce() -> Vec<u8>,
        rng: &mut Rng,
    ) -> Result<bool, String> {
        let mut save = self.under_way.take().filter(|save| save.at == at).unwrap_or_else(|| {
            let n_asked_least = if rng.chance(1, 4) { rng.below(ASKED_MAX) } else { 0 };
            Save { at, held: held(), n_asked_least }
        });
        let is_early = save.n_asked_least > 0;
        save.n_asked_least = save.n_asked_least.saturating_sub(1);
        if is_early || rng.chance(1, 2) {
            self.under_way = Some(save);
            return Ok(false);
        }
        may_save(rng)?;
        self.saved = save.held;
        Ok(true)
    }

    /// Asks whether that was saved which the program held when it ended.
    pub(super) fn ask_for_files(rng: &mut Rng) -> Result<bool, String> {
        if rng.chance(1, 2) {
            return Ok(false);
        }
        may_save(rng).map(|()| true)
    }

    /// The program has ended, and its files are saved.
    pub(super) fn put(&mut self, files: Vec<u8>) {
        self.saved = files;
    }

    pub(super) fn len(&self) -> u64 {
        self.saved.len() as u64
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let there = &self.saved[at as usize..];
        let n = there.len().min(into.len());
        into[..n].copy_from_slice(&there[..n]);
        n
    }
}

fn may_save(rng: &mut Rng) -> Result<(), String> {
    match rng.chance(1, 16) {
        true => Err("the program has no wish to be saved".to_owned()),
        false => Ok(()),
    }
}
