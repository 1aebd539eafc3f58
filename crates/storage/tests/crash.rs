//! Random work on a log over the simulated disk, cut off repeatedly at random operations.
//!
//! A [`Model`] records what was requested and what was confirmed. After each crash the log must be
//! in one of the states that the model allows: everything confirmed, and a prefix of the rest.

use base::{Ballot, Rng, Slot};
use std::sync::Arc;
use storage::Batch;
use storage::log::{self, Opened, Options, Prepared};
use storage::media::{Media, Simulated, SkipsDirectorySync, SkipsSync};

const LOG: u64 = 0x5eed;

fn options(rng: &mut Rng) -> Options {
    Options {
        segment_bytes: Options::SEGMENT_MIN + rng.below(3) as u32 * 12 * 1024,
        align: if rng.chance(1, 4) { 4096 } else { 512 },
        cache_bytes: if rng.chance(1, 2) { 0 } else { 8192 },
        unsynced_bytes: 1 << 20,
    }
}

/// A request to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    Append { ballot: u64, view: u64, payload: Vec<u8> },
    Cut(u64),
    Meta(Vec<u8>),
    Skip(u64),
}

/// The content of a log: entries of slots from `first` on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    first: u64,
    entries: Vec<(u64, u64, Vec<u8>)>,
    meta: Vec<u8>,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Append { ballot, view, payload } => {
                self.entries.push((*ballot, *view, payload.clone()));
            }
            Op::Cut(end) => self.entries.truncate((end - self.first) as usize),
            Op::Meta(meta) => self.meta.clone_from(meta),
            Op::Skip(to) => (self.first, self.entries) = (*to, Vec::new()),
        }
    }

    fn free_below(&mut self, slot: u64) {
        self.entries.drain(..(slot - self.first) as usize);
        self.first = slot;
    }

    /// Whether a recovered log may have this content: it may hold entries that were freed.
    fn explains(&self, found: &State) -> bool {
        if found.meta != self.meta || found.end() != self.end() || found.first > self.first {
            return false;
        }
        found.entries[(self.first - found.first) as usize..] == self.entries[..]
    }
}

/// The confirmed content, and the requests since.
#[derive(Clone, Debug, Default)]
struct Model {
    durable: State,
    asked: Vec<Op>,
}

impl Model {
    fn now(&self) -> State {
        let mut state = self.durable.clone();
        self.asked.iter().for_each(|op| state.apply(op));
        state
    }

    /// The number of unconfirmed requests that the found log includes, if it can be explained.
    fn explain(&self, found: &State) -> Option<usize> {
        let mut state = self.durable.clone();
        let mut n = state.explains(found).then_some(0);
        for (i, op) in self.asked.iter().enumerate() {
            state.apply(op);
            if state.explains(found) {
                n = Some(i + 1);
            }
        }
        n
    }
}

fn read_all<M: Media>(opened: &mut Opened<M>) -> State {
    let log = &mut opened.log;
    let mut state = State { first: log.start().0, entries: Vec::new(), meta: log.meta().to_vec() };
    let mut payload = Vec::new();
    for slot in log.start().0..log.end().0 {
        let head = log.read(Slot(slot), &mut payload).expect("intact").expect("held");
        state.entries.push((head.ballot.0, head.view, payload.clone()));
    }
    assert_eq!(log.read(log.end(), &mut payload).unwrap(), None);
    state
}

/// The events of a run, which show that rare ones happen at all.
#[derive(Debug, Default)]
struct Seen {
    n_crashes: u64,
    n_torn: u64,
    n_cut_in_recovery: u64,
    n_unconfirmed_kept: u64,
    n_unconfirmed_lost: u64,
    n_rolled: u64,
    n_released: u64,
    n_full: u64,
    n_failed_syncs: u64,
}

/// Runs one life after the other on one disk; returns the first contradiction, if there is one.
fn run<M: Media>(seed: u64, wrap: impl Fn(Simulated) -> M, seen: &mut Seen) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let disk = Simulated::new();
    let media = wrap(disk.clone());
    let mut model = Model::default();
    for _ in 0..rng.range(2, 6) {
        let mut opened = loop {
            // A recovery may itself be cut off, any number of times.
            if rng.chance(1, 3) {
                let n = rng.below(12);
                disk.set_faults(|faults| faults.cut_after = Some(n));
            }
            let opened = log::open(&media, &options(&mut rng), LOG);
            disk.set_faults(|faults| faults.cut_after = None);
            match opened {
                Ok(opened) => break opened,
                Err(_) if disk.is_off() => {
                    seen.n_cut_in_recovery += 1;
                    disk.power_cut(&mut rng);
                }
                Err(e) => return Err(format!("no fault, and yet: {e}")),
            }
        };
        seen.n_torn += u64::from(opened.torn.is_some());
        let found = read_all(&mut opened);
        let Some(n_kept) = model.explain(&found) else {
            return Err(format!(
                "found {}..{} meta {:?}, durable {}..{} meta {:?}, asked {}",
                found.first,
                found.end(),
                found.meta,
                model.durable.first,
                model.durable.end(),
                model.durable.meta,
                model.asked.len(),
            ));
        };
        seen.n_unconfirmed_kept += n_kept as u64;
        seen.n_unconfirmed_lost += (model.asked.len() - n_kept) as u64;
        model = Model { durable: found, asked: Vec::new() };

        if rng.chance(4, 5) {
            let n = rng.below(60);
            disk.set_faults(|faults| faults.cut_after = Some(n));
        }
        if rng.chance(1, 5) {
            let n = rng.below(20);
            disk.set_faults(|faults| faults.fail_sync_after = Some(n));
        }
        live(&mut opened, &mut model, &disk, &mut rng, seen);
        disk.set_faults(|faults| (faults.capacity, faults.fail_sync_after) = (None, None));
        if disk.is_off() || rng.chance(1, 2) {
            disk.power_cut(&mut rng);
        } else {
            disk.set_faults(|faults| faults.cut_after = None);
            disk.process_crash();
        }
        seen.n_crashes += 1;
    }
    Ok(())
}

/// Makes random requests, written by a writer that lags behind, until the disk fails or time is
/// over.
fn live<M: Media>(
    opened: &mut Opened<M>,
    model: &mut Model,
    disk: &Simulated,
    rng: &mut Rng,
    seen: &mut Seen,
) {
    let Opened { log, writer, .. } = opened;
    let mut taken: std::collections::VecDeque<Arc<Batch>> = Default::default();
    // (The number of requests before a flush was requested, the flush's number.)
    let mut flushes = Vec::new();
    let mut n_confirmed = 0;
    let mut to_release = None;
    for _ in 0..rng.range(10, 200) {
        let state = model.now();
        match rng.below(20) {
            0..=9 => {
                let len = if rng.chance(1, 6) { rng.below(9000) } else { rng.below(300) };
                let fill = rng.next_u64();
                let payload: Vec<u8> = (0..len).map(|i| (fill >> (i % 57)) as u8).collect();
                let (ballot, view) = (rng.below(100), rng.below(9));
                let slot = Slot(state.end());
                log.append(slot, Ballot(ballot), view, &payload).expect("short, and room");
                model.asked.push(Op::Append { ballot, view, payload });
            }
            10 => {
                let end = rng.range(state.first.max(log.start().0), state.end());
                log.cut(Slot(end));
                if end < state.end() {
                    model.asked.push(Op::Cut(end));
                }
            }
            11 => {
                let meta = vec![rng.next_u64() as u8; rng.below(200) as usize];
                log.put_meta(&meta);
                model.asked.push(Op::Meta(meta));
            }
            12 if rng.chance(1, 8) => {
                let to = rng.range(state.first, state.end() + 50);
                log.begin_at(Slot(to));
                model.asked.push(Op::Skip(to));
            }
            12 | 13 => {
                // Only content that is durable and stays so is freed: a snapshot covers it.
                let lowest = model.asked.iter().fold(model.durable.end(), |low, op| match op {
                    Op::Cut(end) => low.min(*end),
                    Op::Append { .. } | Op::Meta(_) => low,
                    Op::Skip(_) => 0,
                });
                if lowest > model.durable.first && lowest >= log.start().0 {
                    let slot = rng.range(model.durable.first, lowest);
                    log.free_below(Slot(slot));
                    model.durable.free_below(slot);
                }
            }
            14 => {
                let capacity = rng.chance(1, 2).then(|| rng.range(1, 5) * 40_000);
                disk.set_faults(|faults| faults.capacity = capacity);
            }
            15 | 16 => {
                let n_asked = n_confirmed + model.asked.len();
                flushes.push((n_asked, log.sync()));
            }
            _ => {
                if taken.len() < 2 {
                    taken.extend(log.take());
                }
            }
        }
        if rng.chance(1, 3)
            && let Some(batch) = taken.front()
        {
            match writer.write(batch) {
                Ok(()) => {
                    seen.n_rolled += u64::from(batch.end().segment() != 0);
                    log.done(batch.end());
                    taken.pop_front();
                }
                Err(error) if error.passes() => seen.n_full += 1,
                Err(_) => {
                    seen.n_failed_syncs += u64::from(!disk.is_off());
                    return;
                }
            }
        }
        if let Some(flush) = log.flushed() {
            let (n, _) = *flushes.iter().rfind(|(_, asked)| *asked == flush).expect("asked for");
            for op in model.asked.drain(..n - n_confirmed) {
                model.durable.apply(&op);
            }
            n_confirmed = n;
        }
        if rng.chance(1, 4) {
            match writer.prepare() {
                Ok(Prepared::More | Prepared::Ready) => {}
                Err(error) if error.passes() => {}
                Err(_) => return,
            }
        }
        if let Some(oldest) = log.take_release() {
            seen.n_released += 1;
            to_release = Some(oldest);
        }
        // Batches come between.
        if let Some(oldest) = to_release {
            match writer.release(oldest) {
                Ok(true) => {}
                Ok(false) => to_release = None,
                Err(_) => return,
            }
        }
        if rng.chance(1, 20) {
            let now = model.now();
            let slot = rng.range(now.first, now.end());
            let mut payload = Vec::new();
            let head = log.read(Slot(slot), &mut payload).expect("intact");
            let expected = now.entries.get((slot - now.first) as usize);
            assert_eq!(head, log.head(Slot(slot)));
            assert_eq!(head.map(|h| (h.ballot.0, h.view, payload)), expected.cloned());
        }
    }
}

/// The number of lives: `STORAGE_SEEDS` overrides it for a long run.
fn seeds() -> u64 {
    std::env::var("STORAGE_SEEDS").map_or(3000, |n| n.parse().expect("a number of seeds"))
}

#[test]
fn i3_what_was_synced_is_there_in_order_and_nothing_else() {
    let mut seen = Seen::default();
    for seed in 0..seeds() {
        if let Err(e) = run(seed, |disk| disk, &mut seen) {
            panic!("I3, I5, I6: seed {seed}: {e}");
        }
    }
    println!("{seen:?}");
    // Each of the rare events happened; otherwise the test shows less than it claims.
    let Seen { n_crashes, n_torn, n_cut_in_recovery, n_unconfirmed_kept, .. } = seen;
    assert!(n_crashes > 0 && n_torn > 0 && n_cut_in_recovery > 0 && n_unconfirmed_kept > 0);
    let Seen { n_unconfirmed_lost, n_rolled, n_released, n_full, n_failed_syncs, .. } = seen;
    assert!(n_unconfirmed_lost > 0 && n_rolled > 0 && n_released > 0);
    assert!(n_full > 0 && n_failed_syncs > 0);
}

/// A planted bug must be found, or the test above means nothing.
fn is_caught<M: Media>(wrap: fn(Simulated) -> M) -> bool {
    (0..300).any(|seed| {
        let run = || run(seed, wrap, &mut Seen::default());
        // A failed assertion of the log itself counts as well.
        std::panic::catch_unwind(run).map_or(true, |result| result.is_err())
    })
}

#[test]
fn canary_a_log_that_skips_directory_syncs_is_caught() {
    assert!(is_caught(SkipsDirectorySync));
}

#[test]
fn canary_a_log_that_skips_syncs_is_caught() {
    assert!(is_caught(SkipsSync));
}
