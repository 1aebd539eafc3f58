//! One process of a group under measurement: the benchmark's own binary, started again.
//!
//! A worker reads a [`Spec`] and then [`Order`]s from its input and answers on its output, one JSON
//! line each. It ends with its input, so no worker outlives its parent.

mod decide;
mod member;
pub mod order;
mod verbs;

use crate::death::Victim;
use base::{Incarnation, Rank};
use fabric::tcp::{TcpFabric, sentinel};
use fabric::{Setup, shm::ShmFabric};
use order::{Answer, FabricKind, Order, Part, Spec};
use proto::node::Layout;
use proto::registry::LogProtocol;
use proto::velos::Shape;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, ErrorKind, Stdin, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The number of words of a region that only peers use.
const MEMORY_WORDS: u32 = 1 << 14;

/// The parent's orders, read by the loop that carries them out: a thread for them would be one more
/// to end, on the survivors' processors, when a member is killed.
struct Mail {
    input: Stdin,
    /// The beginning of a line whose end has not arrived yet.
    line: RefCell<Vec<u8>>,
    look_at: Cell<base::Instant>,
}

/// The interval at which a loop looks for an order.
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Mail {
    /// The orders on the standard input from now on.
    fn open() -> std::io::Result<Mail> {
        let input = std::io::stdin();
        let flags = rustix::fs::fcntl_getfl(&input)?;
        rustix::fs::fcntl_setfl(&input, flags | OFlags::NONBLOCK)?;
        Ok(Mail { input, line: RefCell::default(), look_at: Cell::new(base::Instant::ZERO) })
    }

    /// The next order if there is one; only a comparison if it was looked for a moment ago.
    fn next(&self, now: base::Instant) -> Option<Order> {
        if now < self.look_at.get() {
            return None;
        }
        self.look_at.set(now.plus(LOOK_EVERY));
        self.read()
    }

    /// The next order. Ends the process when the parent has ended or closed the input.
    fn read(&self) -> Option<Order> {
        let mut line = self.line.borrow_mut();
        match self.input.lock().read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {
                let order = serde_json::from_slice(&line);
                line.clear();
                // More orders may have come with it.
                self.look_at.set(base::Instant::ZERO);
                Some(order.unwrap_or_else(|error| {
                    say(&Answer::Failed(format!("an order is not understood: {error}")));
                    std::process::exit(0)
                }))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(_) | Err(_) => std::process::exit(0),
        }
    }

    /// Waits for the next order, however long it takes.
    fn wait(&self) -> Order {
        loop {
            if let Some(order) = self.read() {
                return order;
            }
            // The input is looked at, whatever ended the wait.
            let _ready = poll(&mut [PollFd::new(&self.input, PollFlags::IN)], None);
        }
    }

    /// Starts a thread that ends this process when the parent has ended, for a worker that takes no
    /// more orders.
    fn outlive_nobody(self) {
        std::thread::spawn(move || {
            loop {
                self.wait();
            }
        });
    }
}

fn say(answer: &Answer) {
    let mut line = serde_json::to_string(answer).expect("an answer is plain data");
    line.push('\n');
    let mut out = std::io::stdout().lock();
    // If the parent is gone, no process reads this, and the input's end stops this one.
    let _gone = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Runs a worker until its input ends. The process does nothing else.
pub fn run() {
    if let Err(cause) = start() {
        say(&Answer::Failed(cause.to_string()));
    }
}

fn start() -> Result<(), Box<dyn std::error::Error>> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    if let Ok(spec) = serde_json::from_str::<crate::amcast::worker::Spec>(&line) {
        return crate::amcast::worker::run(&spec);
    }
    let spec: Spec = serde_json::from_str(&line)?;
    let mail = Mail::open()?;
    let setup = setup_of(&spec);
    if spec.part == Part::Sentinel {
        let addresses = peers(&mail)?;
        mail.outlive_nobody();
        let _verdict = sentinel::run(&setup, &addresses)?;
        return Ok(());
    }
    if spec.part == Part::Victim {
        let victim = Victim::begin(&spec.directory)?;
        if !victim.is_ready() {
            return Err("somebody else holds the locks of a new region".into());
        }
        mail.outlive_nobody();
        say(&Answer::Done);
        loop {
            std::hint::spin_loop();
        }
    }
    match spec.fabric {
        FabricKind::Shm => play(ShmFabric::create(&setup)?, &spec, &mail),
        FabricKind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            say(&Answer::Listening(listener.local_addr()?));
            let addresses = peers(&mail)?;
            play(TcpFabric::create(&setup, listener, &addresses)?, &spec, &mail)
        }
    }
}

fn peers(mail: &Mail) -> Result<Vec<SocketAddr>, String> {
    match mail.wait() {
        Order::Peers(addresses) => Ok(addresses),
        other => Err(format!("expected the peers' addresses, not {other:?}")),
    }
}

fn play<F: fabric::Fabric>(
    fabric: F,
    spec: &Spec,
    mail: &Mail,
) -> Result<(), Box<dyn std::error::Error>> {
    match spec.part {
        Part::Member => member::run(fabric, spec, mail),
        Part::Memory => verbs::run(fabric, spec, mail),
        Part::Sentinel | Part::Victim => Err("it has no fabric".into()),
    }
}

/// The sizes of the log.
const fn shape() -> Shape {
    Shape { ring_slots: 512, value_bytes: 8192 }
}

fn setup_of(spec: &Spec) -> Setup {
    let layout = match spec.part {
        Part::Member | Part::Sentinel => LogProtocol::Velos.layout(spec.members, &shape()),
        Part::Memory | Part::Victim => Layout { n_words: MEMORY_WORDS, fingerprint: 1 },
    };
    Setup {
        cluster: spec.cluster.clone(),
        // Regions are private files, and tcp groups live on loopback for seconds: the secret keeps
        // out stray processes of an earlier run, and the name alone does that.
        secret: spec.cluster.clone().into_bytes(),
        me: Rank::at(spec.me),
        members: spec.members,
        incarnation: Incarnation(1),
        directory: match spec.fabric {
            FabricKind::Shm => spec.directory.clone(),
            // As on separate hosts, no member sees another's file.
            FabricKind::Tcp => spec.directory.join(format!("host-{}", spec.me + 1)),
        },
        layout: layout.fingerprint,
        n_words: layout.n_words,
    }
}
