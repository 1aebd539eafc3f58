//! Members under test: a fabric, its reports, and waits with a deadline.

use super::{Group, Violation, broken_promise};
use crate::{Event, Fabric, Inbox, Outcome, Token};
use base::Rank;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// An owned [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The completion of a WRITE.
    Written,
    /// The words of a READ.
    Read(Vec<u64>),
    /// The word before a CAS or FETCH-ADD.
    Before(u64),
    /// The refusal of a verb without permission.
    Refused,
    /// The unknown outcome of a verb whose link broke.
    Unknown,
}

/// An owned [`Event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A verb completed.
    Completed(Rank, Token, Reply),
    /// A message arrived.
    Message(Rank, Vec<u8>),
    /// A process died.
    ProcessFailed(Rank),
    /// A link broke.
    LinkDown(Rank),
    /// A link came up.
    LinkUp(Rank),
}

impl Happening {
    pub(crate) fn of(event: Event<'_>) -> Happening {
        match event {
            Event::Completed { from, token, outcome } => {
                let reply = match outcome {
                    Outcome::Written => Reply::Written,
                    Outcome::Read(words) => Reply::Read(words.to_vec()),
                    Outcome::Before(word) => Reply::Before(word),
                    Outcome::Refused => Reply::Refused,
                    Outcome::Unknown => Reply::Unknown,
                };
                Happening::Completed(from, token, reply)
            }
            Event::Message { from, bytes } => Happening::Message(from, bytes.to_vec()),
            Event::ProcessFailed(rank) => Happening::ProcessFailed(rank),
            Event::LinkDown(rank) => Happening::LinkDown(rank),
            Event::LinkUp(rank) => Happening::LinkUp(rank),
        }
    }

    pub(crate) fn push_to(&self, inbox: &mut Inbox) {
        inbox.push(match self {
            Happening::Completed(from, token, reply) => Event::Completed {
                from: *from,
                token: *token,
                outcome: match reply {
                    Reply::Written => Outcome::Written,
                    Reply::Read(words) => Outcome::Read(words),
                    Reply::Before(word) => Outcome::Before(*word),
                    Reply::Refused => Outcome::Refused,
                    Reply::Unknown => Outcome::Unknown,
                },
            },
            Happening::Message(from, bytes) => Event::Message { from: *from, bytes },
            Happening::ProcessFailed(rank) => Event::ProcessFailed(*rank),
            Happening::LinkDown(rank) => Event::LinkDown(*rank),
            Happening::LinkUp(rank) => Event::LinkUp(*rank),
        });
    }

    /// Whether it reports a failure, which must not happen in a live group (T8).
    pub fn is_failure(&self) -> bool {
        matches!(self, Happening::ProcessFailed(_) | Happening::LinkDown(_))
    }
}

/// A member, polled by the thread that made it.
pub struct Node<F> {
    /// The member's rank.
    pub me: Rank,
    /// Its end of the fabric.
    pub fabric: F,
    /// The reports that were not taken yet, in order.
    pub log: VecDeque<Happening>,
    /// The time for which it waits for something promised.
    pub deadline: Duration,
    inbox: Inbox,
    tokens: u64,
}

impl<F: Fabric> Node<F> {
    /// Opens `me`.
    pub fn open<G: Group<Fabric = F>>(group: &G, me: Rank) -> Node<F> {
        let (log, inbox) = (VecDeque::new(), Inbox::new());
        Node { me, fabric: group.open(me), log, deadline: group.deadline(), inbox, tokens: 0 }
    }

    /// Opens `me` on this thread and waits for the links to all other members, which open
    /// elsewhere.
    ///
    /// # Errors
    /// T8, if a link does not come up.
    pub fn join<G: Group<Fabric = F>>(group: &G, me: Rank) -> Result<Node<F>, Violation> {
        let mut node = Node::open(group, me);
        for peer in Rank::all(group.members()).filter(|peer| *peer != me) {
            node.link_up(peer)?;
        }
        Ok(node)
    }

    /// A name that no other verb has.
    pub fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    /// Flushes and polls once; returns the number of events.
    pub fn poll(&mut self) -> usize {
        self.fabric.flush();
        self.inbox.clear();
        self.fabric.poll(&mut self.inbox);
        self.log.extend(self.inbox.iter().map(Happening::of));
        self.inbox.len()
    }

    /// Polls until `done`.
    ///
    /// # Errors
    /// `promise`, at the deadline.
    pub fn until<T>(
        &mut self,
        promise: &'static str,
        what: &str,
        mut done: impl FnMut(&mut Node<F>) -> Option<T>,
    ) -> Result<T, Violation> {
        let until = Instant::now() + self.deadline;
        loop {
            self.poll();
            if let Some(found) = done(self) {
                return Ok(found);
            }
            if Instant::now() > until {
                let what = format!("{what}: nothing in {:?}", self.deadline);
                return broken_promise(promise, what);
            }
            // The machine may have fewer cores than the group has members.
            std::thread::yield_now();
        }
    }

    /// Takes the first report that `wanted` accepts out of the log.
    pub fn take(&mut self, wanted: impl FnMut(&Happening) -> bool) -> Option<Happening> {
        let at = self.log.iter().position(wanted)?;
        self.log.remove(at)
    }

    /// Waits for the link to `peer`.
    ///
    /// # Errors
    /// T8, at the deadline.
    pub fn link_up(&mut self, peer: Rank) -> Result<(), Violation> {
        self.until("T8", &format!("{} waits for the link to {peer}", self.me), |node| {
            node.take(|event| *event == Happening::LinkUp(peer)).map(|_| ())
        })
    }

    /// Waits for the completion of `token`.
    ///
    /// # Errors
    /// T4, at the deadline.
    pub fn reply(&mut self, token: Token) -> Result<Reply, Violation> {
        self.until("T4", &format!("{} waits for the completion of {token:?}", self.me), |node| {
            let found =
                node.take(|event| matches!(event, Happening::Completed(_, t, _) if *t == token));
            match found {
                Some(Happening::Completed(_, _, reply)) => Some(reply),
                _ => None,
            }
        })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// T7, at the deadline.
    pub fn message(&mut self) -> Result<(Rank, Vec<u8>), Violation> {
        self.until("T7", &format!("{} waits for a message", self.me), |node| {
            match node.take(|event| matches!(event, Happening::Message(..))) {
                Some(Happening::Message(from, bytes)) => Some((from, bytes)),
                _ => None,
            }
        })
    }

    /// Sends a message, when there is room.
    ///
    /// # Errors
    /// T7, if there is no room until the deadline.
    pub fn send(&mut self, to: Rank, message: &[u8]) -> Result<(), Violation> {
        let what = format!("{} waits for room for {} bytes to {to}", self.me, message.len());
        self.until("T7", &what, |node| node.fabric.send(to, message).then_some(()))?;
        self.fabric.flush();
        Ok(())
    }

    /// Sends at once if there is room, without a poll before.
    ///
    /// # Errors
    /// T7, if there is no room until the deadline.
    pub fn send_now(&mut self, to: Rank, message: &[u8]) -> Result<(), Violation> {
        if self.fabric.send(to, message) {
            self.fabric.flush();
            return Ok(());
        }
        self.send(to, message)
    }

    /// Performs a FETCH-ADD and returns its answer.
    ///
    /// # Errors
    /// T4, or T6 if it did not take effect.
    pub fn fetch_add(&mut self, to: Rank, at: base::At, add: u64) -> Result<u64, Violation> {
        let token = self.token();
        self.fabric.fetch_add(to, at, add, Some(token));
        match self.reply(token)? {
            Reply::Before(word) => Ok(word),
            other => broken_promise("T6", format!("FETCH-ADD to {to} gave {other:?}")),
        }
    }

    /// Performs a CAS and returns its answer.
    ///
    /// # Errors
    /// T4, or T6 if it was not performed.
    pub fn cas(
        &mut self,
        to: Rank,
        at: base::At,
        expected: u64,
        desired: u64,
    ) -> Result<u64, Violation> {
        let token = self.token();
        self.fabric.cas(to, at, expected, desired, Some(token));
        match self.reply(token)? {
            Reply::Before(word) => Ok(word),
            other => broken_promise("T6", format!("CAS to {to} gave {other:?}")),
        }
    }

    /// Performs a READ and returns its answer.
    ///
    /// # Errors
    /// T4, if it was not performed.
    pub fn read(&mut self, to: Rank, at: base::At, n_words: usize) -> Result<Vec<u64>, Violation> {
        let token = self.token();
        self.fabric.read(to, at, n_words, token);
        match self.reply(token)? {
            Reply::Read(words) if words.len() == n_words => Ok(words),
            other => broken_promise("T4", format!("READ from {to} gave {other:?}")),
        }
    }

    /// T8: checks that no failure was reported.
    ///
    /// # Errors
    /// T8, with the report.
    pub fn saw_no_failure(&self) -> Result<(), Violation> {
        match self.log.iter().find(|event| event.is_failure()) {
            None => Ok(()),
            Some(event) => {
                broken_promise("T8", format!("{} saw {event:?} of a live peer", self.me))
            }
        }
    }
}

/// The whole group on one thread, every member polled in turn.
pub struct Party<F> {
    /// The members by rank.
    pub nodes: Vec<Node<F>>,
    deadline: Duration,
}

impl<F: Fabric> Party<F> {
    /// Opens every member and waits for all links.
    ///
    /// # Errors
    /// T8, if a link does not come up.
    pub fn open<G: Group<Fabric = F>>(group: &G) -> Result<Party<F>, Violation> {
        let ranks = Rank::all(group.members());
        let mut party = Party {
            nodes: ranks.clone().map(|me| Node::open(group, me)).collect(),
            deadline: group.deadline(),
        };
        for me in ranks.clone() {
            for peer in ranks.clone().filter(|peer| *peer != me) {
                party.until("T8", &format!("{me} waits for the link to {peer}"), |party| {
                    let node = &mut party.nodes[me.index()];
                    node.take(|event| *event == Happening::LinkUp(peer)).map(|_| ())
                })?;
            }
        }
        Ok(party)
    }

    /// Polls every member until `done`.
    ///
    /// # Errors
    /// `promise`, at the deadline.
    pub fn until<T>(
        &mut self,
        promise: &'static str,
        what: &str,
        mut done: impl FnMut(&mut Party<F>) -> Option<T>,
    ) -> Result<T, Violation> {
        let until = Instant::now() + self.deadline;
        loop {
            self.nodes.iter_mut().for_each(|node| {
                node.poll();
            });
            if let Some(found) = done(self) {
                return Ok(found);
            }
            if Instant::now() > until {
                let what = format!("{what}: nothing in {:?}", self.deadline);
                return broken_promise(promise, what);
            }
        }
    }

    /// Waits for the completion of `token` at `me`.
    ///
    /// # Errors
    /// T4, at the deadline.
    pub fn reply(&mut self, me: Rank, token: Token) -> Result<Reply, Violation> {
        self.until("T4", &format!("{me} waits for the completion of {token:?}"), |party| {
            let node = &mut party.nodes[me.index()];
            let found =
                node.take(|event| matches!(event, Happening::Completed(_, t, _) if *t == token));
            match found {
                Some(Happening::Completed(_, _, reply)) => Some(reply),
                _ => None,
            }
        })
    }

    /// T8: checks that no failure was reported.
    ///
    /// # Errors
    /// T8, with the report.
    pub fn saw_no_failure(&self) -> Result<(), Violation> {
        self.nodes.iter().try_for_each(Node::saw_no_failure)
    }
}
