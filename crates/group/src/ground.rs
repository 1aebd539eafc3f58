//! What a process of a group stands on in production: a fabric, and the questions of founders.
//!
//! - P1 *Founders ask.* A process that founds a group asks every living process that it reaches
//!   whether there is one, on a channel that no machine listens to. Every process answers, from the
//!   moment on at which it polls.

use crate::options::MESSAGE_BYTES_MAX;
use crate::post::Post;
use crate::time;
use base::verb::Relay;
use base::{Event, Inbox, Instant, Port, Rank, SeatSet};
use engine::group::WallClock;
use engine::{Ground, StableStorage};
use fabric::{Fabric, HostFabric};
use proto::disk::DiskEvent;
use proto::vsync::{FLIGHT_BYTES_MAX, SUBGROUPS_MAX, Time, WRITE_WORDS_MAX};
use runtime::disk::LogDisk;

/// The first byte of the messages of founders, and of letters.
const CHANNEL: u8 = 0x67;
const _: () = assert!(CHANNEL != proto::MESSAGE_CHANNEL, "machines do not take these messages");
const ASK: u8 = 0;
const ANSWER: u8 = 1;
const LETTER: u8 = 2;

/// The longest letter, in bytes.
pub const LETTER_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(LETTER_BYTES_MAX + 2 <= fabric::shm::MESSAGE_BYTES_MAX);
const _: () = assert!(LETTER_BYTES_MAX + 2 <= fabric::tcp::wire::MESSAGE_BYTES_MAX);

// What machines rely on (`vsync`, V13): a link has room for rows besides, and takes such WRITEs.
const FLIGHT_MOST: usize =
    FLIGHT_BYTES_MAX as usize + (SUBGROUPS_MAX - 1) * MESSAGE_BYTES_MAX as usize;
const _: () = assert!(FLIGHT_MOST <= fabric::tcp::OUTPUT_BYTES_MAX * 15 / 16);
// Parcels are of a view that ends and of the next one (`vsync`, V25); what each costs beside its
// bytes is less than another half.
const _: () = assert!(2 * FLIGHT_MOST <= fabric::tcp::PARCELS_BYTES_MAX / 2);
const _: () = assert!(WRITE_WORDS_MAX <= fabric::tcp::wire::WORDS_MAX);

/// What a process says of itself to a founder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is in no view.
    Outside,
    /// It founds the group, or is about to.
    Founding,
    /// It is in this view.
    Inside(u64),
}

impl Standing {
    const fn word(self) -> u64 {
        match self {
            Standing::Outside => 0,
            Standing::Inside(view) => view,
            Standing::Founding => u64::MAX,
        }
    }

    const fn of(word: u64) -> Standing {
        match word {
            0 => Standing::Outside,
            u64::MAX => Standing::Founding,
            view => Standing::Inside(view),
        }
    }
}

/// A fabric, from which the questions of founders are answered.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) fabric: HostFabric,
    /// In a durable group.
    pub(crate) disk: Option<LogDisk>,
    /// What founders are told.
    pub(crate) standing: Standing,
    /// Questions that found no room for an answer are asked again.
    asked: Vec<Rank>,
    /// All that have asked: founders.
    pub(crate) founders: SeatSet,
    /// Letters that have come, at most as many as a poll brings.
    pub(crate) letters: Vec<(Rank, Vec<u8>)>,
    /// Peers whose links broke since the process looked last.
    pub(crate) broken: SeatSet,
}

impl Place {
    pub(crate) const fn new(fabric: HostFabric, disk: Option<LogDisk>) -> Place {
        Place {
            fabric,
            disk,
            standing: Standing::Outside,
            asked: Vec::new(),
            founders: SeatSet::EMPTY,
            letters: Vec::new(),
            broken: SeatSet::EMPTY,
        }
    }

    /// Asks the process on `seat`.
    pub(crate) fn ask(&mut self, seat: Rank) {
        let _asks_again = self.fabric.send(seat, &[CHANNEL, ASK]);
    }
}

/// Sends a letter to the process on `seat`; false if there is no room now.
pub(crate) fn send_letter(port: &mut impl Port, seat: Rank, letter: &[u8]) -> bool {
    port.send(seat, &[&[CHANNEL, LETTER], letter].concat())
}

/// The letter that `event` brings.
pub(crate) fn letter<'a>(event: &Event<'a>) -> Option<(Rank, &'a [u8])> {
    let Event::Message { from, bytes: [CHANNEL, LETTER, letter @ ..] } = event else { return None };
    Some((*from, letter))
}

/// The answer that `event` brings.
pub(crate) fn answer(event: &Event<'_>) -> Option<(Rank, Standing)> {
    let Event::Message { from, bytes } = event else { return None };
    let word = bytes.strip_prefix(&[CHANNEL, ANSWER])?;
    Some((*from, Standing::of(u64::from_le_bytes(word.try_into().ok()?))))
}

impl Relay for Place {
    type Port = HostFabric;

    fn port(&self) -> &HostFabric {
        &self.fabric
    }

    fn port_mut(&mut self) -> &mut HostFabric {
        &mut self.fabric
    }
}

impl Post for Place {
    fn send_letter(&mut self, seat: Rank, letter: &[u8]) -> bool {
        send_letter(&mut self.fabric, seat, letter)
    }

    fn take_letters(&mut self) -> Vec<(Rank, Vec<u8>)> {
        std::mem::take(&mut self.letters)
    }

    fn trouble(&self) -> Option<&str> {
        self.disk.as_ref().and_then(LogDisk::trouble)
    }
}

impl WallClock for Place {
    fn wall(&self) -> Time {
        time::Time::now().into()
    }
}

impl Ground for Place {
    type Disk = LogDisk;

    fn disk(&mut self) -> Option<&mut LogDisk> {
        self.disk.as_mut()
    }

    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        if let Some(disk) = &mut self.disk {
            disk.pump(now, |event| events.push(event));
        }
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        self.fabric.poll(inbox);
        for event in inbox.iter() {
            if let Some((from, letter)) = letter(&event) {
                self.letters.push((from, letter.to_vec()));
            }
            match event {
                Event::Message { from, bytes: [CHANNEL, ASK] } => {
                    self.asked.push(from);
                    self.founders.insert(from);
                }
                Event::LinkDown(seat) => {
                    self.broken.insert(seat);
                }
                Event::Message { .. } | Event::Completed { .. } => {}
                Event::ProcessFailed(_) | Event::LinkUp(_) => {}
            }
        }
        // P1
        for seat in self.asked.drain(..) {
            let word = self.standing.word().to_le_bytes();
            let message = [&[CHANNEL, ANSWER][..], &word].concat();
            let _asks_again = self.fabric.send(seat, &message);
        }
    }

    fn flush(&mut self) {
        self.fabric.flush();
    }
}
