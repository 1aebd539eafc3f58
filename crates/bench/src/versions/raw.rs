//! The same group without an object: bytes are multicast and delivered, and nothing is encoded.

use super::member::{PATIENCE, Problem, Span, options, serve};
use super::spec::{Load, Spec, Took};
use crate::child::say;
use crate::clock::shared_ns;
use crate::crew::Said;
use group::{Event, Fate, Group};
use report::Latency;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The longest wait for an event, after which the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs a member until the input ends.
pub(super) fn run(spec: &Spec, orders: &Receiver<u64>) -> Result<(), Problem> {
    let options = options(spec);
    let group = if spec.seat == 1 { Group::found(&options)? } else { Group::join(&options)? };
    say(&Said::<Took>::Inside);
    let (views, is_over) = (channel(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (to, views) = views;
        let (group, is_over) = (&group, &is_over);
        let taking = scope.spawn(move || take(group, &to, is_over));
        let served = complete(&views, spec.members).and_then(|()| {
            serve(spec, orders, |span| {
                let done = spec.load.map(|load| sends(group, &load, span)).transpose()?;
                let done_ns = done.map_or(Vec::new(), |done| done.buckets().collect());
                Ok(Took { done_ns, ..Took::default() })
            })
        });
        is_over.store(true, Ordering::SeqCst);
        taking.join().map_err(|_| "the taking thread panicked")??;
        served
    })
}

/// Takes what is delivered, and does nothing with it.
fn take(group: &Group, views: &Sender<usize>, is_over: &AtomicBool) -> Result<(), Problem> {
    let mut events = VecDeque::new();
    while !is_over.load(Ordering::SeqCst) {
        group.take(&mut events, LOOK_EVERY);
        for event in events.drain(..) {
            match event {
                // (After the last one that is waited for, no thread listens.)
                Event::View(view) => drop(views.send(view.members.len())),
                Event::Ended(why) => return Err(why.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Waits until all are members.
fn complete(views: &Receiver<usize>, n_expected: usize) -> Result<(), Problem> {
    while views.recv_timeout(PATIENCE).map_err(|_| "the group does not come together")? < n_expected
    {
    }
    Ok(())
}

/// One message after the other, `depth` at once: the times to their own deliveries.
fn sends(group: &Group, load: &Load, span: Span) -> Result<Latency, Problem> {
    let mut message = vec![0x5a; load.value_bytes];
    let mut done = Latency::new();
    let (mut under_way, mut n) = (VecDeque::new(), 0u64);
    while shared_ns() < span.to_ns {
        while under_way.len() < load.depth {
            n += 1;
            message[..8].copy_from_slice(&n.to_le_bytes());
            let start = shared_ns();
            under_way.push_back((start, group.send_within(&message, PATIENCE)?));
        }
        let Some((start, number)) = under_way.pop_front() else { break };
        if group.wait_fate(0, number, PATIENCE)? != Fate::Delivered {
            return Err("a message was not delivered in time".into());
        }
        let ended = shared_ns();
        if span.has(ended) {
            done.record_ns(ended - start);
        }
    }
    Ok(done)
}
