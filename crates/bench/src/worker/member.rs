//! A worker that decides.

use super::order::{Answer, Order, Spec, Story};
use super::{Mail, decide, say, shape};
use crate::clock::shared_ns;
use crate::member::{Member, Wait, Witness};
use base::{Event, MAX_MEMBERS, MemberSet, Rank, Slot};
use fabric::Fabric;
use proto::{Note, Refused};
use std::time::{Duration, Instant};

/// The number of deliveries whose times are kept: roughly those of half a second.
const STAMPS: usize = 1 << 20;

/// The time to look before sleeping, which is the product's.
const SPIN: Duration = Duration::from_micros(20);
/// The delay with which a member under load reports that it leads, or no longer leads.
const TELL_AFTER: Duration = Duration::from_millis(2);

/// The events at this member, and their times.
pub(super) struct Watch {
    me: Rank,
    links: MemberSet,
    pub(super) leads: bool,
    /// The own values delivered so far.
    pub(super) delivered: u64,
    /// Whether to take times: only while a member may die, since reading the shared clock costs.
    stamp: bool,
    story: Story,
    stamps: Vec<(u64, Option<Rank>)>,
    n_stamps: usize,
}

impl Witness for Watch {
    fn delivered(&mut self, _: Slot, value: &[u8]) {
        self.delivered += 1;
        if !self.stamp {
            return;
        }
        // The first byte of every value names its proposer; a no-op has none.
        let proposer = value.first().and_then(|rank| Rank::new((*rank).into()));
        self.stamps[self.n_stamps % STAMPS] = (shared_ns(), proposer);
        self.n_stamps += 1;
    }

    fn noted(&mut self, note: Note) {
        match note {
            Note::Leading { .. } => {
                self.leads = true;
                self.story.leading_at = shared_ns();
            }
            Note::Deposed { .. } => self.leads = false,
            Note::ReadReady(_) | Note::ReadRefused(_) | Note::NeedState(_) => {}
        }
    }

    fn skipped(&mut self) {
        self.story.states_installed += 1;
    }

    fn brought(&mut self, event: &Event<'_>) {
        match event {
            Event::LinkUp(rank) if *rank != self.me => {
                self.links.insert(*rank);
            }
            Event::LinkDown(rank) => {
                self.links.remove(*rank);
            }
            Event::ProcessFailed(rank) => {
                let at = &mut self.story.failed_at[rank.index()];
                if *at == 0 {
                    *at = shared_ns();
                }
            }
            Event::LinkUp(_) | Event::Completed { .. } | Event::Message { .. } => {}
        }
    }
}

impl Watch {
    fn tell(&self, since_ns: u64, from_ns: u64, bin_ns: u64, n_bins: usize) -> Story {
        let mut bins = vec![0; n_bins];
        let mut first_seen_at = [0; MAX_MEMBERS];
        let kept = self.n_stamps.min(STAMPS);
        for (at, proposer) in &self.stamps[..kept] {
            if let Some(proposer) = proposer.filter(|_| *at > since_ns) {
                let first = &mut first_seen_at[proposer.index()];
                *first = if *first == 0 { *at } else { *at.min(first) };
            }
            let bin = at.checked_sub(from_ns).map(|after| (after / bin_ns) as usize);
            if let Some(count) = bin.and_then(|bin| bins.get_mut(bin)) {
                *count += 1;
            }
        }
        Story { bins, first_seen_at, ..self.story.clone() }
    }
}

/// A load of one value after the other, as long as this member leads.
struct Load {
    value: Vec<u8>,
    propose: bool,
    /// The count of delivered values that will include the value under way.
    awaited: Option<u64>,
}

pub(super) fn run<F: Fabric>(
    fabric: F,
    spec: &Spec,
    mail: &Mail,
) -> Result<(), Box<dyn std::error::Error>> {
    let me = Rank::at(spec.me);
    let watch = Watch {
        me,
        links: MemberSet::EMPTY,
        leads: false,
        delivered: 0,
        stamp: false,
        story: Story { failed_at: [0; MAX_MEMBERS], ..Story::default() },
        stamps: Vec::new(),
        n_stamps: 0,
    };
    let mut member = Member::new(fabric, me, spec.members, &shape(), watch);
    let mut load: Option<Load> = None;
    let mut ballast = Ballast::default();
    let mut stands = (false, 0);
    let mut busy_at = Instant::now();
    let mut changed_at = None;
    loop {
        match mail.next(member.clock().now()) {
            None => {}
            Some(Order::Ballast(bytes)) => {
                ballast.wanted = bytes;
            }
            Some(Order::Load { value_bytes, propose }) => {
                let mut value = vec![7; value_bytes.max(1)];
                value[0] = spec.me as u8;
                let watch = member.witness();
                watch.stamp = true;
                watch.stamps.resize(STAMPS, (0, None));
                load = Some(Load { value, propose, awaited: None });
                say(&Answer::Done);
            }
            Some(Order::Decide { value_bytes, wait, warm_up, span }) => {
                match decide::run(&mut member, value_bytes, warm_up, span, wait) {
                    Ok(took) => say(&took),
                    Err(decide::Stop::Deposed) => say(&Answer::Deposed),
                    Err(stop @ decide::Stop::Wait(_)) => return Err(stop.into()),
                }
            }
            Some(Order::Tell { since_ns, from_ns, bin_ns, bins }) => {
                say(&Answer::Story(member.witness().tell(since_ns, from_ns, bin_ns, bins)));
            }
            Some(order @ (Order::Peers(_) | Order::Verbs { .. })) => {
                return Err(format!("no order for a member: {order:?}").into());
            }
        }
        if ballast.grow() {
            say(&Answer::Done);
        }
        let loaded = load.as_mut().is_some_and(|load| drive(&mut member, load));
        let busy = member.turn();
        let watch = member.witness();
        let now = (watch.leads, watch.links.len());
        // Under load a line to the parent would disturb the measurement: it waits a little.
        let told_at =
            if now == stands { None } else { Some(*changed_at.get_or_insert_with(Instant::now)) };
        if told_at.is_some_and(|at| load.is_none() || at.elapsed() > TELL_AFTER) {
            changed_at = None;
            stands = now;
            say(&Answer::Stands { leads: now.0, links: now.1 });
        }
        if loaded || ballast.grows() || spec.wait == Wait::Spin {
            continue;
        }
        if busy {
            busy_at = Instant::now();
        } else if busy_at.elapsed() > SPIN && !member.is_alert() {
            member.sleep()?;
        }
    }
}

/// Proposes if it is time to. True if this member is under load.
fn drive<F: Fabric>(member: &mut Member<F, Watch>, load: &mut Load) -> bool {
    let watch = member.witness();
    if !load.propose || !watch.leads {
        load.awaited = None;
        return false;
    }
    let delivered = watch.delivered;
    if load.awaited.is_none_or(|awaited| delivered >= awaited) {
        match member.propose(&load.value) {
            Ok(_) => load.awaited = Some(delivered + 1),
            Err(Refused::Full | Refused::NotLeader) => {}
            Err(Refused::TooLong) => unreachable!("the parent asks for values that fit"),
        }
    }
    true
}

/// Memory that is really allocated. It grows in pieces, so that a leader's heartbeats continue.
#[derive(Default)]
struct Ballast {
    wanted: u64,
    held: u64,
    pieces: Vec<Vec<u8>>,
}

impl Ballast {
    const PIECE: u64 = 1 << 20;

    fn grows(&self) -> bool {
        self.held < self.wanted
    }

    /// True when all of it is allocated, once.
    fn grow(&mut self) -> bool {
        if !self.grows() {
            return false;
        }
        let bytes = Ballast::PIECE.min(self.wanted - self.held);
        // The bytes are not zero, so the pages are touched.
        self.pieces.push(vec![1; bytes as usize]);
        self.held += bytes;
        !self.grows()
    }
}
