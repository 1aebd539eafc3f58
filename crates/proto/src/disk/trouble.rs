//! Whether a member should lead with its disk.
//!
//! A disk that is full, or whose sync hangs, makes the others wait, while the member's heartbeats
//! need no disk: it should lead nothing. Where syncs are long and end, the next one may take twice
//! as long: disks that are all slow lead on, since nothing is decided without syncs either.

use crate::disk::DiskEvent;
use base::Instant;
use core::time::Duration;

/// The bounds of the stall that is tolerated after one that ended.
const TOLERATED_MIN: Duration = Duration::from_secs(1);
pub(crate) const TOLERATED_MAX: Duration = Duration::from_secs(10);
/// The time without a stall after which the next one is not tolerated.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The troubles that a disk has reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    is_full: bool,
    stalled_since: Option<Instant>,
    /// The length of a stall that is no reason to hand over, and the end of the last stall.
    tolerated: Duration,
    ended_at: Instant,
}

impl Trouble {
    /// Takes the news of the disk. A sync changes nothing.
    pub fn hear(&mut self, event: DiskEvent, now: Instant) {
        match event {
            DiskEvent::Synced(_) => {}
            DiskEvent::Full => self.is_full = true,
            DiskEvent::Room => self.is_full = false,
            DiskEvent::Stalled => {
                self.stalled_since.get_or_insert(now);
                if now.since(self.ended_at) > FORGOTTEN_AFTER {
                    self.tolerated = Duration::ZERO;
                }
            }
            DiskEvent::Flowing => {
                if let Some(since) = self.stalled_since.take() {
                    self.tolerated = (2 * now.since(since)).clamp(TOLERATED_MIN, TOLERATED_MAX);
                    self.ended_at = now;
                }
            }
        }
    }

    /// Whether there is no room.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the disk takes nothing, for longer than it did before it flowed again.
    pub fn lasts(&self, now: Instant) -> bool {
        self.is_full || self.tolerated_until().is_some_and(|until| until <= now)
    }

    /// The time from which the present stall is no longer tolerated; `None` without a stall.
    pub fn tolerated_until(&self) -> Option<Instant> {
        self.stalled_since.map(|since| since.plus(self.tolerated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn a_stall_is_tolerated_for_twice_as_long_as_the_last_one_took() {
        let mut trouble = Trouble::default();
        trouble.hear(DiskEvent::Stalled, at(1000));
        assert!(trouble.lasts(at(1000)), "the first one is not");
        trouble.hear(DiskEvent::Flowing, at(3000));
        assert!(!trouble.lasts(at(3000)));
        trouble.hear(DiskEvent::Stalled, at(4000));
        assert!(!trouble.lasts(at(7999)) && trouble.lasts(at(8000)));
        trouble.hear(DiskEvent::Flowing, at(9000));
        trouble.hear(DiskEvent::Stalled, at(69_001));
        assert!(trouble.lasts(at(69_001)), "the last one is long ago");
    }

    #[test]
    fn no_room_is_never_tolerated() {
        let mut trouble = Trouble::default();
        trouble.hear(DiskEvent::Stalled, at(1000));
        trouble.hear(DiskEvent::Flowing, at(3000));
        trouble.hear(DiskEvent::Full, at(3001));
        assert!(trouble.lasts(at(3001)));
        trouble.hear(DiskEvent::Room, at(9000));
        assert!(!trouble.lasts(at(9000)));
    }
}
