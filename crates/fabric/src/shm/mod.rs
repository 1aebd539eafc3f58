//! One-sided memory between processes of one host.
//!
//! A verb is an atomic operation on the peer's mapped region ([`region`]), which the poster's CPU
//! performs at once, with no system call and no help from the peer. Its completion waits in an
//! inbox for the next poll. Messages go through one ring per (sender, receiver) in the receiver's
//! region. A sleeping peer has announced its sleep in its region, and is woken through a named FIFO
//! beside it.
//!
//! # How the promises are kept
//! - T1, T6 by the CPU: aligned 8-byte atomics, one's own region like any other.
//! - T2 every store publishes what was stored before it (release), every READ is followed by an
//!   acquire fence, and a READ behind a modification is preceded by a SeqCst fence (S1): a later
//!   READ cannot overtake the store buffer.
//! - T4 a verb is performed within the call that posts it or not at all; completions are queued in
//!   the order of the calls.
//! - T5 by release and acquire, see `region`.
//! - T7 see `ring.rs`; a frame names the sender's and the receiver's life, so no frame crosses a
//!   restart.
//! - T8 the robust mutexes of `region::robust`, on which one thread waits (`watch.rs`), and at
//!   which a spinning loop looks regularly, and every loop after a sleep; a region that its owner
//!   removed is marked as removed.
//! - T9 the sleeper sets its flag, then looks; the waker writes, then looks at the flag: with a
//!   SeqCst fence on both sides at least one sees the other (`ShmFabric::ring`, S2). A sleeper that
//!   takes its rings sets its flag again, then looks (`ShmFabric::attend`).
//! - T10 new memory in the place of old memory accepts verbs from the poll on that follows the one
//!   which reported the end of its predecessor (`link.rs`, L4).
//!
//! # Invariants
//! - S1 `unfenced` names every region that this node has modified since its last SeqCst fence.
//! - S2 the peer that finds the sleep flag set clears it (swap), so a sleep costs one ring, and one
//!   more for each time that the sleeper takes the rings and sleeps all the same.
//! - S3 a peer is `Up` or `Failed` exactly if its memory is mapped and verbs are performed; see
//!   `link.rs`.
//! - S4 arrivals make regular looks at files unnecessary: a member that maps a region adds one to
//!   its arrival count *after* its own region has a name, so of two members that start together at
//!   least one finds the other, and tells it.
//!
//! A poll that finds nothing new costs a few loads of cached words. Files are only looked at after
//! an arrival or an alarm of a watch, and while a link is missing: every [`RETRY`] and after a
//! sleep.

mod bell;
mod link;
mod looks;
mod ring;
mod verbs;
mod watch;

use crate::setup::{OpenError, Setup};
use crate::{Atomicity, Capabilities, Fabric};
use base::{FABRIC_SEATS_MAX, Inbox, Rank, SeatSet};
use bell::Bell;
use link::Link;
use looks::Looks;
use region::layout::beacon;
use region::robust::Held;
use region::schedule::Loop;
use region::{Identity, Owner, Region, Words};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::Duration;
use watch::{Alarm, Lookout};

pub use link::{LinkReport, LinkState};
pub use looks::RETRY;
pub use ring::MESSAGE_BYTES_MAX;

/// The words of each message ring: 512 KiB, twice the longest message.
pub const RING_WORDS: u32 = 1 << 16;

/// The time for which the start waits for the remains of the last life to end.
const HOLD_PATIENCE: Duration = Duration::from_millis(20);

/// One member's end of a group on one host. Not `Send`: the kernel reports the end of the thread
/// that opened it, so that thread must poll it.
#[derive(Debug)]
pub struct ShmFabric {
    /// The memory on which verbs are performed, by rank. The own region by loop-back; `None` while
    /// a link is down.
    memory: [Option<Words>; FABRIC_SEATS_MAX],
    /// The regions modified since the last SeqCst fence (S1).
    unfenced: SeatSet,
    /// The completions since the last poll.
    done: Inbox,
    me: Rank,
    members: usize,
    own: Words,
    beacon: Words,
    looks: Looks,
    /// The number of hurries that it knows of, so that it ends them.
    hurries: u64,
    alarm: Arc<Alarm>,
    lookout: Lookout,
    bell: Bell,
    asleep: bool,
    pace: Loop,
    links: Vec<Link>,
    setup: Setup,
    // Released before the region: fields drop in this order.
    held: Held,
    owner: Owner,
}

impl ShmFabric {
    /// Makes this member's region and opens its end: for a new cluster, or a replaced member.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn create(setup: &Setup) -> Result<ShmFabric, OpenError> {
        setup.validate()?;
        let identity = setup.identity_of(setup.me, RING_WORDS);
        let owner = Region::create(&setup.directory, &identity, setup.incarnation)?;
        // A member that maps the region before the bell exists tries to open the bell again when it
        // rings.
        match Bell::make(&setup.directory, setup.me) {
            Ok(bell) => Ok(ShmFabric::start(setup, owner, bell)),
            Err(error) => {
                // The first error is reported; a second one here has the same cause.
                let _ = owner.remove();
                Err(error)
            }
        }
    }

    /// Opens the end of a member whose region outlived its last process, in the same boot.
    ///
    /// # Errors
    /// [`OpenError`]; the region keeps what it holds.
    pub fn attach(setup: &Setup) -> Result<ShmFabric, OpenError> {
        setup.validate()?;
        let identity = setup.identity_of(setup.me, RING_WORDS);
        let owner = Region::attach(&setup.directory, &identity)?;
        let bell = Bell::make(&setup.directory, setup.me)?;
        Ok(ShmFabric::start(setup, owner, bell))
    }

    fn start(setup: &Setup, owner: Owner, bell: Bell) -> ShmFabric {
        let (me, members) = (setup.me, setup.members);
        let beacon = owner.beacon();
        beacon.store(beacon::SLEEPING, 0);
        let links =
            Rank::all(members).map(|peer| Link::new(peer, me, owner.life(), &owner)).collect();
        let pace = Loop::of_this_thread();
        let alarm = Arc::new(Alarm::new(bell.clone(), pace.pace()));
        // This comes last: from here on peers learn of this life, and of its end.
        let held = Held::hold(&owner, HOLD_PATIENCE);
        let mut fabric = ShmFabric {
            memory: std::array::from_fn(|_| None),
            unfenced: SeatSet::EMPTY,
            done: Inbox::new(),
            me,
            members,
            own: owner.words(),
            looks: Looks::new(beacon.load(beacon::ARRIVALS)),
            hurries: 0,
            beacon,
            lookout: Lookout::new(Arc::clone(&alarm)),
            alarm,
            bell,
            asleep: false,
            pace,
            links,
            setup: setup.clone(),
            held,
            owner,
        };
        fabric.memory[me.index()] = Some(fabric.own.clone());
        // The first look, so that the peers know of this member from here on; its news is for the
        // first poll.
        let mut news = Inbox::new();
        fabric.attend(&mut news);
        fabric.done = news;
        fabric
    }

    /// Stops for good and removes the region: peers see the link go down. The memory is lost.
    ///
    /// # Errors
    /// [`OpenError::Region`] if the file could not be removed.
    pub fn remove(self) -> Result<(), OpenError> {
        let ShmFabric { bell, held, owner, setup, .. } = self;
        bell.remove(&setup.directory, setup.me);
        // The region is retired before the locks are released, so that no peer takes this for a
        // crash.
        owner.remove()?;
        drop(held);
        Ok(())
    }

    /// The reports about all links, and why a missing one is missing.
    pub fn links(&self) -> impl Iterator<Item = LinkReport> + '_ {
        self.links.iter().filter(|link| link.peer() != self.me).map(Link::report)
    }

    /// This node's own region.
    pub fn region(&self) -> &Region {
        self.owner.region()
    }

    fn identity_of(&self, peer: Rank) -> Identity {
        self.setup.identity_of(peer, RING_WORDS)
    }

    /// Handles a possible change of the links in a poll.
    #[cold]
    #[inline(never)]
    fn attend(&mut self, inbox: &mut Inbox) {
        // The count comes before the look: later events are handled next time.
        self.looks.alarms = self.alarm.count();
        // A death is reported at once; news from files (a removed region, a successor's) can wait
        // until the members that take over have done so.
        let mut died = false;
        for link in &mut self.links {
            died |= link.notice_end(inbox);
        }
        if died {
            return self.looks.note_death();
        }
        self.looks.arrivals = self.beacon.load(beacon::ARRIVALS);
        self.looks.again = false;
        let was_complete = self.held.is_complete();
        self.looks.missing = !self.held.retry();
        self.bell.drain();
        if self.asleep {
            // What rang may be no work: then the loop sleeps after this look (T9).
            self.show_sleep();
        }
        let is_watched = self.lookout.is_kept();
        self.looks.missing |= !is_watched;
        for peer in Rank::all(self.members) {
            if peer == self.me {
                continue;
            }
            let identity = self.identity_of(peer);
            let link = &mut self.links[peer.index()];
            let was_mapped = link.is_mapped();
            link.attend(&self.setup.directory, &identity, is_watched, inbox);
            if (link.is_mapped() && !was_mapped) || !was_complete {
                link.announce(); // S4; and once more for a life that was announced late
            }
            self.looks.missing |= link.is_missing();
            self.memory[peer.index()] = link.memory();
        }
        let lives = std::array::from_fn(|at| self.links.get(at).and_then(Link::watched));
        self.lookout.keep(lives, self.links.iter().filter_map(Link::watch));
        self.looks.end();
    }

    /// The regular check: true if the links need attention though no event reported it.
    #[inline]
    fn glance(&mut self) -> bool {
        self.looks.count_poll() && self.glance_now()
    }

    fn glance_now(&mut self) -> bool {
        // The look at the links that follows a death checks all of them.
        self.links.iter_mut().any(Link::glance) || self.looks.is_retry_due()
    }

    /// Has peers ring from here on (T9).
    fn show_sleep(&mut self) {
        self.beacon.store(beacon::SLEEPING, 1);
        fence(SeqCst); // pairs with the one in `ring`: the flag, then the look around
        self.unfenced = SeatSet::EMPTY;
    }

    /// Rings the bell of `to` if it sleeps (T9).
    #[inline]
    fn ring(&mut self, to: Rank) {
        fence(SeqCst); // pairs with the one in `show_sleep`: what was posted, then the flag
        self.unfenced = SeatSet::EMPTY;
        self.links[to.index()].ring_if_asleep();
    }
}

impl Fabric for ShmFabric {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "shm",
            memory_outlives_process: true,
            atomicity: Atomicity::WithCpu,
            write_permission: false,
            peer_works: false,
        }
    }

    #[inline]
    fn flush(&mut self) {}

    fn poll(&mut self, inbox: &mut Inbox) {
        if inbox.is_empty() {
            std::mem::swap(&mut self.done, inbox);
        } else {
            self.done.iter().for_each(|event| inbox.push(event));
        }
        self.done.clear();
        if self.looks.again
            || self.alarm.count() != self.looks.alarms
            || self.beacon.load(beacon::ARRIVALS) != self.looks.arrivals
            || self.glance()
        {
            self.attend(inbox);
        }
        if self.alarm.hurries() != self.hurries {
            self.hurries = self.alarm.hurries();
            self.pace.hurried();
        }
        if self.pace.is_unsettled()
            && let Some(leads) = self.pace.settle()
        {
            self.lookout.rest(leads);
            self.looks.again |= !leads;
        }
        for link in &mut self.links {
            link.receive(inbox);
            self.looks.again |= link.wants_a_look();
        }
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn prepare_sleep(&mut self) {
        self.asleep = true;
        self.show_sleep();
    }

    fn awake(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.beacon.swap(beacon::SLEEPING, 0);
            self.bell.drain();
            // News of links is counted; only missing peers must be looked for, and peers that no
            // thread watches must be checked.
            self.looks.again |= self.glance_now();
        }
    }

    fn lead(&mut self, leads: bool) {
        self.pace.lead(leads);
    }

    #[inline]
    fn is_alert(&mut self) -> bool {
        self.looks.is_alert()
    }
}
