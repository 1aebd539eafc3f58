//! The layer below an engine in production: a fabric, this process's clocks, and its log on disk.

use crate::clock::{Clock, boot_now, unix_ms};
use crate::disk::LogDisk;
use base::verb::Relay;
use base::{Inbox, Instant};
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
        crate::complain(format_args!("{line}"));
    }
}

impl<F: Fabric> Relay for HostPlant<F> {
    type Port = F;

    fn port(&self) -> &F {
        &self.fabric
    }

    fn port_mut(&mut self) -> &mut F {
        &mut self.fabric
    }
}
