//! A worker that provides memory, and that times verbs on the memory of member 2.

use super::mail::Mail;
use super::order::{Answer, Order, Spec, Verb};
use crate::child::say;
use crate::clock::Cheap;
use crate::member::Wait;
use base::{At, Event, Inbox, MemberSet, Outcome, Port, Rank, Token};
use fabric::{Fabric, HostFabric};
use report::{Latency, Row};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

/// The longest sleep: the worker looks for orders that often.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The word that CASes and FETCH-ADDs change; blocks begin behind it.
const COUNTER: At = At(0);
const BLOCK: At = At(8);

struct Bench {
    fabric: HostFabric,
    inbox: Inbox,
    clock: Cheap,
    me: Rank,
    links: MemberSet,
    wait: Wait,
    /// The value of the counter, which only our own CASes change.
    counter: u64,
    words: Vec<u64>,
    message: Vec<u8>,
}

pub(super) fn run(
    fabric: HostFabric,
    spec: &Spec,
    mail: &Mail,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench {
        fabric,
        inbox: Inbox::new(),
        clock: Cheap::new(),
        me: Rank::at(spec.me),
        links: MemberSet::EMPTY,
        wait: spec.wait,
        counter: 0,
        words: Vec::new(),
        message: Vec::new(),
    };
    let mut links = 0;
    loop {
        match mail.next(bench.clock.now()) {
            None => {}
            Some(Order::Verbs { verb, n_words, depth, span }) => {
                say(&bench.measure(verb, n_words, depth, span)?);
            }
            Some(order) => return Err(format!("no order for mere memory: {order:?}").into()),
        }
        bench.turn(spec.wait, true)?;
        if bench.links.len() != links {
            links = bench.links.len();
            say(&Answer::Stands { leads: false, links });
        }
    }
}

impl Bench {
    /// Polls once, sleeping before that if told to; echoes messages if told to. Returns the number
    /// of verbs that have completed and messages that have arrived.
    fn turn(&mut self, wait: Wait, echo: bool) -> Result<usize, Box<dyn std::error::Error>> {
        self.inbox.clear();
        self.fabric.poll(&mut self.inbox);
        if self.inbox.is_empty() && wait == Wait::Sleep {
            self.fabric.prepare_sleep();
            // T9: once more after the announcement.
            self.fabric.poll(&mut self.inbox);
            if self.inbox.is_empty() {
                let nanos = SLEEP_MAX.subsec_nanos().into();
                let timeout = Timespec { tv_sec: 0, tv_nsec: nanos };
                let fd = self.fabric.wait_fd();
                match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                self.fabric.poll(&mut self.inbox);
            }
            self.fabric.awake();
        }
        let mut done = 0;
        for event in self.inbox.iter() {
            match event {
                Event::Completed { outcome: Outcome::Unknown | Outcome::Refused, .. } => {
                    return Err("a verb did not come back: the link broke".into());
                }
                Event::Completed { outcome: Outcome::Before(before), token, .. } => {
                    if token == CAS && before != self.counter {
                        let (is, was) = (before, self.counter);
                        return Err(format!("a CAS expected {was} and found {is}").into());
                    }
                    self.counter += 1;
                    done += 1;
                }
                Event::Completed { .. } => done += 1,
                Event::Message { from, bytes } => {
                    done += 1;
                    if echo && !self.fabric.send(from, bytes) {
                        return Err("no room for an echo".into());
                    }
                }
                Event::LinkUp(rank) if rank != self.me => {
                    self.links.insert(rank);
                }
                Event::LinkDown(rank) => {
                    self.links.remove(rank);
                }
                Event::LinkUp(_) | Event::ProcessFailed(_) => {}
            }
        }
        self.fabric.flush();
        Ok(done)
    }

    fn post(&mut self, to: Rank, verb: Verb, n_words: usize, in_flight: u64) {
        match verb {
            Verb::Write => self.fabric.write(to, BLOCK, &self.words, Some(OTHER)),
            Verb::Read => self.fabric.read(to, BLOCK, n_words, OTHER),
            Verb::Cas => {
                let expected = self.counter + in_flight;
                self.fabric.cas(to, COUNTER, expected, expected + 1, Some(CAS));
            }
            Verb::FetchAdd => self.fabric.fetch_add(to, COUNTER, 1, Some(OTHER)),
            Verb::Message => {
                // The echo makes room; `depth` messages of any measured size fit.
                assert!(self.fabric.send(to, &self.message), "the flow takes what is measured");
            }
        }
    }

    fn measure(
        &mut self,
        verb: Verb,
        n_words: usize,
        depth: usize,
        span: Duration,
    ) -> Result<Answer, Box<dyn std::error::Error>> {
        let to = Rank::at(1);
        self.words = vec![7; n_words];
        self.message = vec![7; n_words * 8];
        let mut times = Latency::new();
        let mut rate = 0.0;
        // The first fifth warms up.
        for (counts, span) in [(false, span / 5), (true, span)] {
            times = Latency::new();
            let began = self.clock.raw();
            let mut n = 0u64;
            loop {
                let at = self.clock.raw();
                for in_flight in 0..depth {
                    self.post(to, verb, n_words, in_flight as u64);
                }
                self.fabric.flush();
                let mut done = 0;
                while done < depth {
                    done += self.turn(self.wait, false)?;
                }
                let now = self.clock.raw();
                if counts {
                    times.record_ns(self.clock.between(at, now));
                }
                n += depth as u64;
                let so_far = self.clock.between(began, now);
                if u128::from(so_far) >= span.as_nanos() {
                    rate = n as f64 * 1e9 / so_far as f64;
                    break;
                }
            }
        }
        let row = times.fields(Row::new(verb.name())).with("per_s", rate);
        Ok(Answer::Took(row.with("floor_clock_ns", self.clock.cost_ns())))
    }
}

const OTHER: Token = Token(0);
const CAS: Token = Token(1);
