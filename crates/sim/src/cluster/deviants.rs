//! Copies of a program that answer otherwise than the others, or stop answering: at a minority of
//! the members, in their first process.
//!
//! A copy that is put down though it did nothing wrong, or that stays though it did, violates I9
//! (`supervisor`).

use super::compared::SharedSent;
use super::kinds::{Copies, Protocol};
use super::makers::SharedMakers;
use super::replicated::Around;
use super::timers::Journal;
use base::Rng;
use core::time::Duration;

/// The deviants of a run, and how copies are compared in it.
#[derive(Clone, Debug)]
pub(super) struct Deviants {
    /// See `Around`.
    pub(super) compare: u64,
    checkpoint: u64,
    /// See `Around`.
    renews: bool,
    closes_after: Option<Duration>,
    time_step_ms: u64,
    /// What the copies have seen.
    pub(super) journal: Journal,
    /// By member: the requests after which its first copy deviates.
    after: Vec<Option<u64>>,
    /// By member: the requests after which its first copy takes up nothing more.
    stalls_after: Vec<Option<u64>>,
    stalled_after: Duration,
    /// The member whose first copy strays, when it makes a checkpoint.
    strays: Option<usize>,
    makers: SharedMakers,
    reads: bool,
    /// See `Around`.
    counts: bool,
    /// See `Around`.
    strict: Option<(Copies, SharedSent)>,
}

impl Deviants {
    /// Those of a run with so many members and clients.
    pub(super) fn draw(seed: u64, members: usize, n_clients: usize) -> Deviants {
        let mut rng = Rng::new(seed ^ 0x0064_6576_6961_6e74);
        let mut after = vec![None; members];
        let n = if rng.chance(1, 2) { rng.below(members.div_ceil(2) as u64) } else { 0 };
        for _ in 0..n {
            after[rng.below(members as u64) as usize] = Some(rng.below(60));
        }
        let compare = 4 << rng.below(4);
        let checkpoint = if rng.chance(3, 4) { compare * rng.range(1, 6) } else { 0 };
        let time_step_ms = if rng.chance(3, 4) { rng.range(1, 20) } else { 0 };
        // (One of three is a minority, so no copy stalls where another deviates.)
        let mut stalls_after = vec![None; members];
        if n == 0 && rng.chance(1, 2) {
            stalls_after[rng.below(members as u64) as usize] = Some(rng.below(60));
        }
        let stalled_after = Duration::from_millis(rng.range(50, 400));
        let journal = Journal::default();
        let reads = rng.chance(3, 4);
        let renews = checkpoint > 0 && rng.chance(1, 2);
        let closes = checkpoint > 0 && rng.chance(3, 4);
        let closes_after = closes.then(|| Duration::from_millis(rng.range(1, 300)));
        // (Each client comes back by an entry: that alone is not to make a checkpoint due.)
        let least = if closes { (2 * n_clients as u64).next_multiple_of(compare) } else { 0 };
        let checkpoint = checkpoint.max(least);
        // (Of two copies that differ none is known to be the wrong one.)
        let are_alike = n == 0 && stalls_after.iter().all(Option::is_none) && members > 2;
        let mut rng = Rng::new(seed ^ 0x0073_7472_6179_7300);
        let strays = are_alike && checkpoint > 0 && !renews && rng.chance(2, 3);
        let strays = strays.then(|| rng.below(members as u64) as usize);
        let counts = Rng::new(seed ^ 0x636f_756e_7473).chance(1, 2);
        Deviants {
            compare,
            checkpoint,
            renews,
            closes_after,
            time_step_ms,
            journal,
            after,
            stalls_after,
            stalled_after,
            strays,
            makers: SharedMakers::default(),
            reads,
            counts,
            strict: None,
        }
    }

    /// The same, of copies whose answers are held until they are compared.
    pub(super) fn strict(self, seed: u64) -> Deviants {
        let mut rng = Rng::new(seed ^ 0x0073_7472_6963_7400);
        let manners = [Copies::InMemory, Copies::AtRest, Copies::InTurns];
        let strict = Some((manners[rng.below(3) as usize], SharedSent::default()));
        // (Points lie elsewhere there than M1 of `makers` asks.)
        Deviants { strict, strays: None, ..self }
    }

    /// Whether clients may ask for what is a copy's own: where no copy deviates, since what is
    /// masked is not compared, and where members know of which requests that is so.
    pub(super) fn can_draw(&self, of: Protocol) -> bool {
        let is_known = match (of, &self.strict) {
            (Protocol::Program(_), Some((manner, _))) => *manner == Copies::InMemory,
            (Protocol::Program(manner), None) => {
                matches!(manner, Copies::InMemory | Copies::OnDisk)
            }
            _ => false,
        };
        is_known && self.strays.is_none() && self.after.iter().all(Option::is_none)
    }

    /// A checkpoint that should not count, in words.
    pub(super) fn counts_wrongly(&self) -> Option<String> {
        self.makers.borrow().finding(self.compare).filter(|_| self.strict.is_none())
    }

    /// What has left to clients too early, in words.
    pub(super) fn left_early(&self) -> Option<String> {
        self.strict.as_ref().and_then(|(_, sent)| sent.borrow().finding())
    }

    /// The same, of copies that are all alike.
    pub(super) fn reformed(self) -> Deviants {
        let none = vec![None; self.after.len()];
        Deviants { after: none.clone(), stalls_after: none, strays: None, ..self }
    }

    /// What the process `life` of this member has around its copy.
    pub(super) fn around(&self, node: usize, life: u32) -> Around {
        let [deviates_after, stalls_after] =
            [&self.after, &self.stalls_after].map(|after| after[node].filter(|_| life == 1));
        let Deviants { compare, checkpoint, time_step_ms, stalled_after, reads, .. } = *self;
        let Deviants { renews, closes_after, counts, .. } = *self;
        Around {
            compare,
            checkpoint,
            renews,
            closes_after,
            time_step_ms,
            deviates_after,
            stalls_after,
            stalled_after: Some(stalled_after),
            strays: self.strays == Some(node) && life == 1,
            makers: self.makers.clone(),
            reads,
            counts,
            strict: self.strict.clone(),
        }
    }
}
