//! Two clocks: a cheap one within a process, and one that all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the host's monotonic clock: comparable between processes.
pub fn shared_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of processor time that this process has used.
pub fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A clock on the processor's time-stamp counter where it is reliable (quanta falls back to the
/// system's clock otherwise). Its readings are comparable within this process only.
#[derive(Clone, Debug)]
pub struct Cheap {
    clock: quanta::Clock,
    origin: u64,
}

impl Default for Cheap {
    fn default() -> Cheap {
        Cheap::new()
    }
}

impl Cheap {
    /// A clock that begins at zero. The first one of a process takes a moment to calibrate.
    pub fn new() -> Cheap {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        Cheap { clock, origin }
    }

    /// A reading, to be compared with [`Cheap::between`].
    #[inline]
    pub fn raw(&self) -> u64 {
        self.clock.raw()
    }

    /// Nanoseconds from one reading to a later one.
    #[inline]
    pub fn between(&self, earlier: u64, later: u64) -> u64 {
        self.clock.delta_as_nanos(earlier, later)
    }

    /// Nanoseconds since this clock began, for machines.
    #[inline]
    pub fn now(&self) -> base::Instant {
        base::Instant(self.clock.delta_as_nanos(self.origin, self.clock.raw()))
    }

    /// The cost of one reading, in nanoseconds.
    pub fn cost_ns(&self) -> f64 {
        const READINGS: u32 = 100_000;
        let began = self.raw();
        for _ in 0..READINGS {
            std::hint::black_box(self.raw());
        }
        self.between(began, self.raw()) as f64 / f64::from(READINGS)
    }
}
