//! Clients outside of a group: they call its objects by way of members, which come and go.

use group::{
    Access, CallError, Clients, Ended, HistoryError, NoReply, Options, Persistent, Remote,
    RemoteError, Replica, Replicas, Subgroup, Time, replicated,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[path = "common/memory.rs"]
mod memory;
use memory::directory;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(directory: &Path) -> Options {
    memory::options("tills", directory, PATIENCE)
}

#[derive(Default, Serialize, Deserialize)]
struct Stock {
    pieces: Persistent<BTreeMap<String, u64>>,
}

#[replicated]
impl Stock {
    #[ordered]
    fn deliver(&mut self, article: String, n: u64) -> u64 {
        let mut pieces = self.pieces.change();
        let held = pieces.entry(article).or_default();
        *held += n;
        *held
    }

    #[query]
    fn left(&self, article: String) -> u64 {
        self.pieces.get(&article).copied().unwrap_or(0)
    }

    #[temporal]
    fn left_then(&self, then: Time, article: String) -> Result<u64, HistoryError> {
        Ok(self.pieces.at(then)?.get(&article).copied().unwrap_or(0))
    }
}

/// Another program's object.
#[derive(Default, Serialize, Deserialize)]
struct Other;

#[replicated]
impl Other {
    #[ordered]
    fn deliver(&mut self, n: u64) -> u64 {
        n
    }
}

/// A result of which a field is not always serialized.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Slip {
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    n: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Slips(u64);

#[replicated]
impl Slips {
    #[ordered]
    fn print(&mut self) -> Slip {
        self.0 += 1;
        Slip { by: None, n: self.0 }
    }

    #[query]
    fn printed(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_result_that_cannot_be_read_is_said_to_be_of_a_call_that_was_executed() {
    let directory = directory();
    let member = Replica::found(&options(directory.path()), Slips::default()).unwrap();
    let door = member.serve_clients(listener()).unwrap();
    let slips = SlipsHandle::from(member.clone());
    assert_eq!(slips.print().wait(), Err(CallError::ResultUnreadable));
    let each = slips.print_each().all().unwrap();
    assert_eq!(each, [(slips.me(), Err(NoReply::Unreadable))]);
    let remote = SlipsRemote::from(Remote::connect(&access(&[&door])).unwrap());
    assert_eq!(remote.print(), Err(RemoteError::ResultUnreadable));
    assert_eq!(slips.printed(), Ok(3), "each of the calls was executed");
    let told = CallError::ResultUnreadable.to_string();
    assert!(told.starts_with("executed, "), "{told}");
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn access(clients: &[&Clients]) -> Access {
    Access {
        members: clients.iter().map(|one| one.address()).collect(),
        group: "tills".into(),
        secret: "sesame".into(),
        subgroup: String::new(),
        patience: PATIENCE,
    }
}

#[test]
fn a_client_calls_and_asks_by_way_of_any_member_and_changes_over_when_one_is_gone() {
    let directory = directory();
    let options = options(directory.path());
    let mut members = vec![Replica::found(&options, Stock::default()).unwrap()];
    members.extend((0..2).map(|_| Replica::join(&options).unwrap()));
    let mut doors: Vec<Clients> =
        members.iter().map(|member| member.serve_clients(listener()).unwrap()).collect();
    let access = access(&doors.iter().collect::<Vec<_>>());
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    let kite = || "kite".to_owned();
    assert_eq!((remote.deliver(kite(), 3), remote.left(kite())), (Ok(3), Ok(3)));
    let then = remote.latest();
    assert_eq!(remote.deliver(kite(), 4), Ok(7));
    assert_eq!(remote.left_then(then, kite()), Ok(Ok(3)));
    assert_eq!(remote.left_ordered(kite()), Ok(7));
    // Several at a time: each clone has a connection of its own.
    thread::scope(|scope| {
        for _ in 0..4 {
            let remote = remote.clone();
            scope.spawn(move || {
                (0..50).for_each(|_| assert!(remote.deliver("tail".into(), 1).is_ok()));
            });
        }
    });
    assert_eq!(remote.left_ordered("tail".into()), Ok(200));
    // The member that it is connected to is gone: a query is asked of another one.
    drop((doors.remove(0), members.remove(0)));
    assert_eq!(remote.left_ordered(kite()), Ok(7));
    assert_eq!((remote.deliver(kite(), 1), remote.left_then(then, kite())), (Ok(8), Ok(Ok(3))));
}

#[test]
fn strangers_are_refused_by_name() {
    let directory = directory();
    let member = Replica::found(&options(directory.path()), Stock::default()).unwrap();
    let door = member.serve_clients(listener()).unwrap();
    let access = access(&[&door]);
    let refused = |access: &Access| Remote::<Stock>::connect(access).unwrap_err().to_string();
    let other = Access { secret: "open".into(), ..access.clone() };
    assert!(refused(&other).contains("another secret"), "{}", refused(&other));
    let other = Access { group: "fills".into(), ..access.clone() };
    assert!(refused(&other).contains("\"tills\""), "{}", refused(&other));
    let methods = Remote::<Other>::connect(&access).unwrap_err().to_string();
    assert!(methods.contains("ordereddeliver") || methods.contains("deliver(u64)"), "{methods}");
    let nobody = Access { members: Vec::new(), ..access.clone() };
    assert!(refused(&nobody).contains("no address"));
    // One that says something else is not answered, and harms no other.
    let mut stranger = TcpStream::connect(door.address()).unwrap();
    stranger.write_all(&[0xff; 64]).unwrap();
    let mut rest = Vec::new();
    let _ends = stranger.read_to_end(&mut rest);
    assert!(rest.len() <= 32, "a nonce, and no more");
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    assert_eq!(remote.deliver("kite".into(), 1), Ok(1));
}

#[test]
fn what_a_member_did_not_answer_is_unknown_and_nothing_is_called_twice() {
    let directory = directory();
    let options = Options { patience: Duration::from_millis(300), ..options(directory.path()) };
    let options = Options { adequate: 2, ..options };
    let member = Replica::found(&options, Stock::default()).unwrap();
    let door = member.serve_clients(listener()).unwrap();
    let access = Access { patience: Duration::from_millis(500), ..access(&[&door]) };
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    let error = remote.deliver("kite".into(), 1).unwrap_err();
    assert!(matches!(error, RemoteError::NotExecuted(_)), "{error:?}");
    assert_eq!(remote.left("kite".into()), Ok(0));
    drop(door);
    let remote = Remote::<Stock>::clone(&remote);
    let gone = StockRemote::from(remote).left("kite".into());
    assert!(matches!(gone, Err(RemoteError::NotExecuted(_))), "{gone:?}");
}

/// A way to `member` that resets a connection in place of the next answer, once `resets` is set.
fn resetting(member: SocketAddr, resets: Arc<AtomicBool>) -> SocketAddr {
    let way = listener();
    let address = way.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((client, _)) = way.accept() {
            let resets = Arc::clone(&resets);
            thread::spawn(move || carry(client, TcpStream::connect(member).unwrap(), &resets));
        }
    });
    address
}

fn carry(mut client: TcpStream, mut member: TcpStream, resets: &Arc<AtomicBool>) {
    let (mut from, mut to) = (member.try_clone().unwrap(), client.try_clone().unwrap());
    let is_over = Arc::clone(resets);
    let answers = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if is_over.load(Ordering::SeqCst) || to.write_all(&bytes[..n]).is_err() {
                return;
            }
        }
    });
    let mut bytes = [0; 4096];
    let mut n_sent = 0;
    while let Ok(n @ 1..) = client.peek(&mut bytes) {
        if resets.load(Ordering::SeqCst) {
            // What was not taken makes the end of the connection a reset.
            member.write_all(&bytes[n_sent..n]).unwrap();
            n_sent = n;
            if answers.is_finished() {
                resets.store(false, Ordering::SeqCst);
                return;
            }
            thread::yield_now();
        } else {
            client.read_exact(&mut bytes[..n]).unwrap();
            member.write_all(&bytes[..n]).unwrap();
        }
    }
}

#[test]
fn q3_a_call_whose_connection_is_reset_is_unknown_and_not_made_again() {
    let directory = directory();
    let member = Replica::found(&options(directory.path()), Stock::default()).unwrap();
    let door = member.serve_clients(listener()).unwrap();
    let resets = Arc::new(AtomicBool::new(false));
    let mut access = access(&[&door]);
    access.members.insert(0, resetting(door.address(), Arc::clone(&resets)));
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    assert_eq!(remote.deliver("kite".into(), 2), Ok(2));
    resets.store(true, Ordering::SeqCst);
    let error = remote.deliver("kite".into(), 3).unwrap_err();
    assert!(matches!(error, RemoteError::Unknown(_)), "{error:?}");
    assert!(!resets.load(Ordering::SeqCst), "the member had answered");
    assert_eq!(remote.left_ordered("kite".into()), Ok(5), "it was executed once");
}

/// Members of one group, and their doors for clients.
fn members_with_doors(directory: &Path, n: usize) -> (Vec<Replica<Stock>>, Vec<Clients>) {
    let options = options(directory);
    let mut members = vec![Replica::found(&options, Stock::default()).unwrap()];
    members.extend((1..n).map(|_| Replica::join(&options).unwrap()));
    for member in &members {
        // (What it asks of its handle is no matter for the wait.)
        let is_whole = |view: &group::View| view.members.len() == n && member.seats().len() == n;
        member.wait_view(is_whole, PATIENCE).expect("all are there");
    }
    let doors = members.iter().map(|member| member.serve_clients(listener()).unwrap()).collect();
    (members, doors)
}

#[test]
fn q4_the_clients_of_a_member_that_was_excluded_ask_another_one() {
    let directory = directory();
    let (members, doors) = members_with_doors(directory.path(), 3);
    let access = access(&doors.iter().collect::<Vec<_>>());
    let connected = || StockRemote::from(Remote::connect(&access).unwrap());
    let remotes = [connected(), connected()];
    assert_eq!(remotes[0].deliver("kite".into(), 1), Ok(1));
    members[1].suspect(members[0].me().seat);
    assert_eq!(members[0].wait_end(PATIENCE), Some(Ended::Excluded));
    assert_eq!(remotes[0].deliver("kite".into(), 1), Ok(2), "it is not executed where it is asked");
    assert_eq!(remotes[1].left_ordered("kite".into()), Ok(2));
    assert_eq!(connected().deliver("kite".into(), 1), Ok(3), "nor is a newcomer welcomed there");
    let alone = Access { members: access.members[..1].to_vec(), ..access.clone() };
    let alone = Access { patience: Duration::from_millis(500), ..alone };
    let refused = Remote::<Stock>::connect(&alone).unwrap_err().to_string();
    assert!(refused.contains("not in its group"), "{refused}");
}

#[test]
fn q2_a_full_member_sends_clients_elsewhere() {
    let directory = directory();
    let (_members, doors) = members_with_doors(directory.path(), 2);
    let first = Access { patience: Duration::from_millis(500), ..access(&[&doors[0]]) };
    let full: Vec<Remote<Stock>> = (0..256).map(|_| Remote::connect(&first).unwrap()).collect();
    let refused = Remote::<Stock>::connect(&first).unwrap_err().to_string();
    assert!(refused.contains("serves 256 clients already"), "{refused}");
    let remote = StockRemote::from(Remote::connect(&access(&[&doors[0], &doors[1]])).unwrap());
    assert_eq!(remote.deliver("kite".into(), 1), Ok(1));
    drop(full);
    Remote::<Stock>::connect(&access(&[&doors[0]])).expect("there is room again");
}

#[test]
fn q2_strangers_keep_no_client_out() {
    let directory = directory();
    let (_members, doors) = members_with_doors(directory.path(), 1);
    let access = Access { patience: Duration::from_secs(20), ..access(&[&doors[0]]) };
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    // They say that a long hello comes, and are never silent for long.
    let strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(doors[0].address()).unwrap()).collect();
    let say = |bytes: &[u8]| {
        for mut stranger in &strangers {
            let _gone = stranger.write_all(bytes);
        }
    };
    say(&1000_u32.to_le_bytes());
    let is_over = AtomicBool::new(false);
    let other = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                say(&[1]);
                thread::park_timeout(Duration::from_millis(500));
            }
        });
        let other = Remote::connect(&access);
        is_over.store(true, Ordering::SeqCst);
        StockRemote::from(other.unwrap())
    });
    assert_eq!((remote.deliver("kite".into(), 1), other.deliver("kite".into(), 1)), (Ok(1), Ok(2)));
    // The eldest have made room for others.
    let (mut eldest, mut rest) = (&strangers[0], Vec::new());
    eldest.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ends = eldest.read_to_end(&mut rest);
    assert!(rest.len() <= 32, "a nonce, and no more");
}

/// Q2: what counts is the whole of a hello, and not each of its bytes.
#[test]
fn q2_a_hello_that_comes_byte_by_byte_is_cut_off() {
    let directory = directory();
    let (_members, doors) = members_with_doors(directory.path(), 1);
    let mut stranger = TcpStream::connect(doors[0].address()).unwrap();
    stranger.write_all(&1_000_000_u32.to_le_bytes()).unwrap();
    let (is_over, ends) = (Arc::new(AtomicBool::new(false)), stranger.try_clone().unwrap());
    let over = Arc::clone(&is_over);
    let end = thread::spawn(move || {
        ends.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = (&ends).read_to_end(&mut Vec::new()).is_ok();
        over.store(true, Ordering::SeqCst);
        ended
    });
    // A byte now and then, for longer than a silence is borne.
    while !is_over.load(Ordering::SeqCst) {
        let _gone = stranger.write_all(&[1]);
        thread::park_timeout(Duration::from_millis(200));
    }
    assert!(end.join().unwrap(), "it was closed, and not given up by its reader");
}

#[test]
fn a_client_calls_in_the_shard_of_a_key_whichever_member_it_knows() {
    let directory = directory();
    let layout = vec![Subgroup::new("stock").shards(2).members(1, 2)];
    let options = Options { layout, ..options(directory.path()) };
    let till = || Replicas::of(&options).object("stock", Stock::default);
    let objects = [till().found().unwrap(), till().join().unwrap()];
    let replicas: Vec<Replica<Stock>> =
        objects.iter().map(|one| one.get("stock").unwrap()).collect();
    let is_whole = |view: &group::View| view.shards.iter().all(|shard| shard.is_adequate);
    for replica in &replicas {
        replica.wait_view(is_whole, PATIENCE).expect("both are there");
        assert!(replica.wait_copy(PATIENCE));
    }
    let door = replicas[0].serve_clients(listener()).unwrap();
    let access = Access { subgroup: "stock".into(), ..access(&[&door]) };
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    let articles = ["kite", "string", "tail", "reel"].map(str::to_owned);
    let shards: Vec<usize> = articles.iter().map(|one| remote.shard_for(one)).collect();
    assert!(shards.contains(&0) && shards.contains(&1), "{shards:?}");
    for article in &articles {
        assert_eq!(remote.for_key(article).deliver(article.clone(), 2), Ok(2));
        assert_eq!(remote.for_key(article).left(article.clone()), Ok(2));
        let then = remote.latest();
        assert_eq!(remote.for_key(article).left_then(then, article.clone()), Ok(Ok(2)));
        assert_eq!(replicas[0].shard_for(article), remote.shard_for(article));
    }
}

/// A list whose query panics beyond its end.
#[derive(Default, Serialize, Deserialize)]
struct List(Vec<u8>);

#[replicated]
impl List {
    /// All of it, with so many more.
    #[ordered]
    fn grow(&mut self, n: usize) -> Vec<u8> {
        self.0.resize(self.0.len() + n, 7);
        self.0.clone()
    }

    #[query]
    fn nth(&self, n: usize) -> u8 {
        self.0[n]
    }

    #[query]
    fn all(&self) -> Vec<u8> {
        self.0.clone()
    }
}

/// A member with a list, its door, and a client.
fn list(directory: &Path) -> (ListHandle, Clients, ListRemote) {
    let member = Replica::found(&options(directory), List::default()).unwrap();
    let door = member.serve_clients(listener()).unwrap();
    let remote = ListRemote::from(Remote::connect(&access(&[&door])).unwrap());
    (member.into(), door, remote)
}

#[test]
fn a_client_whose_query_panics_is_told_so_and_keeps_its_connection() {
    let directory = directory();
    let (_member, _door, remote) = list(directory.path());
    for said in [remote.nth(9), remote.nth_ordered(9)] {
        let Err(RemoteError::NotAnswered(why)) = said else { panic!("{said:?}") };
        assert!(why.contains("panicked"), "{why}");
    }
    assert_eq!(remote.grow(1), Ok(vec![7]));
}

#[test]
fn a_client_is_told_of_a_result_that_is_too_long_for_it() {
    let directory = directory();
    let (member, _door, remote) = list(directory.path());
    let grown = remote.grow(2 << 20);
    assert!(matches!(grown, Err(RemoteError::Executed(_))), "{:?}", grown.map(|all| all.len()));
    assert_eq!(member.all().unwrap().len(), 2 << 20, "it was");
    let all = remote.all();
    assert!(matches!(all, Err(RemoteError::NotAnswered(_))), "{:?}", all.map(|all| all.len()));
    assert_eq!(remote.nth(5), Ok(7), "the connection is there");
}

#[test]
fn a_client_whose_first_member_hangs_is_served_by_the_second() {
    let directory = directory();
    let (_members, doors) = members_with_doors(directory.path(), 1);
    // (The kernel takes its connections.)
    let hangs = listener();
    let patience = Duration::from_secs(4);
    let mut access = Access { patience, ..access(&[&doors[0]]) };
    access.members.insert(0, hangs.local_addr().unwrap());
    let remote = StockRemote::from(Remote::connect(&access).unwrap());
    assert_eq!(remote.deliver("kite".into(), 1), Ok(1));
}
