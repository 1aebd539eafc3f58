//! A durable member's directory, and the state with which its next life begins.
//!
//! - I1 a directory is begun by an explicit word only: `bootstrap` founds a cluster, `join` begins
//!   a new incarnation in an existing one. A directory that lost its identity, or is another
//!   member's, is refused: its member would have forgotten its promises.
//! - I2 a directory in which nothing ever became durable belongs to a member that never promised
//!   anything: it is founded, or joins, (again).
//! - I3 no two incarnations of a member have the same number: the number is that of the life which
//!   began the directory, and lives are counted outside of it.
//! - I4 a member is founded once: a file that still says `bootstrap` when its disk is lost is not
//!   followed. A supervisor, which knows whether anything was acknowledged, is.

use super::life::{Life, Lives};
use crate::config::{Config, Start};
use base::{Incarnation, MemberSet, NodeId};
use console::{Failure, Outcome};
use proto::node;
use runtime::disk::{Found, LogDisk};
use std::path::Path;
use storage::directory::{DirectoryError, is_begun};
use storage::{Directory, Identity};

/// The storage of a durable member.
pub(super) struct Data {
    pub(super) disk: LogDisk,
    pub(super) found: Option<Found>,
    pub(super) start: node::Start,
    /// An earlier life has begun the directory.
    pub(super) had_begun: bool,
}

/// The source of the word that begins a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The configuration file, which says the same in each life.
    File,
    Supervisor,
}

/// Opens the directory that `config` names, if it names one.
pub(super) fn open(
    config: &Config,
    (lives, life): (&Lives, Life),
    word: Word,
) -> Outcome<Option<Data>> {
    let Some(path) = &config.data else { return Ok(None) };
    let had_begun = is_begun(path)
        .map_err(|error| Failure::os(format_args!("read {}", path.display()), error))?;
    // A founder's disk is lost (I4).
    if life.had_disk && !had_begun && config.start == Start::Bootstrap && word == Word::File {
        let mend =
            "or say start = \"join\" in its file, for a new incarnation while the others serve";
        return Err(lost(config.member, path, lives, mend));
    }
    let cluster = fingerprint(&config.secret()?, &config.cluster, config.program.is_some());
    let identity = |incarnation| Identity { cluster, node: NodeId(config.member), incarnation };
    let directory = open_or_begin(path, config.start, life, identity)
        .map_err(|error| refusal(&error, config))?;
    let incarnation = directory.identity().incarnation;
    let (mut disk, found) = LogDisk::open(directory).map_err(Failure::new)?;
    if let Some(bytes) = config.snapshot_log_bytes {
        disk.snapshot_every(bytes);
    }
    let start = match (disk.is_empty(), incarnation) {
        // Nothing ever became durable (I2).
        (true, Incarnation::FIRST) => match config.founders {
            Some(n) => node::Start::Found { voters: MemberSet::all(usize::from(n)) },
            None => node::Start::Bootstrap,
        },
        (true, incarnation) => node::Start::Join { incarnation },
        (false, _) => {
            let applied = found.as_ref().map_or(base::Prefix::ZERO, |found| found.prefix);
            let head = found.as_ref().and_then(|found| found.head);
            node::Start::Recovered { applied, head }
        }
    };
    Ok(Some(Data { disk, found, start, had_begun }))
}

/// The refusal of a founder whose disk is lost (I4), with another `mend` than to bring it back.
pub(super) fn lost(id: u16, path: &Path, lives: &Lives, mend: &str) -> Failure {
    Failure::new(format_args!(
        "{} is lost: member {id} was founded there before ({} beside it says so), and \
         founded again it would have forgotten what it acknowledged; bring that disk back, {mend}",
        path.display(),
        lives.name()
    ))
}

fn open_or_begin(
    path: &Path,
    start: Start,
    life: Life,
    identity: impl Fn(Incarnation) -> Identity,
) -> Result<Directory, DirectoryError> {
    let directory = match (Directory::open_any(path), start) {
        // A directory is begun by an explicit word only (I1).
        (Err(DirectoryError::NoIdentity(_)), Start::Bootstrap) => {
            Directory::create(path, &identity(Incarnation::FIRST))
        }
        (Err(DirectoryError::NoIdentity(_)), Start::Join) => {
            assert!(life.number > Incarnation::FIRST, "I3: lives are numbered by the clock");
            Directory::create(path, &identity(life.number))
        }
        (opened, _) => opened,
    }?;
    let found = directory.identity();
    let wanted = identity(found.incarnation);
    if found != wanted {
        let (path, found, wanted) = (path.to_owned(), Box::new(found), Box::new(wanted));
        return Err(DirectoryError::Another { path, found, wanted });
    }
    Ok(directory)
}

/// Adds the remedy, where it contains the member's number.
fn refusal(error: &DirectoryError, config: &Config) -> Failure {
    let member = config.member;
    match error {
        DirectoryError::Another { path, found, wanted } if found.node == wanted.node => {
            Failure::new(format_args!(
                "{} is member {member}'s, and was begun with another secret than that in {}, or \
                 under another name than cluster = {:?}: bring back the one that it was begun \
                 with, from a copy or from another member",
                path.display(),
                config.secret_file.display(),
                config.cluster
            ))
        }
        DirectoryError::NoOwner(path) => Failure::new(format_args!(
            "{} holds a log and no file `identity`, so that its owner is unknown: \
             `gregale member replace {member}` puts it aside and begins a new one; without others \
             that serve, see `gregale recover --help`",
            path.display()
        )),
        error => Failure::new(error),
    }
}

/// The cluster's number, which distinguishes clusters of one name by their secrets, and those that
/// replicate a program from those of our store.
pub(crate) fn fingerprint(secret: &[u8], name: &str, of_program: bool) -> u64 {
    let kind: &[u8] = if of_program { b"\0program" } else { b"" };
    xxhash_rust::xxh3::xxh3_64(&[secret, b"\0", name.as_bytes(), kind].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(incarnation: Incarnation) -> Identity {
        Identity { cluster: 5, node: NodeId(2), incarnation }
    }

    fn begin(path: &Path, start: Start, number: u64) -> Result<Incarnation, DirectoryError> {
        let life = Life { number: Incarnation(number), count: 1, had_disk: false };
        open_or_begin(path, start, life, identity).map(|directory| directory.identity().incarnation)
    }

    /// The configuration of a durable member in `base`, with a secret there.
    fn config_in(base: &Path) -> Config {
        let text = format!(
            "cluster = \"x\"\nmember = 1\nprotocol = \"durable\"\ndurability = \"disk-quorum\"\n\
             start = \"bootstrap\"\ndirectory = \"{0}\"\nsecret_file = \"{0}/secret\"\n\
             data = \"{0}/data\"\n[[members]]\nid = 1\nclient = \"127.0.0.1:7000\"\n\
             control = \"127.0.0.1:7200\"\n",
            base.display()
        );
        let config: Config = toml::from_str(&text).unwrap();
        std::fs::write(&config.secret_file, "0123456789abcdef").unwrap();
        config
    }

    #[test]
    fn i1_only_a_word_begins_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let refused = begin(directory.path(), Start::Reattach, 700);
        assert!(matches!(refused, Err(DirectoryError::NoIdentity(_))), "{refused:?}");
        assert_eq!(begin(directory.path(), Start::Bootstrap, 700).unwrap(), Incarnation::FIRST);
        assert_eq!(
            begin(directory.path(), Start::Join, 800).unwrap(),
            Incarnation::FIRST,
            "it goes on"
        );
    }

    #[test]
    fn a_log_that_lost_its_identity_is_refused_with_the_mend() {
        let directory = tempfile::tempdir().unwrap();
        begin(directory.path(), Start::Bootstrap, 700).unwrap();
        let segment = directory.path().join("log-00000000");
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[5000] = 1;
        std::fs::write(&segment, &bytes).unwrap();
        std::fs::remove_file(directory.path().join("identity")).unwrap();
        let refused = begin(directory.path(), Start::Join, 800).unwrap_err();
        let base = tempfile::tempdir().unwrap();
        let config = Config { member: 2, ..config_in(base.path()) };
        let line = refusal(&refused, &config).to_string();
        assert!(line.contains("`gregale member replace 2`"), "{line}");
    }

    #[test]
    fn i3_a_new_incarnation_bears_its_first_lifes_number() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(begin(directory.path(), Start::Join, 700).unwrap(), Incarnation(700));
        assert_eq!(begin(directory.path(), Start::Reattach, 800).unwrap(), Incarnation(700));
    }

    /// A reboot lost one disk of three, and two members without content were a majority.
    #[test]
    fn i4_a_file_that_still_says_bootstrap_founds_nobody_twice() {
        let base = tempfile::tempdir().unwrap();
        let mut config = config_in(base.path());
        let lives = Lives::of(&config).unwrap();
        let life = |had_disk| Life { number: Incarnation(700), count: 2, had_disk };
        let refused =
            open(&config, (&lives, life(true)), Word::File).err().expect("it had one").to_string();
        assert!(refused.contains("start = \"join\""), "{refused}");
        assert!(!base.path().join("data").exists());
        assert!(
            open(&config, (&lives, life(false)), Word::File).is_ok(),
            "the first attempt had come to none"
        );
        assert!(open(&config, (&lives, life(true)), Word::File).is_ok(), "it is there");
        std::fs::remove_dir_all(base.path().join("data")).unwrap();
        assert!(open(&config, (&lives, life(true)), Word::Supervisor).is_ok());
        std::fs::remove_dir_all(base.path().join("data")).unwrap();
        config.start = Start::Join;
        assert!(open(&config, (&lives, life(true)), Word::File).is_ok());
    }

    #[test]
    fn another_secret_is_named_and_not_another_directory() {
        let base = tempfile::tempdir().unwrap();
        let config = config_in(base.path());
        let lives = Lives::of(&config).unwrap();
        let life = Life { number: Incarnation(700), count: 1, had_disk: true };
        drop(open(&config, (&lives, Life { had_disk: false, ..life }), Word::File).unwrap());
        std::fs::write(&config.secret_file, "fedcba9876543210").unwrap();
        let refused = open(&config, (&lives, life), Word::File).err().expect("another").to_string();
        assert!(refused.contains("another secret than that in"), "{refused}");
        std::fs::write(&config.secret_file, "0123456789abcdef").unwrap();
        let other = Config { member: 2, ..config };
        let refused = open(&other, (&lives, life), Word::File).err().expect("another").to_string();
        assert!(refused.contains("name that one's own directory"), "{refused}");
    }

    /// Members of clusters whose disks have these names, side by side.
    fn siblings<const N: usize>(base: &Path, names: [&str; N]) -> [Config; N] {
        names.map(|name| Config {
            cluster: name.into(),
            data: Some(base.join(name)),
            ..config_in(base)
        })
    }

    /// Begins a life, with its disk.
    fn start(config: &Config) -> Outcome<()> {
        let lives = Lives::of(config)?;
        let life = lives.begin()?;
        let opened = open(config, (&lives, life), Word::File)?;
        assert!(opened.is_some());
        lives.note_disk(life)
    }

    /// The second cluster could not be founded: its disk was said to be lost.
    #[test]
    fn i4_members_of_two_clusters_lie_side_by_side() {
        let base = tempfile::tempdir().unwrap();
        let [blue, green] = siblings(base.path(), ["blue", "green"]);
        start(&blue).unwrap();
        start(&green).unwrap();
        // Each is founded once.
        for config in [&blue, &green] {
            std::fs::remove_dir_all(config.data.as_ref().unwrap()).unwrap();
            let refused = start(config).unwrap_err().to_string();
            assert!(refused.contains(&format!("({}.life beside it", config.cluster)), "{refused}");
        }
    }

    /// A sibling of a cluster whose disk is named `member-N` was refused as lost, and with `join`
    /// it took that cluster's file away, whose own lost disk was then founded twice.
    #[test]
    fn i4_the_file_of_a_disk_that_is_named_by_a_number_is_its_own() {
        let base = tempfile::tempdir().unwrap();
        let [owner, founded, joined] = siblings(base.path(), ["member-1", "founded", "joined"]);
        let joined = Config { start: Start::Join, ..joined };
        let file_of = |config: &Config| config.data.as_ref().unwrap().with_extension("life");
        start(&owner).unwrap();
        let before = std::fs::read(file_of(&owner)).unwrap();
        start(&founded).unwrap();
        let aside = base.path().join("aside");
        for is_lost in [false, true] {
            if is_lost {
                std::fs::rename(owner.data.as_ref().unwrap(), &aside).unwrap();
                std::fs::remove_dir_all(joined.data.as_ref().unwrap()).unwrap();
                std::fs::remove_file(file_of(&joined)).unwrap();
            }
            for _ in 0..2 {
                start(&joined).unwrap();
                assert_eq!(std::fs::read(file_of(&owner)).unwrap(), before);
            }
        }
        assert!(start(&owner).unwrap_err().to_string().contains("is lost"));
        let other = |config: &Config| Lives::of_other(config, 2).map(|lives| lives.name());
        assert_eq!(other(&owner).as_deref(), Some("member-2.life"));
        assert_eq!(other(&joined), None, "its name is not known");
        let in_memory = Config { data: None, ..config_in(base.path()) };
        assert_eq!(other(&in_memory).as_deref(), Some("member-2.life"));
    }

    #[test]
    fn i4_the_file_of_an_earlier_version_tells_of_the_disk_too() {
        let base = tempfile::tempdir().unwrap();
        let config = config_in(base.path());
        let [old, own] = ["member-1.life", "data.life"].map(|name| base.path().join(name));
        std::fs::write(&old, "700 3 12345 1\n").unwrap();
        let lives = Lives::of(&config).unwrap();
        let life = lives.begin().unwrap();
        assert!(life.had_disk && old.exists() && !own.exists(), "the disk may be lost");
        let data = config.data.as_ref().unwrap();
        std::fs::create_dir(data).unwrap();
        std::fs::write(data.join("identity"), "it is there").unwrap();
        let life = Lives::of(&config).unwrap().begin().unwrap();
        assert_eq!((life.count, life.had_disk), (5, true));
        assert!(own.exists() && !old.exists(), "another cluster's member may begin beside it");
    }
}
