//! One member of a group whose object is measured: it updates, or asks.

use super::member::{PATIENCE, Problem, Span, options, orders, serve};
use super::object::{Blob, NAME, Store, StoreHandle, values};
use super::raw;
use super::spec::{Asks, Load, Spec, Took, Update, When};
use crate::child::say;
use crate::clock::shared_ns;
use crate::crew::Said;
use group::{Pending, Replica, Replicas, Time};
use report::Latency;
use std::collections::VecDeque;

/// The versions of each shard that is asked.
const N_POPULATED: usize = 16;

/// Runs the member that `spec` describes, until its input ends.
///
/// # Errors
/// The group's.
pub fn run(spec: &Spec) -> Result<(), Box<dyn std::error::Error>> {
    let outcome = if spec.is_raw { raw::run(spec, &orders()) } else { with_object(spec) };
    outcome.map_err(|problem| -> Box<dyn std::error::Error> { problem })
}

fn with_object(spec: &Spec) -> Result<(), Problem> {
    let orders = orders();
    let (options, n_kept) = (options(spec), spec.n_kept);
    let founds = spec.seat == 1;
    let replica: Replica<Store> = if spec.n_shards > 0 {
        let objects = Replicas::of(&options).object("store", move || Store::new(n_kept));
        let objects = if founds { objects.found()? } else { objects.join()? };
        objects.get("store").ok_or("no object")?
    } else if founds {
        Replica::found(&options, Store::new(n_kept))?
    } else {
        Replica::join(&options)?
    };
    say(&Said::<Took>::Inside);
    let n_members = spec.members;
    let is_whole = |view: &group::View| {
        view.members.len() == n_members && view.shards.iter().all(|shard| shard.is_adequate)
    };
    replica.wait_view(is_whole, PATIENCE).ok_or("the group does not come together")?;
    let store = StoreHandle::from(replica);
    let (shards, past) = match spec.asks {
        Some(Asks::Shards { value_bytes, .. }) => populate(&store, spec.n_shards, value_bytes)?,
        Some(Asks::Own { .. }) | None => (Vec::new(), Time::default()),
    };
    serve(spec, &orders, |span| {
        std::thread::scope(|scope| {
            let store = &store;
            let load = spec.load.map(|load| scope.spawn(move || updates(store, &load, span)));
            let mut took = Took::default();
            let asked = match spec.asks {
                None => Latency::new(),
                Some(Asks::Own { offset_ns }) => ask_own(store, offset_ns, span)?,
                Some(Asks::Shards { when, depth, .. }) => {
                    ask_shards(&shards, (when, past), depth, span)?
                }
            };
            took.asked_ns = asked.buckets().collect();
            if let Some(load) = load {
                let (done, stable) = load.join().map_err(|_| "the updating thread panicked")??;
                took.done_ns = done.buckets().collect();
                took.stable_ns = stable.buckets().collect();
            }
            Ok(took)
        })
    })
}

/// A call with a value, whose first bytes make it differ from the one before.
fn call(store: &StoreHandle, update: Update, value: &mut [u8], n: u64) -> Pending<()> {
    value[..8].copy_from_slice(&n.to_le_bytes());
    match update {
        Update::Ignore => store.ignore(Blob(value.to_vec())),
        Update::Volatile => store.put_volatile(Blob(value.to_vec())),
        Update::Persistent => store.put_persistent(Blob(value.to_vec())),
        Update::IgnoreList => store.ignore_list(NAME.to_owned(), n, values(value.len())),
    }
}

/// One update after the other, `depth` at once: the times to their outcomes, and to where their
/// times are final.
fn updates(store: &StoreHandle, load: &Load, span: Span) -> Result<(Latency, Latency), Problem> {
    let mut value = vec![0x5a; load.value_bytes];
    let (mut done, mut stable) = (Latency::new(), Latency::new());
    let (mut under_way, mut n) = (VecDeque::new(), 0);
    while shared_ns() < span.to_ns {
        while under_way.len() < load.depth {
            n += 1;
            let start = shared_ns();
            under_way.push_back((start, call(store, load.update, &mut value, n)));
        }
        let Some((start, pending)) = under_way.pop_front() else { break };
        let ((), time) = pending.wait_timed(PATIENCE)?;
        let ended = shared_ns();
        let is_counted = span.has(ended);
        if is_counted {
            done.record_ns(ended - start);
        }
        if load.until_stable {
            store.bytes_then(time)?;
            if is_counted {
                stable.record_ns(shared_ns() - start);
            }
        }
    }
    for (_, pending) in under_way {
        pending.wait_for(PATIENCE)?;
    }
    Ok((done, stable))
}

/// One query after the other, of the own copy.
fn ask_own(store: &StoreHandle, offset_ns: i64, span: Span) -> Result<Latency, Problem> {
    let mut asked = Latency::new();
    while shared_ns() < span.to_ns {
        let start = shared_ns();
        let then = Time::now().as_nanos().saturating_add_signed(offset_ns);
        store.bytes_then(Time::from_nanos(then))?;
        if span.has(start) {
            asked.record_ns(shared_ns() - start);
        }
    }
    Ok(asked)
}

/// A shard, and its member that is asked.
type Asked = (StoreHandle, usize);

/// Gives each shard its values. Returns the shards, and a time at which all values are there.
fn populate(
    store: &StoreHandle,
    n_shards: usize,
    value_bytes: usize,
) -> Result<(Vec<Asked>, Time), Problem> {
    let mut value = vec![0x5a; value_bytes];
    let mut shards = Vec::new();
    for shard in (0..n_shards).map(|shard| store.in_shard(shard)) {
        for n in 0..N_POPULATED as u64 {
            call(&shard, Update::Volatile, &mut value, n).wait_for(PATIENCE)?;
        }
        let seat = *shard.seats().first().ok_or("a shard without members")?;
        shards.push((shard, seat));
    }
    let past = store.latest();
    for (shard, seat) in &shards {
        let found = shard.value_then_at(*seat, past).wait_for(PATIENCE)?;
        if found.is_none_or(|value| value.0.len() != value_bytes) {
            return Err("a value is not there at its time".into());
        }
    }
    Ok((shards, past))
}

/// One cut after the other, `depth` at once: all shards of a cut are asked at once.
fn ask_shards(
    shards: &[Asked],
    (when, past): (When, Time),
    depth: usize,
    span: Span,
) -> Result<Latency, Problem> {
    let mut asked = Latency::new();
    let mut under_way: VecDeque<(u64, Vec<Pending<Option<Blob>>>)> = VecDeque::new();
    while shared_ns() < span.to_ns {
        while under_way.len() < depth {
            let (start, now) = (shared_ns(), Time::now());
            let ask = |(shard, seat): &Asked| match when {
                When::AsItIs => shard.value_at(*seat),
                When::Now => shard.value_then_at(*seat, now),
                When::Past => shard.value_then_at(*seat, past),
            };
            under_way.push_back((start, shards.iter().map(ask).collect()));
        }
        let Some((start, cut)) = under_way.pop_front() else { break };
        for value in cut {
            value.wait_for(PATIENCE)?.ok_or("a value is not kept any longer")?;
        }
        let ended = shared_ns();
        if span.has(ended) {
            asked.record_ns(ended - start);
        }
    }
    Ok(asked)
}
