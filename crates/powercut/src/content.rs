//! A file's bytes, in pages that two copies share until one of them changes.
//!
//! - I1 bytes behind the length are zero, so that a file that grows again shows zeros.

use std::collections::BTreeSet;
use std::sync::Arc;

const PAGE: usize = 4096;
/// What a disk writes at once.
pub(crate) const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE]>;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// `None`: zeros.
    pages: Vec<Option<Page>>,
    len: u64,
    /// Pages that changed since the last copy was taken.
    dirty: BTreeSet<usize>,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn read(&self, at: u64, n: usize) -> Vec<u8> {
        let end = self.len.min(at.saturating_add(n as u64));
        let mut out = Vec::with_capacity(n);
        let mut at = at;
        while at < end {
            let (page, from) = (at as usize / PAGE, at as usize % PAGE);
            let n = (PAGE - from).min((end - at) as usize);
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(bytes) => out.extend_from_slice(&bytes[from..from + n]),
                None => out.resize(out.len() + n, 0),
            }
            at += n as u64;
        }
        out
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.set_len(self.len.max(at + bytes.len() as u64));
        let (mut at, mut bytes) = (at as usize, bytes);
        while !bytes.is_empty() {
            let (page, from) = (at / PAGE, at % PAGE);
            let n = (PAGE - from).min(bytes.len());
            self.page(page)[from..from + n].copy_from_slice(&bytes[..n]);
            (at, bytes) = (at + n, &bytes[n..]);
        }
    }

    fn page(&mut self, at: usize) -> &mut [u8; PAGE] {
        self.dirty.insert(at);
        Arc::make_mut(self.pages[at].get_or_insert_with(|| Arc::new([0; PAGE])))
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        let n_pages = (len as usize).div_ceil(PAGE);
        self.dirty.extend(n_pages..self.pages.len());
        self.pages.resize(n_pages, None);
        let tail = len as usize % PAGE;
        if len < self.len && tail > 0 && self.pages[n_pages - 1].is_some() {
            self.page(n_pages - 1)[tail..].fill(0); // I1
        }
        self.len = len;
    }

    /// Takes over all that has changed in `live` since the last time.
    pub(crate) fn become_copy_of(&mut self, live: &mut Content) {
        self.pages.resize(live.pages.len(), None);
        for at in std::mem::take(&mut live.dirty) {
            if let Some(page) = live.pages.get(at) {
                self.pages[at].clone_from(page);
            }
        }
        self.len = live.len;
        self.dirty.clear();
    }

    /// Takes over each sector in which `live` differs, and its length, if `keeps` says so; how many
    /// it did not take.
    pub(crate) fn take_some(&mut self, live: &Content, keeps: &mut impl FnMut() -> bool) -> u64 {
        let mut lost = 0;
        if self.len != live.len {
            if keeps() {
                self.set_len(live.len);
            } else {
                lost += 1;
            }
        }
        for at in 0..live.pages.len() {
            let theirs = live.pages[at].clone();
            let ours = self.pages.get(at).cloned().flatten();
            let is_shared = match (&theirs, &ours) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if is_shared {
                continue;
            }
            let bytes_of = |page: &Option<Page>| page.as_ref().map_or([0; PAGE], |page| **page);
            let (theirs, ours) = (bytes_of(&theirs), bytes_of(&ours));
            for from in (0..PAGE).step_by(SECTOR) {
                let sector = from..from + SECTOR;
                if theirs[sector.clone()] == ours[sector.clone()] {
                    continue;
                }
                let start = (at * PAGE + from) as u64;
                if start < self.len && keeps() {
                    let n = SECTOR.min((self.len - start) as usize);
                    self.write(start, &theirs[from..from + n]);
                } else {
                    lost += 1;
                }
            }
        }
        self.dirty.clear();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn it_agrees_with_plain_bytes() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut live, mut stable) = (Content::default(), Content::default());
            let (mut twin, mut kept) = (Vec::new(), Vec::new());
            for n in 0..60u8 {
                let at = rng.below(3 * PAGE as u64) as usize;
                match rng.below(4) {
                    0 | 1 => {
                        let bytes = vec![n + 1; rng.below(2 * PAGE as u64) as usize + 1];
                        live.write(at as u64, &bytes);
                        twin.resize(twin.len().max(at + bytes.len()), 0);
                        twin[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                    2 => {
                        live.set_len(at as u64);
                        twin.resize(at, 0);
                    }
                    _ => {
                        stable.become_copy_of(&mut live);
                        kept.clone_from(&twin);
                    }
                }
                assert_eq!(live.read(0, 1 << 20), twin, "seed {seed}");
                assert_eq!(stable.read(0, 1 << 20), kept, "seed {seed}");
            }
            stable.take_some(&live, &mut || true);
            assert_eq!(stable.read(0, 1 << 20), twin, "seed {seed}: everything was written back");
        }
    }

    #[test]
    fn nothing_is_taken_unless_it_is_kept() {
        let (mut live, mut stable) = (Content::default(), Content::default());
        live.write(0, &[7; 2 * SECTOR]);
        assert_eq!(stable.take_some(&live, &mut || false), 3, "two sectors and the length");
        assert_eq!(stable.len(), 0);
    }
}
