//! What every member does, with an object or without: it joins, waits for its order, measures,
//! reports, and stays until its input ends.

use super::spec::{Spec, Took};
use crate::child::say;
use crate::clock::{cpu_ns, shared_ns};
use crate::crew::Said;
use group::{Options, Subgroup};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The longest wait for one outcome, and for the parent.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// The times of a measurement, by the shared clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Span {
    pub(super) fn has(&self, ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&ns)
    }
}

/// The shared times at which the load begins, as the parent gives them.
pub(super) fn orders() -> Receiver<u64> {
    let (to, orders) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for at in lines.map_while(|line| line.trim().parse().ok()) {
            let _gone = to.send(at);
        }
    });
    orders
}

/// Says that all is ready, waits for the order, lets `measure` measure, reports, and waits for the
/// end of the input.
pub(super) fn serve(
    spec: &Spec,
    orders: &Receiver<u64>,
    measure: impl FnOnce(Span) -> Result<Took, Problem>,
) -> Result<(), Problem> {
    say(&Said::<Took>::Complete);
    let Ok(begins) = orders.recv() else { return Ok(()) };
    let from_ns = begins + spec.warm_up.as_nanos() as u64;
    let span = Span { from_ns, to_ns: from_ns + spec.span.as_nanos() as u64 };
    let (cpu_before, began) = (cpu_ns(), shared_ns());
    let mut took = measure(span)?;
    // A member that does nothing of its own works for the others meanwhile.
    let left = Duration::from_nanos(span.to_ns.saturating_sub(shared_ns()));
    if orders.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
        return Ok(());
    }
    // Of the warm-up too: the rate is what counts.
    let cpu_rate = (cpu_ns() - cpu_before) as f64 / (shared_ns() - began).max(1) as f64;
    took.span_ns = span.to_ns - span.from_ns;
    took.cpu_ns = (cpu_rate * took.span_ns as f64) as u64;
    say(&Said::Took(took));
    // The others need this member until all have measured.
    let _ended = orders.recv();
    Ok(())
}

/// The options of the group.
pub(super) fn options(spec: &Spec) -> Options {
    // The files are private, and loopback is used for seconds: the secret excludes leftovers of an
    // earlier run.
    let (name, addresses) = (&spec.group, spec.addresses.clone());
    let options = match addresses.is_empty() {
        true => Options::shm(name, name, "bench"),
        false => Options::tcp(name, name, "bench", addresses),
    };
    let mut options = Options {
        directory: spec.directory.join("memory"),
        seats: spec.members,
        seat: Some(spec.seat),
        window: spec.window,
        message_bytes: spec.message_bytes,
        patience: PATIENCE,
        ..options
    };
    if spec.n_shards > 0 {
        options.layout = vec![Subgroup::new("store").shards(spec.n_shards).members(2, 2)];
    }
    if let Some(data) = &spec.data {
        options = options.durable(spec.seat, data);
    }
    // A machine without time for all its processes, or a disk that is taken by others for seconds,
    // must not cause changes of views.
    options.timing.suspect_after = Duration::from_secs(30);
    options
}
