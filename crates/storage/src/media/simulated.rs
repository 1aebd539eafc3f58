//! A disk in memory that loses, tears, reorders, flips, fills and fails.
//!
//! - I1 **Only what is promised.** At a power cut, each sector that was not synced holds any one of
//!   the versions written since, or the synced one; each change of names since the last directory
//!   sync happened or did not; a length not synced is the old or the new one.
//! - I2 **A failed sync lies afterwards.** What it covered is dropped, reads still show it, and the
//!   next sync succeeds without it, as Linux does.
//! - I3 **A dead host writes nothing.** Handles from before a power cut are refused. By
//!   construction: they carry the number of the life that opened them.

use super::{Media, SECTOR};
use base::Rng;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

type Sector = Box<[u8; SECTOR]>;

/// The faults of a [`Simulated`] disk; set them at any time.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The bytes that fit on the disk; `None` is no bound.
    pub capacity: Option<u64>,
    /// The number of further modifying operations after which the power fails.
    pub cut_after: Option<u64>,
    /// The number of further syncs of files after which one sync fails.
    pub fail_sync_after: Option<u64>,
    /// The number of further files that are not opened or made, for want of a descriptor.
    pub n_not_opened: u64,
    /// The number of further writes that are refused for want of room, whatever was allocated: a
    /// file system that copies on write needs room for each.
    pub n_not_written: u64,
    /// The file and the sector that cannot be read until it is written again.
    pub unreadable: Option<(String, u64)>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Simulated(Arc<(Mutex<Disk>, Condvar)>);

/// A file of a [`Simulated`] disk.
#[derive(Clone, Debug)]
pub struct SimulatedFile {
    inode: usize,
    life: u64,
}

#[derive(Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    /// The names that the running host sees.
    names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// The changes of names since the last directory sync.
    changes: Vec<Change>,
    life: u64,
    is_off: bool,
    is_held: bool,
    faults: Faults,
    n_syncs: u64,
    n_operations: u64,
}

#[derive(Debug, Default)]
struct Inode {
    /// The bytes that reads return.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// The versions of sectors since the last sync, oldest first.
    unsynced: BTreeMap<usize, Vec<Sector>>,
}

#[derive(Debug)]
struct Change {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

/// The longest time that a held sync waits: a test that forgets to release it fails instead of
/// hanging.
const HELD_AT_MOST: Duration = Duration::from_secs(30);

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulated {
    /// An empty disk without faults.
    pub fn new() -> Simulated {
        Simulated(Arc::new((Mutex::new(Disk::default()), Condvar::new())))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic elsewhere leaves a valid disk: that panic is reported, not this lock.
        self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes the faults.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.disk().faults);
    }

    /// The number of modifying operations so far, and of syncs of files among them.
    pub fn counts(&self) -> (u64, u64) {
        let disk = self.disk();
        (disk.n_operations, disk.n_syncs)
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.disk().is_off
    }

    /// Cuts the power, decides what was durable by `rng`, and switches on again.
    pub fn power_cut(&self, rng: &mut Rng) {
        let mut disk = self.disk();
        let keep = Keep::draw(rng);
        let changes = std::mem::take(&mut disk.changes);
        for change in changes {
            if keep.keeps(rng) {
                change.apply(&mut disk.durable);
            }
        }
        for inode in &mut disk.inodes {
            inode.lose(keep, rng);
        }
        disk.names = disk.durable.clone();
        disk.life += 1;
        disk.is_off = false;
        disk.faults.cut_after = None;
        disk.collect();
    }

    /// Ends the process while the host lives: only the handles are lost.
    pub fn process_crash(&self) {
        let mut disk = self.disk();
        disk.life += 1;
    }

    /// Flips one bit of a file, durably. False if the file is not that long.
    pub fn flip(&self, name: &str, bit: u64) -> bool {
        let mut disk = self.disk();
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let Some(&inode) = disk.names.get(name) else { return false };
        let inode = &mut disk.inodes[inode];
        if at >= inode.seen.len() || at >= inode.durable.len() {
            return false;
        }
        inode.seen[at] ^= mask;
        inode.durable[at] ^= mask;
        true
    }

    /// The bytes that its files take.
    pub fn used(&self) -> u64 {
        self.disk().used()
    }

    /// Holds every sync (a stalled disk) until [`Simulated::let_go`].
    pub fn hold(&self) {
        self.disk().is_held = true;
    }

    /// Ends [`Simulated::hold`].
    pub fn let_go(&self) {
        self.disk().is_held = false;
        self.0.1.notify_all();
    }

    /// A copy of a whole file as reads show it.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        disk.names.get(name).map(|&inode| disk.inodes[inode].seen.clone())
    }
}

/// The part of unsynced bytes that survives a cut: extremes find bugs that mixtures rarely do.
#[derive(Clone, Copy)]
enum Keep {
    Nothing,
    Everything,
    Parts { of_eight: u64 },
}

impl Keep {
    fn draw(rng: &mut Rng) -> Keep {
        match rng.below(8) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            _ => Keep::Parts { of_eight: rng.range(1, 7) },
        }
    }

    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Keep::Nothing => false,
            Keep::Everything => true,
            Keep::Parts { of_eight } => rng.chance(of_eight, 8),
        }
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = self.removed {
            names.remove(&name);
        }
        if let Some((name, inode)) = self.added {
            names.insert(name, inode);
        }
    }
}

impl Inode {
    /// Decides the durable state after a cut (I1).
    fn lose(&mut self, keep: Keep, rng: &mut Rng) {
        if self.seen.len() != self.durable.len() && keep.keeps(rng) {
            self.durable.resize(self.seen.len(), 0);
        }
        for (sector, mut versions) in std::mem::take(&mut self.unsynced) {
            if keep.keeps(rng) {
                let version = match keep {
                    Keep::Everything => versions.len() - 1,
                    Keep::Nothing | Keep::Parts { .. } => rng.below(versions.len() as u64) as usize,
                };
                self.put(sector, &versions.swap_remove(version));
            }
        }
        self.seen.clone_from(&self.durable);
    }

    /// Copies a sector into the durable bytes, as far as the file reaches.
    fn put(&mut self, sector: usize, bytes: &[u8; SECTOR]) {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(self.durable.len());
        if start < end {
            self.durable[start..end].copy_from_slice(&bytes[..end - start]);
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.seen.len() {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let mut version = Box::new([0; SECTOR]);
            let (start, end) = (sector * SECTOR, ((sector + 1) * SECTOR).min(self.seen.len()));
            version[..end - start].copy_from_slice(&self.seen[start..end]);
            self.unsynced.entry(sector).or_default().push(version);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.seen.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            if let Some(last) = versions.last() {
                self.put(sector, last);
            }
        }
    }
}

impl Disk {
    /// Counts a modifying operation, at which the power may fail.
    fn change(&mut self) -> io::Result<()> {
        self.powered()?;
        self.n_operations += 1;
        if let Some(left) = &mut self.faults.cut_after {
            if *left == 0 {
                self.is_off = true;
                return self.powered();
            }
            *left -= 1;
        }
        Ok(())
    }

    fn powered(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn used(&self) -> u64 {
        self.inodes.iter().map(|inode| inode.seen.len() as u64).sum()
    }

    fn has_descriptor(&mut self) -> io::Result<()> {
        let Some(n_left) = self.faults.n_not_opened.checked_sub(1) else { return Ok(()) };
        self.faults.n_not_opened = n_left;
        Err(rustix::io::Errno::MFILE.into())
    }

    fn has_room_to_copy(&mut self) -> io::Result<()> {
        let Some(n_left) = self.faults.n_not_written.checked_sub(1) else { return Ok(()) };
        self.faults.n_not_written = n_left;
        Err(io::ErrorKind::StorageFull.into())
    }

    /// Whether the bytes of a file reach into the sector that cannot be read.
    fn meets_unreadable(&self, inode: usize, offset: u64, len: usize) -> bool {
        let Some((name, sector)) = &self.faults.unreadable else { return false };
        let (start, end) = (sector * SECTOR as u64, (sector + 1) * SECTOR as u64);
        let meets = offset < end && start < offset + len as u64;
        meets && self.names.get(name) == Some(&inode)
    }

    fn has_room(&self, bytes: u64) -> io::Result<()> {
        match self.faults.capacity {
            Some(capacity) if self.used() + bytes > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn inode(&mut self, file: &SimulatedFile) -> io::Result<&mut Inode> {
        self.powered()?;
        self.inode_of(file)
    }

    fn inode_of(&mut self, file: &SimulatedFile) -> io::Result<&mut Inode> {
        if file.life != self.life {
            return Err(io::Error::other("the handle is from before the crash"));
        }
        Ok(&mut self.inodes[file.inode])
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, change: Change) {
        self.changes.push(Change { removed: change.removed.clone(), added: change.added.clone() });
        change.apply(&mut self.names);
    }

    /// Frees the space of files that no name can reach.
    fn collect(&mut self) {
        // (Most have been freed before.)
        let in_use = |inode: &Inode| {
            !(inode.seen.is_empty() && inode.durable.is_empty() && inode.unsynced.is_empty())
        };
        for (n, inode) in self.inodes.iter_mut().enumerate().filter(|(_, inode)| in_use(inode)) {
            let pending =
                |change: &Change| change.added.as_ref().is_some_and(|&(_, added)| added == n);
            let is_reachable = self.names.values().any(|&at| at == n)
                || self.durable.values().any(|&at| at == n)
                || self.changes.iter().any(pending);
            if !is_reachable {
                *inode = Inode::default();
            }
        }
    }
}

impl Media for Simulated {
    type File = SimulatedFile;

    fn create(&self, name: &str, len: u64) -> io::Result<SimulatedFile> {
        let mut disk = self.disk();
        disk.has_descriptor()?;
        disk.change()?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.has_room(len)?;
        let inode = disk.inodes.len();
        // Allocated blocks read as zeros, but their allocation is metadata that is not synced.
        disk.inodes.push(Inode { seen: vec![0; len as usize], ..Inode::default() });
        disk.rename(Change { removed: None, added: Some((name.to_owned(), inode)) });
        Ok(SimulatedFile { inode, life: disk.life })
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut disk = self.disk();
        disk.has_descriptor()?;
        disk.powered()?;
        Ok(SimulatedFile { inode: disk.find(name)?, life: disk.life })
    }

    fn len(&self, file: &SimulatedFile) -> io::Result<u64> {
        Ok(self.disk().inode(file)?.seen.len() as u64)
    }

    fn read_at(&self, file: &SimulatedFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let is_unreadable = disk.meets_unreadable(file.inode, offset, into.len());
        let inode = disk.inode(file)?;
        if is_unreadable {
            return Err(rustix::io::Errno::IO.into());
        }
        let offset = offset as usize;
        let bytes = inode.seen.get(offset..offset + into.len());
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, file: &SimulatedFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        disk.powered()?;
        let power = disk.change();
        // The write at which the power fails may still arrive in part: it is applied, then refused.
        let len = disk.inode_of(file)?.seen.len() as u64;
        let more = (offset + bytes.len() as u64).saturating_sub(len);
        let room = disk.has_room_to_copy().and_then(|()| disk.has_room(more));
        if room.is_ok() {
            disk.inode_of(file)?.write(offset as usize, bytes);
            if disk.meets_unreadable(file.inode, offset, bytes.len()) {
                disk.faults.unreadable = None;
            }
        }
        power.and(room)
    }

    fn sync(&self, file: &SimulatedFile) -> io::Result<()> {
        let mut disk = self.disk();
        while disk.is_held {
            let (woken, waited) = self
                .0
                .1
                .wait_timeout(disk, HELD_AT_MOST)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            disk = woken;
            if waited.timed_out() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        disk.change()?;
        disk.n_syncs += 1;
        let fails = match &mut disk.faults.fail_sync_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if fails {
            disk.faults.fail_sync_after = None;
            // I2: the pages are clean from now on, though they never reached the disk.
            disk.inode(file)?.unsynced.clear();
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
        }
        disk.inode(file)?.sync();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
        let inode = disk.find(from)?;
        disk.rename(Change { removed: Some(from.to_owned()), added: Some((to.to_owned(), inode)) });
        disk.collect();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
        disk.find(name)?;
        disk.rename(Change { removed: Some(name.to_owned()), added: None });
        disk.collect();
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let disk = self.disk();
        disk.powered()?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.change()?;
        disk.changes.clear();
        disk.durable = disk.names.clone();
        disk.collect();
        Ok(())
    }

    fn place(&self) -> String {
        "a simulated disk".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_a_cut_keeps_what_was_synced_and_any_part_of_the_rest() {
        let (mut n_old, mut n_new, mut n_mixed) = (0, 0, 0);
        for seed in 0..200 {
            let disk = Simulated::new();
            let file = disk.create("a", 2 * SECTOR as u64).unwrap();
            disk.write_at(&file, 0, &[1; 2 * SECTOR]).unwrap();
            disk.sync(&file).unwrap();
            disk.sync_dir().unwrap();
            disk.write_at(&file, 0, &[2; 2 * SECTOR]).unwrap();
            disk.power_cut(&mut Rng::new(seed));
            assert!(disk.len(&file).is_err(), "I3: the handle is of an earlier life");
            let bytes = disk.contents("a").unwrap();
            for sector in bytes.chunks(SECTOR) {
                assert!(sector.iter().all(|&b| b == sector[0]), "a sector is whole");
            }
            match (bytes[0], bytes[SECTOR]) {
                (1, 1) => n_old += 1,
                (2, 2) => n_new += 1,
                _ => n_mixed += 1,
            }
        }
        assert!(n_old > 0 && n_new > 0 && n_mixed > 0, "{n_old} {n_new} {n_mixed}");
    }

    #[test]
    fn i1_names_that_were_not_synced_may_vanish_or_stay() {
        let mut n_lost = 0;
        for seed in 0..50 {
            let disk = Simulated::new();
            disk.create("kept", 1).unwrap();
            disk.sync_dir().unwrap();
            disk.rename("kept", "renamed").unwrap();
            disk.power_cut(&mut Rng::new(seed));
            let names = disk.list().unwrap();
            assert!(names == ["kept"] || names == ["renamed"], "a rename is atomic: {names:?}");
            n_lost += usize::from(names == ["kept"]);
        }
        assert!((1..50).contains(&n_lost));
    }

    #[test]
    fn i2_a_failed_sync_lies_afterwards() {
        let disk = Simulated::new();
        let file = disk.create("a", SECTOR as u64).unwrap();
        disk.sync(&file).unwrap();
        disk.sync_dir().unwrap();
        disk.write_at(&file, 0, &[7; SECTOR]).unwrap();
        disk.set_faults(|faults| faults.fail_sync_after = Some(0));
        assert!(disk.sync(&file).is_err());
        disk.sync(&file).expect("the next one succeeds");
        assert_eq!(disk.contents("a").unwrap()[0], 7);
        disk.power_cut(&mut Rng::new(1));
        assert_eq!(disk.contents("a").unwrap()[0], 0);
    }

    #[test]
    fn a_bad_sector_is_not_read_until_it_is_written_again() {
        let disk = Simulated::new();
        let file = disk.create("a", 3 * SECTOR as u64).unwrap();
        disk.set_faults(|faults| faults.unreadable = Some(("a".to_owned(), 1)));
        let read = |sectors: std::ops::Range<usize>| {
            let mut bytes = vec![0; sectors.len() * SECTOR];
            disk.read_at(&file, (sectors.start * SECTOR) as u64, &mut bytes)
        };
        read(0..1).unwrap();
        read(2..3).unwrap();
        assert!(super::super::is_unreadable(&read(0..3).unwrap_err()));
        disk.write_at(&file, SECTOR as u64, &[1; SECTOR]).unwrap();
        read(0..3).unwrap();
    }

    #[test]
    fn a_full_disk_refuses_and_leaves_nothing() {
        let disk = Simulated::new();
        disk.set_faults(|faults| faults.capacity = Some(1000));
        assert!(super::super::is_full(&disk.create("a", 1001).unwrap_err()));
        assert!(disk.list().unwrap().is_empty());
        disk.create("a", 1000).unwrap();
        assert!(super::super::is_full(&disk.create("b", 1).unwrap_err()));
        disk.remove("a").unwrap();
        disk.sync_dir().unwrap();
        disk.create("b", 1).unwrap();
    }
}
