//! The directory in which a durable cluster lives on when nothing of it runs.
//!
//! ```text
//! DIR/cluster.toml    name, number of members, whether it was founded, `disk-all` if it is
//! DIR/secret          what all members know
//! DIR/member-1/       the first member's log and snapshots (docs/formats.md)
//! DIR/member-1.life   how often it was started
//! DIR/member-1.old-1  what an earlier incarnation left
//! ```
//! - I1 a directory belongs to one cluster: another name or size is refused before anything starts.
//! - I2 once all members have served, a member's directory that is not there is a loss and not a
//!   beginning: the member comes back as a new incarnation, in a cluster that serves without it.
//!   Before that, whoever has none is founded.
//!   A seat that is empty stays so until an operator says otherwise, whatever lies there.
//! - I3 a cluster that promised every disk goes on to: it is not opened with less by leaving a
//!   flag out. With more it may be: the first write that is acknowledged then brings all before it
//!   along.
//! - I4 a cluster that was told of is found after a power cut: each directory that was made is
//!   named durably in the one above before anything is acknowledged. Found by, and tested with,
//!   power cuts under real processes (`tests/linearizability`).

pub(crate) use super::directory::random_secret;
use super::directory::write_private;
use crate::config::{Durability, Start};
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const CLUSTER: &str = "cluster.toml";
/// Its next text, until it has the name.
const FRESH: &str = "cluster.new";
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    version: u32,
    name: String,
    members: u8,
    founded: bool,
    /// Not said by clusters that wait for a majority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durability: Option<Durability>,
    /// Seats that nobody has: never taken, or whose members were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vacant: Vec<u16>,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    cluster: Cluster,
}

impl Data {
    /// Opens the cluster in `path`, or begins one there.
    pub(super) fn open(
        path: &Path,
        name: &str,
        (nodes, members): (u8, u8),
        durability: Durability,
    ) -> Outcome<Data> {
        let promises = (durability == Durability::DiskAll).then_some(durability);
        if !path.join(CLUSTER).exists() {
            return Data::begin(path, name, (nodes, members), promises);
        }
        let mut data = Data::open_any(path)?;
        let Data { path, cluster } = &mut data;
        if crate::recover::is_interrupted(path) {
            return Err(Failure::new(format_args!(
                "a recovery of {0} was cut off: `gregale recover {0}` finishes it",
                path.display()
            )));
        }
        // I1
        if (cluster.name.as_str(), cluster.members) != (name, members) {
            return Err(Failure::new(format_args!(
                "{} holds cluster {:?} of {} members, not {name:?} of {members}: \
                 say --cluster {} --nodes {}, or name another directory",
                path.display(),
                cluster.name,
                cluster.members,
                cluster.name,
                cluster.members
            )));
        }
        // I3
        if cluster.durability > promises {
            return Err(Failure::new(format_args!(
                "{} holds a cluster that acknowledges on every disk: say --durability disk-all; to \
                 promise less from now on, take the line `durability` out of {}",
                path.display(),
                path.join(CLUSTER).display()
            )));
        }
        if cluster.durability < promises {
            cluster.durability = promises;
            data.write()?;
        }
        Ok(data)
    }

    /// Opens the cluster in `path`, whichever it is.
    pub(crate) fn open_any(path: &Path) -> Outcome<Data> {
        let file = path.join(CLUSTER);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Failure::os(
                format_args!("read {} (the directory of `gregale up --data`)", file.display()),
                error,
            )
        })?;
        let cluster: Cluster = toml::from_str(&text)
            .map_err(|error| Failure::new(format_args!("{}: {error}", file.display())))?;
        if cluster.version != VERSION {
            return Err(Failure::new(format_args!(
                "{} has version {}, this program writes {VERSION}: run the program that wrote it",
                file.display(),
                cluster.version
            )));
        }
        Ok(Data { path: absolute(path)?, cluster })
    }

    fn begin(
        path: &Path,
        name: &str,
        (nodes, members): (u8, u8),
        durability: Option<Durability>,
    ) -> Outcome<Data> {
        make(path)?;
        let foreign = std::fs::read_dir(path)
            .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?
            .flatten()
            .find(|entry| !is_expected(&entry.file_name()));
        if let Some(entry) = foreign {
            return Err(Failure::new(format_args!(
                "{} holds {:?} and no cluster: name an empty or a new directory",
                path.display(),
                entry.file_name()
            )));
        }
        let name = name.into();
        let vacant = (u16::from(nodes) + 1..=u16::from(members)).collect();
        let founded = false;
        let cluster = Cluster { version: VERSION, name, members, founded, durability, vacant };
        let data = Data { path: absolute(path)?, cluster };
        data.write_first().inspect_err(|_| data.undo())?;
        Ok(data)
    }

    fn write_first(&self) -> Outcome<()> {
        let secret = write_private(&self.secret_file(), random_secret()?.as_bytes())?;
        synced(&secret, &self.secret_file())?;
        self.write()
    }

    /// Takes back a beginning that failed: no member has seen it. The directory goes if it is
    /// empty.
    fn undo(&self) {
        for file in [self.path.join(FRESH), self.path.join(CLUSTER), self.secret_file()] {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir(&self.path);
    }

    /// All members have served (I2).
    pub(super) fn founded(&mut self) -> Outcome<()> {
        if self.cluster.founded {
            return Ok(());
        }
        self.cluster.founded = true;
        self.write()
    }

    /// What `member` holds is the cluster now: nobody may be founded beside it, and it has its seat
    /// (I2).
    pub(crate) fn recovered(&mut self, member: u16) -> Outcome<()> {
        self.cluster.founded = true;
        self.cluster.vacant.retain(|other| *other != member);
        self.write()
    }

    fn write(&self) -> Outcome<()> {
        let text = toml::to_string(&self.cluster)
            .map_err(|error| Failure::new(format_args!("cannot describe the cluster: {error}")))?;
        self.write_durably(CLUSTER, text.as_bytes())
    }

    /// By renaming: a crash leaves the old file or the new one.
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

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &str {
        &self.cluster.name
    }

    /// How many members it has.
    pub(crate) fn members(&self) -> u16 {
        self.cluster.members.into()
    }

    /// Whether all members have served at some time (I2).
    pub(super) fn is_founded(&self) -> bool {
        self.cluster.founded
    }

    /// What all members know.
    pub(crate) fn secret_file(&self) -> PathBuf {
        self.path.join("secret")
    }

    /// Where `member` keeps what it must not forget.
    pub(crate) fn member(&self, member: u16) -> PathBuf {
        self.path.join(format!("member-{member}"))
    }

    /// Whether nobody has the seat of `member`.
    pub(super) fn is_vacant(&self, member: u16) -> bool {
        self.cluster.vacant.contains(&member)
    }

    /// From now on nobody has the seat of `member`, or somebody does again.
    pub(super) fn set_vacant(&mut self, member: u16, is_vacant: bool) -> Outcome<()> {
        if self.is_vacant(member) == is_vacant {
            return Ok(());
        }
        self.cluster.vacant.retain(|other| *other != member);
        if is_vacant {
            self.cluster.vacant.push(member);
        }
        self.write()
    }

    /// How many members begin the cluster.
    pub(super) fn founders(&self) -> u16 {
        self.members() - self.cluster.vacant.len() as u16
    }

    /// Whether what `member` must not forget is gone (I2).
    pub(super) fn is_lost(&self, member: u16) -> bool {
        self.cluster.founded && !self.is_vacant(member) && !self.has_identity(member)
    }

    fn has_identity(&self, member: u16) -> bool {
        self.member(member).join("identity").exists()
    }

    /// Puts aside what an earlier incarnation of `member` left, if anything, and says where: nobody
    /// but the operator deletes data.
    pub(crate) fn retire(&self, member: u16) -> Outcome<Option<PathBuf>> {
        let from = self.member(member);
        if !from.exists() {
            return Ok(None);
        }
        let names = (1..).map(|n: u32| self.path.join(format!("member-{member}.old-{n}")));
        // There are not 2^32 directories.
        let to = names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| from.clone());
        std::fs::rename(&from, &to).map_err(|error| {
            Failure::os(format_args!("move {} to {}", from.display(), to.display()), error)
        })?;
        self.sync()?;
        Ok(Some(to))
    }

    /// How the first life of `member` under this supervisor begins (I2).
    pub(super) fn start_of(&self, member: u16) -> Start {
        if self.cluster.founded || self.has_identity(member) {
            Start::Reattach
        } else {
            Start::Bootstrap
        }
    }
}

/// Makes a directory and what is missing above it, durably (I4).
fn make(path: &Path) -> Outcome<()> {
    let missing = path.ancestors().take_while(|at| !at.as_os_str().is_empty() && !at.exists());
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Failure::os(format_args!("make {}", path.display()), error))?;
    for made in missing {
        let above = match made.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let opened = File::open(above)
            .map_err(|error| Failure::os(format_args!("open {}", above.display()), error))?;
        synced(&opened, above)?;
    }
    Ok(())
}

/// What an earlier attempt may have left; and a member's directory may be a disk of its own (which
/// that member refuses if it is not empty).
fn is_expected(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "secret" || name == "lost+found" || name.starts_with("member-")
}

fn synced(file: &File, path: &Path) -> Outcome<()> {
    file.sync_all().map_err(|error| Failure::os(format_args!("sync {}", path.display()), error))
}

fn absolute(path: &Path) -> Outcome<PathBuf> {
    path.canonicalize().map_err(|error| Failure::os(format_args!("find {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUORUM: Durability = Durability::DiskQuorum;

    #[test]
    fn i1_another_cluster_is_refused_with_what_is_there() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("data");
        drop(Data::open(&path, "one", (3, 3), QUORUM).unwrap());
        let refused = Data::open(&path, "two", (3, 3), QUORUM).unwrap_err().to_string();
        assert!(refused.contains("\"one\" of 3 members"), "{refused}");
        let refused = Data::open(&path, "one", (5, 5), QUORUM).unwrap_err().to_string();
        assert!(refused.contains("--nodes 3"), "{refused}");
        assert!(Data::open(&path, "one", (3, 3), QUORUM).is_ok());
    }

    #[test]
    fn i1_a_directory_of_something_else_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("thesis.txt"), b"x").unwrap();
        let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
        assert!(refused.contains("thesis.txt"), "{refused}");
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_beginning_that_fails_is_taken_back() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("data");
        let data = Data::open(&path, "one", (3, 3), QUORUM).unwrap();
        data.undo();
        assert!(!path.exists(), "nothing is left of it");
    }

    #[test]
    fn i2_a_lost_directory_is_no_beginning_once_the_cluster_was_founded() {
        let base = tempfile::tempdir().unwrap();
        let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
        assert_eq!(data.start_of(1), Start::Bootstrap);
        std::fs::create_dir(data.member(1)).unwrap();
        std::fs::write(data.member(1).join("identity"), b"").unwrap();
        assert_eq!(data.start_of(1), Start::Reattach);
        assert_eq!(data.start_of(2), Start::Bootstrap);
        assert!(!data.is_lost(2), "it never was");
        data.founded().unwrap();
        assert!(data.is_lost(2) && !data.is_lost(1));
        let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
        assert_eq!(data.start_of(2), Start::Reattach);
    }

    #[test]
    fn i3_a_promise_is_not_lowered_by_leaving_a_flag_out() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("data");
        let open = |durability| Data::open(&path, "one", (3, 3), durability).map(drop);
        open(QUORUM).unwrap();
        open(Durability::DiskAll).unwrap();
        let refused = open(QUORUM).unwrap_err().to_string();
        assert!(refused.contains("--durability disk-all"), "{refused}");
        open(Durability::DiskAll).unwrap();
    }

    #[test]
    fn i2_an_empty_seat_is_no_loss() {
        let base = tempfile::tempdir().unwrap();
        let mut data = Data::open(base.path(), "one", (3, 4), QUORUM).unwrap();
        assert_eq!((data.members(), data.founders()), (4, 3));
        data.founded().unwrap();
        assert!(data.is_vacant(4) && !data.is_lost(4));
        data.set_vacant(4, false).unwrap();
        data.set_vacant(2, true).unwrap();
        let data = Data::open(base.path(), "one", (4, 4), QUORUM).unwrap();
        assert!(data.is_lost(4) && !data.is_lost(2) && data.is_vacant(2));
    }

    #[test]
    fn what_an_earlier_incarnation_left_is_put_aside_each_time() {
        let base = tempfile::tempdir().unwrap();
        let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
        assert_eq!(data.retire(1).unwrap(), None);
        for n in 1..3 {
            std::fs::create_dir(data.member(1)).unwrap();
            std::fs::write(data.member(1).join("identity"), n.to_string()).unwrap();
            let aside = data.retire(1).unwrap().expect("there was something");
            assert!(aside.ends_with(format!("member-1.old-{n}")) && !data.member(1).exists());
            assert_eq!(std::fs::read_to_string(aside.join("identity")).unwrap(), n.to_string());
        }
    }
}
