//! The effects of a connection after its end: T4 and L1, through a proxy that holds bytes back.

mod tcp_support;

use base::{At, Port, Token};
use fabric::Fabric;
use fabric::tcp::{LinkError, wire};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use tcp_support::{Happening, Member, Place, post_some, rank, until};

/// A proxy between a connecting member and an accepting one, which forwards when it is told to.
struct Proxy {
    listener: TcpListener,
    to: std::net::SocketAddr,
}

/// A connection through a proxy.
struct Pipe {
    /// The connection to the client.
    client: Option<TcpStream>,
    /// The connection to the accepting member.
    server: TcpStream,
    /// The bytes from the client that were not forwarded yet.
    held: Vec<u8>,
    closed: bool,
}

impl Proxy {
    /// Places itself at the address of member `of`.
    fn before(place: &mut Place, of: usize) -> Proxy {
        let listener = TcpListener::bind((place.addresses[of].ip(), 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let to = std::mem::replace(&mut place.addresses[of], listener.local_addr().unwrap());
        Proxy { listener, to }
    }

    fn accept(&self) -> Option<Pipe> {
        let (client, _) = self.listener.accept().ok()?;
        let server = TcpStream::connect(self.to).unwrap();
        for stream in [&client, &server] {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
        }
        Some(Pipe { client: Some(client), server, held: Vec::new(), closed: false })
    }

    /// Accepts newer connections: on a busy machine a member may have given up the first one.
    fn accept_newer(&self, pipe: &mut Option<Pipe>) {
        if let Some(newer) = self.accept() {
            *pipe = Some(newer);
        }
    }
}

/// Reads what is there; notes the end.
fn drain(from: &mut TcpStream, into: &mut Vec<u8>, closed: &mut bool) {
    let mut room = [0; 64 << 10];
    loop {
        match from.read(&mut room) {
            Ok(0) => *closed = true,
            Ok(n) => {
                into.extend_from_slice(&room[..n]);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => *closed = true,
        }
        return;
    }
}

impl Pipe {
    /// Takes the client's bytes, and gives it the server's.
    fn collect(&mut self) {
        let Some(client) = &mut self.client else { return };
        drain(client, &mut self.held, &mut self.closed);
        let mut back = Vec::new();
        drain(&mut self.server, &mut back, &mut self.closed);
        // A client that is gone does not want its answers.
        let _gone = client.write_all(&back);
    }

    /// Forwards the first `n` of the held bytes.
    fn release(&mut self, n: usize) {
        let n = n.min(self.held.len());
        let _gone = self.server.write_all(&self.held[..n]);
        self.held.drain(..n);
    }
}

/// The frames of [`post_some`]: two WRITEs, two CASes, two FETCH-ADDs, one READ.
const SOME_BYTES: usize = 40 + 24 + 2 * 32 + 2 * 24 + 24;

/// Polls both members while everything is forwarded, until they have met.
fn meet_through(proxy: &Proxy, poster: &mut Member, owner: &mut Member) -> Pipe {
    let mut pipe = None;
    until(&mut [&mut *poster, &mut *owner], "the link through the proxy", |members| {
        proxy.accept_newer(&mut pipe);
        if let Some(pipe) = &mut pipe {
            pipe.collect();
            pipe.release(usize::MAX);
        }
        members[0].log.contains(&Happening::Up(rank(0)))
            && members[1].log.contains(&Happening::Up(rank(1)))
    });
    poster.log.clear();
    owner.log.clear();
    pipe.expect("the link goes through it")
}

/// L1 and T4. The poster's verbs are in the network when its link breaks; the poster is told that
/// they are unknown, connects again, and is told LinkUp. From that moment they have no effect,
/// though the network delivers them to the peer's kernel only now.
#[test]
fn nothing_of_an_old_link_takes_effect_after_link_up() {
    let mut place = Place::new(2);
    let proxy = Proxy::before(&mut place, 0);
    let (mut owner, mut poster) = (place.create(0), place.create(1));
    let mut old = meet_through(&proxy, &mut poster, &mut owner);
    // Half of these verbs arrive, up to the middle of a frame; the rest is under way.
    post_some(&mut poster, rank(0), 0, 100);
    poster.fabric.flush();
    until(&mut [&mut poster], "the bytes in the network", |_| {
        old.collect();
        old.held.len() == SOME_BYTES
    });
    old.release(40 + 20);
    until(&mut [&mut owner], "the first WRITE", |members| members[0].fabric.load(At(0)) == 100);
    // The poster's end dies; the owner's end looks alive.
    old.client = None;
    until(&mut [&mut poster], "the loss", |members| {
        members[0].log.contains(&Happening::Down(rank(0)))
    });
    let unknown: Vec<_> = (0..5).map(|n| Happening::Unknown(Token(n))).collect();
    assert_eq!(poster.take(), [&unknown[..], &[Happening::Down(rank(0))]].concat());
    assert_eq!(owner.take(), [], "nobody has told the owner");
    let mut new = meet_through(&proxy, &mut poster, &mut owner);
    assert_eq!(owner.link(rank(1)).counters.downs, 1, "the old link is over here too");
    // Now the network delivers.
    old.release(usize::MAX);
    poster.fabric.read(rank(0), At(0), 4, Token(9));
    poster.fabric.flush();
    until(&mut [&mut poster, &mut owner], "the READ", |members| {
        new.collect();
        new.release(usize::MAX);
        !members[0].log.is_empty()
    });
    assert_eq!(poster.take(), [Happening::Read(Token(9), vec![100, 101, 102, 0])]);
    for _ in 0..100 {
        owner.poll();
    }
    assert_eq!(owner.fabric.load(At(1)), 101, "the CAS of the old link had its chance");
}

/// The accepting side: its own verbs on the old connection are unknown before LinkUp is reported.
#[test]
fn the_acceptor_is_told_down_before_up_when_its_peer_comes_back() {
    let mut place = Place::new(2);
    let proxy = Proxy::before(&mut place, 0);
    let (mut a, mut b) = (place.create(0), place.create(1));
    let mut old = meet_through(&proxy, &mut b, &mut a);
    a.fabric.fetch_add(rank(1), At(0), 1, Some(Token(1)));
    a.fabric.flush();
    old.client = None;
    let mut pipe = None;
    until(&mut [&mut a, &mut b], "the link again", |members| {
        proxy.accept_newer(&mut pipe);
        if let Some(pipe) = &mut pipe {
            pipe.collect();
            pipe.release(usize::MAX);
        }
        members[0].log.len() == 3
    });
    let expected = [Happening::Unknown(Token(1)), Happening::Down(rank(1)), Happening::Up(rank(1))];
    assert_eq!(a.take(), expected);
    assert_eq!(a.link(rank(1)).last_error, None, "it is up");
}

/// A link works however the network cuts the bytes: at every place, in both directions.
#[test]
fn frames_cut_at_every_byte_arrive_whole() {
    let mut place = Place::new(2);
    let proxy = Proxy::before(&mut place, 0);
    let (mut owner, mut poster) = (place.create(0), place.create(1));
    // The handshake too, byte by byte.
    let mut pipe = None;
    until(&mut [&mut poster, &mut owner], "the link, byte by byte", |members| {
        proxy.accept_newer(&mut pipe);
        if let Some(pipe) = &mut pipe {
            pipe.collect();
            pipe.release(1);
        }
        members[0].log.contains(&Happening::Up(rank(0)))
            && members[1].log.contains(&Happening::Up(rank(1)))
    });
    let mut pipe = pipe.unwrap();
    owner.take();
    poster.take();
    let message: Vec<u8> = (0..50).collect();
    let mut length = usize::MAX;
    let mut cut = 1;
    while cut < length {
        let expected = post_some(&mut poster, rank(0), 0, cut as u64);
        assert!(poster.fabric.send(rank(0), &message));
        poster.fabric.flush();
        length = SOME_BYTES + wire::HEADER_BYTES + message.len();
        until(&mut [&mut poster], "the bytes in the network", |_| {
            pipe.collect();
            pipe.held.len() == length
        });
        // The first part arrives, and is processed, before the second does.
        pipe.release(cut);
        let so_far = owner.link(rank(1)).counters.received_bytes + cut as u64;
        until(&mut [&mut owner], "the first part", |members| {
            members[0].link(rank(1)).counters.received_bytes == so_far
        });
        assert_eq!(owner.take(), [], "the message is not whole yet");
        pipe.release(usize::MAX);
        until(&mut [&mut poster, &mut owner], "the completions", |members| {
            pipe.collect();
            members[0].log.len() == expected.len() && members[1].log.len() == 1
        });
        assert_eq!(poster.take(), expected);
        assert_eq!(owner.take(), [Happening::Message(rank(1), message.clone())]);
        cut += 1;
    }
}

/// Bytes that are not a frame cost the link, are named, and harm no other member; the peer comes
/// back.
#[test]
fn garbage_on_an_established_link_breaks_it_and_is_named() {
    let mut place = Place::new(2);
    let proxy = Proxy::before(&mut place, 0);
    let (mut owner, mut poster) = (place.create(0), place.create(1));
    let mut pipe = meet_through(&proxy, &mut poster, &mut owner);
    pipe.held = vec![0xee; 64];
    pipe.release(64);
    until(&mut [&mut owner], "the loss", |members| !members[0].log.is_empty());
    assert_eq!(owner.take(), [Happening::Down(rank(1))]);
    let error = owner.link(rank(1)).last_error.expect("named");
    assert!(matches!(error, LinkError::Wire(_)), "{error}");
    drop(pipe);
    meet_through(&proxy, &mut poster, &mut owner);
}

/// Only a sentinel may report a death, and only on its own connection.
#[test]
fn the_news_of_a_death_on_a_link_breaks_it() {
    let mut place = Place::new(2);
    let proxy = Proxy::before(&mut place, 0);
    let (mut owner, mut poster) = (place.create(0), place.create(1));
    let mut pipe = meet_through(&proxy, &mut poster, &mut owner);
    wire::put_process_failed(&mut pipe.held, base::Incarnation(1), 1);
    pipe.release(usize::MAX);
    until(&mut [&mut owner], "the loss", |members| !members[0].log.is_empty());
    assert_eq!(owner.take(), [Happening::Down(rank(1))]);
    assert!(matches!(owner.link(rank(1)).last_error, Some(LinkError::Unexpected(_))));
}

/// An unexpected completion means a broken peer, and is not a panic.
#[test]
fn a_completion_that_is_not_due_breaks_the_link() {
    for which in 0..3 {
        let mut place = Place::new(2);
        let proxy = Proxy::before(&mut place, 0);
        let (mut owner, mut poster) = (place.create(0), place.create(1));
        let mut pipe = meet_through(&proxy, &mut poster, &mut owner);
        if which > 0 {
            owner.fabric.read(rank(1), At(0), 2, Token(5));
        }
        match which {
            0 => wire::put_written(&mut pipe.held, wire::Request(0)),
            1 => wire::put_words_read(&mut pipe.held, wire::Request(0), &[1]),
            _ => wire::put_words_read(&mut pipe.held, wire::Request(1), &[1, 2]),
        }
        pipe.release(usize::MAX);
        until(&mut [&mut owner], "the loss", |members| {
            members[0].log.contains(&Happening::Down(rank(1)))
        });
        if which > 0 {
            assert_eq!(owner.log[0], Happening::Unknown(Token(5)));
        }
        let error = owner.link(rank(1)).last_error.expect("named");
        assert_eq!(error, LinkError::Unexpected("a completion that is not due"));
    }
}
