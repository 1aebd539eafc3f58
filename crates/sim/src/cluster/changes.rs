//! The operator of a simulated cluster: replaces, removes and adds members while clients work and
//! faults strike, by the commands of `gregale member` and through the released door: by a client's
//! connection, or, where those belong to a program, as the control port brings orders.
//!
//! It has one goal at a time. Each step first reads the members that a leader reports, as the tool
//! does: the outcome of an unknown change is read, not guessed.
//!
//! - O1 no voter is begun again where fewer than three vote: the content of its disk or memory is
//!   then needed. By `Operator::think`.
//! - O2 a change that the door calls done is decided. Judged in `settle`.
//! - O3 the tool understands every reply of the door. Judged in `settle`.
//! - O4 when all is well, a goal that was begun is reached. Judged in `phases`.
//! - O5 a leader that has begun a seat again begins no other one before that one votes. Judged in
//!   `hear_renewal`.
//! - O6 a removal that each asked member says it refuses is not done. Judged at the next look, by
//!   `Removals::look`.

use super::member::Member;
use super::operator::{Asked, Goal, Pursuit, Way};
use super::resp::{self, Value};
use super::world::World;
use crate::Property;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::world::Phase;
use base::Rank;
use engine::Order;
use kv::door::{MAY_PASS, NOT_LEADER, UNKNOWN, end_of};
use proto::Role;
use proto::members::Configuration;

impl World {
    pub(super) fn open_office(&mut self) {
        if let Some(operator) = &self.seats.operator {
            self.push_in(operator.every_ns, Happening::Operate);
        }
    }

    pub(super) fn on_operate(&mut self) {
        let calm = self.phase != Phase::Safety;
        let Some(operator) = &mut self.seats.operator else { return };
        let every_ns = if calm { 10 * MS } else { operator.every_ns };
        let pause = 1 + operator.rng.below(2 * every_ns);
        self.push_in(pause, Happening::Operate);
        self.renew_seats();
        if !calm {
            self.mind_the_attic();
        }
        self.hear_of_change();
        let Some((leader, of)) = self.ask_a_leader() else { return };
        let removals = self.seats.operator.as_mut().map(|operator| &mut operator.removals);
        if let Some(rank) = removals.and_then(|removals| removals.look(of.members.all())) {
            let detail = format!("{rank} is removed, and every member that was asked refused that");
            return self.violate(Property::Membership, detail);
        }
        self.look_at_pursuit(&of);
        let (damaged, has_damage) = (self.damaged_seat(&of.members), self.has_damage());
        let owes_change = self.aims.silence.owes_change();
        let Some(operator) = &mut self.seats.operator else { return };
        if operator.pursuit.is_none() {
            let goal = match damaged {
                Some(seat) => Some(operator.repair(seat)),
                None if calm && !owes_change || has_damage => None,
                None => operator.think(&of.members, self.plan.members),
            };
            if goal.is_some() {
                self.aims.silence.has_changed();
            }
            operator.pursuit = goal.map(|goal| {
                let rank = Rank::at(goal.seat());
                let sits = of.members.all().contains(rank);
                let before = if sits { of.members.incarnation(rank).0 } else { 0 };
                Pursuit { goal, is_begun: false, told: None, before }
            });
        }
        self.pursue(leader);
    }

    /// A member that leads, or takes itself for the leader, and the members that it reports, if
    /// they are decided and no newer ones are known.
    fn ask_a_leader(&mut self) -> Option<(usize, Configuration)> {
        let leaders: Vec<usize> = (0..self.plan.members)
            .filter(|node| self.net.borrow().processes[*node].runs())
            .filter(|node| self.role(*node) == Some(Role::Leader))
            .collect();
        let operator = self.seats.operator.as_mut()?;
        let n = leaders.len() as u64;
        let leader = *leaders.get(operator.rng.below(n.max(1)) as usize)?;
        let of = self.members[leader].as_ref()?.configuration()?;
        let newest = self.seats.configurations.newest();
        let is_last = of.is_decided && newest.is_none_or(|(newest, _)| newest <= of.at);
        is_last.then_some((leader, of))
    }

    /// Ends a goal that is reached.
    fn look_at_pursuit(&mut self, of: &Configuration) {
        let Some(operator) = &mut self.seats.operator else { return };
        let Some(Pursuit { goal, before, .. }) = operator.pursuit else { return };
        let rank = Rank::at(goal.seat());
        let is_achieved = match goal {
            Goal::Remove(_) => !of.members.all().contains(rank),
            Goal::Renew(_) => {
                of.members.voters.contains(rank) && of.members.incarnation(rank).0 > before
            }
        };
        if !is_achieved {
            return;
        }
        operator.pursuit = None;
        let mark = match goal {
            Goal::Remove(_) => Mark::MemberRemoved,
            Goal::Renew(_) if before == 0 => Mark::MemberAdded,
            Goal::Renew(_) => Mark::MemberReplaced,
        };
        self.net.borrow_mut().coverage.hit(mark);
        self.trace_operator(goal.seat(), before, 1);
    }

    /// Sends the command for the goal, unless it is under way already.
    fn pursue(&mut self, leader: usize) {
        let Some(operator) = &mut self.seats.operator else { return };
        let Some(pursuit) = operator.pursuit.filter(|_| operator.asked.is_none()) else { return };
        let is_under_way = pursuit.is_begun && matches!(pursuit.goal, Goal::Renew(_));
        if is_under_way {
            // The new incarnation requests the seat by itself. A second client wants another seat
            // begun meanwhile: that has to be refused.
            let meddles = operator.rng.chance(1, 8);
            let other = operator.rng.below(self.plan.members as u64) as usize;
            let life = self.net.borrow().processes[leader].life;
            let knows = pursuit.told == Some((leader, life));
            if meddles && other != pursuit.goal.seat() && knows {
                self.command(leader, Goal::Renew(other));
            }
            return;
        }
        self.command(leader, pursuit.goal);
    }

    /// Notes that the process of `node` has ordered a new incarnation of `rank` (O5).
    pub(super) fn hear_renewal(&mut self, node: usize, rank: Rank) {
        let life = self.net.borrow().processes[node].life;
        let members = self.seats.members();
        let before = self.seats.incarnation(rank.index()).0;
        let Some(operator) = &mut self.seats.operator else { return };
        let goal = Goal::Renew(rank.index());
        let now = Pursuit { goal, is_begun: true, told: Some((node, life)), before };
        if let Some(pursuit) = &mut operator.pursuit
            && pursuit.goal == goal
        {
            *pursuit = Pursuit { before: pursuit.before, ..now };
            return;
        }
        let is_away = |pursuit: &Pursuit| match pursuit.goal {
            Goal::Renew(seat) if pursuit.told == Some((node, life)) => {
                let incarnation = members.incarnation(Rank::at(seat)).0;
                !members.voters.contains(Rank::at(seat)) || incarnation <= pursuit.before
            }
            Goal::Renew(_) | Goal::Remove(_) => false,
        };
        if let Some(other) = operator.pursuit.filter(is_away) {
            let detail = format!("{goal:?} is accepted by r{node}, which has begun {other:?}");
            return self.violate(Property::Membership, detail);
        }
        operator.pursuit = Some(now);
    }

    fn command(&mut self, leader: usize, goal: Goal) {
        let life = self.net.borrow().processes[leader].life;
        let until = self.now() + 2 * self.patience.as_nanos() as u64 + 500 * MS;
        let Some(member) = self.members[leader].as_mut() else { return };
        let Some(operator) = &mut self.seats.operator else { return };
        let rank = Rank::at(goal.seat());
        let (order, verb): (_, &[u8]) = match goal {
            Goal::Renew(_) => (Order::Renew(rank), b"RENEW"),
            Goal::Remove(_) => (Order::Remove(rank), b"REMOVE"),
        };
        let way = if let Some(orders) = member.orders() {
            operator.n_orders += 1;
            orders.take(operator.n_orders, order);
            Way::Order(operator.n_orders)
        } else {
            let pipe = member.pipes().open("operator");
            let number = (goal.seat() + 1).to_string();
            let mut bytes = Vec::new();
            resp::request(&[b"GREGALE.MEMBER", verb, number.as_bytes()], &mut bytes);
            member.pipes().push(pipe, &bytes);
            Way::Pipe(pipe)
        };
        self.wake(leader);
        if let Some(operator) = &mut self.seats.operator {
            operator.asked = Some(Asked { node: leader, life, way, goal, until });
            if verb == b"REMOVE" {
                operator.removals.ask(rank);
            }
            if let Some(pursuit) = operator.pursuit.as_mut().filter(|of| of.goal == goal) {
                pursuit.is_begun |= matches!(goal, Goal::Remove(_));
            }
        }
    }

    /// Takes the result of a command.
    fn hear_of_change(&mut self) {
        let now = self.now();
        let Some(operator) = &self.seats.operator else { return };
        let Some(Asked { node, life, way, goal, until }) = operator.asked else { return };
        let is_there = self.is_alive(node) && self.net.borrow().processes[node].life == life;
        let heard = match self.members[node].as_mut().filter(|_| is_there) {
            Some(member) => hear(member.as_mut(), way),
            None => Ok(None),
        };
        let answer = match heard {
            Ok(None) if is_there && now < until => return,
            // Without a value the member died, or takes too long: the result is unknown.
            Ok(value) => value,
            Err(detail) => return self.violate(Property::Validity, detail),
        };
        if let (Some(member), Way::Pipe(pipe)) =
            (self.members[node].as_mut().filter(|_| is_there), way)
        {
            member.pipes().break_off(pipe);
        }
        if let Some(operator) = &mut self.seats.operator {
            operator.asked = None;
        }
        self.settle(goal, answer);
    }

    /// I7: O2, O3. Without an answer a new incarnation may have begun, or may begin.
    fn settle(&mut self, goal: Goal, answer: Option<Value>) {
        let rank = Rank::at(goal.seat());
        let newest = self.seats.members();
        let renews = matches!(goal, Goal::Renew(_));
        let Some(operator) = &mut self.seats.operator else { return };
        let is_pursued = operator.pursuit.is_some_and(|pursuit| pursuit.goal == goal);
        let was_begun = operator.pursuit.is_some_and(|pursuit| pursuit.is_begun);
        let gives_up = operator.rng.chance(1, 8);
        let pursuit = &mut operator.pursuit;
        match answer {
            Some(Value::Bytes(Some(_))) if !renews && newest.all().contains(rank) => {
                let detail = format!("{goal:?} is called done, and {newest:?} is decided");
                self.violate(Property::Membership, detail);
            }
            Some(Value::Bytes(Some(_))) => {}
            None if renews => {}
            None => operator.removals.leave_open(rank),
            Some(Value::Error(why)) => {
                let known = [MAY_PASS, NOT_LEADER, UNKNOWN, "BUSY", "ERR nobody"];
                if !known.iter().any(|word| why.starts_with(word)) {
                    let detail = format!("{goal:?} was answered {why}");
                    return self.violate(Property::Validity, detail);
                }
                let is_unknown = why.starts_with(UNKNOWN);
                match (renews, is_unknown) {
                    (true, _) => {}
                    (false, true) => operator.removals.leave_open(rank),
                    (false, false) => operator.removals.refuse(rank),
                }
                if is_pursued && !is_unknown && !(renews && was_begun) {
                    pursuit.iter_mut().for_each(|of| of.is_begun = false);
                    if gives_up || why.starts_with("ERR") {
                        *pursuit = None;
                    }
                }
            }
            Some(other) => {
                let detail = format!("{goal:?} was answered {other:?}");
                self.violate(Property::Validity, detail);
            }
        }
    }

    /// Ends the operator's work, since all is well from now on: a goal that was not begun is
    /// dropped.
    pub(super) fn close_office(&mut self) {
        if let Some(operator) = &mut self.seats.operator {
            operator.pursuit = operator.pursuit.filter(|pursuit| pursuit.is_begun);
        }
    }

    /// O4: the goal that the operator could not reach although all is well.
    pub(super) fn unachieved_goal(&self) -> Option<String> {
        let pursuit = self.seats.operator.as_ref()?.pursuit?;
        Some(format!("the operator has not achieved {pursuit:?}: {:?}", self.seats.members()))
    }
}

/// The answer of a member, if it has come, as a client reads it.
fn hear(member: &mut dyn Member, way: Way) -> Result<Option<Value>, String> {
    match way {
        Way::Pipe(pipe) => {
            let bytes = member.pipes().take(pipe, usize::MAX);
            Ok(resp::reply(&bytes)?.map(|(value, _)| value))
        }
        Way::Order(number) => {
            let Some(orders) = member.orders() else { return Ok(None) };
            let mut ended = std::iter::from_fn(|| orders.take_ended());
            let changed = ended.find(|(of, _)| *of == number).map(|(_, changed)| changed);
            Ok(changed.map(|changed| match end_of(changed) {
                Ok(done) => Value::Bytes(Some(done.as_bytes().to_vec())),
                Err(why) => Value::Error(why),
            }))
        }
    }
}
