//! A worker that decides: a production member, whose client and orders are in its door.

use super::client::Client;
use super::decide::Decide;
use super::mail::Mail;
use super::order::{Answer, Order, Spec, Story};
use crate::child::say;
use crate::counter::Counter;
use crate::member::{News, Tap, Wait};
use base::{Incarnation, MAX_MEMBERS, NodeId, Rank};
use fabric::{Fabric, HostFabric};
use proto::LogShape;
use proto::node::{NodeConfig, Start, Timing};
use proto::planted::Sound;
use proto::registry::{self, LogSpec, LogVisitor};
use runtime::disk::LogDisk;
use runtime::replica::{LogReplica, Memory};
use runtime::{Config, Family, HostPlant, Interest, Origin, Replica};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use storage::{Directory, Identity};

/// The delay with which a member under load reports that it leads, or no longer leads.
const TELL_AFTER: Duration = Duration::from_millis(2);
/// The key of the parent's orders in the poller.
const KEY_ORDERS: u64 = 0;
/// The life of a member's process: each has one.
const LIFE: Incarnation = Incarnation(1);

type Failed = Box<dyn Error>;

/// A worker but for its protocol.
struct Run<'a> {
    fabric: HostFabric,
    spec: &'a Spec,
    mail: Mail,
}

pub(super) fn run(fabric: HostFabric, spec: &Spec, mail: Mail) -> Result<(), Failed> {
    spec.protocol()?.visit(Run { fabric, spec, mail })
}

impl LogVisitor for Run<'_> {
    type Output = Result<(), Failed>;

    fn visit<S: LogSpec>(self) -> Result<(), Failed> {
        let Run { fabric, spec, mail } = self;
        let me = Rank::at(spec.me);
        let capabilities = fabric.capabilities();
        let node = NodeConfig {
            me,
            members: spec.members,
            start: Start::Bootstrap,
            timing: Timing::default(),
            memory_outlives_process: capabilities.memory_outlives_process,
            peer_works: capabilities.peer_works,
        };
        let orders = mail.wait_fd().try_clone_to_owned()?;
        let disk = spec.data.as_deref().map(|data| disk_in(data, spec.me)).transpose()?;
        let config = Config::new(Origin { rank: me, life: LIFE }, spec.members);
        let replica = LogReplica::new(
            config,
            Tap::new(fabric, me),
            (Counter::default(), Client::new(mail)),
            disk.map(|disk| (disk, None)),
            |memory: &mut Memory<Tap, Counter, Client>| {
                registry::member::<S, _, _>(node, &LogShape::default(), Sound, memory)
            },
        )?;
        replica.poller().add(&orders, KEY_ORDERS, Interest::Read)?;
        serve(replica, spec)
    }
}

/// A new log in a directory of its own.
fn disk_in(data: &Path, me: usize) -> Result<LogDisk, Failed> {
    let identity =
        Identity { cluster: 0, node: NodeId(me as u16 + 1), incarnation: Incarnation::FIRST };
    let directory = Directory::create(&data.join(format!("member-{}", me + 1)), &identity)?;
    Ok(LogDisk::open(directory)?.0)
}

/// What a worker is occupied with, outside of its replica.
struct Errands {
    /// How an idle member waits.
    wait: Wait,
    /// How a measuring leader waits.
    decides: Option<Wait>,
    loaded: bool,
    ballast: Ballast,
    /// Whether it leads and the number of its links, as the parent was told.
    stands: (bool, usize),
    changed_at: Option<Instant>,
    /// Whether the replica's loop spins now.
    spins: bool,
}

impl Errands {
    /// Whether the loop should spin.
    fn should_spin(&self, client: &Client, news: &News) -> bool {
        let wait = self.decides.filter(|_| client.is_at_work()).unwrap_or(self.wait);
        let under_load = self.loaded && client.is_at_work() && news.leads;
        wait == Wait::Spin || under_load || self.ballast.grows()
    }

    /// Whether the parent is to be told how this member stands. Under load a line to the parent
    /// would disturb the measurement: it waits a little.
    fn has_changed(&mut self, news: &News) -> bool {
        if (news.leads, news.links.len()) == self.stands {
            self.changed_at = None;
            return false;
        }
        let changed_at = self.changed_at.get_or_insert_with(Instant::now);
        !self.loaded || changed_at.elapsed() > TELL_AFTER
    }

    /// Whether the replica's loop is to end for a moment, so that something can be done.
    fn are_due(&mut self, client: &Client, news: &News) -> bool {
        self.has_changed(news)
            || client.has_news()
            || self.ballast.grows()
            || self.should_spin(client, news) != self.spins
    }
}

/// Runs the replica's loop and, between its turns, the errands.
fn serve<C>(mut replica: Replica<C>, spec: &Spec) -> Result<(), Failed>
where
    C: Family<Plant = HostPlant<Tap>, App = Counter, Door = Client>,
{
    let mut errands = Errands {
        wait: spec.wait,
        decides: None,
        loaded: false,
        ballast: Ballast::default(),
        stands: (false, 0),
        changed_at: None,
        spins: false,
    };
    loop {
        let (mut has_turned, mut news) = (false, None);
        replica.run(|client, tap| {
            let stops = has_turned && errands.are_due(client, tap.news());
            has_turned = true;
            news = stops.then(|| *tap.news());
            stops
        })?;
        let Some(news) = news else { continue };
        if errands.has_changed(&news) {
            errands.stands = (news.leads, news.links.len());
            errands.changed_at = None;
            say(&Answer::Stands { leads: errands.stands.0, links: errands.stands.1 });
        }
        if errands.ballast.grow() {
            say(&Answer::Done);
        }
        let (counter, client) = replica.served();
        if let Some(outcome) = client.take_outcome() {
            say(&outcome);
        }
        while let Some(order) = client.next_order() {
            carry_out(order, &mut errands, counter, client, &news)?;
        }
        errands.spins = errands.should_spin(client, &news);
        replica.spin_for(if errands.spins { Duration::MAX } else { Duration::ZERO });
    }
}

fn carry_out(
    order: Order,
    errands: &mut Errands,
    counter: &mut Counter,
    client: &mut Client,
    news: &News,
) -> Result<(), Failed> {
    match order {
        Order::Ballast(bytes) => errands.ballast.wanted = bytes,
        Order::Load { value_bytes, propose } => {
            counter.stamp();
            errands.loaded = true;
            if propose {
                client.load(vec![7; value_bytes.max(1)]);
            }
            say(&Answer::Done);
        }
        Order::Decide { value_bytes, wait, warm_up, span } => {
            errands.decides = Some(wait);
            client.decide(Decide::new(value_bytes.max(1), warm_up, span));
        }
        Order::Tell { since_ns, from_ns, bin_ns, bins } => {
            say(&Answer::Story(tell(counter, news, since_ns, from_ns, bin_ns, bins)));
        }
        Order::Peers(_) | Order::Verbs { .. } => {
            return Err(format!("no order for a member: {order:?}").into());
        }
    }
    Ok(())
}

fn tell(
    counter: &Counter,
    news: &News,
    since_ns: u64,
    from_ns: u64,
    bin_ns: u64,
    n_bins: usize,
) -> Story {
    let mut bins = vec![0; n_bins];
    let mut first_seen_at = [0; MAX_MEMBERS];
    for (at, proposer) in counter.stamps().into_iter().flat_map(|stamps| stamps.iter()) {
        if at > since_ns {
            let first = &mut first_seen_at[proposer.index()];
            *first = if *first == 0 { at } else { at.min(*first) };
        }
        let bin = at.checked_sub(from_ns).map(|after| (after / bin_ns) as usize);
        if let Some(count) = bin.and_then(|bin| bins.get_mut(bin)) {
            *count += 1;
        }
    }
    Story {
        bins,
        first_seen_at,
        failed_at: news.failed_at,
        leading_at: news.leading_at,
        states_installed: counter.n_restored(),
    }
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
