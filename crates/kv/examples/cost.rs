//! The cost of one command on its way through this crate, in nanoseconds: parsing and encoding,
//! decoding and deduplication, the store itself. `cargo run --release -p gregale-kv --example cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, Instant, Rank, Rng, Slot};
use kv::connection::{Config, Connection, Identity, Request};
use kv::entry::{Appended, BatchWriter, Origin, Sequence, command::put_plain};
use kv::machine::Machine;
use kv::sessions::{Sessions, Verdict};
use kv::{Protocol, Reply, Store, lookup};

const N: usize = 400_000;
const KEYS: u64 = 100_000;
const VALUE: &[u8] = &[b'v'; 32];
const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };

/// The time that this thread was on a processor, to which other processes add as little as
/// possible.
#[derive(Clone, Copy)]
struct Clock(Duration);

impl Clock {
    fn now() -> Clock {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
        Clock(Duration::from_nanos(ns.expect("Linux tells how long a thread has run")))
    }

    fn elapsed(self) -> Duration {
        Clock::now().0 - self.0
    }
}

/// The mean of many runs: a thread's time is counted in ticks, which are long compared to one run.
fn measure(name: &str, mut run: impl FnMut() -> Duration) {
    const RUNS: usize = 12;
    let all: Duration = (0..RUNS).map(|_| run()).sum();
    println!("{name:<44} {:>7.1} ns", all.as_nanos() as f64 / (N * RUNS) as f64);
}

fn keys() -> Vec<String> {
    let mut rng = Rng::new(1);
    (0..N).map(|_| format!("key:{:012}", rng.below(KEYS))).collect()
}

fn main() {
    let keys = keys();
    let set = lookup(b"set").expect("SET is in the table");

    measure("store: SET", || {
        let (mut store, mut reply) = (Store::new(0), Reply::default());
        let mut pass = || {
            let clock = Clock::now();
            for key in &keys {
                reply.clear();
                store.execute(
                    kv::store::Db::ZERO,
                    set,
                    &[b"SET", key.as_bytes(), VALUE],
                    0,
                    &mut reply,
                );
            }
            clock.elapsed()
        };
        pass();
        pass()
    });

    measure("sessions: judge and record", || {
        let mut sessions = Sessions::new();
        let clock = Clock::now();
        for sequence in 1..=N as u64 {
            let sequence = Sequence(sequence);
            if let Verdict::Fresh = black_box(sessions.judge(ME, sequence)) {
                sessions.record(ME, sequence, b"+OK\r\n");
            }
        }
        clock.elapsed()
    });

    let mut command = Vec::new();
    measure("entry: encode and append", || {
        let (mut writer, mut value) = (BatchWriter::new(), Vec::new());
        writer.begin(1, &mut value);
        let clock = Clock::now();
        for (at, key) in keys.iter().enumerate() {
            command.clear();
            let args: [&[u8]; 3] = [b"SET", key.as_bytes(), VALUE];
            put_plain(&args, Protocol::Resp2, &mut command);
            let sequence = Sequence(at as u64 + 1);
            if writer.append(ME, sequence, &command, 8192, &mut value) == Appended::Full {
                value.clear();
                writer.begin(1, &mut value);
                writer.append(ME, sequence, &command, 8192, &mut value);
            }
        }
        clock.elapsed()
    });

    // A value is applied while it is in the caches, as it is when it has just arrived.
    measure("the same, and apply, 8 KiB batches", || {
        let mut machine = Machine::new(0);
        let (mut slot, mut bytes) = (Slot::ZERO, 0);
        let (mut writer, mut value) = (BatchWriter::new(), Vec::new());
        writer.begin(1, &mut value);
        let mut pass = |first: u64| {
            let clock = Clock::now();
            for (at, key) in keys.iter().enumerate() {
                command.clear();
                let args: [&[u8]; 3] = [b"SET", key.as_bytes(), VALUE];
                put_plain(&args, Protocol::Resp2, &mut command);
                let sequence = Sequence(first + at as u64);
                if writer.append(ME, sequence, &command, 8192, &mut value) == Appended::Full {
                    machine
                        .apply(slot, &value, &mut |_, _, reply| bytes += reply.len())
                        .expect("a batch of our own");
                    slot = slot.next();
                    value.clear();
                    writer.begin(1, &mut value);
                    writer.append(ME, sequence, &command, 8192, &mut value);
                }
            }
            clock.elapsed()
        };
        pass(1);
        pass(1 + N as u64)
    });

    for (name, verb) in [("connection: SET, pipelines of 16", "SET"), ("  GET", "GET")] {
        measure(name, || {
            let identity = Identity::default();
            let mut connection =
                Connection::new(Arc::new(Config::default()), identity, Instant::ZERO);
            let mut pipelines = Vec::new();
            for keys in keys.chunks(16) {
                let mut bytes = Vec::new();
                for key in keys {
                    bytes.extend_from_slice(match verb {
                        "SET" => b"*3\r\n$3\r\nSET\r\n$16\r\n",
                        _ => b"*2\r\n$3\r\nGET\r\n$16\r\n",
                    });
                    bytes.extend_from_slice(key.as_bytes());
                    bytes.extend_from_slice(b"\r\n");
                    if verb == "SET" {
                        bytes.extend_from_slice(b"$32\r\n");
                        bytes.extend_from_slice(VALUE);
                        bytes.extend_from_slice(b"\r\n");
                    }
                }
                pipelines.push(bytes);
            }
            let mut asked = Vec::new();
            let clock = Clock::now();
            for bytes in &pipelines {
                connection.feed(bytes, Instant::ZERO);
                while let Some(request) = connection.next_request() {
                    match request {
                        Request::Write { id, command } | Request::Read { id, command } => {
                            black_box(command);
                            asked.push(id);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                for id in asked.drain(..) {
                    connection.answer(id, b"+OK\r\n");
                }
                let n = connection.output().len();
                connection.sent(n);
            }
            clock.elapsed()
        });
    }

    let mut machine = Machine::new(0);
    let mut command = Vec::new();
    let (mut value, mut writer) = (Vec::new(), BatchWriter::new());
    for (at, key) in keys.iter().take(KEYS as usize).enumerate() {
        command.clear();
        value.clear();
        put_plain(&[b"SET", key.as_bytes(), VALUE], Protocol::Resp2, &mut command);
        writer.begin(1, &mut value);
        writer.append(ME, Sequence(at as u64 + 1), &command, 8192, &mut value);
        machine.apply(Slot(at as u64), &value, &mut |_, _, _| {}).expect("a batch of our own");
    }
    measure("machine: read, GET", || {
        let mut reply = Reply::default();
        let mut commands = Vec::new();
        for key in &keys {
            let mut command = Vec::new();
            put_plain(&[b"GET", key.as_bytes()], Protocol::Resp2, &mut command);
            commands.push(command);
        }
        let clock = Clock::now();
        for command in &commands {
            reply.clear();
            black_box(machine.read(command, 0, 0, &mut reply));
        }
        clock.elapsed()
    });
}
