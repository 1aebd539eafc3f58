//! A member whose memory is gone, and that was not told to begin as a new incarnation.
//!
//! It has forgotten its promises, so it counts in no quorum. It answers for the cluster's status,
//! and tells clients why it cannot do more, until it is started as a new incarnation. (A supervisor
//! does that by itself.)

use crate::channel::{ReplicaEnd, Report};
use crate::config::Config;
use crate::control::Board;
use crate::door::{Door, State, Supervised, state_of};
use crate::signals::Signals;
use console::{Failure, Outcome};
use runtime::{Desk, Door as _, PATIENCE, Poller, Sockets, Stats, View};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which it reports that it is alive.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

const REFUSAL: &str = "LOADING this member lost its memory and votes in no quorum: use another \
    member, and start this one again with start = \"join\" in its file";

/// Runs until it is told to stop. `why` is the cause of the lost memory.
pub(super) fn run(
    why: &str,
    config: &Config,
    clients: TcpListener,
    board: &Arc<Board>,
    signals: Signals,
    channel: Option<Arc<ReplicaEnd>>,
) -> Outcome {
    let failed = |error| Failure::os("run a learner's loop", error);
    runtime::complain(format_args!("member {} is a learner: {why}", config.member));
    if let Some(channel) = &channel {
        channel.report(&Report::Learner(why.to_owned()));
    }
    let mut poller = Poller::new().map_err(failed)?;
    let mut state = state_of(config);
    let mut door = Door::new(config, clients, Arc::clone(board))?;
    door.refuse_all(REFUSAL);
    door.register(&poller, signals, channel)?;
    let view = View::new(config.rank(), config.members.len());
    let mut desk = Desk::new(view, PATIENCE);
    let (stats, mut ready) = (Stats::new(), Vec::new());
    while door.supervision().stop().is_none() {
        poller.wait(Some(PUBLISH_EVERY), &mut ready).map_err(failed)?;
        for event in &ready {
            door.on_ready(*event, &mut state, &mut desk);
        }
        // The desk gets no requests, so this ends.
        while door.resume(&mut state, &mut desk) {}
        runtime::Door::<State>::flush(&mut door, &mut desk);
        door.publish(&view, &stats, &mut state);
    }
    Ok(ExitCode::SUCCESS)
}
