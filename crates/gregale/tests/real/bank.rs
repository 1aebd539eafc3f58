//! Accounts and transfers in a replicated database: command-line clients that stay connected,
//! deaths of leaders, and the judge of what is there at the end.

use crate::copies::{leader, pid_of, program, sockets};
use crate::support::{Cluster, Ends, PATIENCE, signal, wait_until, wait_within};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 5;
const BALANCE: i64 = 1000;

/// The most transfers of one client: a member that comes back executes all of them.
const TRANSFERS_MAX: u64 = 25;

/// The tables, in words that all databases know.
pub(crate) fn tables() -> String {
    let accounts = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})"));
    let accounts: Vec<String> = accounts.collect();
    format!(
        "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL); \
         CREATE TABLE transfer (id VARCHAR(20) PRIMARY KEY, source INT, target INT, amount INT); \
         INSERT INTO account VALUES {};",
        accounts.join(", ")
    )
}

/// A command-line client that stays connected. It ends at the first error.
pub(crate) struct Session {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) fn start(client: &mut Command) -> Session {
        let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut client = client.spawn().unwrap();
        let (input, output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        Session { client, input, output: BufReader::new(output) }
    }

    /// The rows of statements, which come behind the others' effects; none if the client has ended.
    pub(crate) fn ask(&mut self, statements: &str) -> Option<Vec<String>> {
        writeln!(self.input, "{statements} SELECT 'over';").ok()?;
        let mut rows = Vec::new();
        loop {
            let mut row = String::new();
            self.output.read_line(&mut row).ok().filter(|n| *n > 0)?;
            match row.trim_end() {
                "over" => return Some(rows),
                row => rows.push(row.to_owned()),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// The ways to a database.
pub(crate) trait Database: Sync {
    /// What a transfer begins with, behind `BEGIN`.
    fn lock(&self) -> &'static str {
        ""
    }

    /// A client that logs in at a member's port.
    fn log_in(&self, port: u16) -> Session;

    /// What the copy at this socket holds, by the program's own tool, which its member takes no
    /// part in.
    fn dump(&self, socket: &Path) -> String;
}

/// What each copy holds, once none has anything left to execute.
pub(crate) fn dumps(database: &impl Database, cluster: &Cluster) -> Vec<String> {
    wait_until("the copies to be level", || crate::unmodified::are_level(cluster));
    sockets(cluster).iter().map(|socket| database.dump(socket)).collect()
}

/// What all copies hold alike. A failure names the lines that one copy has and another has not, or
/// the order in which they stand.
pub(crate) fn dump_of_all(database: &impl Database, cluster: &Cluster) -> String {
    let mut dumps = dumps(database, cluster);
    let first = dumps.swap_remove(0);
    if let Some(other) = dumps.into_iter().find(|other| *other != first) {
        let only = |of: &str, other: &str| {
            let there: BTreeSet<&str> = other.lines().collect();
            of.lines().filter(|line| !there.contains(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        let (here, there) = (only(&first, &other), only(&other, &first));
        let at = first.lines().zip(other.lines()).position(|(one, other)| one != other);
        let around = at.unwrap_or(0).saturating_sub(2);
        let of = |dump: &str| {
            dump.lines().skip(around).take(12).map(str::to_owned).collect::<Vec<_>>().join("\n")
        };
        panic!(
            "the copies differ from line {at:?}: one alone has {here:?}, the other {there:?}\n\
             {}\n--- the other:\n{}",
            of(&first),
            of(&other)
        );
    }
    first
}

/// Transfers while leaders die are applied once each, at all copies alike. `stranger` has the wrong
/// password; a dump says `rows` before the transfers.
pub(crate) fn survives_its_leaders<D: Database>(
    mut cluster: Cluster,
    clerk: &D,
    stranger: &D,
    rows: &str,
) {
    let session = &mut stranger.log_in(cluster.port_of(2));
    assert!(session.ask("").is_none(), "a password is asked for");
    let acknowledged = transfer_while_leaders_die(clerk, &cluster, 2);
    judge(&mut clerk.log_in(cluster.port_of(3)), acknowledged);
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{verdicts}");
    assert!(verdicts["agreed_at"].as_u64() > Some(0), "{verdicts}");
    assert!(dump_of_all(clerk, &cluster).contains(rows), "they hold something");
    assert_eq!(cluster.stop(), Some(0));
}

/// A session at a member's port, once it lets clients in.
fn session(database: &impl Database, port: u16) -> Session {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut session = database.log_in(port);
        if session.ask("").is_some() {
            return session;
        }
        assert!(Instant::now() < end, "nobody can log in at port {port}");
        std::thread::yield_now();
    }
}

/// A transfer and its statements: the lower account first, so that no two wait for each other.
struct Transfer {
    id: String,
    source: u64,
    target: u64,
    amount: i64,
}

impl Transfer {
    fn numbered(client: u64, n: u64) -> Transfer {
        let source = (client + n) % ACCOUNTS;
        let target = (source + 1 + n % (ACCOUNTS - 1)) % ACCOUNTS;
        Transfer { id: format!("{client}-{n}"), source, target, amount: (n % 7) as i64 + 1 }
    }

    fn statements(&self, lock: &str) -> String {
        let Transfer { id, source, target, amount } = self;
        let mut changes = [(source, -amount), (target, *amount)];
        changes.sort_unstable();
        let [first, second] = changes.map(|(account, by)| {
            format!("UPDATE account SET balance = balance + ({by}) WHERE id = {account};")
        });
        format!(
            "BEGIN; {lock} INSERT INTO transfer VALUES ('{id}', {source}, {target}, {amount}); \
             {first} {second} COMMIT;"
        )
    }

    /// Makes it, if it takes several connections.
    fn make<D: Database>(
        &self,
        database: &D,
        port: u16,
        session: &mut Session,
        mut breaks: impl FnMut(),
    ) {
        let sought = format!("SELECT id FROM transfer WHERE id = '{}';", self.id);
        let statements = self.statements(database.lock());
        let mut is_there = session.ask(&statements).is_some();
        while !is_there {
            breaks();
            *session = self::session(database, port);
            // What was said on the connection before is over, since it has ended in the order.
            let Some(found) = session.ask(&sought) else { continue };
            is_there = found == [&*self.id] || session.ask(&statements).is_some();
        }
    }
}

/// Clients of all members transfer while leaders are killed. Returns the transfers that were
/// acknowledged.
fn transfer_while_leaders_die(
    database: &impl Database,
    cluster: &Cluster,
    rounds: u16,
) -> Vec<String> {
    let is_over = AtomicBool::new(false);
    let kills = Mutex::new([0u32; 3]);
    let ports = [1, 2, 3].map(|id| cluster.port_of(id));
    let client = |number: u64| {
        let at = number as usize % 3;
        let mut session = session(database, ports[at]);
        let (mut done, mut n_breaks) = (Vec::new(), 0);
        for n in 0..TRANSFERS_MAX {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let transfer = Transfer::numbered(number, n);
            transfer.make(database, ports[at], &mut session, || {
                n_breaks += 1;
                let killed = kills.lock().unwrap()[at];
                assert!(n_breaks <= killed, "client {number} was cut off by a survivor");
            });
            done.push(transfer.id);
        }
        done
    };
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let client = &client;
        let clients: Vec<_> = (0..6).map(|number| scope.spawn(move || client(number))).collect();
        for round in 0..rounds {
            let victim = leader(cluster, round % 3 + 1);
            let pid = pid_of(cluster, victim % 3 + 1, victim);
            kills.lock().unwrap()[usize::from(victim) - 1] += 1;
            signal(pid, "KILL");
            drop(session(database, cluster.port_of(victim)));
        }
        drop(ends);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// The longest time for some checkpoints, on a busy machine.
pub(crate) const CHECKPOINTS_WITHIN: Duration = Duration::from_secs(240);

/// Clients of all members transfer until so many more checkpoints have counted. Returns the
/// transfers that were acknowledged; `round` tells them from others'.
fn transfer_past_checkpoints(
    database: &impl Database,
    cluster: &Cluster,
    (round, more): (u64, u64),
) -> Vec<String> {
    let n_checkpoints = || program(cluster, 1, 1)["checkpoints"].as_u64().unwrap_or(0);
    let is_over = AtomicBool::new(false);
    let ports = [1, 2, 3].map(|id| cluster.port_of(id));
    let client = |number: u64| {
        let port = ports[number as usize % 3];
        let mut session = session(database, port);
        let mut done = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let transfer = Transfer::numbered(round * 10 + number, done.len() as u64);
            transfer.make(database, port, &mut session, || {});
            done.push(transfer.id);
        }
        done
    };
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let client = &client;
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || client(number))).collect();
        let least = n_checkpoints() + more;
        wait_within(CHECKPOINTS_WITHIN, "checkpoints", || n_checkpoints() >= least);
        drop(ends);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// The entries before the beginning of a member's copy, once it executes nothing any longer.
pub(crate) fn began_at(cluster: &Cluster, id: u16) -> u64 {
    let mut began_at = 0;
    wait_until("the copy to be level", || {
        let of = program(cluster, id % 3 + 1, id);
        began_at = of["began_at"].as_u64().unwrap_or(0);
        of["executed"].as_u64() > Some(began_at) && of["waiting_bytes"] == 0
    });
    began_at
}

/// Copies are saved by their files while clients transfer. Then all members die at once, and after
/// that one dies with its disk, of which `lose` takes the data and gives it a new incarnation: each
/// begins with a checkpoint, and has every acknowledged transfer once.
pub(crate) fn begins_with_its_files<D: Database>(
    mut cluster: Cluster,
    clerk: &D,
    lose: impl FnOnce(&Cluster, u16),
) {
    let mut acknowledged = transfer_past_checkpoints(clerk, &cluster, (0, 2));
    let pids: Vec<u32> = (1..=3).map(|id| pid_of(&cluster, 1, id)).collect();
    cluster.kill_all(&pids, || {});
    cluster.start_again();
    judge(&mut session(clerk, cluster.port_of(2)), acknowledged.clone());
    for id in 1..=3 {
        let began_at = began_at(&cluster, id);
        assert!(began_at > 0, "member {id} has executed everything");
    }
    acknowledged.extend(transfer_past_checkpoints(clerk, &cluster, (1, 1)));
    lose(&cluster, 2);
    judge(&mut session(clerk, cluster.port_of(2)), acknowledged);
    let began_at = began_at(&cluster, 2);
    assert!(began_at > 0, "member 2 has executed everything");
    for id in 1..=3 {
        let of = program(&cluster, id, id);
        let verdicts = &of["verdicts"];
        assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{of}");
        println!("copy {id}: {of}");
    }
    dump_of_all(clerk, &cluster);
    assert_eq!(cluster.stop(), Some(0));
}

/// Each acknowledged transfer was applied once, no other was, and no money was made or lost.
fn judge(session: &mut Session, mut acknowledged: Vec<String>) {
    let mut balances: BTreeMap<u64, i64> = (0..ACCOUNTS).map(|id| (id, BALANCE)).collect();
    let mut there = Vec::new();
    for row in session.ask("SELECT id, source, target, amount FROM transfer;").unwrap() {
        let [id, source, target, amount] = row.split(['\t', '|']).collect::<Vec<_>>()[..] else {
            panic!("a transfer: {row}");
        };
        let amount: i64 = amount.parse().unwrap();
        *balances.get_mut(&source.parse().unwrap()).unwrap() -= amount;
        *balances.get_mut(&target.parse().unwrap()).unwrap() += amount;
        there.push(id.to_owned());
    }
    there.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(there, acknowledged);
    let rows = session.ask("SELECT id, balance FROM account ORDER BY id;").unwrap();
    let expected: Vec<_> = balances.iter().map(|(id, balance)| (*id, *balance)).collect();
    let found: Vec<(u64, i64)> = rows
        .iter()
        .map(|row| {
            let (id, balance) = row.split_once(['\t', '|']).unwrap();
            (id.parse().unwrap(), balance.parse().unwrap())
        })
        .collect();
    assert_eq!(found, expected);
    println!("{} transfers", there.len());
}
