//! One process of a group under measurement: the benchmark's own binary, started again.
//!
//! A worker reads a [`Spec`] and then [`Order`]s from its input and answers on its output, a JSON
//! line each. It ends with its input, so no worker outlives its parent.

mod decide;
mod member;
pub mod order;
mod verbs;

use base::{Incarnation, Rank};
use fabric::tcp::{TcpFabric, sentinel};
use fabric::{Setup, shm::ShmFabric};
use order::{Answer, FabricKind, Order, Part, Spec};
use proto::node::{Layout, velos_layout};
use proto::velos::Shape;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Words of a region that is only acted upon.
const MEMORY_WORDS: u32 = 1 << 14;

/// The parent's orders: read by a thread of their own, so that a loop that measures need not look
/// at a descriptor to know that there is none.
struct Mail {
    orders: Receiver<Order>,
    waiting: Arc<AtomicBool>,
}

impl Mail {
    fn start() -> Mail {
        let (to, orders) = channel();
        let waiting = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(order) = line.map_err(|_| ()).and_then(|line| {
                    serde_json::from_str(&line).map_err(|error| {
                        say(&Answer::Failed(format!("an order is not understood: {error}")));
                    })
                }) else {
                    break;
                };
                if to.send(order).is_err() {
                    break;
                }
                flag.store(true, Ordering::Release);
            }
            // The parent is gone, or done with us.
            std::process::exit(0);
        });
        Mail { orders, waiting }
    }

    /// The next order if there is one; costs a load if not.
    fn next(&self) -> Option<Order> {
        if !self.waiting.load(Ordering::Relaxed) {
            return None;
        }
        let order = self.orders.try_recv().ok();
        if order.is_none() {
            self.waiting.store(false, Ordering::Relaxed);
            // One may have come between the two.
            return self.orders.try_recv().ok();
        }
        order
    }

    fn wait(&self) -> Option<Order> {
        self.orders.recv().ok()
    }
}

fn say(answer: &Answer) {
    let mut line = serde_json::to_string(answer).expect("an answer is plain data");
    line.push('\n');
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the parent is gone, and the input's end stops us.
    let _gone = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Runs a worker until its input ends. The process is its alone.
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
    let mail = Mail::start();
    let setup = setup_of(&spec);
    if spec.part == Part::Sentinel {
        let Some(addresses) = peers(&mail)? else { return Ok(()) };
        let _verdict = sentinel::run(&setup, &addresses)?;
        return Ok(());
    }
    match spec.fabric {
        FabricKind::Shm => play(ShmFabric::create(&setup)?, &spec, &mail),
        FabricKind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            say(&Answer::Listening(listener.local_addr()?));
            let Some(addresses) = peers(&mail)? else { return Ok(()) };
            play(TcpFabric::create(&setup, listener, &addresses)?, &spec, &mail)
        }
    }
}

fn peers(mail: &Mail) -> Result<Option<Vec<SocketAddr>>, String> {
    match mail.wait() {
        Some(Order::Peers(addresses)) => Ok(Some(addresses)),
        Some(other) => Err(format!("expected the peers' addresses, not {other:?}")),
        None => Ok(None),
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
        Part::Sentinel => Err("a sentinel has no fabric".into()),
    }
}

/// The measures of the log.
const fn shape() -> Shape {
    Shape { ring_slots: 512, value_bytes: 8192 }
}

fn setup_of(spec: &Spec) -> Setup {
    let layout = match spec.part {
        Part::Member | Part::Sentinel => velos_layout(spec.members, &shape()),
        Part::Memory => Layout { n_words: MEMORY_WORDS, fingerprint: 1 },
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
            // As on as many hosts: nobody sees another's file.
            FabricKind::Tcp => spec.directory.join(format!("host-{}", spec.me + 1)),
        },
        layout: layout.fingerprint,
        n_words: layout.n_words,
    }
}
