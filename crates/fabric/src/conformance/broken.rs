//! Providers with one fault each, which show that the suite detects it.

use super::child::Child;
use super::{Group, Happening, Reply};
use crate::{Capabilities, Fabric, Inbox};
use base::verb::Unsupported;
use base::{At, Port, Rank, Token};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The fault of a [`Broken`] provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A one-word WRITE arrives in two halves, the second one a while later (T1).
    TornWord,
    /// A WRITE arrives a while behind the next verb or message (T2).
    OvertakenWrite,
    /// Every 50th completion comes twice (T4).
    CompletedTwice,
    /// Every 50th completion does not come (T4).
    CompletionLost,
    /// An unknown verb is tried again when the link is back (T4).
    TriedAgain,
    /// A CAS writes whatever is there (T6).
    BlindCas,
    /// A FETCH-ADD is a READ and a WRITE (T6).
    SplitFetchAdd,
    /// Every 50th message is lost (T7).
    MessageLost,
    /// Every 50th message comes twice (T7).
    MessageTwice,
    /// A message loses its last byte (T7).
    MessageCut,
    /// Failures are not reported (T8).
    Silent,
    /// A live peer is reported dead (T8).
    FalseAlarm,
    /// Going to sleep is not announced (T9).
    SleepUnannounced,
    /// `wake` does nothing (T9).
    WakeLost,
}

/// A group whose members have one fault. Child processes have none.
#[derive(Debug)]
pub struct BrokenGroup<G> {
    /// The healthy group.
    pub inner: G,
    /// The fault.
    pub fault: Fault,
}

impl<G: Group> Group for BrokenGroup<G> {
    type Fabric = Broken<G::Fabric>;

    fn members(&self) -> usize {
        self.inner.members()
    }

    /// The deadline: what a fault withholds never comes, so there is no need to wait for it as
    /// long.
    fn deadline(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn open(&self, me: Rank) -> Self::Fabric {
        Broken {
            inner: self.inner.open(me),
            fault: self.fault,
            held: None,
            overtaken: false,
            polls: 0,
            unknown: Vec::new(),
            splits: Vec::new(),
            scratch: Inbox::new(),
            count: 0,
        }
    }

    fn withdraw(&self, me: Rank, fabric: Self::Fabric) {
        self.inner.withdraw(me, fabric.inner);
    }

    fn spawn(&self, me: Rank) -> Child {
        self.inner.spawn(me)
    }
}

/// A provider with a fault.
pub struct Broken<F> {
    inner: F,
    fault: Fault,
    /// A WRITE that the next verb must overtake; the flag tells whether one has.
    held: Option<(Rank, At, Vec<u64>, Option<Token>)>,
    overtaken: bool,
    polls: u64,
    /// The FETCH-ADDs to try again.
    unknown: Vec<(Token, Rank, At, u64)>,
    /// The FETCH-ADDs that are only READs so far.
    splits: Vec<(Token, Rank, At, u64, Option<Token>)>,
    scratch: Inbox,
    count: u64,
}

/// The mark of tokens that the wrapper made.
const INTERNAL: u64 = 1 << 63;

impl<F: Fabric> Broken<F> {
    fn hold(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        self.held = Some((to, at, words.to_vec(), token));
        self.polls = 0;
    }

    fn release(&mut self) {
        self.overtaken = false;
        if let Some((to, at, words, token)) = self.held.take() {
            self.inner.write(to, at, &words, token);
        }
    }

    fn nth(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(50)
    }

    fn filter(&mut self, happening: &Happening, inbox: &mut Inbox) {
        let (mut times, fault) = (1, self.fault);
        match happening {
            Happening::Completed(_, token, reply) => match fault {
                Fault::CompletedTwice if self.nth() => times = 2,
                Fault::CompletionLost if self.nth() => times = 0,
                Fault::SplitFetchAdd if token.0 & INTERNAL != 0 => {
                    times = 0;
                    self.finish(*token, reply, inbox);
                }
                _ => {}
            },
            Happening::LinkUp(rank) if self.fault == Fault::TriedAgain => {
                for (_, to, at, add) in std::mem::take(&mut self.unknown) {
                    if to == *rank {
                        self.inner.fetch_add(to, at, add, None);
                    }
                }
            }
            Happening::ProcessFailed(_) | Happening::LinkDown(_) => {
                times = u64::from(self.fault != Fault::Silent);
            }
            Happening::Message(..) => {
                if self.fault == Fault::MessageTwice && self.nth() {
                    times = 2;
                }
            }
            Happening::LinkUp(_) => {}
        }
        (0..times).for_each(|_| happening.push_to(inbox));
        if let (Fault::FalseAlarm, Happening::LinkUp(rank)) = (self.fault, happening) {
            Happening::ProcessFailed(*rank).push_to(inbox);
        }
    }

    /// Posts the WRITE of a split FETCH-ADD, whose READ has completed.
    fn finish(&mut self, token: Token, reply: &Reply, inbox: &mut Inbox) {
        let Some(at) = self.splits.iter().position(|split| split.0 == token) else { return };
        let (_, to, at, add, token) = self.splits.remove(at);
        let before = match reply {
            Reply::Read(words) => words[0],
            _ => 0,
        };
        self.inner.write(to, at, &[before + add], None);
        if let Some(token) = token {
            Happening::Completed(to, token, Reply::Before(before)).push_to(inbox);
        }
    }
}

impl<F: Fabric> Port for Broken<F> {
    fn load(&self, at: At) -> u64 {
        self.inner.load(at)
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        self.inner.load_into(at, words);
    }

    fn store(&mut self, at: At, word: u64) {
        self.inner.store(at, word);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        match (self.fault, words) {
            (Fault::TornWord, [word]) => {
                self.release();
                self.inner.write(to, at, &[word & 0xffff_ffff], None);
                self.hold(to, at, words, token);
            }
            (Fault::OvertakenWrite, _) if self.held.is_some() && !self.overtaken => {
                self.inner.write(to, at, words, token);
                self.overtaken = true;
            }
            (Fault::OvertakenWrite, _) => {
                self.release();
                self.hold(to, at, words, token);
            }
            _ => self.inner.write(to, at, words, token),
        }
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.inner.read(to, at, n_words, token);
        self.overtaken = true;
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        if self.fault == Fault::BlindCas {
            self.inner.write(to, at, &[desired], None);
            self.inner.cas(to, At(at.0 + 1), u64::MAX, 0, token);
        } else {
            self.inner.cas(to, at, expected, desired, token);
        }
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        if self.fault == Fault::SplitFetchAdd {
            self.count += 1;
            let internal = Token(INTERNAL | self.count);
            self.splits.push((internal, to, at, add, token));
            self.inner.read(to, at, 1, internal);
        } else {
            if let (Fault::TriedAgain, Some(token)) = (self.fault, token) {
                self.unknown.push((token, to, at, add));
            }
            self.inner.fetch_add(to, at, add, token);
        }
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        let fault = self.fault;
        let sent = match fault {
            Fault::MessageLost if self.nth() => true,
            Fault::MessageCut => self.inner.send(to, &message[..message.len().saturating_sub(1)]),
            _ => self.inner.send(to, message),
        };
        self.overtaken = true;
        sent
    }

    fn wake(&mut self, to: Rank) {
        if self.fault != Fault::WakeLost {
            self.inner.wake(to);
        }
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        self.inner.permit_writer(from, writer)
    }
}

impl<F: Fabric> Fabric for Broken<F> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        // A split verb takes effect late: others come in between.
        if self.fault == Fault::SplitFetchAdd {
            std::thread::yield_now();
        }
        self.polls += 1;
        if self.polls.is_multiple_of(8) {
            self.release();
        }
        self.scratch.clear();
        self.inner.poll(&mut self.scratch);
        let happenings: Vec<Happening> = self.scratch.iter().map(Happening::of).collect();
        for happening in &happenings {
            if let Happening::Completed(_, token, reply) = happening
                && *reply != Reply::Unknown
            {
                self.unknown.retain(|verb| verb.0 != *token);
            }
            self.filter(happening, inbox);
        }
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.inner.wait_fd()
    }

    fn prepare_sleep(&mut self) {
        if self.fault != Fault::SleepUnannounced {
            self.inner.prepare_sleep();
        }
    }

    fn awake(&mut self) {
        self.inner.awake();
    }

    fn lead(&mut self, leads: bool) {
        self.inner.lead(leads);
    }
}

/// The number of tries of a litmus: the interleavings of threads depend on a machine's load, and a
/// race that is not lost in one try is lost in another, or lost to a deadline first.
const TRIES: usize = 8;

/// Whether `litmus` fails on a group of `inner` with `fault`, for the expected reason.
///
/// # Panics
/// If the suite does not detect the fault, or blames another promise than `promise`.
pub fn expect_caught<G: Group>(
    inner: impl Fn() -> G,
    fault: Fault,
    promise: &str,
    litmus: impl Fn(&BrokenGroup<G>) -> super::Verdict,
) {
    let mut other = None;
    for _ in 0..TRIES {
        match litmus(&BrokenGroup { inner: inner(), fault }) {
            Err(violation) if violation.promise == promise => return,
            Err(violation) => other = Some(violation),
            Ok(()) => {}
        }
    }
    match other {
        Some(violation) => panic!("{fault:?}, {TRIES} times, and never {promise}: {violation}"),
        None => panic!("{fault:?} went unnoticed {TRIES} times"),
    }
}
