//! The layer below an engine in production: a fabric, this process's clocks, and its log on disk.

use crate::clock::{Clock, boot_now, unix_ms};
use crate::disk::LogDisk;
use base::verb::Unsupported;
use base::{At, Inbox, Instant, Port, Rank, Token};
use engine::Plant;
use fabric::Fabric;

/// The plant of a production process; see the module's text.
#[derive(Debug)]
pub struct HostPlant<F> {
    pub(crate) fabric: F,
    pub(crate) clock: Clock,
}

impl<F> HostPlant<F> {
    /// A plant over `fabric`. Its monotonic clock begins now.
    pub fn new(fabric: F) -> HostPlant<F> {
        HostPlant { fabric, clock: Clock::start() }
    }
}

impl<F: Fabric> Plant for HostPlant<F> {
    type Disk = LogDisk;

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn boot_now(&self) -> Instant {
        boot_now()
    }

    fn wall_ms(&self) -> u64 {
        unix_ms()
    }

    fn flush(&mut self) {
        self.fabric.flush();
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        self.fabric.poll(inbox);
    }

    fn lead(&mut self, leads: bool) {
        self.fabric.lead(leads);
    }

    fn say(&mut self, line: &str) {
        eprintln!("gregale: {line}");
    }
}

impl<F: Fabric> Port for HostPlant<F> {
    fn load(&self, at: At) -> u64 {
        self.fabric.load(at)
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        self.fabric.load_into(at, words);
    }

    fn store(&mut self, at: At, word: u64) {
        self.fabric.store(at, word);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        self.fabric.write(to, at, words, token);
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.fabric.read(to, at, n_words, token);
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        self.fabric.cas(to, at, expected, desired, token);
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        self.fabric.fetch_add(to, at, add, token);
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.fabric.send(to, message)
    }

    fn wake(&mut self, to: Rank) {
        self.fabric.wake(to);
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        self.fabric.permit_writer(from, writer)
    }
}
