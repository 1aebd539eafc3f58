//! One process of a group under measurement: the benchmark's own binary, started again.
//!
//! A worker reads a [`Spec`] and then [`Order`]s from its input and answers on its output, one JSON
//! line each. It ends with its input, so no worker outlives its parent.

mod client;
mod decide;
mod mail;
mod member;
pub mod order;
mod verbs;

use crate::child::say;
use crate::death::Victim;
use base::{Incarnation, Rank};
use fabric::tcp::{TcpFabric, sentinel};
use fabric::{HostFabric, Setup, shm::ShmFabric};
use mail::Mail;
use order::{Answer, FabricKind, Order, Part, Spec};
use proto::LogShape;
use proto::node::Layout;
use std::net::{SocketAddr, TcpListener};

/// The number of words of a region that only peers use.
const MEMORY_WORDS: u32 = 1 << 14;

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
    if let Ok(spec) = serde_json::from_str::<crate::multicast::worker::Spec>(&line) {
        return crate::multicast::worker::run(&spec);
    }
    if let Ok(spec) = serde_json::from_str::<crate::versions::spec::Spec>(&line) {
        return crate::versions::worker::run(&spec);
    }
    let spec: Spec = serde_json::from_str(&line)?;
    let mail = Mail::open()?;
    let setup = setup_of(&spec)?;
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
        FabricKind::Shm => play(HostFabric::Shm(ShmFabric::create(&setup)?), &spec, mail),
        FabricKind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            say(&Answer::Listening(listener.local_addr()?));
            let addresses = peers(&mail)?;
            let fabric = TcpFabric::create(&setup, listener, &addresses)?;
            play(HostFabric::Tcp(fabric), &spec, mail)
        }
    }
}

fn peers(mail: &Mail) -> Result<Vec<SocketAddr>, String> {
    match mail.wait() {
        Order::Peers(addresses) => Ok(addresses),
        other => Err(format!("expected the peers' addresses, not {other:?}")),
    }
}

fn play(fabric: HostFabric, spec: &Spec, mail: Mail) -> Result<(), Box<dyn std::error::Error>> {
    match spec.part {
        Part::Member => member::run(fabric, spec, mail),
        Part::Memory => verbs::run(fabric, spec, &mail),
        Part::Sentinel | Part::Victim => Err("it has no fabric".into()),
    }
}

fn setup_of(spec: &Spec) -> Result<Setup, String> {
    let layout = match spec.part {
        Part::Member | Part::Sentinel => {
            spec.protocol()?.layout(spec.members, &LogShape::default())
        }
        Part::Memory | Part::Victim => Layout { n_words: MEMORY_WORDS, fingerprint: 1 },
    };
    Ok(Setup {
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
        rules: 0,
        n_words: layout.n_words,
    })
}
