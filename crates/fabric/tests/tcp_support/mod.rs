//! Members of one group over TCP, in one thread: the common part of this provider's tests.
#![allow(dead_code, unreachable_pub)] // each test program uses a part of it

use base::{At, Event, Inbox, Incarnation, Outcome, Port, Rank, Token};
use fabric::conformance::child::{self, Child};
use fabric::tcp::{LinkStatus, TcpFabric};
use fabric::{Fabric, Setup};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time to wait for an event that must happen.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub const N_WORDS: u32 = fabric::conformance::N_WORDS;

/// An owned [`Event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    Written(Token),
    Read(Token, Vec<u64>),
    Before(Token, u64),
    Refused(Token),
    Unknown(Token),
    Message(Rank, Vec<u8>),
    Failed(Rank),
    Down(Rank),
    Up(Rank),
}

impl Happening {
    fn of(event: Event<'_>) -> Happening {
        match event {
            Event::Completed { token, outcome, .. } => match outcome {
                Outcome::Written => Happening::Written(token),
                Outcome::Read(words) => Happening::Read(token, words.to_vec()),
                Outcome::Before(word) => Happening::Before(token, word),
                Outcome::Refused => Happening::Refused(token),
                Outcome::Unknown => Happening::Unknown(token),
            },
            Event::Message { from, bytes } => Happening::Message(from, bytes.to_vec()),
            Event::ProcessFailed(rank) => Happening::Failed(rank),
            Event::LinkDown(rank) => Happening::Down(rank),
            Event::LinkUp(rank) => Happening::Up(rank),
        }
    }
}

/// A member: its fabric, and its reports that were not taken yet.
pub struct Member {
    pub fabric: TcpFabric,
    pub log: VecDeque<Happening>,
    inbox: Inbox,
}

impl Member {
    pub fn new(fabric: TcpFabric) -> Member {
        Member { fabric, log: VecDeque::new(), inbox: Inbox::new() }
    }

    pub fn poll(&mut self) {
        self.inbox.clear();
        self.fabric.poll(&mut self.inbox);
        self.log.extend(self.inbox.iter().map(Happening::of));
    }

    pub fn link(&self, rank: Rank) -> LinkStatus {
        self.fabric.links().nth(rank.index()).expect("one row a member")
    }

    /// Takes everything that was reported so far.
    pub fn take(&mut self) -> Vec<Happening> {
        self.log.drain(..).collect()
    }
}

/// The place of a group: its regions are removed with it.
pub struct Place {
    pub directory: TempDir,
    /// The listening sockets of the members that live in this process. The test keeps them, as
    /// `gregale up` does, so that an address survives its member.
    listeners: Vec<Mutex<Option<TcpListener>>>,
    /// The number of memories that each member has had, by rank.
    incarnations: Vec<AtomicU64>,
    /// The address of each member.
    pub addresses: Vec<SocketAddr>,
}

impl Place {
    pub fn new(members: usize) -> Place {
        let address = own_loopback_address();
        let bind = |_| TcpListener::bind((address, 0)).unwrap();
        let listeners: Vec<_> = (0..members).map(bind).collect();
        Place {
            directory: tempfile::tempdir_in("/dev/shm").unwrap(),
            addresses: listeners.iter().map(|listener| listener.local_addr().unwrap()).collect(),
            listeners: listeners.into_iter().map(|listener| Mutex::new(Some(listener))).collect(),
            incarnations: (0..members).map(|_| AtomicU64::new(1)).collect(),
        }
    }

    pub fn setup(&self, me: usize) -> Setup {
        let incarnation = self.incarnations[me].load(Ordering::SeqCst);
        setup(self.directory.path(), me, self.addresses.len(), incarnation)
    }

    /// Gives `me` new memory from now on.
    pub fn reincarnate(&self, me: usize) {
        self.incarnations[me].fetch_add(1, Ordering::SeqCst);
    }

    pub fn listener(&self, me: usize) -> TcpListener {
        let listener = self.listeners[me].lock().unwrap();
        listener.as_ref().expect("a member of this process").try_clone().unwrap()
    }

    pub fn create_as(&self, setup: &Setup) -> Member {
        let listener = self.listener(setup.me.index());
        Member::new(TcpFabric::create(setup, listener, &self.addresses).unwrap())
    }

    pub fn create(&self, me: usize) -> Member {
        self.create_as(&self.setup(me))
    }

    /// Opens a member again, with the memory of its last life.
    pub fn attach(&self, me: usize) -> Member {
        let listener = self.listener(me);
        Member::new(TcpFabric::attach(&self.setup(me), listener, &self.addresses).unwrap())
    }

    /// Starts member `me` in a process of its own: this test program again, with only the test
    /// named `test`, which must start with [`serve_if_child`].
    pub fn spawn(&self, me: usize, test: &str) -> Child {
        *self.listeners[me].lock().unwrap() = None;
        let addresses: Vec<_> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let directory = self.directory.path().to_str().expect("a plain path");
        let incarnation = self.setup(me).incarnation.0;
        let place = format!("{directory} {me} {incarnation} {}", addresses.join(" "));
        Child::of_this_program(test, &place)
    }
}

/// Serves until killed, and does not return, if this process was started by [`Place::spawn`].
pub fn serve_if_child() {
    let Some(place) = child::place() else { return };
    let mut parts = place.split(' ');
    let directory = parts.next().unwrap();
    let me: usize = parts.next().unwrap().parse().unwrap();
    let incarnation: u64 = parts.next().unwrap().parse().unwrap();
    let addresses: Vec<SocketAddr> = parts.map(|address| address.parse().unwrap()).collect();
    let setup = setup(Path::new(directory), me, addresses.len(), incarnation);
    child::serve(open(&setup, TcpListener::bind(addresses[me]).unwrap(), &addresses));
    std::process::exit(0);
}

/// Opens a member, with the memory of an earlier life if there is any.
pub fn open(setup: &Setup, listener: TcpListener, addresses: &[SocketAddr]) -> TcpFabric {
    let region = setup.directory.join(format!("node-{}.region", setup.me.member()));
    let open = if region.exists() { TcpFabric::attach } else { TcpFabric::create };
    open(setup, listener, addresses).unwrap_or_else(|error| panic!("{error}"))
}

pub fn setup(directory: &Path, me: usize, members: usize, incarnation: u64) -> Setup {
    Setup {
        cluster: "tcp-test".into(),
        secret: b"a secret of the test".to_vec(),
        me: Rank::at(me),
        members,
        incarnation: Incarnation(incarnation),
        directory: directory.to_owned(),
        layout: 7,
        rules: 0,
        n_words: N_WORDS,
    }
}

/// An address of this host that no other test uses, so that a child can bind a port again before
/// another process takes it.
fn own_loopback_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1); // 0 after 255 places
    let pid = std::process::id();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    assert_ne!(last, 0, "more places than one program has addresses for");
    IpAddr::V4(Ipv4Addr::new(127, 1 + (pid >> 8) as u8 % 250, pid as u8, last))
}

/// Polls all of them until `done`, or panics with their reports.
#[track_caller]
pub fn until(
    members: &mut [&mut Member],
    what: &str,
    mut done: impl FnMut(&[&mut Member]) -> bool,
) {
    let end = Instant::now() + DEADLINE;
    let mut rounds = 0;
    loop {
        members.iter_mut().for_each(|member| member.poll());
        if done(members) {
            return;
        }
        if Instant::now() > end {
            let logs: Vec<_> = members.iter().map(|m| (&m.fabric, &m.log)).collect();
            panic!("not within {DEADLINE:?}: {what}; {logs:#?}");
        }
        // Long waits (the kernel's time-outs) need not use a whole core.
        rounds += 1;
        if rounds < 20_000 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Polls both until each has reported the link to the other, and takes these reports.
#[track_caller]
pub fn meet(a: &mut Member, b: &mut Member) {
    let ranks = (me(a), me(b));
    until(&mut [a, b], "the link", |members| {
        members[0].log.contains(&Happening::Up(ranks.1))
            && members[1].log.contains(&Happening::Up(ranks.0))
    });
    a.log.retain(|happening| *happening != Happening::Up(ranks.1));
    b.log.retain(|happening| *happening != Happening::Up(ranks.0));
}

pub fn me(member: &Member) -> Rank {
    let own = member.fabric.links().find(|link| link.state == fabric::tcp::LinkState::Own);
    own.expect("everybody is somebody").rank
}

pub fn rank(position: usize) -> Rank {
    Rank::at(position)
}

/// Posts some verbs of every kind on words 0 to 9 of `to`, from a poster whose tokens start at
/// `token`; returns the expected completions.
pub fn post_some(member: &mut Member, to: Rank, token: u64, seed: u64) -> Vec<Happening> {
    let t = |n| Token(token + n);
    let fabric = &mut member.fabric;
    fabric.write(to, At(0), &[seed, seed + 1, seed + 2], Some(t(0)));
    fabric.cas(to, At(1), seed + 1, seed + 9, Some(t(1)));
    fabric.cas(to, At(2), seed, 0, Some(t(2)));
    fabric.write(to, At(3), &[seed], None);
    fabric.fetch_add(to, At(3), 5, Some(t(3)));
    fabric.fetch_add(to, At(3), 6, None);
    fabric.read(to, At(0), 4, t(4));
    vec![
        Happening::Written(t(0)),
        Happening::Before(t(1), seed + 1),
        Happening::Before(t(2), seed + 2),
        Happening::Before(t(3), seed),
        Happening::Read(t(4), vec![seed, seed + 9, seed + 2, seed + 11]),
    ]
}
