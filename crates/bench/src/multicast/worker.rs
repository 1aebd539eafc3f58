//! One member of a group under measurement.
//!
//! It joins, says when the view is complete, multicasts from the moment that it is told, reports
//! what was delivered here, and stays a member until its input ends.

use crate::child::say;
use crate::clock::{cpu_ns, shared_ns};
use crate::crew::Said;
use group::{Event, Group, Mode, Options, Schedule, Subgroup};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hint::black_box;
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest wait for an event, after which the time is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// At most one own message in so many has its latency noted.
const SAMPLE_EVERY_MAX: u64 = 64;
/// Of messages of so many bytes each one has, since few are sent in a second.
const SAMPLE_EACH_BYTES: u64 = 64 << 10;
/// Of a window of so few messages each one has.
const SAMPLE_EACH_WINDOW: u64 = 16;

/// The number of own messages, of which one has its latency noted.
fn sample_every(window: u32, message_bytes: usize) -> u64 {
    let by_bytes = SAMPLE_EACH_BYTES / message_bytes.max(1) as u64;
    by_bytes.min(u64::from(window) / SAMPLE_EACH_WINDOW).clamp(1, SAMPLE_EVERY_MAX)
}

/// The first line of a process's input: its identity and its work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The group's name.
    pub group: String,
    /// The directory of its memory.
    pub directory: PathBuf,
    /// The addresses of all seats, on TCP.
    pub addresses: Vec<SocketAddr>,
    /// The seat, from 1; the first founds the group.
    pub seat: usize,
    /// The number of members.
    pub members: usize,
    /// Whether it multicasts.
    pub sends: bool,
    /// The window.
    pub window: u32,
    /// The number of members that the layout has for senders, if it does not have all.
    pub chosen: Option<usize>,
    /// The bytes of a message, 8 or more.
    pub message_bytes: usize,
    /// Whether each sender's messages alone have an order.
    pub is_unordered: bool,
    /// The schedule by which members relay large messages, by its number in [`Schedule::ALL`].
    pub relay: usize,
    /// The directory of its log, in a durable group.
    pub data: Option<PathBuf>,
    /// Whether it computes a checksum of each message of another member.
    pub is_checked: bool,
    /// The time before the measurement.
    pub warm_up: Duration,
    /// The time of the measurement.
    pub span: Duration,
}

/// The measurements of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Took {
    /// The messages that were delivered here.
    pub delivered: u64,
    /// Those of them that were read where their senders had put them.
    pub shared: u64,
    /// The bytes that this process copied of messages that the fabric carried as they were, and
    /// the number of these messages.
    pub carried: (u64, u64),
    /// The bytes of large messages that this process sent over TCP: of its own, and of others.
    pub sent: (u64, u64),
    /// The duration of the measurement.
    pub span_ns: u64,
    /// The processor time that the process used, in nanoseconds.
    pub cpu_ns: u64,
    /// The times from `send` to the delivery here, of some own messages.
    pub latency_ns: Vec<u64>,
}

type Problem = Box<dyn std::error::Error>;

/// Runs the member that `spec` describes, until its input ends.
///
/// # Errors
/// The group's.
pub fn run(spec: &Spec) -> Result<(), Problem> {
    // 0 before any order, then the shared time at which the load begins; `u64::MAX` for the end.
    let start = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&start);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for at in lines.map_while(|line| line.trim().parse().ok()) {
            hears.store(at, Ordering::SeqCst);
        }
        hears.store(u64::MAX, Ordering::SeqCst);
    });
    let group = open(spec)?;
    say(&Said::<Took>::Inside);
    let mut member = Member {
        group: &group,
        events: VecDeque::new(),
        seen: Took::default(),
        n_members: 0,
        is_checked: spec.is_checked,
        sample_every: sample_every(spec.window, spec.message_bytes),
    };
    while member.n_members < spec.members {
        member.look()?;
    }
    say(&Said::<Took>::Complete);
    let order = || start.load(Ordering::SeqCst);
    while order() == 0 || shared_ns() < order() {
        member.look()?;
    }
    let begins = order();
    if begins == u64::MAX {
        return Ok(());
    }
    let measured_from = begins + spec.warm_up.as_nanos() as u64;
    let measured_to = measured_from + spec.span.as_nanos() as u64;
    std::thread::scope(|scope| {
        if spec.sends {
            scope.spawn(|| flood(&group, spec, measured_to));
        }
        member.measure(measured_from, measured_to)
    })?;
    while order() != u64::MAX {
        member.look()?;
    }
    Ok(())
}

fn open(spec: &Spec) -> Result<Group, group::Error> {
    // The files are private, and loopback is used for seconds: the secret excludes leftovers of an
    // earlier run.
    let (name, addresses) = (&spec.group, spec.addresses.clone());
    let options = match addresses.is_empty() {
        true => Options::shm(name, name, "bench"),
        false => Options::tcp(name, name, "bench", addresses),
    };
    let mut options = Options {
        directory: spec.directory.join("memory"),
        seats: spec.members,
        seat: Some(spec.seat),
        mode: if spec.is_unordered { Mode::Unordered } else { Mode::Ordered },
        window: spec.window,
        message_bytes: spec.message_bytes as u32,
        relay: Schedule::ALL[spec.relay],
        events: 1 << 16,
        ..options
    };
    if let Some(n_senders) = spec.chosen {
        let seats: Vec<usize> = (1..=n_senders).collect();
        options.layout = vec![Subgroup::new("all").senders(&seats)];
    }
    if let Some(data) = &spec.data {
        options = options.durable(spec.seat, data);
    }
    // A machine without time for all its processes must not cause changes of views.
    options.timing.suspect_after = Duration::from_secs(3);
    if spec.seat == 1 { Group::found(&options) } else { Group::join(&options) }
}

/// Sends whenever there is room; where one message is to be on its way, when that is delivered.
fn flood(group: &Group, spec: &Spec, until_ns: u64) {
    let mut message = vec![0x5a; spec.message_bytes.max(8)];
    loop {
        let now = shared_ns();
        if now >= until_ns {
            return;
        }
        message[..8].copy_from_slice(&now.to_le_bytes());
        // Without room it looks at the clock again.
        let sent = group.send_within(&message, LOOK_EVERY);
        if let (Ok(number), 1) = (sent, spec.window) {
            // (An end is seen by the thread that takes events.)
            let left = Duration::from_nanos(until_ns.saturating_sub(now));
            let _fate = group.wait_fate(0, number, left);
        }
    }
}

struct Member<'a> {
    group: &'a Group,
    events: VecDeque<Event>,
    seen: Took,
    n_members: usize,
    is_checked: bool,
    sample_every: u64,
}

impl Member<'_> {
    /// Takes what has come.
    fn look(&mut self) -> Result<(), Problem> {
        self.group.take(&mut self.events, LOOK_EVERY);
        for event in self.events.drain(..) {
            match event {
                Event::View(view) => self.n_members = view.members.len(),
                Event::Delivered(one) => {
                    self.seen.delivered += 1;
                    self.seen.shared += u64::from(one.bytes.is_shared());
                    if let Some(n_copied) = one.bytes.n_copied() {
                        self.seen.carried.0 += n_copied as u64;
                        self.seen.carried.1 += 1;
                    }
                    if self.is_checked && one.own.is_none() {
                        let mut sum = 0;
                        one.bytes.read(|bytes| sum = crc32c::crc32c_append(sum, bytes));
                        black_box(sum);
                    }
                    if one.own.is_some_and(|number| number % self.sample_every == 0) {
                        let mut sent = [0; 8];
                        one.bytes.head(&mut sent);
                        let sent = u64::from_le_bytes(sent);
                        self.seen.latency_ns.push(shared_ns().saturating_sub(sent));
                    }
                }
                Event::Ended(why) => return Err(why.into()),
                Event::Inadequate { .. } | Event::InadequateSubgroup { .. } => {}
                Event::Unsent { .. } | Event::Letter { .. } => {}
                // (The messages are measured, and no state.)
                Event::StateWanted(wanted) => self.group.give(wanted, Vec::new()),
                Event::State { .. } => {}
                Event::Final { .. } | Event::CaughtUp { .. } | Event::Ahead { .. } => {}
            }
        }
        Ok(())
    }

    fn measure(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Problem> {
        while shared_ns() < from_ns {
            self.look()?;
        }
        self.seen = Took::default();
        let (began, cpu, before) = (shared_ns(), cpu_ns(), self.group.relayed());
        while shared_ns() < to_ns {
            self.look()?;
        }
        let mut took = std::mem::take(&mut self.seen);
        (took.span_ns, took.cpu_ns) = (shared_ns() - began, cpu_ns() - cpu);
        let after = self.group.relayed();
        let (own, others) = (after.own_bytes, after.relayed_bytes);
        took.sent = (own - before.own_bytes, others - before.relayed_bytes);
        say(&Said::Took(took));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_few_messages_are_sent_each_one_is_sampled() {
        assert_eq!(sample_every(4096, 100), 64);
        assert_eq!(sample_every(4096, 10_000), 6);
        assert_eq!(sample_every(16, 1 << 20), 1);
        assert_eq!(sample_every(4096, 1 << 20), 1);
        assert_eq!((sample_every(1, 8), sample_every(64, 8)), (1, 4));
    }
}
