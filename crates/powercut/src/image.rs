//! Files and directories twice: as processes see them, and as a power cut would leave them.
//!
//! - I1 what a sync covers is in the durable copy from then on: a file's bytes and length after
//!   [`Image::sync`] of the file, a directory's names after [`Image::sync_dir`]. Neither implies
//!   the other: a file that was synced and whose name was not is lost.
//! - I2 nothing else is promised. [`Image::cut`] drops all of it, or keeps any part: sectors of 512
//!   bytes one by one, lengths, and changes of names one by one, of which a rename within a
//!   directory is one.
//! - I3 a sync that lies ([`Image::lie`]) is answered and does nothing.

use crate::content::{Content, SECTOR};
use base::Rng;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The root directory.
pub(crate) const ROOT: u64 = 1;

/// An error of the file system: an errno.
pub(crate) type Errno = i32;

/// What survives of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Nothing.
    DropAll,
    /// Each sector, length and name with a chance of one half, drawn from this seed: a kernel
    /// writes back what it likes, in any order.
    KeepSome(u64),
}

/// What a power cut took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Sectors and lengths of files.
    pub sectors: u64,
    /// Names that were made, changed or removed.
    pub names: u64,
}

/// A name that was made, removed or moved within its directory, and is not synced.
#[derive(Clone, Debug)]
struct Change {
    removed: Option<OsString>,
    added: Option<(OsString, u64)>,
}

#[derive(Debug, Default)]
struct Directory {
    live: BTreeMap<OsString, u64>,
    stable: BTreeMap<OsString, u64>,
    changes: Vec<Change>,
}

impl Directory {
    fn change(&mut self, removed: Option<&OsStr>, added: Option<(&OsStr, u64)>) {
        let change = Change {
            removed: removed.map(OsStr::to_owned),
            added: added.map(|(name, node)| (name.to_owned(), node)),
        };
        apply(&mut self.live, &change);
        self.changes.push(change);
    }
}

fn apply(names: &mut BTreeMap<OsString, u64>, change: &Change) {
    if let Some(name) = &change.removed {
        names.remove(name);
    }
    if let Some((name, node)) = &change.added {
        names.insert(name.clone(), *node);
    }
}

#[derive(Debug, Default)]
struct File {
    live: Content,
    stable: Content,
}

#[derive(Debug)]
enum Kind {
    File(File),
    Directory(Directory),
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    mode: u32,
    n_open: u32,
}

/// What `stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) node: u64,
    pub(crate) is_dir: bool,
    pub(crate) mode: u32,
    pub(crate) len: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Image {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    lies: bool,
    /// Syncs that were answered, of files and of directories.
    pub(crate) n_syncs: [u64; 2],
}

impl Image {
    /// An empty root.
    pub(crate) fn new() -> Image {
        let kind = Kind::Directory(Directory::default());
        let root = Node { kind, mode: 0o755, n_open: 0 };
        Image { nodes: [(ROOT, root)].into(), next: ROOT + 1, lies: false, n_syncs: [0; 2] }
    }

    /// See I3.
    pub(crate) fn lie(&mut self, lies: bool) {
        self.lies = lies;
    }

    fn directory(&mut self, node: u64) -> Result<&mut Directory, Errno> {
        match self.nodes.get_mut(&node).map(|node| &mut node.kind) {
            Some(Kind::Directory(directory)) => Ok(directory),
            Some(Kind::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    fn file(&mut self, node: u64) -> Result<&mut File, Errno> {
        match self.nodes.get_mut(&node).map(|node| &mut node.kind) {
            Some(Kind::File(file)) => Ok(file),
            Some(Kind::Directory(_)) => Err(libc::EISDIR),
            None => Err(libc::ENOENT),
        }
    }

    pub(crate) fn stat(&self, node: u64) -> Result<Stat, Errno> {
        let found = self.nodes.get(&node).ok_or(libc::ENOENT)?;
        let (is_dir, len) = match &found.kind {
            Kind::File(file) => (false, file.live.len()),
            Kind::Directory(_) => (true, 0),
        };
        Ok(Stat { node, is_dir, mode: found.mode, len })
    }

    pub(crate) fn set_mode(&mut self, node: u64, mode: u32) -> Result<(), Errno> {
        self.nodes.get_mut(&node).ok_or(libc::ENOENT)?.mode = mode & 0o7777;
        Ok(())
    }

    pub(crate) fn lookup(&mut self, parent: u64, name: &OsStr) -> Result<Stat, Errno> {
        let node = *self.directory(parent)?.live.get(name).ok_or(libc::ENOENT)?;
        self.stat(node)
    }

    /// Every name of a directory, in order.
    pub(crate) fn list(&mut self, node: u64) -> Result<Vec<(OsString, Stat)>, Errno> {
        let names: Vec<_> =
            self.directory(node)?.live.iter().map(|(name, node)| (name.clone(), *node)).collect();
        names.into_iter().map(|(name, node)| Ok((name, self.stat(node)?))).collect()
    }

    pub(crate) fn make(
        &mut self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        is_dir: bool,
    ) -> Result<Stat, Errno> {
        let node = self.next;
        let directory = self.directory(parent)?;
        if directory.live.contains_key(name) {
            return Err(libc::EEXIST);
        }
        directory.change(None, Some((name, node)));
        let kind = match is_dir {
            true => Kind::Directory(Directory::default()),
            false => Kind::File(File::default()),
        };
        self.nodes.insert(node, Node { kind, mode: mode & 0o7777, n_open: 0 });
        self.next += 1;
        self.stat(node)
    }

    pub(crate) fn unlink(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        if self.lookup(parent, name)?.is_dir {
            return Err(libc::EISDIR);
        }
        self.directory(parent)?.change(Some(name), None);
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let found = self.lookup(parent, name)?;
        if !self.directory(found.node)?.live.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.directory(parent)?.change(Some(name), None);
        Ok(())
    }

    /// Between two directories it is two changes, which a power cut may part.
    pub(crate) fn rename(
        &mut self,
        (parent, name): (u64, &OsStr),
        (to_parent, to_name): (u64, &OsStr),
    ) -> Result<(), Errno> {
        let found = self.lookup(parent, name)?;
        match self.lookup(to_parent, to_name) {
            Ok(replaced) if replaced.is_dir => return Err(libc::EISDIR),
            Ok(_) | Err(libc::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        if parent == to_parent {
            self.directory(parent)?.change(Some(name), Some((to_name, found.node)));
        } else {
            self.directory(to_parent)?.change(None, Some((to_name, found.node)));
            self.directory(parent)?.change(Some(name), None);
        }
        Ok(())
    }

    pub(crate) fn opened(&mut self, node: u64) -> Result<(), Errno> {
        self.nodes.get_mut(&node).ok_or(libc::ENOENT)?.n_open += 1;
        Ok(())
    }

    pub(crate) fn closed(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.n_open = node.n_open.saturating_sub(1);
        }
    }

    pub(crate) fn n_open(&self) -> u32 {
        self.nodes.values().map(|node| node.n_open).sum()
    }

    pub(crate) fn read(&mut self, node: u64, at: u64, n: usize) -> Result<Vec<u8>, Errno> {
        Ok(self.file(node)?.live.read(at, n))
    }

    pub(crate) fn write(&mut self, node: u64, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.file(node)?.live.write(at, bytes);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, node: u64, len: u64) -> Result<(), Errno> {
        self.file(node)?.live.set_len(len);
        Ok(())
    }

    /// At least that long.
    pub(crate) fn allocate(&mut self, node: u64, len: u64) -> Result<(), Errno> {
        let file = self.file(node)?;
        file.live.set_len(len.max(file.live.len()));
        Ok(())
    }

    /// fsync or fdatasync of a file: neither makes its name durable (I1).
    pub(crate) fn sync(&mut self, node: u64) -> Result<(), Errno> {
        let lies = self.lies;
        let file = self.file(node)?;
        if !lies {
            file.stable.become_copy_of(&mut file.live);
        }
        self.n_syncs[0] += 1;
        Ok(())
    }

    /// fsync of a directory: its names, and nothing of what they name (I1).
    pub(crate) fn sync_dir(&mut self, node: u64) -> Result<(), Errno> {
        let lies = self.lies;
        let directory = self.directory(node)?;
        if !lies {
            directory.stable.clone_from(&directory.live);
            directory.changes.clear();
        }
        self.n_syncs[1] += 1;
        self.forget_unreachable();
        Ok(())
    }

    /// The power fails (I2), and comes back.
    pub(crate) fn cut(&mut self, manner: Manner) -> Lost {
        let mut rng = Rng::new(match manner {
            Manner::DropAll => 0,
            Manner::KeepSome(seed) => seed,
        });
        let mut keeps = || manner != Manner::DropAll && rng.chance(1, 2);
        let mut lost = Lost::default();
        for node in self.nodes.values_mut() {
            match &mut node.kind {
                Kind::File(file) => {
                    lost.sectors += file.stable.take_some(&file.live, &mut keeps);
                    file.live = file.stable.clone();
                }
                Kind::Directory(directory) => {
                    for change in std::mem::take(&mut directory.changes) {
                        if keeps() {
                            apply(&mut directory.stable, &change);
                        } else {
                            lost.names += 1;
                        }
                    }
                    directory.live = directory.stable.clone();
                }
            }
        }
        self.forget_unreachable();
        lost
    }

    /// What has no name, live or durable, and is not open either.
    fn forget_unreachable(&mut self) {
        let mut reached = vec![ROOT];
        let mut seen = std::collections::BTreeSet::from([ROOT]);
        while let Some(at) = reached.pop() {
            let Some(Node { kind: Kind::Directory(directory), .. }) = self.nodes.get(&at) else {
                continue;
            };
            let changed = directory.changes.iter().filter_map(|change| change.added.as_ref());
            let named = directory.live.values().chain(directory.stable.values());
            for node in named.copied().chain(changed.map(|(_, node)| *node)) {
                if seen.insert(node) {
                    reached.push(node);
                }
            }
        }
        self.nodes.retain(|at, node| seen.contains(at) || node.n_open > 0);
    }
}

const _: () = assert!(SECTOR == 512, "a disk writes whole sectors of this size");

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn file(image: &mut Image, text: &str, bytes: &[u8]) -> u64 {
        let node = image.make(ROOT, name(text), 0o600, false).unwrap().node;
        image.write(node, 0, bytes).unwrap();
        node
    }

    fn content(image: &mut Image, text: &str) -> Option<Vec<u8>> {
        let found = image.lookup(ROOT, name(text)).ok()?;
        Some(image.read(found.node, 0, 1 << 20).unwrap())
    }

    #[test]
    fn i1_a_synced_file_without_a_synced_name_is_lost() {
        let mut image = Image::new();
        let node = file(&mut image, "a", b"one");
        image.sync(node).unwrap();
        assert_eq!(image.cut(Manner::DropAll), Lost { sectors: 0, names: 1 });
        assert_eq!(content(&mut image, "a"), None);
    }

    #[test]
    fn i1_a_synced_name_without_a_synced_file_is_empty() {
        let mut image = Image::new();
        file(&mut image, "a", b"one");
        image.sync_dir(ROOT).unwrap();
        assert_eq!(image.cut(Manner::DropAll), Lost { sectors: 2, names: 0 });
        assert_eq!(content(&mut image, "a").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn i1_both_survive_and_what_came_later_does_not() {
        let mut image = Image::new();
        let node = file(&mut image, "a", b"one");
        image.sync(node).unwrap();
        image.sync_dir(ROOT).unwrap();
        image.write(node, 0, b"two and more").unwrap();
        image.rename((ROOT, name("a")), (ROOT, name("b"))).unwrap();
        assert_eq!(content(&mut image, "b").as_deref(), Some(&b"two and more"[..]));
        image.cut(Manner::DropAll);
        assert_eq!(content(&mut image, "a").as_deref(), Some(&b"one"[..]));
        assert_eq!(content(&mut image, "b"), None);
    }

    #[test]
    fn i1_what_was_removed_comes_back_until_its_directory_is_synced() {
        let mut image = Image::new();
        let node = file(&mut image, "a", b"one");
        image.sync(node).unwrap();
        image.sync_dir(ROOT).unwrap();
        image.unlink(ROOT, name("a")).unwrap();
        image.cut(Manner::DropAll);
        assert_eq!(content(&mut image, "a").as_deref(), Some(&b"one"[..]));
        image.unlink(ROOT, name("a")).unwrap();
        image.sync_dir(ROOT).unwrap();
        image.cut(Manner::DropAll);
        assert_eq!(content(&mut image, "a"), None);
        assert_eq!(image.nodes.len(), 1, "and its bytes are forgotten");
    }

    #[test]
    fn i2_any_part_of_what_was_not_synced_may_survive() {
        let mut torn = 0;
        let mut names = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let mut image = Image::new();
            let node = file(&mut image, "a", &[1; 4 * SECTOR]);
            image.sync(node).unwrap();
            image.sync_dir(ROOT).unwrap();
            image.write(node, 0, &[2; 4 * SECTOR]).unwrap();
            image.rename((ROOT, name("a")), (ROOT, name("b"))).unwrap();
            image.cut(Manner::KeepSome(seed));
            let (a, b) = (content(&mut image, "a"), content(&mut image, "b"));
            assert!(a.is_some() != b.is_some(), "a rename is atomic");
            names.insert(a.is_some());
            let bytes = a.or(b).unwrap();
            assert_eq!(bytes.len(), 4 * SECTOR);
            for sector in bytes.chunks(SECTOR) {
                assert!(sector == [1; SECTOR] || sector == [2; SECTOR], "a sector is whole");
            }
            torn += u32::from(bytes[0] != bytes[SECTOR]);
        }
        assert!(torn > 10 && names.len() == 2);
    }

    #[test]
    fn i3_a_sync_that_lies_keeps_nothing() {
        let mut image = Image::new();
        let node = file(&mut image, "a", b"one");
        image.lie(true);
        image.sync(node).unwrap();
        image.sync_dir(ROOT).unwrap();
        image.cut(Manner::DropAll);
        assert_eq!(content(&mut image, "a"), None);
    }
}
