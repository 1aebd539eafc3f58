//! A peer: its mapped region, its life, and its end.
//!
//! ```text
//!          mapped, and a life is announced                  a later life is announced
//!   Down ------------------------------------> Up <---------------------------------- Failed
//!     ^               (LinkUp)                  |                 (LinkUp)               ^ |
//!     |                                         +---- that life ended (ProcessFailed) ---+ |
//!     +---- the region was removed or replaced, or its ring is garbled (LinkDown) ---------+
//! ```
//!
//! - L1 Verbs are performed in `Up` and `Failed` (the memory outlives the process), otherwise they
//!   are `Unknown`.
//! - L2 The messages of a life are delivered before its end is reported; no message of a later life
//!   before its `LinkUp`.
//! - L3 `life` never falls: lives are ordered across restarts and replacements of a node. By
//!   construction of `region` (I5 there).
//! - L4 New memory in the place of old memory is reported, and verbs are performed on it, from the
//!   poll on that follows the one which reports `LinkDown` (T10). Tested by `a_break_is_a_cut`.
//! - L5 A process is said to have ended when the kernel has released its lock, when it has removed
//!   its memory itself, or when a later one has its seat, which it is given after that alone. The
//!   later one can have the lower incarnation: a memory that is removed keeps no number, and clocks
//!   can be set back. So of the process that was met last its own end counts alone.

use super::bell::Bell;
use super::ring::{Consumer, Producer, Received};
use base::{Event, Inbox, Incarnation, Rank};
use region::layout::beacon;
use region::robust::{Seen, Watch};
use region::{Identity, Owner, Region, Words};
use std::path::Path;
use std::sync::atomic::{Ordering::SeqCst, fence};

/// The most messages that one poll takes from one peer: the others are taken by the next poll.
const MESSAGES_PER_POLL: usize = 256;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The peer's memory is not mapped: it was never made, or was removed.
    Down,
    /// The peer's process lives.
    Up,
    /// The peer's process has died; its memory still answers.
    Failed,
}

/// The report about a link, for `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The peer.
    pub peer: Rank,
    /// The state.
    pub state: LinkState,
    /// The incarnation of the peer's memory that is mapped.
    pub incarnation: Option<Incarnation>,
    /// The process that owned that memory last.
    pub pid: Option<u64>,
    /// The reason why the link is not fully usable: cause and remedy.
    pub trouble: Option<String>,
    /// Messages that were dropped since they were not for the present lives.
    pub dropped: u64,
}

#[derive(Debug)]
struct Mapped {
    region: Region,
    beacon: Words,
    producer: Producer,
    bell: Option<Bell>,
    /// The poll loop's own watch, and the last life that it has seen ended.
    watch: Watch,
    ended: u64,
}

#[derive(Debug)]
pub(super) struct Link {
    peer: Rank,
    me: Rank,
    my_life: u64,
    state: LinkState,
    /// The last life of the peer that was reported up; 0 before the first.
    life: u64,
    mapped: Option<Mapped>,
    consumer: Option<Consumer>,
    garbled: bool,
    /// Whether memory that was found is reported only at the next look (L4).
    withheld: bool,
    trouble: Option<String>,
    dropped: u64,
    /// The highest incarnation whose memory its process has removed (L5).
    retired: Incarnation,
    /// The incarnation whose memory was mapped last, and whether its process has removed that.
    met: (Incarnation, bool),
}

impl Link {
    pub(super) fn new(peer: Rank, me: Rank, my_life: u64, owner: &Owner) -> Link {
        Link {
            peer,
            me,
            my_life,
            state: LinkState::Down,
            life: 0,
            mapped: None,
            consumer: (peer != me).then(|| Consumer::new(owner.ring(peer.index()))),
            garbled: false,
            withheld: false,
            trouble: None,
            dropped: 0,
            retired: Incarnation(0),
            met: (Incarnation(0), false),
        }
    }

    pub(super) fn peer(&self) -> Rank {
        self.peer
    }

    /// The memory on which verbs are performed (L1, S3).
    pub(super) fn memory(&self) -> Option<Words> {
        match self.state {
            LinkState::Down => None,
            LinkState::Up | LinkState::Failed => self.mapped.as_ref().map(|m| m.region.words()),
        }
    }

    /// The incarnation of the memory that is mapped.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.mapped.as_ref().map(|mapped| mapped.region.incarnation())
    }

    /// L5: whether the last process with this memory has ended: the kernel has said so, or another
    /// one has the seat.
    pub(super) fn has_ended(&self, incarnation: Incarnation) -> bool {
        let (met, has_removed) = self.met;
        if incarnation == met {
            return has_removed || self.state == LinkState::Failed;
        }
        incarnation <= self.retired || incarnation < met
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Whether a later look may find more.
    pub(super) fn is_missing(&self) -> bool {
        self.state == LinkState::Down || self.trouble.is_some()
    }

    pub(super) fn report(&self) -> LinkReport {
        LinkReport {
            peer: self.peer,
            state: self.state,
            incarnation: self.mapped.as_ref().map(|mapped| mapped.region.incarnation()),
            pid: self.mapped.as_ref().map(|mapped| mapped.region.owner_pid()),
            trouble: self.trouble.clone(),
            dropped: self.dropped,
        }
    }

    /// Looks at the peer's file, life and death, and reports every change.
    pub(super) fn attend(
        &mut self,
        directory: &Path,
        identity: &Identity,
        is_watched: bool,
        inbox: &mut Inbox,
    ) {
        let gone = |m: &Mapped| m.region.is_retired() || !m.region.is_named(directory, identity);
        if self.mapped.as_ref().is_some_and(|mapped| self.garbled || gone(mapped)) {
            self.unmap(inbox);
        }
        self.trouble = None;
        self.withheld = false;
        if self.mapped.is_none() {
            match Region::open_peer(directory, identity) {
                Ok(region) => self.map(region),
                Err(error) => self.trouble = Some(error.to_string()),
            }
        }
        self.notice_end(inbox);
        let Some(mapped) = &mut self.mapped else { return };
        if mapped.bell.is_none() {
            match Bell::open(directory, self.peer) {
                Ok(bell) => mapped.bell = Some(bell),
                Err(error) => self.trouble = Some(format!("cannot open its doorbell: {error}")),
            }
        }
        if !is_watched {
            self.trouble = Some("no thread to watch it: raise the process limit".into());
        }
        if self.trouble.is_some() {
            return;
        }
        let (held, ended) = (mapped.watch.life(), mapped.ended);
        if self.state == LinkState::Up && (held > self.life || ended >= self.life) {
            self.fail(inbox);
        }
        let is_news = held > self.life || (self.state == LinkState::Down && held == self.life);
        if self.state != LinkState::Up && held > 0 && is_news {
            // L4. (`LinkDown` was reported in this poll: the caller's inbox holds nothing older.)
            self.withheld = inbox.iter().any(|event| event == Event::LinkDown(self.peer));
            if self.withheld {
                return;
            }
            self.life = held;
            self.state = LinkState::Up;
            inbox.push(Event::LinkUp(self.peer));
            // Its memory is there even if it died before it was met.
            if ended >= held {
                self.fail(inbox);
            }
        }
    }

    /// The mapped region, and the life that its owner has announced, to be watched.
    pub(super) fn watched(&self) -> Option<(Incarnation, u64)> {
        self.mapped.as_ref().map(|mapped| (mapped.region.incarnation(), mapped.watch.life()))
    }

    /// A watch over the peer's life, for a thread that waits.
    pub(super) fn watch(&self) -> Option<Watch> {
        self.mapped.as_ref().map(|mapped| mapped.region.watch(self.me.index()))
    }

    /// Reports the end of the peer's process if it has ended; true if so.
    pub(super) fn notice_end(&mut self, inbox: &mut Inbox) -> bool {
        self.glance();
        let Some(mapped) = &self.mapped else { return false };
        let ended = self.state == LinkState::Up && mapped.ended >= self.life;
        if ended {
            self.fail(inbox);
        }
        ended
    }

    fn map(&mut self, region: Region) {
        let beacon = region.beacon();
        let producer = Producer::new(region.ring(self.me.index()));
        let watch = region.watch(self.me.index());
        self.met = (region.incarnation(), false);
        self.mapped = Some(Mapped { region, beacon, producer, bell: None, watch, ended: 0 });
    }

    /// Checks whether the peer's process has died; true if so, and the link needs attention.
    ///
    /// The watching thread learns it too, but a loop that spins may keep that thread off the CPU.
    pub(super) fn glance(&mut self) -> bool {
        match &mut self.mapped {
            Some(mapped) if self.state == LinkState::Up => match mapped.watch.look() {
                Seen::Ended(life) => {
                    mapped.ended = life;
                    true
                }
                Seen::NobodyThere | Seen::Alive => false,
            },
            _ => false,
        }
    }

    /// Tells the peer that this node is there: it looks at its links at its next poll.
    pub(super) fn announce(&self) {
        if let Some(mapped) = &self.mapped {
            mapped.beacon.fetch_add(beacon::ARRIVALS, 1);
            fence(SeqCst); // pairs with `show_sleep`: the count, then the flag
            self.ring_if_asleep();
        }
    }

    /// Rings the peer's bell if it sleeps. The caller has passed a SeqCst fence.
    #[inline]
    pub(super) fn ring_if_asleep(&self) {
        if let Some(Mapped { beacon, bell: Some(bell), .. }) = &self.mapped
            && beacon.load(beacon::SLEEPING) != 0
            && beacon.swap(beacon::SLEEPING, 0) != 0
        {
            bell.ring(); // S2: the swap is won once a sleep
        }
    }

    fn fail(&mut self, inbox: &mut Inbox) {
        self.drain(inbox); // L2
        self.state = LinkState::Failed;
        inbox.push(Event::ProcessFailed(self.peer));
    }

    fn unmap(&mut self, inbox: &mut Inbox) {
        self.drain(inbox); // L2
        if let Some(retired) = self.mapped.as_ref().filter(|mapped| mapped.region.is_retired()) {
            // L5
            self.retired = self.retired.max(retired.region.incarnation());
            self.met.1 = true;
        }
        self.mapped = None;
        self.garbled = false;
        if std::mem::replace(&mut self.state, LinkState::Down) != LinkState::Down {
            inbox.push(Event::LinkDown(self.peer));
        }
    }

    fn drain(&mut self, inbox: &mut Inbox) {
        while self.receive(inbox) == MESSAGES_PER_POLL {}
    }

    /// Takes messages out of the peer's ring; returns the number of frames.
    #[inline]
    pub(super) fn receive(&mut self, inbox: &mut Inbox) -> usize {
        match &self.consumer {
            Some(consumer) if !consumer.is_empty() => self.receive_some(inbox),
            _ => 0,
        }
    }

    fn receive_some(&mut self, inbox: &mut Inbox) -> usize {
        let Some(consumer) = &mut self.consumer else { return 0 };
        for taken in 0..MESSAGES_PER_POLL {
            match consumer.next(self.peer, self.life, self.my_life, inbox) {
                Received::Message => {}
                Received::Stale => self.dropped += 1,
                // Its arrival, or its late announcement, causes the next look at the link.
                Received::Empty | Received::Later => return taken,
                Received::Garbled => {
                    self.garbled = true;
                    return taken;
                }
            }
        }
        MESSAGES_PER_POLL
    }

    /// Whether the next poll must look at this link.
    #[inline]
    pub(super) fn wants_a_look(&self) -> bool {
        self.garbled || self.withheld
    }

    /// Sends a message; false if there is no room. A message to a dead process is lost, as if it
    /// were lost on its way.
    #[inline]
    pub(super) fn send(&mut self, message: &[u8]) -> bool {
        match &mut self.mapped {
            Some(mapped) if self.state == LinkState::Up => {
                mapped.producer.send(self.my_life, self.life, message)
            }
            _ => {
                self.dropped += 1;
                true
            }
        }
    }
}
