//! Orders of operators over a member's control port: the members change.
//!
//! ```text
//! GET  /challenge            64 hexadecimal digits, good for one order
//! POST /members/remove/N     Authorization: gregale CHALLENGE PROOF
//! POST /members/renew/N      likewise
//! ```
//! The answer is a line: `done`, or the reason why not, as GREGALE.MEMBER gives it to a client.
//!
//! - I1 an order is taken by a proof that the secret is known, and once: an HMAC by the cluster's
//!   secret over a challenge of this process and the order. A challenge is used up by the first
//!   order that names it, and the secret itself is never sent. By `Office::take`.
//! - I2 the loop never waits for a thread here: it takes what was sent, and leaves answers. A
//!   thread waits for [`ANSWER_WITHIN`], which is longer than the engine's patience, and then says
//!   that the outcome is unknown.

use crate::random::{hex, random_hex};
use base::{NodeId, Rank};
use console::{Failure, Outcome};
use fabric::tcp::hello::{Secret, Side};
use kv::door::{UNKNOWN as CHANGE_UNKNOWN, UNSUPERVISED, end_of};
use runtime::{Interest, Order, Orders, Poller};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The longest time of an answer: the engine gives an order up after five seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(7);
/// The most challenges that wait for their order; the oldest one is forgotten.
const CHALLENGES_MAX: usize = 64;
const CHALLENGE_BYTES: usize = 32;

/// An order as it is sent: its verb and the member's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent<'a> {
    pub(crate) verb: &'a str,
    pub(crate) id: u16,
}

impl<'a> Sent<'a> {
    /// The path of a POST.
    pub(crate) fn path(&self) -> String {
        format!("/members/{}/{}", self.verb, self.id)
    }

    fn parse(path: &'a str) -> Option<Sent<'a>> {
        let (verb, id) = path.strip_prefix("/members/")?.split_once('/')?;
        Some(Sent { verb, id: id.parse().ok()? })
    }

    fn order(&self, seats: usize) -> Result<Order, String> {
        let rank = Rank::of_member(NodeId(self.id)).filter(|rank| rank.index() < seats);
        let rank =
            rank.ok_or_else(|| format!("ERR no seat {}: there are 1 to {seats}", self.id))?;
        match self.verb {
            "remove" => Ok(Order::Remove(rank)),
            "renew" => Ok(Order::Renew(rank)),
            other => Err(format!("ERR {other} is no order: remove and renew are")),
        }
    }
}

/// The value of the header that proves an order.
pub(crate) fn authorization(secret: &[u8], challenge: &str, sent: &Sent<'_>) -> String {
    let proof =
        Secret::new(secret).prove(Side::Operator, challenge.as_bytes(), sent.path().as_bytes());
    format!("gregale {challenge} {}", hex(&proof))
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    let is_even = digits.remainder().is_empty();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect::<Option<_>>().filter(|_| is_even)
}

/// The answer that a thread waits for.
type Reply = Sender<Result<&'static str, String>>;

/// The threads' side: challenges, and the way to the loop.
#[derive(Debug, Default)]
pub(crate) struct Office {
    challenges: Mutex<VecDeque<String>>,
    way: OnceLock<(Sender<(Order, Reply)>, UnixStream)>,
}

impl Office {
    /// A new challenge.
    pub(crate) fn challenge(&self) -> Outcome<String> {
        let challenge = random_hex::<CHALLENGE_BYTES>()?;
        let mut challenges = self.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        if challenges.len() == CHALLENGES_MAX {
            challenges.pop_front();
        }
        challenges.push_back(challenge.clone());
        Ok(challenge)
    }

    /// Whether the header proves the order to `path` (I1).
    fn is_proven(&self, secret: &[u8], header: &str, path: &str) -> bool {
        let words: Vec<&str> = header.split_whitespace().collect();
        let ["gregale", challenge, proof] = words[..] else { return false };
        let mut challenges = self.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = challenges.iter().position(|one| one == challenge) else { return false };
        challenges.remove(at);
        drop(challenges);
        let Some(proof) = of_hex(proof) else { return false };
        Secret::new(secret).verify(Side::Operator, challenge.as_bytes(), path.as_bytes(), &proof)
    }

    /// Takes an order, if it is proven, and waits for its end (I2). `None` if it is not proven.
    pub(crate) fn take(
        &self,
        secret: &[u8],
        header: &str,
        path: &str,
        seats: usize,
    ) -> Option<String> {
        if !self.is_proven(secret, header, path) {
            return None;
        }
        let sent = Sent::parse(path);
        let order = sent.ok_or_else(|| format!("ERR {path} is no order"));
        let outcome = order.and_then(|sent| sent.order(seats)).and_then(|order| self.send(order));
        Some(outcome.map_or_else(|why| why, str::to_owned))
    }

    fn send(&self, order: Order) -> Result<&'static str, String> {
        let unknown =
            || format!("{CHANGE_UNKNOWN} this member gave no answer: look at the members");
        let fixed = "ERR the members of this cluster never change, or this member has none yet";
        let (way, ringer) = self.way.get().ok_or(fixed)?;
        let (reply, answer) = channel();
        way.send((order, reply)).map_err(|_| unknown())?;
        // A bell that is full has rung.
        let _ = (&*ringer).write(&[0]);
        answer.recv_timeout(ANSWER_WITHIN).map_err(|_| unknown())?
    }
}

/// The loop's side: orders that were sent, and the threads that wait for their ends.
#[derive(Debug)]
pub(crate) struct Hatch {
    bell: UnixStream,
    sent: Receiver<(Order, Reply)>,
    open: BTreeMap<u64, Reply>,
    n_taken: u64,
}

impl Hatch {
    /// The hatch of `office`, of which there is one.
    pub(crate) fn open(office: &Office) -> Outcome<Hatch> {
        let (bell, ringer) =
            UnixStream::pair().map_err(|error| Failure::os("make a socket pair", error))?;
        let nonblocking = bell.set_nonblocking(true).and_then(|()| ringer.set_nonblocking(true));
        nonblocking.map_err(|error| Failure::os("make a socket pair", error))?;
        let (sender, sent) = channel();
        office.way.set((sender, ringer)).map_err(|_| Failure::new("a member has two doors"))?;
        Ok(Hatch { bell, sent, open: BTreeMap::new(), n_taken: 0 })
    }

    /// Adds its bell to the loop's set.
    pub(crate) fn register(&self, poller: &Poller, key: u64) -> io::Result<()> {
        poller.add(&self.bell, key, Interest::Read)
    }

    /// The bell has rung.
    pub(crate) fn on_bell(&self) {
        while matches!((&self.bell).read(&mut [0; 64]), Ok(n) if n > 0) {}
    }

    /// Hands over what was sent. Without a supervisor no incarnation can be begun.
    pub(crate) fn take_in(&mut self, orders: &mut Orders, has_supervisor: Supervisor) {
        while let Ok((order, reply)) = self.sent.try_recv() {
            if let (Order::Renew(_), Supervisor::None) = (order, has_supervisor) {
                let _ = reply.send(Err(UNSUPERVISED.to_owned()));
                continue;
            }
            self.n_taken += 1;
            self.open.insert(self.n_taken, reply);
            orders.take(self.n_taken, order);
        }
    }

    /// Answers what has ended.
    pub(crate) fn give_out(&mut self, orders: &mut Orders) {
        while let Some((number, changed)) = orders.take_ended() {
            if let Some(reply) = self.open.remove(&number) {
                // A thread that waits no longer has said that the outcome is unknown.
                let _ = reply.send(end_of(changed));
            }
        }
    }
}

/// Whether a supervisor can begin new incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supervisor {
    Watches,
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"a secret of sixteen bytes";
    const REMOVE: Sent<'static> = Sent { verb: "remove", id: 2 };

    #[test]
    fn i1_an_order_is_proven_by_the_secret_and_once() {
        let office = Office::default();
        let path = REMOVE.path();
        let header =
            |secret, office: &Office| authorization(secret, &office.challenge().unwrap(), &REMOVE);
        let good = header(SECRET, &office);
        assert!(!office.is_proven(SECRET, &good, "/members/remove/3"), "that is another order");
        assert!(!office.is_proven(SECRET, &good, &path), "the challenge is used up");
        let good = header(SECRET, &office);
        assert!(office.is_proven(SECRET, &good, &path));
        assert!(!office.is_proven(SECRET, &good, &path), "once");
        let bad = header(b"another secret", &office);
        assert!(!office.is_proven(SECRET, &bad, &path));
        let foreign = header(SECRET, &Office::default());
        assert!(!office.is_proven(SECRET, &foreign, &path), "it is no challenge of this process");
        let challenge = office.challenge().unwrap();
        for odd in ["", "gregale", &challenge, &format!("gregale {challenge} zz")] {
            assert!(!office.is_proven(SECRET, odd, &path), "{odd}");
        }
    }

    #[test]
    fn i1_the_oldest_challenge_is_forgotten() {
        let office = Office::default();
        let first = authorization(SECRET, &office.challenge().unwrap(), &REMOVE);
        for _ in 0..CHALLENGES_MAX {
            office.challenge().unwrap();
        }
        assert!(!office.is_proven(SECRET, &first, &REMOVE.path()));
    }

    #[test]
    fn an_order_reaches_the_loop_and_its_end_the_thread() {
        let office = Office::default();
        let mut hatch = Hatch::open(&office).unwrap();
        let mut orders = Orders::default();
        let send = |verb| {
            let sent = Sent { verb, id: 2 };
            let header = authorization(SECRET, &office.challenge().unwrap(), &sent);
            office.take(SECRET, &header, &sent.path(), 3)
        };
        std::thread::scope(|scope| {
            let said = scope.spawn(|| send("renew"));
            while !said.is_finished() {
                hatch.on_bell();
                hatch.take_in(&mut orders, Supervisor::None);
            }
            assert_eq!(said.join().unwrap().as_deref(), Some(UNSUPERVISED));
            let said = scope.spawn(|| send("remove"));
            while !said.is_finished() {
                hatch.take_in(&mut orders, Supervisor::None);
                let mut desk =
                    runtime::Desk::new(runtime::View::new(Rank::at(0), 3), Duration::from_secs(5));
                orders.resume(&mut desk);
                hatch.give_out(&mut orders);
            }
            assert!(said.join().unwrap().unwrap().contains("never change"), "no one may");
        });
        assert_eq!(send("end"), Some("ERR end is no order: remove and renew are".to_owned()));
    }
}
