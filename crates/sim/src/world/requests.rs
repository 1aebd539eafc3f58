//! The treatment of clients' requests in a node's loop: reads are checked, writes are proposed, and
//! a client of the wrong node is told the leader.

use crate::coverage::Mark;
use crate::kv;
use crate::ledger::Reply;
use crate::subject::Life;
use crate::trace::Topic;
use crate::world::World;
use crate::world::node::{Request, Waiting};
use proto::{Refused, Role, Ticket};

/// The number of times that a refused read is repeated before its client is told.
const N_READS_MAX: usize = 64;

impl World {
    /// Serves the requests that wait: reads to check, writes to propose.
    pub(crate) fn serve(&mut self, node: usize, machine: &mut dyn Life) {
        let stamp_at = self.next_idle_stamp(node, machine);
        if stamp_at.is_some_and(|at| at <= self.net.now())
            && self.shells[node].to_propose.is_empty()
        {
            self.propose(node, machine);
        }
        let shell = &self.shells[node];
        let are_none = shell.arrived.is_empty() && shell.to_read.is_empty();
        if are_none && shell.to_propose.is_empty() {
            return;
        }
        self.receive_requests(node, machine);
        if !self.shells[node].to_read.is_empty() {
            self.check_reads(node, machine);
        }
        while !self.shells[node].to_propose.is_empty() {
            if !self.propose(node, machine) {
                break;
            }
        }
    }

    fn receive_requests(&mut self, node: usize, machine: &mut dyn Life) {
        let status = machine.status();
        let mut arrived = std::mem::take(&mut self.shells[node].arrived);
        for request in arrived.drain(..) {
            let shell = &mut self.shells[node];
            if status.role == Role::Learner {
                self.turn_away(node, machine, request);
            } else if request.command.ask == kv::Ask::Read {
                shell.to_read.push(request);
            } else if status.role != Role::Leader {
                self.turn_away(node, machine, request);
            } else {
                shell.waiting[request.command.client as usize] = Some(Waiting {
                    sequence: request.command.sequence,
                    attempt: request.attempt,
                    proposed: false,
                });
                shell.to_propose.push(request);
            }
        }
        self.shells[node].arrived = arrived;
    }

    fn check_reads(&mut self, node: usize, machine: &mut dyn Life) {
        let shell = &mut self.shells[node];
        shell.next_ticket += 1;
        let ticket = Ticket(shell.next_ticket);
        shell.checking.extend(shell.to_read.drain(..).map(|request| (ticket, request)));
        self.note_read(node, machine, ticket);
        self.with_host(node, |host, clock| machine.read(ticket, clock, host));
    }

    /// Proposes one batch; false if it has to wait.
    fn propose(&mut self, node: usize, machine: &mut dyn Life) -> bool {
        let n_max = kv::commands_max(machine.value_bytes_max());
        let shell = &mut self.shells[node];
        self.batch.clear();
        self.batch.extend(shell.to_propose.iter().take(n_max).map(|request| request.command));
        let number = self.ledger.proposals.next_number();
        let mut value = std::mem::take(&mut self.value);
        kv::encode(number, &self.batch, &mut value);
        self.stamp(node, machine.status().ballot.0);
        let life = self.net.processes[node].life;
        let origin = crate::checks::validity::Origin { node: node as u8, life };
        // The batch is noted first: a machine may deliver before it returns.
        self.ledger.proposals.proposed(&value, origin);
        for command in &self.batch {
            if let Some(waiting) = &mut self.shells[node].waiting[command.client as usize] {
                waiting.proposed = true;
            }
        }
        let proposed = self.with_host(node, |host, clock| machine.propose(&value, clock, host));
        self.value = value;
        let now = self.net.now();
        let n = self.batch.len();
        match proposed {
            Ok(slot) => {
                self.net.trace.record(now, node, Topic::Propose, slot.0, n as u64);
                if n > 1 {
                    self.net.coverage.hit(Mark::Batched);
                }
                self.shells[node].to_propose.drain(..n);
                self.lay_ambush(node);
                true
            }
            Err(Refused::Full) => {
                self.net.trace.record(now, node, Topic::Refused, 0, n as u64);
                self.net.coverage.hit(Mark::WindowFull);
                for command in &self.batch {
                    if let Some(waiting) = &mut self.shells[node].waiting[command.client as usize] {
                        waiting.proposed = false;
                    }
                }
                false
            }
            Err(Refused::NotLeader) => {
                let requests = std::mem::take(&mut self.shells[node].to_propose);
                for request in requests {
                    self.shells[node].waiting[request.command.client as usize] = None;
                    self.turn_away(node, machine, request);
                }
                false
            }
            Err(Refused::TooLong) => {
                unreachable!("a batch of {} bytes was cut to value_bytes_max", self.value.len())
            }
        }
    }

    pub(crate) fn turn_away(&mut self, node: usize, machine: &dyn Life, request: Request) {
        self.net.coverage.hit(Mark::NotLeader);
        let hint = machine.trusted().map(|rank| rank.index() as u8).filter(|at| *at != node as u8);
        let reply = Reply::NotLeader(hint);
        self.with_host(node, |host, _| host.reply(request.command.client, request.attempt, reply));
    }

    /// Takes the requests that wait for this check of reads.
    pub(crate) fn take_reads(&mut self, node: usize, ticket: Ticket) -> Vec<Request> {
        let checking = &mut self.shells[node].checking;
        assert!(checking.len() <= N_READS_MAX * kv::N_CLIENTS, "reads that nobody answers pile up");
        let of_ticket = checking.extract_if(.., |(of, _)| *of == ticket);
        of_ticket.map(|(_, request)| request).collect()
    }
}
