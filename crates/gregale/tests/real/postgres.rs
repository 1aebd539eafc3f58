//! PostgreSQL, replicated: a process for each connection, log-ins by SCRAM, transactions with
//! locks, deaths of leaders.

use crate::bank::{self, Database, Session};
use crate::saved;
use crate::support::{Cluster, as_user};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// It refuses to be root's.
const USER: &str = "postgres";
const ADMIN: Postgres = Postgres { user: "admin", password: "master" };
const CLERK: Postgres = Postgres { user: "clerk", password: "secret" };

/// A program of the newest version that is there.
pub(crate) fn tool(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let files = versions.map(|version| version.path().join("bin").join(name));
    files.filter(|file| file.exists()).max().expect("needed: apt-get install postgresql")
}

/// Nothing that begins by the clock, and no memory that other programs of the host name too.
fn command() -> String {
    format!(
        "{} -D {{dir}} -k {{socketdir}} -c listen_addresses= -c autovacuum=off \
         -c dynamic_shared_memory_type=mmap -c max_parallel_workers_per_gather=0 \
         -c max_logical_replication_workers=0 -c authentication_timeout=600",
        tool("postgres").display()
    )
}

/// A directory with a database whose log-ins are all by SCRAM.
fn genesis() -> TempDir {
    let genesis = tempfile::tempdir_in("/dev/shm").unwrap();
    let password = genesis.path().join("password");
    std::fs::write(&password, ADMIN.password).unwrap();
    if rustix::process::geteuid().is_root() {
        let mut chown = Command::new("chown");
        let status = chown.args(["-R", USER]).arg(genesis.path()).status();
        assert!(status.unwrap().success());
    }
    let made = as_user(USER, tool("initdb"))
        .args(["-U", ADMIN.user, "--auth=scram-sha-256", "--no-locale", "-E", "UTF8", "-N"])
        .arg(format!("--pwfile={}", password.display()))
        .arg("-D")
        .arg(genesis.path().join("data"))
        .stdout(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    genesis
}

fn start(genesis: &TempDir, flags: &[&str]) -> Cluster {
    let from = genesis.path().join("data");
    let (command, from) = (command(), from.to_str().unwrap());
    let words = ["--replicate", &command, "--genesis", from, "--program-compare", "200"];
    let cluster = Cluster::start_as(USER, &[&words[..], flags].concat());
    let made = ADMIN.log_in(cluster.port_of(1)).ask(&format!(
        "CREATE ROLE clerk LOGIN PASSWORD 'secret'; GRANT ALL ON SCHEMA public TO clerk; {} \
         GRANT ALL ON account, transfer TO clerk;",
        bank::tables()
    ));
    assert_eq!(made, Some(Vec::new()));
    cluster
}

struct Postgres {
    user: &'static str,
    password: &'static str,
}

impl Postgres {
    fn run(&self, program: &str) -> Command {
        let mut client = Command::new(tool(program));
        client.env("PGPASSWORD", self.password).args(["-U", self.user]);
        client
    }
}

impl Database for Postgres {
    /// It wakes all that wait for a row at once, and they race. It grants this lock to the next.
    fn lock(&self) -> &'static str {
        "SELECT pg_advisory_xact_lock(1);"
    }

    fn log_in(&self, port: u16) -> Session {
        let mut client = self.run("psql");
        client
            .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"])
            .args(["-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "postgres"])
            .args(["-p", &port.to_string()]);
        Session::start(&mut client)
    }

    fn dump(&self, directory: &Path) -> String {
        let output = self.run("pg_dump").arg("-h").arg(directory).arg("postgres").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The tool draws a word for itself.
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn postgresql_applies_each_acknowledged_transfer_once_while_leaders_die() {
    let genesis = genesis();
    let stranger = Postgres { password: "wrong", ..CLERK };
    let cluster = start(&genesis, &[]);
    bank::survives_its_leaders(cluster, &CLERK, &stranger, "COPY public.transfer");
}

#[test]
fn postgresql_by_the_logs_time_is_the_same_at_every_copy_while_leaders_die() {
    let genesis = genesis();
    let stranger = Postgres { password: "wrong", ..CLERK };
    let cluster = start(&genesis, &["--program-time", "log"]);
    bank::survives_its_leaders(cluster, &CLERK, &stranger, "COPY public.transfer");
}

/// The ids of processes, which clients are told, begin again with the copy. It is asked to end:
/// what is in its pages and in no log (where there is room for a row, what a transaction has left
/// that was given up) would survive its death only where its own processes have had the time to
/// write it.
#[test]
fn postgresql_begins_with_its_files() {
    let genesis = genesis();
    let data = genesis.path().join("log");
    let flags = [&saved::flags(&data)[..], &["--program-end", "term"]].concat();
    let cluster = start(&genesis, &flags);
    bank::begins_with_its_files(cluster, &CLERK, |cluster, id| saved::lose(cluster, id, &data));
}

/// An answer to another nonce than the copy's own is wrong: one copy lets the client in.
#[test]
fn postgresql_lets_a_client_in_at_one_copy_where_each_draws_its_own_nonce() {
    let genesis = genesis();
    let from = genesis.path().join("data");
    let (command, from) = (command(), from.to_str().unwrap());
    let words = ["--replicate", &command, "--genesis", from, "--program-chance", "kernel"];
    let mut cluster = Cluster::start_as(USER, &words);
    assert!(ADMIN.log_in(cluster.port_of(2)).ask("CREATE TABLE once ();").is_some());
    let dumps = bank::dumps(&ADMIN, &cluster);
    let held = dumps.iter().filter(|dump| dump.contains("CREATE TABLE public.once"));
    assert_eq!(held.count(), 1, "the others have refused it");
    assert_eq!(cluster.stop(), Some(0));
}
