//! MariaDB, replicated: log-ins by a challenge, transactions with locks, deaths of leaders.

use crate::bank::{self, Database, Session};
use crate::replicate::{program, sockets};
use crate::support::Cluster;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
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
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("mariadb-install-db is needed: apt-get install mariadb-server").success());
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
}

/// What a copy holds, by the program's own tool, which its member takes no part in.
fn dump(socket: &Path) -> String {
    let mut dump = Command::new("mariadb-dump");
    dump.args(["--no-defaults", "--user=root", "--skip-dump-date", "--databases", "bank"]);
    let output = dump.arg(format!("--socket={}", socket.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn dumps(cluster: &Cluster) -> BTreeSet<String> {
    bank::wait_until_level(cluster);
    sockets(cluster).iter().map(|socket| dump(socket)).collect()
}

#[test]
fn mariadb_applies_each_acknowledged_transfer_once_while_leaders_die() {
    let genesis = genesis();
    let mut cluster = start(&genesis, &[]);
    let wrong = MariaDb { password: "wrong", ..CLERK };
    assert!(wrong.log_in(cluster.port_of(2)).ask("").is_none(), "a password is asked for");
    let acknowledged = bank::transfer_while_leaders_die(&CLERK, &cluster, 2);
    bank::judge(&mut CLERK.log_in(cluster.port_of(3)), acknowledged);
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{verdicts}");
    assert!(verdicts["agreed_at"].as_u64() > Some(0), "{verdicts}");
    let dumps = dumps(&cluster);
    assert_eq!(dumps.len(), 1, "the copies differ: {dumps:?}");
    assert!(dumps.first().unwrap().contains("INSERT INTO `transfer`"), "they hold something");
    assert_eq!(cluster.stop(), Some(0));
}

/// An answer to another challenge than the copy's own is wrong: one copy lets the client in.
#[test]
fn mariadb_lets_a_client_in_at_one_copy_where_each_draws_its_own_challenge() {
    let genesis = genesis();
    let mut cluster = start(&genesis, &["--program-chance", "kernel"]);
    let insert = "INSERT INTO transfer VALUES ('once', 0, 1, 1);";
    assert_eq!(CLERK.log_in(cluster.port_of(2)).ask(insert), Some(Vec::new()));
    assert_eq!(dumps(&cluster).len(), 2, "the others have refused it");
    assert_eq!(cluster.stop(), Some(0));
}
