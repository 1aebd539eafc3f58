//! The directory of a durable cluster, which outlives all of its processes.
//!
//! ```text
//! DIR/cluster.toml    name, number of members, whether it was founded, `disk-all` if it is
//! DIR/secret          the secret of all members
//! DIR/member-1/       the first member's log and snapshots (docs/formats.md)
//! DIR/member-1.life   the number of its starts
//! DIR/member-1.old-1  the directory of an earlier incarnation
//! ```
//! - I1 a directory belongs to one cluster: another name or size is refused before anything starts.
//! - I2 once all members have served, or any log holds an entry, a missing member's directory is a
//!   loss and not a beginning: the member comes back as a new incarnation, in a cluster that serves
//!   without it. Before that nothing was acknowledged, and a member without a directory is founded.
//!   An empty seat stays empty until an operator changes it, whatever lies there.
//! - I3 a cluster that promised every disk keeps that promise: leaving a flag out does not open it
//!   with less. It may be opened with more: the first acknowledged write then covers everything
//!   before it.
//! - I4 a cluster that was reported to the user is found after a power cut: each directory that was
//!   made is named durably in its parent before anything is acknowledged. Found by, and tested
//!   with, power cuts under real processes (`tests/linearizability`).
//! - I5 one process at a time uses it, `up` or `recover`: another one that gets the same directory
//!   changes nothing of a running cluster. By a lock on it, which ends with its holder.
//! - I6 a secret with which a disk was begun is never overwritten: no cluster is founded where a
//!   disk is, was, or may be, and a secret that is there is put aside, also by a start that fails.
//! - I7 the log keeps its meaning: a limit of memory decided which writes in it were refused, and
//!   the partitions decide where a key lies, so a cluster keeps those with which it was founded.
//!   A log without an entry has none yet: what a start that failed has recorded is replaced.

mod place;

pub(crate) use super::directory::random_secret;
use super::directory::{create_private, write_private};
use crate::config::{Durability, Partitioning, Start};
use console::{Failure, Outcome};
use place::{
    absolute, begun, had_disk, is_expected, is_there, lock, make, names_in, synced, whose_disk,
};
use runtime::StableStorage;
use runtime::disk::LogDisk;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use storage::Directory;
use storage::directory::DirectoryError;

const CLUSTER: &str = "cluster.toml";
/// The file that names the member with which a recovery continues, once its disk is whole. While it
/// exists, the directory is half of the old cluster and half of the new one, and must not be
/// started.
pub(crate) const RECOVERING: &str = "recovering";
/// The name of the next `cluster.toml` while it is written.
const FRESH: &str = "cluster.new";
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    version: u32,
    name: String,
    members: u8,
    founded: bool,
    /// Whether writes wait for all disks; absent in clusters that wait for a majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durability: Option<Durability>,
    /// The empty seats: never taken, or their members were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vacant: Vec<u16>,
    /// The seats on which an operator wants a new incarnation that does not vote yet. They count as
    /// empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wanted: Vec<u16>,
    /// The settings of I7; absent in clusters founded before they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyspace: Option<Keyspace>,
}

/// The settings on which the meaning of a log depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keyspace {
    /// The limit in bytes; 0 means none.
    pub(super) maxmemory: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<Partitioning>,
    /// The command line of a replicated program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// Whether its answers are held: its copies are compared at other places of the log then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) holds_answers: bool,
    /// The settings by which its copies would part (`config::shared`), as an operator compares
    /// them; absent in clusters founded before they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<String>,
}

impl Keyspace {
    /// The flags that ask for it.
    fn flags(&self) -> String {
        if let Some(command) = &self.program {
            let output = if self.holds_answers { " --program-output strict" } else { "" };
            let settings = self.settings.iter().map(|settings| format!(" ({settings})"));
            return format!("--replicate {command:?}{output}{}", settings.collect::<String>());
        }
        let limit = format!("--maxmemory {}", self.maxmemory);
        match &self.partitions {
            Some(Partitioning { n, order }) => {
                format!("{limit} --partitions {n} --order {}", order.name())
            }
            None => limit,
        }
    }
}

/// The state of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// The seat is taken, as far as is known here.
    Taken,
    Vacant,
    /// A new incarnation is to take the seat, by an operator's order.
    Wanted,
}

impl Cluster {
    fn check(&self) -> Result<(), String> {
        let (n, max) = (usize::from(self.members), base::MAX_MEMBERS);
        if n == 0 || n > max {
            return Err(format!("members = {n}: it is 1 to {max}, the number of seats"));
        }
        let seats = 1..=u16::from(self.members);
        if let Some(seat) = self.vacant.iter().find(|seat| !seats.contains(seat)) {
            let n = self.members;
            return Err(format!("`vacant` names seat {seat} of {n}: take it out of that line"));
        }
        if seats.clone().all(|seat| self.vacant.contains(&seat)) {
            return Err("`vacant` names every seat: leave those out that have a member".to_owned());
        }
        Ok(())
    }

    /// The number of seats that are not empty.
    fn founders(&self) -> u16 {
        (1..=u16::from(self.members)).filter(|member| !self.vacant.contains(member)).count() as u16
    }
}

/// The directory of a durable cluster; see the module's text.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    cluster: Cluster,
    /// The lock of I5, held as long as this file is open.
    _lock: File,
}

impl Data {
    /// Opens the cluster in `path`, or founds one there.
    pub(super) fn open(
        path: &Path,
        name: &str,
        (nodes, members): (u8, u8),
        durability: Durability,
    ) -> Outcome<Data> {
        let promises = (durability == Durability::DiskAll).then_some(durability);
        if !is_there(&path.join(CLUSTER))? {
            return Data::begin(path, name, (nodes, members), promises);
        }
        let mut data = Data::open_any(path)?;
        let Data { path, cluster, .. } = &mut data;
        if is_there(&path.join(RECOVERING))? {
            return Err(Failure::new(format_args!(
                "a recovery of {0} was cut off: `gregale recover {0}` finishes it",
                path.display()
            )));
        }
        // Another cluster's directory is refused (I1).
        if (cluster.name.as_str(), cluster.members) != (name, members) {
            return Err(Failure::new(format_args!(
                "{} holds cluster {:?} of {} members, not {name:?} of {members}: \
                 say --cluster {} --nodes {}{}, or name another directory",
                path.display(),
                cluster.name,
                cluster.members,
                cluster.name,
                cluster.founders(),
                if cluster.vacant.is_empty() {
                    String::new()
                } else {
                    format!(" --seats {}", cluster.members)
                }
            )));
        }
        // Less than promised is refused (I3).
        if cluster.durability > promises {
            return Err(Failure::new(format_args!(
                "{} holds a cluster that acknowledges on every disk: say --durability disk-all; to \
                 promise less from now on, take the line `durability` out of {}",
                path.display(),
                path.join(CLUSTER).display()
            )));
        }
        if data.cluster.durability < promises {
            data.cluster.durability = promises;
            data.write()?;
        }
        Ok(data)
    }

    /// The limit under which the log was written, if it is known.
    pub(crate) fn maxmemory(&self) -> Option<u64> {
        self.cluster.keyspace.as_ref().map(|keyspace| keyspace.maxmemory)
    }

    /// The failures that an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.cluster.durability.unwrap_or(Durability::DiskQuorum)
    }

    /// Whether the disks belong to the multicast.
    pub(crate) fn is_in_partitions(&self) -> bool {
        self.cluster.keyspace.as_ref().is_some_and(|keyspace| keyspace.partitions.is_some())
    }

    /// Records the settings with which the cluster continues, or begins (I7).
    /// `is_said` tells whether an operator has named any of them.
    pub(super) fn keep_to(&mut self, keyspace: Keyspace, is_said: bool) -> Outcome<()> {
        if !self.cluster.founded && self.can_change_to(&keyspace) {
            if self.cluster.keyspace.as_ref() == Some(&keyspace) {
                return Ok(());
            }
            self.cluster.keyspace = Some(keyspace);
            return self.write();
        }
        match &mut self.cluster.keyspace {
            None if !is_said => Err(Failure::new(format_args!(
                "{} in {} has no [keyspace], which says how its log is read: bring a copy of the \
                 file back, or name what the cluster was begun with, by --maxmemory (0 for no \
                 limit), --partitions or --replicate; it is recorded then",
                CLUSTER,
                self.path.display()
            ))),
            Some(begun) if *begun == keyspace => Ok(()),
            Some(begun)
                if begun.settings.is_none()
                    && *begun == (Keyspace { settings: None, ..keyspace.clone() }) =>
            {
                begun.settings = keyspace.settings;
                self.write()
            }
            Some(begun) => Err(Failure::new(format_args!(
                "{} holds a cluster that was begun with {}, and its log means something else \
                 without: say that{}; for another cluster name another --data, or remove this \
                 directory, and what was written with it",
                self.path.display(),
                begun.flags(),
                match begun {
                    Keyspace { program: None, .. } if keyspace.program.is_some() => {
                        ", and no --replicate"
                    }
                    Keyspace { partitions: None, .. } if keyspace.partitions.is_some() => {
                        ", and no --partitions"
                    }
                    Keyspace { holds_answers: false, .. } if keyspace.holds_answers => {
                        ", and no --program-output strict"
                    }
                    _ => "",
                },
            ))),
            None => {
                self.cluster.keyspace = Some(keyspace);
                self.write()
            }
        }
    }

    /// Whether the disks of a cluster without an entry would be the same under `keyspace`: those of
    /// programs have another name, and those of the multicast are not looked into.
    fn can_change_to(&self, keyspace: &Keyspace) -> bool {
        let Some(begun) = &self.cluster.keyspace else { return true };
        let is_plain = begun.partitions.is_none() && keyspace.partitions.is_none();
        let is_same = is_plain && begun.program.is_some() == keyspace.program.is_some();
        let has_none = |member| matches!(self.has_identity(member), Ok(false));
        is_same || (1..=self.members()).all(has_none)
    }

    /// Whether the cluster replicates a program.
    pub(crate) fn replicates_program(&self) -> bool {
        self.cluster.keyspace.as_ref().is_some_and(|of| of.program.is_some())
    }

    /// Opens the cluster in `path`, whatever its name and size.
    pub(crate) fn open_any(path: &Path) -> Outcome<Data> {
        let file = path.join(CLUSTER);
        let unread = |error| {
            let what = "the directory of `gregale up --data`";
            Failure::os(format_args!("read {} ({what})", file.display()), error)
        };
        let lock = lock(File::open(path).map_err(unread)?, path)?;
        let text = std::fs::read_to_string(&file).map_err(unread)?;
        let cluster: Cluster = toml::from_str(&text)
            .map_err(|error| Failure::new(format_args!("{}: {error}", file.display())))?;
        if cluster.version != VERSION {
            return Err(Failure::new(format_args!(
                "{} has version {}, this program writes {VERSION}: run the program that wrote it",
                file.display(),
                cluster.version
            )));
        }
        cluster.check().map_err(|why| Failure::new(format_args!("{}: {why}", file.display())))?;
        Ok(Data { path: absolute(path)?, cluster, _lock: lock })
    }

    fn begin(
        path: &Path,
        name: &str,
        (nodes, members): (u8, u8),
        durability: Option<Durability>,
    ) -> Outcome<Data> {
        make(path)?;
        let opened = File::open(path)
            .map_err(|error| Failure::os(format_args!("open {}", path.display()), error))?;
        let lock = lock(opened, path)?;
        let foreign = names_in(path)?.into_iter().find(|name| !is_expected(name));
        if let Some(name) = foreign {
            return Err(Failure::new(format_args!(
                "{} holds {name:?} and no cluster: name an empty or a new directory",
                path.display(),
            )));
        }
        // No cluster is founded over disks (I6).
        if let Some(member) = whose_disk(path)? {
            return Err(Failure::new(format_args!(
                "{0} holds a disk ({member}) and no {CLUSTER}, which says whose it is: bring that \
                 file and `secret` back from a copy, or write {CLUSTER} again (docs/operations.md: \
                 version = 1, name, members, founded = true, and where they were otherwise than \
                 without a word, durability, vacant, and in [keyspace] the maxmemory, partitions, \
                 program and settings by which the log is read); or name another directory",
                path.display(),
            )));
        }
        if let Some(member) = had_disk(path)? {
            return Err(Failure::new(format_args!(
                "member {member} had a disk in {0} (member-{member}.life says so), and it is not \
                 there: mount it, and bring {CLUSTER} and `secret` back from a copy; or name \
                 another directory",
                path.display(),
            )));
        }
        let name = name.into();
        let vacant = (u16::from(nodes) + 1..=u16::from(members)).collect();
        let founded = false;
        let (version, wanted, keyspace) = (VERSION, Vec::new(), None);
        let cluster =
            Cluster { version, name, members, founded, durability, vacant, wanted, keyspace };
        let data = Data { path: absolute(path)?, cluster, _lock: lock };
        // A failure here is not undone: that would remove a secret of which there is no copy (I6).
        data.put_secret_aside()?;
        data.write_first().inspect_err(|_| data.undo())?;
        Ok(data)
    }

    /// Puts a secret aside that is there already, most likely of an earlier attempt (I6).
    fn put_secret_aside(&self) -> Outcome<()> {
        let secret = self.secret_file();
        if !is_there(&secret)? {
            return Ok(());
        }
        self.keep_secret()?;
        std::fs::remove_file(&secret)
            .map_err(|error| Failure::os(format_args!("remove {}", secret.display()), error))
    }

    fn write_first(&self) -> Outcome<()> {
        let secret = self.secret_file();
        let file = create_private(&secret, random_secret()?.as_bytes())?;
        synced(&file, &secret)?;
        self.write()
    }

    /// Undoes a beginning that failed: no member has seen it, and its secret is of this start. The
    /// directory is removed if it is empty.
    fn undo(&self) {
        for file in [self.path.join(FRESH), self.path.join(CLUSTER), self.secret_file()] {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir(&self.path);
    }

    /// Whether any log holds an entry: then other members may have lost acknowledged writes (I2).
    /// Acknowledged writes are on a majority's disks, so any minority that is lost leaves one of
    /// them.
    fn holds_entries(&self) -> Outcome<bool> {
        let mut unread = None;
        for member in 1..=self.members() {
            let opened = match Directory::open_any(&self.member(member)) {
                Ok(directory) => LogDisk::open(directory).map_err(Failure::new),
                Err(DirectoryError::NoIdentity(_)) => continue,
                Err(error) => Err(Failure::new(error)),
            };
            match opened {
                Ok((disk, found)) if found.is_some() || disk.figures().log_end > 0 => {
                    return Ok(true);
                }
                Ok(_) => {}
                Err(failure) => unread = unread.or(Some(failure)),
            }
        }
        unread.map_or(Ok(false), Err)
    }

    /// Notes that clients are served, which begins with a majority: a member without a directory
    /// then has lost it.
    pub(super) fn look_for_entries(&mut self) -> Outcome<()> {
        if !self.cluster.founded && self.holds_entries()? { self.founded() } else { Ok(()) }
    }

    /// Notes that all members have served, or that some have and there are entries (I2).
    pub(super) fn founded(&mut self) -> Outcome<()> {
        if self.cluster.founded {
            return Ok(());
        }
        self.cluster.founded = true;
        self.write()
    }

    /// Writes what is known, or could not be written before.
    pub(super) fn write(&self) -> Outcome<()> {
        let text = toml::to_string(&self.cluster)
            .map_err(|error| Failure::new(format_args!("cannot describe the cluster: {error}")))?;
        self.write_durably(CLUSTER, text.as_bytes())
    }

    /// Renaming ensures that a crash leaves the old file or the new one.
    pub(crate) fn write_durably(&self, name: &str, bytes: &[u8]) -> Outcome<()> {
        let (file, fresh) = (self.path.join(name), self.path.join(FRESH));
        let written = write_private(&fresh, bytes)?;
        synced(&written, &fresh)?;
        std::fs::rename(&fresh, &file)
            .map_err(|error| Failure::os(format_args!("write {}", file.display()), error))?;
        self.sync()
    }

    pub(crate) fn remove_durably(&self, name: &str) -> Outcome<()> {
        let file = self.path.join(name);
        std::fs::remove_file(&file)
            .map_err(|error| Failure::os(format_args!("remove {}", file.display()), error))?;
        self.sync()
    }

    /// Makes names durable.
    pub(crate) fn sync(&self) -> Outcome<()> {
        let directory = File::open(&self.path)
            .map_err(|error| Failure::os(format_args!("open {}", self.path.display()), error))?;
        synced(&directory, &self.path)
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &str {
        &self.cluster.name
    }

    /// The number of members.
    pub(crate) fn members(&self) -> u16 {
        self.cluster.members.into()
    }

    /// Whether all members have served at some time (I2).
    pub(super) fn is_founded(&self) -> bool {
        self.cluster.founded
    }

    /// The secret of all members.
    pub(crate) fn secret_file(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// The directory of the promises and data of `member`.
    pub(crate) fn member(&self, member: u16) -> PathBuf {
        self.path.join(format!("member-{member}"))
    }

    /// Whether the seat of `member` is empty.
    pub(super) fn is_vacant(&self, member: u16) -> bool {
        self.cluster.vacant.contains(&member)
    }

    /// Whether an operator wants a new incarnation of `member` that does not vote yet.
    pub(super) fn is_wanted(&self, member: u16) -> bool {
        self.cluster.wanted.contains(&member)
    }

    /// Records the state of the seat of `member`.
    pub(super) fn set_seat(&mut self, member: u16, seat: Seat) -> Outcome<()> {
        let before = (self.cluster.vacant.clone(), self.cluster.wanted.clone());
        let Cluster { vacant, wanted, .. } = &mut self.cluster;
        for (list, belongs) in [(vacant, seat == Seat::Vacant), (wanted, seat == Seat::Wanted)] {
            if list.contains(&member) != belongs {
                list.retain(|other| *other != member);
                list.extend(belongs.then_some(member));
            }
        }
        if before == (self.cluster.vacant.clone(), self.cluster.wanted.clone()) {
            return Ok(());
        }
        self.write()
    }

    /// Records that only `member` continues, and that the others with a seat come back to it.
    pub(crate) fn go_on_from(&mut self, member: u16) -> Outcome<()> {
        let seats = 1..=self.members();
        self.cluster.vacant.retain(|other| *other != member);
        let others = seats.filter(|other| *other != member && !self.is_vacant(*other)).collect();
        (self.cluster.wanted, self.cluster.founded) = (others, true);
        self.write()
    }

    /// The number of members that found the cluster.
    pub(super) fn founders(&self) -> u16 {
        self.cluster.founders()
    }

    /// Whether the promises and data of `member` are known to be gone (I2).
    pub(super) fn is_lost(&self, member: u16) -> bool {
        let is_gone = || matches!(self.has_identity(member), Ok(false));
        self.cluster.founded && !self.is_vacant(member) && is_gone()
    }

    /// Whether `member` has begun its disk.
    pub(super) fn has_identity(&self, member: u16) -> Outcome<bool> {
        begun(&self.member(member))
    }

    /// Puts the directory of an earlier incarnation of `member` aside, if there is one, and returns
    /// its new path: only the operator deletes data.
    pub(crate) fn retire(&self, member: u16) -> Outcome<Option<PathBuf>> {
        let from = self.member(member);
        if !from.exists() {
            return Ok(None);
        }
        let names = (1..).map(|n: u32| self.path.join(format!("member-{member}.old-{n}")));
        // There are fewer than 2^32 directories.
        let to = names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| from.clone());
        std::fs::rename(&from, &to).map_err(|error| {
            Failure::os(format_args!("move {} to {}", from.display(), to.display()), error)
        })?;
        self.sync()?;
        Ok(Some(to))
    }

    /// Keeps the present secret under another name, before another one takes its place: the disks
    /// that were begun with it are put aside, and not deleted (I6). It can be repeated.
    pub(crate) fn keep_secret(&self) -> Outcome<()> {
        let own = self.secret_file();
        let secret = std::fs::read(&own)
            .map_err(|error| Failure::os(format_args!("read {}", own.display()), error))?;
        for n in 1_u32.. {
            let name = format!("secret.old-{n}");
            match std::fs::read(self.path.join(&name)) {
                Ok(kept) if kept == secret => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return self.write_durably(&name, &secret);
                }
                Err(error) => {
                    return Err(Failure::os(
                        format_args!("read {}/{name}", self.path.display()),
                        error,
                    ));
                }
            }
        }
        Ok(())
    }

    /// The way in which the first life of `member` under this supervisor begins (I2).
    pub(super) fn start_of(&self, member: u16) -> Outcome<Start> {
        let has_begun = self.cluster.founded || self.has_identity(member)?;
        Ok(if has_begun { Start::Reattach } else { Start::Bootstrap })
    }
}

#[cfg(test)]
mod tests;
