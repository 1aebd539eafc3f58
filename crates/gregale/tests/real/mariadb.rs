//! MariaDB, replicated: log-ins by a challenge, transactions with locks, deaths of leaders.

use crate::bank::{self, Database, Session};
use crate::saved;
use crate::support::Cluster;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// No waits by the kernel's rings, which are not seen, and nothing that ends by the clock.
const COMMAND: &str = "/usr/sbin/mariadbd --no-defaults --user=root --datadir={dir} \
    --socket={socket} --skip-networking --skip-name-resolve --innodb-use-native-aio=0 \
    --innodb-stats-auto-recalc=0 --innodb-log-file-size=4M --connect-timeout=31536000 \
    --wait-timeout=31536000 --interactive-timeout=31536000 --lock-wait-timeout=31536000 \
    --innodb-lock-wait-timeout=100000000";

/// A directory with a database in which root needs no password.
fn genesis() -> TempDir {
    let genesis = tempfile::tempdir_in("/dev/shm").unwrap();
    let made = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"])
        .args(["--skip-test-db", "--innodb-log-file-size=4M", "--innodb-use-native-aio=0"])
        .arg(format!("--datadir={}", genesis.path().display()))
        .output();
    let made = made.expect("mariadb-install-db is needed: apt-get install mariadb-server");
    let said = [made.stdout, made.stderr].concat();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&said));
    genesis
}

fn start(genesis: &TempDir, flags: &[&str]) -> Cluster {
    let from = genesis.path().to_str().unwrap();
    let words = ["--replicate", COMMAND, "--genesis", from, "--program-compare", "200"];
    let cluster = Cluster::start_with(&[&words[..], flags].concat());
    let mut root = MariaDb { user: "root", password: "" }.log_in(cluster.port_of(1));
    let made = root.ask(&format!(
        "CREATE DATABASE bank; USE bank; {} \
         CREATE USER clerk@localhost IDENTIFIED BY 'secret'; \
         GRANT ALL ON bank.* TO clerk@localhost;",
        bank::tables()
    ));
    assert_eq!(made, Some(Vec::new()));
    cluster
}

struct MariaDb {
    user: &'static str,
    password: &'static str,
}

const CLERK: MariaDb = MariaDb { user: "clerk", password: "secret" };

impl Database for MariaDb {
    fn log_in(&self, port: u16) -> Session {
        let MariaDb { user, password } = self;
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "--batch", "--skip-column-names", "--unbuffered"])
            .args(["--skip-reconnect", "--protocol=tcp", "--host=127.0.0.1"])
            .arg(format!("--port={}", port))
            .arg(format!("--user={user}"));
        if *user != "root" {
            client.arg(format!("--password={password}")).arg("bank");
        }
        Session::start(&mut client)
    }

    fn dump(&self, socket: &Path) -> String {
        let mut dump = Command::new("mariadb-dump");
        dump.args(["--no-defaults", "--user=root", "--skip-dump-date", "--databases", "bank"]);
        let output = dump.arg(format!("--socket={}", socket.display())).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn mariadb_applies_each_acknowledged_transfer_once_while_leaders_die() {
    let genesis = genesis();
    let stranger = MariaDb { password: "wrong", ..CLERK };
    let cluster = start(&genesis, &[]);
    bank::survives_its_leaders(cluster, &CLERK, &stranger, "INSERT INTO `transfer`");
}

/// Each transfer is noted with its time, which every copy has to have alike.
#[test]
fn mariadb_by_the_logs_time_notes_the_same_times_while_leaders_die() {
    let genesis = genesis();
    let stranger = MariaDb { password: "wrong", ..CLERK };
    let cluster = start(&genesis, &["--program-time", "log"]);
    let mut root = MariaDb { user: "root", password: "" }.log_in(cluster.port_of(1));
    let made = root.ask(
        "USE bank; CREATE TABLE noted (id VARCHAR(20), at TIMESTAMP(6)); \
         CREATE TRIGGER notes AFTER INSERT ON transfer FOR EACH ROW \
         INSERT INTO noted VALUES (NEW.id, NOW(6)); SELECT SLEEP(0.05);",
    );
    assert_eq!(made, Some(vec!["0".to_owned()]));
    drop(root);
    bank::survives_its_leaders(cluster, &CLERK, &stranger, "INSERT INTO `noted`");
}

/// The numbers of connections, the chance and the memory of a copy begin again with it: else one
/// that begins with a checkpoint would answer each log-in otherwise than the others.
#[test]
fn mariadb_begins_with_its_files() {
    let (genesis, data) = (genesis(), tempfile::tempdir_in("/dev/shm").unwrap());
    let cluster = start(&genesis, &saved::flags(data.path()));
    bank::begins_with_its_files(cluster, &CLERK, |cluster, id| {
        saved::lose(cluster, id, data.path());
    });
}

/// An answer to another challenge than the copy's own is wrong: one copy lets the client in.
#[test]
fn mariadb_lets_a_client_in_at_one_copy_where_each_draws_its_own_challenge() {
    let genesis = genesis();
    let mut cluster = start(&genesis, &["--program-chance", "kernel"]);
    let insert = "INSERT INTO transfer VALUES ('once', 0, 1, 1);";
    assert_eq!(CLERK.log_in(cluster.port_of(2)).ask(insert), Some(Vec::new()));
    let dumps: BTreeSet<String> = bank::dumps(&CLERK, &cluster).into_iter().collect();
    assert_eq!(dumps.len(), 2, "the others have refused it");
    assert_eq!(cluster.stop(), Some(0));
}
