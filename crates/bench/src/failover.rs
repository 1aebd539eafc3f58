//! From the leader's death to the next value: kill -9, many times, each in a new group.
//!
//! The host's monotonic clock times a kill in three places: the parent just before the system call;
//! the successor when its fabric reports the death (*detection*) and when its first value is
//! decided (*takeover*); and the other survivor when that value reaches it (the paper's replica R,
//! figure 2), which is the headline. A value that the dead leader had proposed does not count as
//! the next one, even though its successor finishes it. Beside it stands the floor in the same run:
//! how soon any sleeping process learns of a death ([`death`]).

use crate::clock::shared_ns;
use crate::death;
use crate::disk::Place;
use crate::group::{Error, Group, Launcher, Plan, needs_disk, refuse};
use crate::member::Wait;
use crate::run;
use crate::worker::order::{Answer, FabricKind, Order, Part, Story};
use base::Rng;
use proto::registry::LogProtocol;
use report::figure::{Axis, FigureError, Series};
use report::{Latency, Progress, Report, Row, figure};
use rustix::process::{Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;
/// The size of a value, which is the paper's.
const VALUE_BYTES: usize = 1;
/// The time before the kill that the figure shows.
const BEFORE_NS: u64 = 1_000_000;
/// The width of the figure's bins, which is the paper's.
const BIN_NS: u64 = 100_000;
/// The number of bins.
const BINS: usize = 40;
/// The most groups whose leader was replaced before the kill; they are not counted, and more are an
/// error.
const VOIDED_MAX: u32 = 20;
/// The number of deaths that give the floor.
const FLOORS_MAX: u32 = 50;
/// The time after which there is no successor.
const PATIENCE: Duration = Duration::from_secs(20);

/// The settings of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The provider.
    pub fabric: FabricKind,
    /// The protocol.
    pub protocol: LogProtocol,
    /// The bytes of private memory that the leader holds, which the kernel frees when it dies.
    pub resident_bytes: u64,
    /// Whether the leader is idle when it is killed, and sleeps; otherwise it decides one value
    /// after the other.
    pub asleep: bool,
    /// The way in which the others wait for news.
    pub followers: Wait,
    /// The number of leaders that are killed.
    pub kills: u32,
}

impl Setting {
    /// The name in reports.
    pub fn case(&self) -> String {
        let leader = if self.asleep { "leader asleep" } else { "leader under load" };
        let followers = match self.followers {
            Wait::Sleep => "",
            Wait::Spin => ", followers spin",
        };
        match self.resident_bytes {
            0 => format!("{leader}{followers}"),
            bytes => format!("{leader}, {} MiB{followers}", bytes >> 20),
        }
    }
}

/// One kill, with times in nanoseconds since the call.
#[derive(Clone, Debug)]
struct Kill {
    /// The time at which the successor learns of the death.
    detected: u64,
    /// The time at which the successor may propose.
    leading: u64,
    /// The time at which its first value is decided.
    decided: u64,
    /// The time at which the other survivor sees it.
    seen: u64,
    /// The values that the other survivor saw, by bin.
    bins: Vec<u32>,
}

/// A report and the timeline of a typical kill.
#[derive(Debug)]
pub struct Outcome {
    /// A row per setting.
    pub report: Report,
    timelines: Vec<(String, Vec<u32>)>,
}

/// Kills as often as the settings say. Logs of protocols that need a disk are below `data`; without
/// it, beside the program.
///
/// # Errors
/// [`Error`].
pub fn report(
    launcher: &Launcher,
    settings: &[Setting],
    data: Option<&Path>,
) -> Result<Outcome, Error> {
    settings.iter().try_for_each(|setting| refuse(setting.protocol, setting.fabric))?;
    let on_disk = settings.iter().any(|setting| needs_disk(setting.protocol));
    let place = on_disk.then(|| Place::new(data, &launcher.program)).transpose()?;
    let place = place.as_ref();
    let total = settings.iter().map(|setting| u64::from(setting.kills)).sum();
    let mut progress = Progress::new("failover", total);
    let mut rng = Rng::new(shared_ns());
    let (mut rows, mut timelines, mut done) = (Vec::new(), Vec::new(), 0);
    for setting in settings {
        let mut kills = Vec::new();
        let mut voided = 0;
        while kills.len() < setting.kills as usize {
            progress.set(done, &setting.case());
            match kill(launcher, setting, place, &mut rng)? {
                Some(kill) => {
                    kills.push(kill);
                    done += 1;
                }
                None if voided < VOIDED_MAX => voided += 1,
                None => {
                    let why = "no leader kept the lead for 0.1 s: is the machine overloaded?";
                    return Err(Error::Peer(why.to_owned()));
                }
            }
        }
        let floor = death::floor(launcher, setting.kills.min(FLOORS_MAX))?;
        rows.push(row(setting, &kills, &floor).with("voided", voided));
        kills.sort_unstable_by_key(|kill| kill.seen);
        let typical = kills.swap_remove(kills.len() / 2);
        timelines.push((setting.case(), typical.bins));
    }
    Ok(Outcome { report: run::report("failover", 1, rows), timelines })
}

fn row(setting: &Setting, kills: &[Kill], floor: &Latency) -> Row {
    let of = |part: fn(&Kill) -> u64| {
        let mut latency = Latency::new();
        kills.iter().for_each(|kill| latency.record_ns(part(kill)));
        latency
    };
    let (detected, takeover) = (of(|kill| kill.detected), of(|kill| kill.decided - kill.detected));
    let leading = of(|kill| kill.leading - kill.detected);
    let decided = of(|kill| kill.decided);
    let row = Row::new(setting.case())
        .with("fabric", setting.fabric.name())
        .with("protocol", setting.protocol.name())
        .with("members", MEMBERS)
        .with("value_bytes", VALUE_BYTES);
    let seen = of(|kill| kill.seen);
    let over_floor = seen.p50_ns() as f64 / floor.p50_ns() as f64;
    seen.fields(row)
        .with("floor_known_p50_ns", floor.p50_ns())
        .with("floor_known_p99_ns", floor.p99_ns())
        .with("p50_over_floor", over_floor)
        .with("detection_p50_ns", detected.p50_ns())
        .with("detection_p99_ns", detected.p99_ns())
        .with("prepare_p50_ns", leading.p50_ns())
        .with("takeover_p50_ns", takeover.p50_ns())
        .with("takeover_p99_ns", takeover.p99_ns())
        .with("decided_p50_ns", decided.p50_ns())
        .with("decided_p99_ns", decided.p99_ns())
}

/// Kills one leader. `None` if another member led by then: the machine is overloaded.
fn kill(
    launcher: &Launcher,
    setting: &Setting,
    place: Option<&Place>,
    rng: &mut Rng,
) -> Result<Option<Kill>, Error> {
    let plan = Plan {
        protocol: setting.protocol,
        data: place.map(Place::path),
        ..Plan::of(Part::Member, setting.fabric, MEMBERS, setting.followers)
    };
    let mut group = Group::start(launcher, &plan)?;
    let victim = group.leader().expect("a group starts with a leader");
    if setting.resident_bytes > 0 {
        done(&mut group, victim, &Order::Ballast(setting.resident_bytes))?;
    }
    for member in 0..MEMBERS {
        // The successor of a sleeping leader has a client's command waiting, as it would in
        // production.
        let propose = !(setting.asleep && member == victim);
        done(&mut group, member, &Order::Load { value_bytes: VALUE_BYTES, propose })?;
    }
    // The duration of the load before the kill, which hits heartbeats at any moment of their
    // period.
    std::thread::sleep(Duration::from_micros(60_000 + rng.below(20_000)));
    group.catch_up()?;
    if group.leader() != Some(victim) {
        return Ok(None);
    }
    let pid = group.members[victim].pid();
    let killed_at = shared_ns();
    kill_process(pid, Signal::KILL).map_err(|errno| Error::os("kill the leader", errno))?;
    let tell = Order::Tell {
        since_ns: killed_at,
        from_ns: killed_at - BEFORE_NS,
        bin_ns: BIN_NS,
        bins: BINS,
    };
    let until = Instant::now() + PATIENCE;
    loop {
        // The survivors are not disturbed during the measurement, and during the time after it that
        // the figure shows.
        std::thread::sleep(Duration::from_millis(5));
        let mut stories = Vec::new();
        for member in (0..MEMBERS).filter(|member| *member != victim) {
            match group.members[member].ask(&tell, Duration::ZERO)? {
                Answer::Story(story) => stories.push((member, story)),
                other => return Err(group.members[member].misspoke(&other)),
            }
        }
        if let Some(kill) = told(&stories, victim, killed_at) {
            return Ok(Some(kill));
        }
        if Instant::now() >= until {
            stories.iter_mut().for_each(|(_, story)| story.bins.clear());
            let what = format!("after a kill at {killed_at}, no value reached all: {stories:?}");
            return Err(Error::late(what, PATIENCE));
        }
    }
}

/// The kill's times, once both survivors have seen a value of the new leader.
fn told(stories: &[(usize, Story)], victim: usize, killed_at: u64) -> Option<Kill> {
    let [(_, first), (_, second)] = stories else { return None };
    let after = |at: u64| at.checked_sub(killed_at);
    let successor = stories.iter().find(|(_, story)| story.leading_at > killed_at)?;
    let other = if std::ptr::eq(&successor.1, first) { second } else { first };
    let (rank, story) = successor;
    // A successor that suspects by itself was told later than it knew: it knew when it led.
    let detected = after(story.failed_at[victim]).unwrap_or(u64::MAX).min(after(story.leading_at)?);
    Some(Kill {
        detected,
        leading: after(story.leading_at)?,
        decided: after(story.first_seen_at[*rank])?,
        seen: after(other.first_seen_at[*rank])?,
        bins: other.bins.clone(),
    })
}

fn done(group: &mut Group, member: usize, order: &Order) -> Result<(), Error> {
    match group.members[member].ask(order, Duration::ZERO)? {
        Answer::Done => Ok(()),
        other => Err(group.members[member].misspoke(&other)),
    }
}

impl Outcome {
    /// The paper's figure 2: values that the other survivor sees around a typical kill.
    ///
    /// # Errors
    /// [`FigureError`].
    pub fn figure(&self) -> Result<String, FigureError> {
        let us = |bin: usize| (bin as f64 * BIN_NS as f64 - BEFORE_NS as f64) / 1e3;
        let series: Vec<Series> = self
            .timelines
            .iter()
            .map(|(case, bins)| {
                let points = bins.iter().enumerate().map(|(bin, n)| (us(bin), f64::from(*n)));
                Series { name: case.clone(), points: points.collect() }
            })
            .collect();
        figure::lines(
            "Values seen by the other survivor; the leader is killed at 0",
            &Axis::linear("time since the kill (us)"),
            &Axis::linear("values per 100 us"),
            &series,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(leading_at: u64, seen: [u64; 3], failed_at: u64) -> Story {
        let mut story = Story { leading_at, ..Story::default() };
        story.first_seen_at[..3].copy_from_slice(&seen);
        story.failed_at[0] = failed_at;
        story
    }

    #[test]
    fn the_headline_is_what_the_other_survivor_sees() {
        let stories = [(1, story(140, [9, 150, 0], 130)), (2, story(0, [9, 170, 0], 135))];
        let kill = told(&stories, 0, 100).expect("complete");
        let parts = (kill.detected, kill.leading, kill.decided, kill.seen);
        assert_eq!(parts, (30, 40, 50, 70));
    }

    #[test]
    fn a_value_of_the_dead_is_not_the_next_one() {
        let stories = [(1, story(140, [145, 0, 0], 130)), (2, story(0, [160, 0, 0], 135))];
        assert!(told(&stories, 0, 100).is_none());
    }
}
