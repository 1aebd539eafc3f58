//! The files of a copy: its directory, where it listens, what it prints.
//!
//! ```text
//! PLACE/run-N/dir     the copy's own directory, `{dir}`
//! PLACE/run-N/tmp     its files for a while, `TMPDIR`
//! PLACE/run-N/output  what it printed
//! PLACE/run-N/transcript-K
//! PLACE/run-N/saved-K   a copy of `dir`, of which a checkpoint is made
//! PLACE/run-N/restored  a checkpoint that takes the place of `dir`
//! PLACE/run-N/preload.so  the library that the copy loads
//! SOCKETS/copy-M.N    `{socket}`, or the directory `{socketdir}`
//! SOCKETS/page-M.N    what the copy says from inside
//! ```
//! A copy whose processes are dumped finds `PLACE/run-N`, and the directory of its socket, where
//! all such copies do (`apart`). There are a few files more then:
//! ```text
//! PLACE/run-N/image     a dump that the copy begins with
//! PLACE/run-N/criu.log  what CRIU has said last
//! ```
//! Each process of a member has a directory of its own, so that a copy which outlives its member by
//! a moment writes nowhere near the next one. The directories of earlier processes are removed at
//! the start of the next.

use super::{apart, tree};
use crate::config::{Config, Program};
use base::Incarnation;
use console::{Failure, Outcome};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest path of a Unix socket, without its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Where a copy listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// At a Unix socket.
    Socket(PathBuf),
    /// At the one Unix socket that it makes in this directory.
    Directory(PathBuf),
    /// At a port of this host.
    Port(SocketAddr),
    /// The same, by UDP.
    Udp(SocketAddr),
}

/// The files of the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    run: PathBuf,
    /// The path of the page.
    page: PathBuf,
    /// Where the copy listens.
    pub(crate) address: Address,
    /// Whether the copy finds its directories at paths that all members share.
    is_apart: bool,
}

impl Place {
    /// Makes the directories for one process, and fills the copy's own with the program's first
    /// state.
    pub(crate) fn make(config: &Config, program: &Program, life: Incarnation) -> Outcome<Place> {
        let beside = config.data.as_deref().and_then(Path::parent).unwrap_or(&config.directory);
        Place::within(beside, &config.directory, config.member, program, life)
    }

    /// The same for `member`: its directory lies in `beside`, and where it listens in `directory`.
    pub(crate) fn within(
        beside: &Path,
        directory: &Path,
        member: u16,
        program: &Program,
        life: Incarnation,
    ) -> Outcome<Place> {
        let place = beside.join(format!("copy-{member}"));
        let made = |what: &Path, error| Failure::os(format_args!("make {}", what.display()), error);
        fs::create_dir_all(&place)
            // The copy's content is for the member and its copy alone.
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(0o700)))
            .map_err(|error| made(&place, error))?;
        sweep(&place, "run-");
        let sockets = format!("copy-{member}.");
        sweep(directory, &sockets);
        let pages = format!("page-{member}.");
        sweep(directory, &pages);
        // Paths are words of the program and of its environment, which lie below its first stack:
        // where that is, each byte tells.
        let short = format!("{:06}", life.0 % 1_000_000);
        let page = directory.join(format!("{pages}{short}"));
        let run = place.join(format!("run-{}", life.0));
        let dir = run.join("dir");
        fs::create_dir_all(&run).map_err(|error| made(&run, error))?;
        let temporary = run.join("tmp");
        fs::create_dir_all(&temporary).map_err(|error| made(&temporary, error))?;
        match &program.genesis {
            Some(genesis) => tree::copy(genesis, &dir, &mut || Ok(())).map_err(|error| {
                let what = format_args!("copy {} to {}", genesis.display(), dir.display());
                Failure::os(what, error)
            })?,
            None => fs::create_dir_all(&dir).map_err(|error| made(&dir, error))?,
        }
        let socket = directory.join(format!("{sockets}{short}"));
        let address = if program.listens_at_port() {
            Address::Port(free_port()?)
        } else if program.is_told_by_udp() {
            Address::Udp(free_udp_port()?)
        } else if program.names_its_socket() || program.saves_processes() {
            fs::create_dir_all(&socket).map_err(|error| made(&socket, error))?;
            Address::Directory(socket)
        } else {
            if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
                return Err(Failure::new(format_args!(
                    "{} is too long for a socket: choose a shorter --directory",
                    socket.display()
                )));
            }
            Address::Socket(socket)
        };
        Ok(Place { run, page, address, is_apart: program.saves_processes() })
    }

    /// The directory of the process.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// The path of the page, which the copy maps.
    pub(crate) fn page(&self) -> &Path {
        &self.page
    }

    /// The copy's own directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.run.join("dir")
    }

    /// The directory for the copy's temporary files. (Copies have the same process ids, by which
    /// programs name such files: in one directory they would take each other's.)
    pub(crate) fn temporary(&self) -> PathBuf {
        self.run.join("tmp")
    }

    /// The path of the Unix socket, as far as it is known.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        match &self.address {
            Address::Socket(path) => Some(path.clone()),
            Address::Directory(directory) => {
                let entries = fs::read_dir(directory).into_iter().flatten().flatten();
                let is_socket =
                    |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
                entries.filter(is_socket).map(|entry| entry.path()).min()
            }
            Address::Port(_) | Address::Udp(_) => None,
        }
    }

    /// Removes what a program has left that was killed, but for its own directory: where it
    /// listened, and its files for a while.
    pub(crate) fn clear(&self) -> std::io::Result<()> {
        fs::remove_dir_all(self.temporary())?;
        fs::create_dir(self.temporary())?;
        match &self.address {
            Address::Socket(path) if path.exists() => fs::remove_file(path),
            Address::Directory(path) => {
                fs::remove_dir_all(path)?;
                fs::create_dir(path)
            }
            Address::Socket(_) | Address::Port(_) | Address::Udp(_) => Ok(()),
        }
    }

    /// The file with what the copy prints.
    pub(crate) fn output(&self) -> PathBuf {
        self.run.join("output")
    }

    /// The directory of the socket, of a copy that finds its directories where all copies do.
    pub(crate) fn sockets_apart(&self) -> Option<&Path> {
        match &self.address {
            Address::Directory(path) if self.is_apart => Some(path),
            _ => None,
        }
    }

    /// Where the copy finds the directory of its process.
    fn seen(&self) -> &Path {
        if self.is_apart { Path::new(apart::COPY) } else { &self.run }
    }

    /// Where the copy finds the directory for its temporary files.
    pub(crate) fn temporary_seen(&self) -> PathBuf {
        self.seen().join("tmp")
    }

    /// The words of the command line with this place's names.
    pub(crate) fn fill(&self, words: &[String]) -> Vec<String> {
        // A command has one of these.
        let (name, address) = match &self.address {
            Address::Socket(path) => ("{socket}", path.display().to_string()),
            Address::Directory(path) => ("{socketdir}", path.display().to_string()),
            Address::Port(address) => ("{port}", address.port().to_string()),
            Address::Udp(address) => ("{udp}", address.port().to_string()),
        };
        let dir = self.seen().join("dir").display().to_string();
        let fill = |word: &String| {
            let word = match self.is_apart {
                true => word
                    .replace("{socketdir}", apart::SOCKETS)
                    .replace("{socket}", &format!("{}/{}", apart::SOCKETS, apart::SOCKET)),
                false => word.replace(name, &address),
            };
            word.replace("{dir}", &dir)
        };
        words.iter().map(fill).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is swept by the next process.
        let _ = match &self.address {
            Address::Socket(path) => fs::remove_file(path),
            Address::Directory(path) => fs::remove_dir_all(path),
            Address::Port(_) | Address::Udp(_) => Ok(()),
        };
    }
}

/// Removes what earlier processes left: the directories and sockets of these names.
fn sweep(place: &Path, begins: &str) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(begins) {
            // A socket is a file.
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

/// A port that no process listens at. (Until the copy does, another process may take it: then the
/// copy ends, and its member with it, and the next process tries another.)
fn free_port() -> Outcome<SocketAddr> {
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    TcpListener::bind(any)
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Failure::os("find a free port", error))
}

/// The same, by UDP.
fn free_udp_port() -> Outcome<SocketAddr> {
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    UdpSocket::bind(any)
        .and_then(|socket| socket.local_addr())
        .map_err(|error| Failure::os("find a free port", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SaveBy;

    #[test]
    fn paths_are_of_one_length_in_all_lives_of_a_member() {
        let base = tempfile::tempdir().unwrap();
        let lengths = [1_767_000_000_007, 1_767_000_123_456].map(|life| {
            let program = Program::of("sh {dir} {socket}");
            let made = Place::within(base.path(), base.path(), 1, &program, Incarnation(life));
            let place = made.unwrap();
            let words = place.fill(&["{dir}", "{socket}"].map(str::to_owned));
            let page = place.page().display().to_string();
            [&words[0], &words[1], &page].map(String::len)
        });
        assert_eq!(lengths[0], lengths[1]);
    }

    #[test]
    fn a_copy_that_is_dumped_finds_its_directories_where_all_do() {
        let base = tempfile::tempdir().unwrap();
        let words = ["--unixsocket={socket}", "{dir}/x"].map(str::to_owned);
        let made = |member, save| {
            let program = Program { save, ..Program::of("sh {socket}") };
            Place::within(base.path(), base.path(), member, &program, Incarnation(7)).unwrap()
        };
        let (first, second) = (made(1, Some(SaveBy::Criu)), made(2, Some(SaveBy::Criu)));
        assert_eq!(first.fill(&words), second.fill(&words));
        assert_eq!(first.fill(&words)[1], "/run/gregale/copy/dir/x");
        assert_eq!(first.fill(&words)[0], "--unixsocket=/run/gregale/sockets/socket");
        assert_ne!(first.sockets_apart().unwrap(), second.sockets_apart().unwrap());
        let other = made(3, None);
        assert!(other.fill(&words)[1].starts_with(base.path().to_str().unwrap()));
        assert_eq!(other.sockets_apart(), None);
    }

    /// It holds what clients wrote.
    #[test]
    fn a_copys_files_are_for_its_member_alone() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let place = base.path().join("copy-1");
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::of("sh {socket}");
        Place::within(base.path(), base.path(), 1, &program, Incarnation(7)).unwrap();
        assert_eq!(mode(&place), 0o700, "an earlier version's, too");
    }
}
