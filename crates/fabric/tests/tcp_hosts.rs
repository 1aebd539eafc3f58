//! Two hosts, as network namespaces with a cable between them that can be pulled.
//!
//! Needs root and `ip netns`; without them it reports the reason and passes.

mod tcp_support;

use base::{At, Port, Token};
use fabric::tcp::{LinkError, TcpFabric};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tcp_support::{DEADLINE, Happening, Member, post_some, rank, setup, until};

/// Two namespaces and a cable; gone when dropped.
struct Hosts {
    names: [String; 2],
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("cannot run ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Hosts {
    fn new() -> Result<Hosts, String> {
        let pid = std::process::id();
        let hosts = Hosts { names: [format!("gregale-{pid}-a"), format!("gregale-{pid}-b")] };
        let [a, b] = &hosts.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!("link add name cable netns {a} type veth peer name cable netns {b}"))?;
        for (name, address) in [(a, "10.77.0.1/24"), (b, "10.77.0.2/24")] {
            ip(&format!("-n {name} address add {address} dev cable"))?;
            ip(&format!("-n {name} link set cable up"))?;
        }
        Ok(hosts)
    }

    /// Both ends, since a veth whose other end is down still has its own address and route.
    fn cable(&self, state: &str) {
        for name in &self.names {
            ip(&format!("-n {name} link set cable {state}")).unwrap();
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that was never made cannot be deleted.
            let _never_made = ip(&format!("netns del {name}"));
        }
    }
}

/// A step of a host, in turn with the test.
struct Step {
    go: Sender<()>,
    done: Receiver<()>,
}

impl Step {
    fn wait(&self) {
        self.done.recv_timeout(3 * DEADLINE).expect("the host's thread has failed");
    }
}

/// Runs a member on a host of its own: its thread, and with it every socket that it opens, is moved
/// to the namespace. It keeps polling between the steps, as a member does.
fn on_host(
    name: &str,
    me: usize,
    addresses: &[SocketAddr],
    run: impl FnOnce(&mut Member, &mut dyn FnMut(&mut Member)) + Send + 'static,
) -> (thread::JoinHandle<()>, Step) {
    let (go, goes) = channel();
    let (tell, done) = channel();
    let (path, addresses) = (format!("/run/netns/{name}"), addresses.to_vec());
    let host = thread::spawn(move || {
        let namespace = File::open(path).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        // It has memory of its own, too: these hosts share nothing but the cable.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let setup = setup(directory.path(), me, addresses.len(), 1);
        let listener = TcpListener::bind(addresses[me]).unwrap();
        let fabric = TcpFabric::create(&setup, listener, &addresses).unwrap();
        let mut member = Member::new(fabric);
        let mut next = |member: &mut Member| {
            tell.send(()).unwrap();
            until(&mut [member], "the next step", |_| goes.try_recv().is_ok());
        };
        run(&mut member, &mut next);
        tell.send(()).unwrap();
    });
    (host, Step { go, done })
}

fn live(member: &mut Member, me: usize, next: &mut dyn FnMut(&mut Member)) {
    let peer = rank(1 - me);
    until(&mut [member], "the link", |members| members[0].log.contains(&Happening::Up(peer)));
    member.take();
    let expected = post_some(member, peer, 0, 100 + me as u64);
    until(&mut [member], "the completions", |members| members[0].log.len() == expected.len());
    assert_eq!(member.take(), expected);
    next(member);
    // The cable is pulled.
    member.fabric.fetch_add(peer, At(99), 1, Some(Token(50)));
    until(&mut [member], "the loss", |members| members[0].log.contains(&Happening::Down(peer)));
    assert_eq!(member.take(), [Happening::Unknown(Token(50)), Happening::Down(peer)]);
    let error = member.link(peer).last_error.expect("named");
    assert!(matches!(error, LinkError::Os { .. }), "nobody closed anything: {error}");
    next(member);
    // The cable is plugged in.
    until(&mut [member], "the link again", |members| members[0].log.contains(&Happening::Up(peer)));
    member.take();
    let expected = post_some(member, peer, 0, 200 + me as u64);
    until(&mut [member], "the completions", |members| members[0].log.len() == expected.len());
    assert_eq!(member.take(), expected);
    next(member);
    assert_eq!(member.fabric.load(At(99)), 0, "what was lost with the link stays lost");
}

#[test]
fn two_hosts_lose_each_other_with_their_cable_and_find_each_other_again() {
    let hosts = match Hosts::new() {
        Ok(hosts) => hosts,
        Err(reason) => return println!("skipped: no network namespaces here: {reason}"),
    };
    let addresses: Vec<SocketAddr> =
        ["10.77.0.1:7999", "10.77.0.2:7999"].map(|address| address.parse().unwrap()).to_vec();
    let (a, step_a) = on_host(&hosts.names[0], 0, &addresses, |member, next| live(member, 0, next));
    let (b, step_b) = on_host(&hosts.names[1], 1, &addresses, |member, next| live(member, 1, next));
    let both = |go: bool| {
        for step in [&step_a, &step_b] {
            if go {
                step.go.send(()).unwrap();
            } else {
                step.wait();
            }
        }
    };
    both(false);
    hosts.cable("down");
    both(true);
    both(false);
    hosts.cable("up");
    both(true);
    both(false);
    both(true);
    both(false);
    a.join().unwrap();
    b.join().unwrap();
}
