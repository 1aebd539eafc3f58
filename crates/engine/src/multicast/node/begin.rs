//! The beginning of a node: with its system, as another incarnation, or from its disk.

use super::{Node, joint, lives, snapshots};
use crate::ground::Ground;
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::desk::{Desk, sender_of};
use crate::multicast::journal::{Journal, Sizes};
use crate::multicast::member::{Member, comes_back, whole};
use crate::multicast::places::Places;
use crate::multicast::repeats::Repeats;
use crate::multicast::stop::StopError;
use crate::multicast::stream::{Streams, Who};
use crate::multicast::world::World;
use base::{At, FABRIC_SEATS_MAX, Inbox, Instant, Rank, SeatSet};
use core::time::Duration;
use proto::amcast::{Config, FOUNDER, GroupSet, MAX_GROUPS, Multicast};
use proto::omega::{self, Omega, Timing};
use proto::planted::{Planting, Sound};

/// The parameters of a node. All but `me` are the same at every node of a system.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The node.
    pub me: Rank,
    /// The places of all members.
    pub places: Places,
    /// The parameters of its machines.
    pub config: Config,
    /// The most own messages under way.
    pub window: usize,
    /// The most bytes that a live peer has not taken; above it `multicast` to its groups refuses.
    /// Also the most bytes of own messages under way.
    pub backlog_bytes: usize,
    /// The most bytes kept for a peer that is not heard.
    pub kept_bytes: usize,
    /// The most bytes kept for members that miss them where states cannot be given.
    pub held_bytes: usize,
    /// The silence after which a primary is suspected.
    pub suspect_after: Duration,
    /// The sizes of what waits for its disk.
    pub sizes: Sizes,
}

/// The origin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The node begins with its system.
    Founder,
    /// The node ran before and remembers nothing.
    Newcomer,
    /// The node comes from the disk of this name, which is not 0, with what an earlier life wrote
    /// there.
    Disk(u64),
}

/// The beginning of a process.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// Where it comes from.
    pub origin: Origin,
    /// A name that no other process of its node ever has.
    pub life: u64,
    /// The host's clock, in microseconds since 1970 (N6).
    pub unix_us: u64,
    /// The time.
    pub now: Instant,
}

impl<M: Multicast<Planted = Sound>, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// A node with an application. The ground joins the system's nodes and gives each
    /// [`super::n_words`] words.
    ///
    /// # Errors
    /// [`StopError`].
    pub fn new(
        setup: &Setup,
        beginning: Beginning,
        ground: &mut impl Ground,
        mut app: A,
        planted: P,
    ) -> Result<Node<M, A, P>, StopError> {
        let Setup { me, places, config, .. } = setup;
        let (me, Beginning { origin, life, now, .. }) = (*me, beginning);
        let incarnation = lives::begin(ground, places, &beginning)?;
        let (mut journal, found) = match (origin, ground.disk()) {
            (Origin::Disk(name), Some(disk)) => {
                let opened = Journal::open(disk, name, setup.sizes);
                let (journal, found) = opened.map_err(|_| StopError::Unreadable)?;
                (Some(journal), found)
            }
            (Origin::Founder | Origin::Newcomer | Origin::Disk(_), _) => (None, None),
        };
        let disk = journal.as_ref().map_or(0, Journal::name);
        let who = Who { incarnation, life, disk };
        let bounds = (setup.kept_bytes, setup.backlog_bytes);
        let mut streams = Streams::new(me, places.n_nodes(), who, bounds, planted);
        let changes_members = M::CHANGES_MEMBERS
            && journal.is_none()
            && !config.commutes
            && app.takes_states_of_others();
        if changes_members {
            streams.take_newcomers();
        }
        let timing = Timing {
            suspect_after: setup.suspect_after,
            heartbeat_every: (setup.suspect_after / 15)
                .clamp(Duration::from_millis(1), Timing::default().heartbeat_every),
        };
        let mut member_of = [None; MAX_GROUPS];
        let mut members = Vec::new();
        let hosted = places.hosted(me).iter().filter_map(|group| places.member(me, group));
        for (at, pid) in hosted.enumerate() {
            member_of[pid.group.index()] = Some(at as u8);
            let nodes = places.nodes_of(pid.group).to_vec();
            let base = At(omega::N_WORDS * pid.group.index() as u32);
            // The memory of a dead member is of no use: members communicate by messages.
            let omega = Omega::new(pid.rank, nodes.len(), base, timing, false, true);
            let machine = lives::machine::<M>(config, pid, incarnation, now)?;
            members.push(Member::new(pid, machine, omega, nodes, incarnation == FOUNDER));
        }
        let mut world =
            World::new(me, places.clone(), streams, (M::asks, setup.held_bytes), planted);
        world.clock = ground.real_clock();
        // The base of message names: no two lives of a node have the same.
        let lives = found.as_ref().map_or(0, |found| found.lives) + incarnation.0;
        if let Some(found) = found {
            world.streams.know_disks(&found.disks);
            for member in &mut members {
                comes_back(member, config, &found, (&mut world, &mut app), now)?;
            }
        }
        if let (Some(journal), Some(disk)) = (&mut journal, ground.disk()) {
            // The first whole is synced before other nodes hear of this life (N5).
            journal.begin_whole(disk, &whole(lives, &mut members, &world, &mut app));
            journal.finish();
            journal.hand(world.n_delivered);
        }
        let of_names = if planted.has(Bug::NamesRepeat) { FOUNDER.0 } else { lives };
        let window = (setup.window, setup.backlog_bytes);
        let mut desk = Desk::new(places, sender_of(me, of_names), window);
        desk.changes_members = changes_members;
        desk.own.span = desk.own.span.filter(|_| M::FORGETS_NAMES);
        desk.is_seated = members.iter().all(|member| member.is_seated);
        let mut node = Node {
            members,
            member_of,
            n_released: world.n_delivered,
            n_handed: 0,
            changes: Vec::new(),
            journal,
            world,
            desk,
            removals: [0; FABRIC_SEATS_MAX],
            app,
            deliveries: Vec::new(),
            cuts: snapshots::Cuts::default(),
            inbox: Inbox::new(),
            of_disk: Vec::new(),
            joint: joint::Joint::default(),
            heard: SeatSet::EMPTY,
            repeats: Repeats::new(config.patience),
            touched: GroupSet::EMPTY,
            look_at: Instant::ZERO,
            tell_at: Instant::ZERO,
        };
        if incarnation > FOUNDER {
            node.meet(me);
        }
        Ok(node)
    }
}
