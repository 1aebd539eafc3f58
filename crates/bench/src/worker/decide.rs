//! One value after the other at the leader, each timed.

use super::member::Watch;
use super::order::Answer;
use crate::member::{Member, Wait};
use fabric::Fabric;
use proto::Refused;
use report::{Latency, Row};
use std::time::Duration;

/// The reason why a measurement ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// Another member leads.
    #[error("the leader was deposed")]
    Deposed,
    /// The kernel reports an error.
    #[error("cannot wait: {0}")]
    Wait(#[from] rustix::io::Errno),
}

/// Measures from the call of `propose` to the end of the turn that delivered the value at the
/// leader: the turn's other work (telling followers, recycling slots) is included.
pub(super) fn run<F: Fabric>(
    member: &mut Member<F, Watch>,
    value_bytes: usize,
    warm_up: Duration,
    span: Duration,
    wait: Wait,
) -> Result<Answer, Stop> {
    let value = vec![0; value_bytes];
    let clock = member.clock().clone();
    let mut times = Latency::new();
    let mut decide = |times: &mut Latency, span: Duration| {
        let began = clock.raw();
        let mut n = 0u64;
        loop {
            let at = clock.raw();
            one(member, &value, wait)?;
            let done = clock.raw();
            times.record_ns(clock.between(at, done));
            n += 1;
            let so_far = clock.between(began, done);
            if u128::from(so_far) >= span.as_nanos() {
                return Ok::<f64, Stop>(n as f64 * 1e9 / so_far as f64);
            }
        }
    };
    decide(&mut times, warm_up)?;
    times = Latency::new();
    let per_s = decide(&mut times, span)?;
    let row = Row::new("decide").with("value_bytes", value_bytes);
    let row = times.fields(row).with("per_s", per_s);
    Ok(Answer::Took(row.with("floor_clock_ns", clock.cost_ns())))
}

fn one<F: Fabric>(member: &mut Member<F, Watch>, value: &[u8], wait: Wait) -> Result<(), Stop> {
    let delivered = member.witness().delivered;
    loop {
        match member.propose(value) {
            Ok(_) => break,
            Err(Refused::Full) => turn(member, wait)?,
            Err(Refused::NotLeader) => return Err(Stop::Deposed),
            Err(Refused::TooLong) => unreachable!("the parent asks for values that fit"),
        }
    }
    while member.witness().delivered == delivered {
        turn(member, wait)?;
        if !member.witness().leads {
            return Err(Stop::Deposed);
        }
    }
    Ok(())
}

fn turn<F: Fabric>(member: &mut Member<F, Watch>, wait: Wait) -> rustix::io::Result<()> {
    match wait {
        Wait::Spin => {
            member.turn();
            Ok(())
        }
        Wait::Sleep => {
            if member.turn() {
                return Ok(());
            }
            member.sleep()
        }
    }
}
