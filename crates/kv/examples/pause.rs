//! The time for which a replica stands still for a snapshot: encoded at once, and beside a machine
//! that continues; and for a state that it installs: at once, and in steps. `cargo run --release -p
//! gregale-kv --example pause -- 1024` (MiB of values of 1 KiB)

use base::{Incarnation, Rank, Rng, Slot};
use kv::Protocol;
use kv::entry::{BatchWriter, Origin, Sequence, command::put_plain};
use kv::machine::Machine;
use kv::snapshot::{self, Beside, Installer};
use std::time::{Duration, Instant};

const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };
/// The settings of the runtime and the door.
const PIECE_BYTES: usize = 64 << 10;
const ENTRIES_AT_ONCE: usize = 512;
/// The number of commands in a value of the log.
const BATCH: u64 = 7;
/// The number of values that are applied between two chunks.
const BETWEEN: u64 = 8;

/// The time that this thread was on a processor, without that of other processes.
fn now() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("Linux tells how long a thread has run"))
}

struct Load {
    writer: BatchWriter,
    command: Vec<u8>,
    value: Vec<u8>,
    sequence: u64,
    bytes: Vec<u8>,
}

impl Load {
    fn set(&mut self, machine: &mut Machine, keys: impl Iterator<Item = u64>) {
        self.value.clear();
        self.writer.begin(1_700_000_000_000, &mut self.value);
        for key in keys {
            self.sequence += 1;
            let key = format!("key:{key:012}");
            self.command.clear();
            put_plain(&[b"SET", key.as_bytes(), &self.bytes], Protocol::Resp2, &mut self.command);
            let sequence = Sequence(self.sequence);
            self.writer.append(ME, sequence, &self.command, 8192, &mut self.value);
        }
        let slot = machine.prefix().next_slot();
        machine.apply(slot, &self.value, &mut |_, _, _| {}).expect("a batch");
    }
}

/// Gives this state to a member that has one of the same size.
fn put_in_place(mib: u64, state: &[u8], like: &Machine) {
    let wall = Instant::now();
    let old = snapshot::restore(state, 0).expect("it was just written");
    println!("{mib} MiB given, read in one go:     {:>10.3} ms", ms(wall.elapsed()));
    assert_eq!(old.store().len(), like.store().len());

    let (mut steps, mut installer) = (Vec::new(), Installer::new(0));
    for mut piece in state.chunks(PIECE_BYTES) {
        loop {
            let wall = Instant::now();
            let more = installer.feed_some(piece, ENTRIES_AT_ONCE).expect("it was just written");
            steps.push(wall.elapsed());
            piece = &[];
            if !more {
                break;
            }
        }
    }
    let wall = Instant::now();
    let new = installer.finish().expect("all of it was read");
    let mut here = old;
    let old = std::mem::replace(&mut here, new);
    let swap = wall.elapsed();
    steps.sort_unstable();
    let percentile = |percent: usize| ms(steps[(steps.len() - 1) * percent / 100]);
    println!(
        "    in {} steps: p50 {:.3} ms, p99 {:.3} ms, longest {:.3} ms; swapped in {:.3} ms",
        steps.len(),
        percentile(50),
        percentile(99),
        percentile(100),
        ms(swap)
    );
    assert_eq!(here.digest(), old.digest());
    let wall = Instant::now();
    drop(old);
    println!("    dropping the old state, by a thread of its own: {:.3} ms", ms(wall.elapsed()));
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn main() {
    let mib: u64 = std::env::args().nth(1).map_or(256, |text| text.parse().expect("MiB"));
    let n_keys = mib << 10;
    let mut machine = Machine::new(0);
    let mut load = Load {
        writer: BatchWriter::new(),
        command: Vec::new(),
        value: Vec::new(),
        sequence: 0,
        bytes: vec![b'v'; 1024],
    };
    for first in (0..n_keys).step_by(BATCH as usize) {
        load.set(&mut machine, first..n_keys.min(first + BATCH));
    }
    assert_eq!(machine.store().len() as u64, n_keys);
    assert_eq!(machine.prefix().next_slot(), Slot(n_keys.div_ceil(BATCH)));

    let began = now();
    let mut all = Vec::new();
    snapshot::save(&machine, &mut all);
    println!("{mib} MiB in one go:   {:>10.3} ms", (now() - began).as_secs_f64() * 1e3);
    let n_bytes = all.len();
    put_in_place(mib, &all, &machine);
    drop(all);

    let mut rng = Rng::new(1);
    let began = now();
    let mut beside = Beside::begin(&mut machine);
    let begin = now() - began;
    let (mut pieces, mut total, mut n_beside) = (Vec::new(), begin, 0);
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        let (began, wall) = (now(), Instant::now());
        let more = beside.chunk(&mut machine, 64 << 10, &mut chunk).expect("the same machine");
        pieces.push(wall.elapsed());
        total += now() - began;
        n_beside += chunk.len();
        if !more {
            break;
        }
        for _ in 0..BETWEEN {
            load.set(&mut machine, (0..BATCH).map(|_| rng.below(n_keys)));
        }
    }
    assert_eq!(n_beside, n_bytes, "as large as at once");
    pieces.sort_unstable();
    let percentile = |percent: usize| ms(pieces[(pieces.len() - 1) * percent / 100]);
    println!("{mib} MiB beside, in all: {:>10.3} ms, in {} pieces", ms(total), pieces.len());
    println!(
        "    a piece by the clock: p50 {:.3} ms, p99 {:.3} ms",
        percentile(50),
        percentile(99)
    );
}
