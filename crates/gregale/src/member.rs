//! `gregale member`: the members of a running cluster, and changes of them.
//!
//! - I1 whatever a member answers, or fails to, the command ends at its deadline, and reports what
//!   is known then: exit code 1 means that the change may still happen.
//! - I2 a change is sent again only where the last attempt surely changed nothing, or where a
//!   repetition has no further effect: a member that is removed already is not removed again.

mod args;
mod cluster;

pub(crate) use args::MemberCommand;

use crate::door::{CHANGE_UNKNOWN, MAY_PASS, NOT_LEADER};
use crate::status::{ClusterStatus, MemberStatus, Membership};
use args::{MemberAddArgs, MemberArgs, MemberListArgs};
use cluster::{Answer, Cluster, member_of};
use console::{Failure, Format, Outcome};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The interval at which the cluster is asked for its progress.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The time for which a temporary refusal is not taken for an answer.
const MAY_PASS_WITHIN: Duration = Duration::from_secs(3);
/// The time for which the members are watched before a removal of unknown outcome is requested
/// again.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// `gregale member list`
pub(crate) fn list(args: &MemberListArgs) -> Outcome {
    let mut cluster = Cluster::of(&args.reach)?;
    let status = cluster.status()?;
    match args.format {
        Format::Json => {
            let list: Vec<_> = status.members.iter().map(describe).collect();
            let is_decided = status.view_is_decided;
            outln!("{}", json!({"view": status.view, "decided": is_decided, "members": list}));
        }
        Format::Table => out!("{}", table(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(member: &MemberStatus) -> serde_json::Value {
    json!({"id": member.id, "membership": member.membership.name(),
           "incarnation": member.incarnation, "role": member.role, "client": member.client})
}

fn table(status: &ClusterStatus) -> String {
    let state = if status.view_is_decided { "" } else { ", not decided yet" };
    let mut text = format!("view {}{state}\n", status.view);
    text += &format!(
        "{:<4}{:<12}{:<16}{:<11}{}\n",
        "id", "membership", "incarnation", "role", "client"
    );
    for MemberStatus { id, membership, incarnation, role, client, .. } in &status.members {
        let membership = membership.name();
        text += &format!("{id:<4}{membership:<12}{incarnation:<16}{role:<11}{client}\n");
    }
    text
}

/// `gregale member remove`
pub(crate) fn remove(args: &MemberArgs) -> Outcome {
    let end = Instant::now() + args.wait.within();
    let mut cluster = Cluster::of(&args.wait.reach)?;
    let member = cluster.member(args.id)?;
    if member.membership == Membership::None {
        return Err(Failure::new(format_args!(
            "member {} takes part no more already: see `gregale member list`",
            args.id
        )));
    }
    let mut doubt: Option<String> = None;
    loop {
        match (cluster.ask_leader("remove", args.id, end), &doubt) {
            (Ok(Asked::Done), _) => {
                // The change is decided. The next command may add a member, and looks at the
                // status, which may be a moment behind.
                cluster.shows_removed(args.id, member.incarnation, end);
                break;
            }
            // A leader that removes itself may have ended before it can answer, or may be deposed
            // before the removal is decided.
            (Ok(Asked::Unknown(why)), _) => doubt = Some(why),
            (Err(failure), None) => return Err(failure),
            // A refusal now may be caused by the earlier request.
            (Err(_), Some(_)) => {}
        }
        let until = end.min(Instant::now() + SHOWN_WITHIN);
        if cluster.shows_removed(args.id, member.incarnation, until) {
            break;
        }
        if let Some(why) = doubt.as_ref().filter(|_| Instant::now() >= end) {
            return Ok(unknown(why));
        }
    }
    outln!("member {} is removed", args.id);
    Ok(ExitCode::SUCCESS)
}

/// `gregale member add`
pub(crate) fn add(args: &MemberAddArgs) -> Outcome {
    let mut cluster = Cluster::of(&args.wait.reach)?;
    let status = cluster.status()?;
    let empty = |member: &&MemberStatus| member.membership == Membership::None;
    let member = match args.id {
        Some(id) => Some(member_of(&status, id)?),
        None => status.members.iter().find(empty),
    };
    let Some(member) = member.filter(empty) else {
        return Err(Failure::new(match args.id {
            Some(id) => format!("member {id} takes part: replace it, or add another"),
            None => "every seat is taken: remove or replace a member".to_owned(),
        }));
    };
    let (id, before) = (member.id, member.incarnation);
    cluster.renew(id, before, args.wait.within())
}

/// `gregale member replace`
pub(crate) fn replace(args: &MemberArgs) -> Outcome {
    let mut cluster = Cluster::of(&args.wait.reach)?;
    let member = cluster.member(args.id)?;
    if member.membership == Membership::None {
        return Err(Failure::new(format_args!(
            "member {0} takes part no more: `gregale member add {0}` begins a new incarnation",
            args.id
        )));
    }
    cluster.renew(args.id, member.incarnation, args.wait.within())
}

/// A result that is unknown at the end is printed on standard error, and is not a success.
fn unknown(why: &str) -> ExitCode {
    runtime::complain(format_args!("{why}"));
    ExitCode::from(1)
}

/// The result of a request to the leader.
enum Asked {
    Done,
    /// The change may or may not happen.
    Unknown(String),
}

impl Cluster {
    fn member(&mut self, id: u16) -> Outcome<MemberStatus> {
        member_of(&self.status()?, id).cloned()
    }

    /// Whether the removal of this incarnation of member `id` is decided before `until`.
    fn shows_removed(&mut self, id: u16, incarnation: u64, until: Instant) -> bool {
        self.shows(id, until, |member| {
            member.membership == Membership::None || member.incarnation != incarnation
        })
    }

    /// Whether member `id` is, before `until`, as `is_it` asks, by a view that is decided.
    fn shows(
        &mut self,
        id: u16,
        until: Instant,
        mut is_it: impl FnMut(&MemberStatus) -> bool,
    ) -> bool {
        loop {
            if let Ok(status) = self.status()
                && let Ok(member) = member_of(&status, id)
                && status.view_is_decided
                && is_it(member)
            {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks the leader; without a leader it waits for one until `end`.
    fn ask_leader(&mut self, verb: &str, id: u16, end: Instant) -> Outcome<Asked> {
        let may_pass_until = end.min(Instant::now() + MAY_PASS_WITHIN);
        loop {
            let leader = self.status().map(|status| self.leader_of(&status));
            let mut last = "there is no leader at the moment".to_owned();
            match leader {
                Ok(Some(leader)) => match self.ask(leader, verb, id)? {
                    // I2
                    Answer::Refused(line) if line.starts_with(NOT_LEADER) => last = line,
                    Answer::Refused(line) if line.starts_with(CHANGE_UNKNOWN) => {
                        return Ok(Asked::Unknown(line));
                    }
                    // A member that was restarted is heard in a moment.
                    Answer::Refused(line)
                        if line.starts_with(MAY_PASS) && Instant::now() < may_pass_until =>
                    {
                        last = line;
                    }
                    Answer::Refused(line) => {
                        let known = ["ERR ", "BUSY ", "TRYAGAIN "];
                        let text = known.iter().find_map(|word| line.strip_prefix(word));
                        return Err(text.map_or_else(|| self.refused(leader, &line), Failure::new));
                    }
                    Answer::Done => return Ok(Asked::Done),
                    Answer::Unreachable(why) => last = why,
                    Answer::Silent(why) => {
                        return Ok(Asked::Unknown(format!(
                            "{leader} gave no answer ({why}): whether anything changed is not \
                             known; see `gregale member list`"
                        )));
                    }
                },
                Ok(None) => {}
                Err(failure) => last = failure.to_string(),
            }
            if Instant::now() >= end {
                return Err(Failure::new(format_args!("nothing was changed: {last}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Has a new incarnation begun on seat `id`, and waits until it votes.
    fn renew(&mut self, id: u16, before: u64, within: Duration) -> Outcome {
        let end = Instant::now() + within;
        if let Asked::Unknown(why) = self.ask_leader("renew", id, end)? {
            // Most likely the leader itself was ended: the next status shows it.
            runtime::complain(format_args!("{why}"));
        }
        outln!("member {id}: a new incarnation is begun");
        let mut told = Membership::None;
        let votes = self.shows(id, end, |member| {
            let is_new = member.incarnation != before && member.membership != Membership::None;
            if is_new && told != member.membership {
                told = member.membership;
                outln!("member {id}: {}, incarnation {}", told.name(), member.incarnation);
            }
            is_new && told == Membership::Voter
        });
        if votes {
            return Ok(ExitCode::SUCCESS);
        }
        // I1
        Ok(unknown(&format!(
            "member {id} does not vote after {} s: it may yet; `gregale member list` shows it, \
             and --within gives it more time",
            within.as_secs()
        )))
    }
}
