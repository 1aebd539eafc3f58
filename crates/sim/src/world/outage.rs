//! Processes, wires and connections that are out of order, and their repair.
//!
//! The worlds know what runs in a process and this module does not: they call these functions and
//! do the rest.
//!
//! - I1 nothing is out of order twice: a wire that is cut is cut once, a process that is stopped is
//!   stopped once, and ending either ends it.

use crate::Provider;
use crate::coverage::Mark;
use crate::plan::{Kind, MS, Plan};
use crate::queue::{Fault, Happening, NEVER};
use crate::trace::Topic;
use crate::world::net::{LATE_NS_MAX, Net};
use base::{Event, Rank, Rng, SeatSet};

/// The nodes of which one draw decides on which side of a partition they are.
const N_BY_BITS: usize = 48;

/// The longest time that a provider waits for an answer before it calls a link broken.
const LINK_TIMEOUT_NS_MAX: u64 = 2_000 * MS;

/// The faults that last at the moment.
pub(crate) struct Outages {
    pub(crate) rng: Rng,
    /// Whether each wire is cut.
    cut: Vec<bool>,
    /// Whether each process is stopped.
    paused: Vec<bool>,
    /// The wires between the two sides of the partition, if there is one.
    partition: Vec<usize>,
    /// Whether each pair of nodes tries to connect again.
    reconnecting: Vec<bool>,
    /// The share of deaths that the peers learn of in time, in eighths.
    hints: u64,
    /// The factor of `Plan::pace`.
    pace: u64,
}

impl Outages {
    pub(crate) fn new(rng: Rng, plan: &Plan) -> Outages {
        let members = plan.members;
        Outages {
            rng,
            cut: vec![false; members * members],
            paused: vec![false; members],
            partition: Vec::new(),
            reconnecting: vec![false; members * members],
            hints: plan.hints,
            pace: plan.pace,
        }
    }

    pub(crate) fn is_paused(&self, node: usize) -> bool {
        self.paused[node]
    }

    pub(crate) fn is_cut(&self, wire: usize) -> bool {
        self.cut[wire]
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        !self.partition.is_empty()
    }

    /// A time of any magnitude up to a tenth of a second.
    fn soon(&mut self) -> u64 {
        let most = MS << self.rng.below(8);
        self.rng.below(most)
    }

    /// Strikes a wire, or what a process has of its own: its speed, its clock, what it hears; or
    /// lays an ambush for what is said (`snares`). Other kinds are the worlds'.
    pub(crate) fn strike(&mut self, net: &mut Net, kind: Kind, node: usize, lasts: u64) {
        let members = net.members;
        let wire = self.rng.below((members * members) as u64) as usize;
        let is_loop = wire / members == wire % members;
        let now = net.now();
        let mut ends = |fault: Fault| net.queue.push(now + lasts, Happening::Mend(fault));
        match kind {
            Kind::Cut if !is_loop && !self.is_cut(wire) => {
                ends(Fault::Cut(wire as u32));
                self.cut(net, wire);
            }
            Kind::Slow if !is_loop => {
                ends(Fault::Slow(wire as u32));
                net.wires[wire].slowness = 1 << self.rng.range(2, 12);
            }
            Kind::Sluggish => {
                ends(Fault::Sluggish(node as u16));
                net.processes[node].effort = 500 << self.rng.range(2, 14);
            }
            Kind::Partition if !self.is_partitioned() => {
                ends(Fault::Partition);
                self.partition(net);
            }
            Kind::Drift => {
                let rate = self.rng.range(900, 1100);
                net.processes[node].clock.run_at(now, rate);
                net.arm_run(node, now);
            }
            Kind::Jump => {
                net.processes[node].clock.jump(now, lasts);
                net.coverage.hit(Mark::ClockJumped);
                net.arm_run(node, now);
            }
            Kind::FalseHint => {
                let about = self.rng.below(members as u64) as usize;
                let life = net.processes[about].life;
                Outages::hint(net, node, about, life);
            }
            Kind::Reset if !is_loop => self.reset(net, wire),
            Kind::Belated | Kind::LastWords => net.lay_snare(kind, node, &mut self.rng),
            Kind::Deaf => {
                // Everything sent to it is late; its own messages are not.
                for from in (0..members).filter(|from| *from != node) {
                    let wire = net.link_index(from, node);
                    net.wires[wire].slowness = 1 << 12;
                    net.queue.push(now + lasts, Happening::Mend(Fault::Slow(wire as u32)));
                }
            }
            // The same lasts already, or it must not happen now, or it is no fault of these.
            _ => {}
        }
    }

    /// Ends what [`Outages::strike`] began, or a stop or a wall clock that is wrong. Deaths and
    /// disks are the worlds'.
    pub(crate) fn mend(&mut self, net: &mut Net, fault: Fault) {
        match fault {
            Fault::Pause(node) => self.resume(net, node as usize),
            Fault::Cut(wire) => self.heal_cut(net, wire as usize),
            Fault::Slow(wire) => net.wires[wire as usize].recover(),
            Fault::Sluggish(node) => net.processes[node as usize].effort = 500,
            Fault::Partition => self.unite(net),
            Fault::Wall(node) => {
                let now = net.now();
                net.processes[node as usize].wall.correct(now);
            }
            Fault::Crash(_) | Fault::Disk(_) => {}
        }
    }

    // ---- processes ----

    /// Begins a process of `node`, with a link only to itself. Returns the number of its life.
    pub(crate) fn begin_process(net: &mut Net, node: usize) -> u32 {
        for peer in 0..net.members {
            let index = net.link_index(node, peer);
            net.links[index].renew();
            net.links[index].up = peer == node;
        }
        net.introduced.begin(node);
        net.parcels.clear(node);
        let now = net.now();
        let process = &mut net.processes[node];
        process.alive = true;
        process.life += 1;
        process.busy_until = now;
        process.late = None;
        process.inbox.clear();
        process.permitted = None;
        process.leads = false;
        process.life
    }

    /// Kills the process of `node`.
    pub(crate) fn crash(&mut self, net: &mut Net, node: usize) {
        let now = net.now();
        net.trace.record(now, node, Topic::Crash, 0, 0);
        net.coverage.hit(Mark::Crashed);
        let process = &mut net.processes[node];
        process.alive = false;
        process.leads = false;
        process.inbox.clear();
        let life = process.life;
        net.queue.set_run(node, NEVER);
        let tcp = net.weather.provider == Provider::Tcp;
        for peer in 0..net.members {
            let (out, back) = (net.link_index(node, peer), net.link_index(peer, node));
            // Its posts belong to the kernel or the card now: some of them still happen.
            let n_verbs = net.links[out].verbs.len() as u64;
            let survivors = self.rng.below(n_verbs + 1) as usize;
            net.links[out].orphan(survivors);
            if peer == node {
                continue;
            }
            if tcp {
                net.links[back].dead_end = true;
                let after = self.soon();
                net.queue.push(now + after, Happening::Break(back as u32));
            }
            if self.rng.chance(self.hints, 8) {
                let after = 20_000 + self.soon();
                let (to, about) = (peer as u16, node as u16);
                net.queue.push(now + after, Happening::Hint { to, about, life });
            }
        }
    }

    /// Tells `to`, rightly or not, that a life of `about` has ended.
    pub(crate) fn hint(net: &mut Net, to: usize, about: usize, life: u32) {
        if to == about || !net.processes[to].alive {
            return;
        }
        net.trace.record(net.now(), to, Topic::Hint, about as u64, u64::from(life));
        if net.processes[about].alive {
            net.coverage.hit(Mark::FalseHint);
        }
        net.tell(to, Event::ProcessFailed(Rank::at(about)));
    }

    /// Replaces the memory of `node`: no verb that was posted to the old one takes effect in the
    /// new one, which is reached by new links only.
    pub(crate) fn replace_memory(net: &mut Net, node: usize) {
        for peer in (0..net.members).filter(|peer| *peer != node) {
            let back = net.link_index(peer, node);
            net.break_link(back);
            net.links[back].lose_behind(0);
            if net.weather.provider == Provider::Shm && net.processes[peer].alive {
                net.connect(back);
            }
        }
    }

    /// Stops a process at any point, also between two posts.
    pub(crate) fn pause(&mut self, net: &mut Net, node: usize) {
        net.trace.record(net.now(), node, Topic::Pause, 0, 0);
        self.paused[node] = true;
        net.stop_late(node);
        net.processes[node].n_stops += 1;
        net.queue.set_run(node, NEVER);
        let tcp = net.weather.provider == Provider::Tcp;
        for peer in 0..net.members {
            let out = net.link_index(node, peer);
            // On shm a post is an instruction of this process: the ones that have not happened
            // wait.
            net.links[out].frozen = !tcp || self.rng.chance(1, 2);
            if tcp && peer != node {
                let back = net.link_index(peer, node);
                self.time_out_later(net, back);
            }
        }
    }

    pub(crate) fn resume(&mut self, net: &mut Net, node: usize) {
        if !self.paused[node] {
            return;
        }
        let now = net.now();
        net.trace.record(now, node, Topic::Resume, 0, 0);
        net.coverage.hit(Mark::Paused);
        self.paused[node] = false;
        net.processes[node].n_stops -= 1;
        for peer in 0..net.members {
            let (out, back) = (net.link_index(node, peer), net.link_index(peer, node));
            net.links[out].frozen = false;
            net.kick(out);
            net.kick(back);
        }
        net.arm_run(node, now);
    }

    // ---- links ----

    pub(crate) fn cut(&mut self, net: &mut Net, wire: usize) {
        net.trace.record(net.now(), 0, Topic::Cut, wire as u64, 0);
        self.cut[wire] = true;
        net.hold(wire);
        self.time_out_later(net, wire);
    }

    pub(crate) fn heal_cut(&mut self, net: &mut Net, wire: usize) {
        if std::mem::take(&mut self.cut[wire]) {
            net.trace.record(net.now(), 0, Topic::Heal, wire as u64, 0);
            net.release(wire);
        }
    }

    /// Ends the faults of a wire, and of everything under way on it: that is not later than a
    /// healed core may be.
    pub(crate) fn repair_wire(&mut self, net: &mut Net, wire: usize) {
        self.heal_cut(net, wire);
        net.wires[wire].repair();
        let latest = net.now() + LATE_NS_MAX;
        net.links[wire].hurry(latest);
        net.kick(wire);
    }

    pub(crate) fn partition(&mut self, net: &mut Net) {
        let members = net.members;
        let few = members.min(N_BY_BITS);
        let mut sides = SeatSet::from_bits(self.rng.below(1 << few));
        for node in few..members {
            if self.rng.chance(1, 2) {
                sides.insert(Rank::at(node));
            }
        }
        let side = |node: usize| sides.contains(Rank::at(node));
        let across: Vec<usize> = (0..members * members)
            .filter(|wire| side(wire / members) != side(wire % members))
            .collect();
        net.trace.record(net.now(), 0, Topic::Cut, sides.words()[0], u64::MAX);
        net.coverage.hit(Mark::Partitioned);
        for wire in &across {
            net.hold(*wire);
            self.time_out_later(net, *wire);
        }
        self.partition = across;
        Self::tell_the_majority(net, sides);
    }

    /// In half of the partitions the larger side suspects the smaller one at once, and elects while
    /// the leader on the other side still believes that it leads. (By a generator of its own.)
    fn tell_the_majority(net: &mut Net, sides: SeatSet) {
        let members = net.members;
        let mut rng = Rng::new(net.now() ^ sides.words()[0] << 56);
        let n_of_one = sides.len();
        if 2 * n_of_one == members || rng.chance(1, 2) {
            return;
        }
        let larger = 2 * n_of_one > members;
        let side = |node: usize| sides.contains(Rank::at(node));
        for about in (0..members).filter(|node| side(*node) != larger) {
            let life = net.processes[about].life;
            for to in (0..members).filter(|node| side(*node) == larger) {
                let at = net.now() + rng.below(MS);
                let (to, about) = (to as u16, about as u16);
                net.queue.push(at, Happening::Hint { to, about, life });
            }
        }
    }

    pub(crate) fn unite(&mut self, net: &mut Net) {
        for wire in std::mem::take(&mut self.partition) {
            net.trace.record(net.now(), 0, Topic::Heal, wire as u64, 1);
            net.release(wire);
        }
    }

    /// Plans the end of a link that carries nothing for long, where links can break.
    fn time_out_later(&mut self, net: &mut Net, link: usize) {
        if net.weather.provider == Provider::Tcp {
            let after = self.rng.range(LINK_TIMEOUT_NS_MAX / 20, LINK_TIMEOUT_NS_MAX);
            net.queue.push(net.now() + after, Happening::Break(link as u32));
        }
    }

    /// Checks at the poster whether its link still works.
    pub(crate) fn on_break(&mut self, net: &mut Net, link: usize) {
        let members = net.members;
        let (from, to) = (link / members, link % members);
        let cut = [link, to * members + from].iter().any(|wire| net.wires[*wire].n_holds > 0);
        if from != to && (cut || !net.processes[to].runs() || net.links[link].dead_end) {
            self.lose_connection(net, from, to);
        }
    }

    /// Resets a connection although neither end has a fault.
    pub(crate) fn reset(&mut self, net: &mut Net, wire: usize) {
        self.lose_connection(net, wire / net.members, wire % net.members);
    }

    /// Breaks a connection, which `from` notices first and `to` a little later.
    fn lose_connection(&mut self, net: &mut Net, from: usize, to: usize) {
        let (out, back) = (net.link_index(from, to), net.link_index(to, from));
        if !net.links[out].is_connected() {
            return;
        }
        net.break_link(out);
        // The other direction is the same connection: it dies too, unless it is up again by then.
        net.break_link(back);
        self.reconnect_later(net, out);
    }

    fn reconnect_later(&mut self, net: &mut Net, link: usize) {
        let members = net.members;
        let (a, b) = (link / members, link % members);
        let pair = a.min(b) * members + a.max(b);
        if !std::mem::replace(&mut self.reconnecting[pair], true) {
            let after = self.rng.range(MS, 30 * MS) * self.pace;
            net.queue.push(net.now() + after, Happening::Reconnect(pair as u32));
        }
    }

    /// Lets both ends of a broken connection try again. True if it is back.
    pub(crate) fn on_reconnect(&mut self, net: &mut Net, link: usize) -> bool {
        let members = net.members;
        let (a, b) = (link / members, link % members);
        self.reconnecting[a.min(b) * members + a.max(b)] = false;
        let (out, back) = (net.link_index(a, b), net.link_index(b, a));
        if [out, back].iter().all(|link| net.links[*link].is_connected()) {
            return false;
        }
        let free = [out, back].iter().all(|wire| net.wires[*wire].n_holds == 0);
        let (one, two) = (&net.processes[a], &net.processes[b]);
        if !one.alive || !two.alive {
            // The next life of the dead one connects.
            return false;
        }
        if free && one.runs() && two.runs() {
            net.break_link(out);
            net.break_link(back);
            net.connect(out);
            net.connect(back);
            return true;
        }
        self.reconnect_later(net, link);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Action;
    use crate::plan::Weather;
    use crate::trace::Trace;
    use crate::world::net::Posting;
    use base::{At, Inbox, Token};

    const WEATHER: Weather = Weather {
        provider: Provider::Shm,
        latency_ns: 1000,
        jitter_ns: 0,
        spike: 1,
        tear: 0,
        tear_ns: 1,
        notice_ns: None,
        late_effects: true,
        interleaves: false,
        n_messages_max: None,
        unevenness: 0,
    };

    #[test]
    fn t4_what_was_posted_while_a_link_was_down_completes_though_the_memory_is_replaced() {
        let mut net = Net::new(2, 0, 8, WEATHER, Rng::new(1), Trace::new(false));
        for node in 0..2 {
            Outages::begin_process(&mut net, node);
        }
        let index = net.link_index(0, 1);
        assert!(!net.links[index].up);
        let (action, token) = (Action::Read, Some(Token(7)));
        net.post(0, 1, Posting { action, at: At(0), n_words: 1, payload: &[], token });
        Outages::replace_memory(&mut net, 1);
        let mut inbox = Inbox::new();
        std::mem::swap(&mut inbox, &mut net.processes[0].inbox);
        let is_7 = |event: &Event<'_>| matches!(event, Event::Completed { token: Token(7), .. });
        assert_eq!(inbox.iter().filter(is_7).count(), 1);
    }
}
