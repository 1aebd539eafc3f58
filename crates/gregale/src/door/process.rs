//! The process around the door, as `kv` sees it: INFO, statuses, the supervisor.

use super::KEY_STATUS;
use super::info;
use super::statuses::Statuses;
use crate::channel::{ReplicaEnd, Report};
use crate::config::Config;
use crate::control::Board;
use base::Rank;
use console::Outcome;
use kv::connection;
use kv::door::{self, Facts, Outside, RespClients};
use runtime::{Asker, DiskFigures, Poller, ReadAnswer};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The process around the door; see the module's text.
pub(super) struct Process {
    config: Config,
    statuses: Statuses,
    /// The channel to the supervisor, if there is one.
    pub(super) channel: Option<Arc<ReplicaEnd>>,
    /// The disk's figures as of a moment ago.
    pub(super) disk: Option<DiskFigures>,
    started: Instant,
}

impl Process {
    pub(super) fn new(
        config: &Config,
        board: &Arc<Board>,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<Process> {
        Ok(Process {
            config: config.clone(),
            statuses: Statuses::new(board)?,
            channel,
            disk: None,
            started: Instant::now(),
        })
    }

    /// Adds its descriptors to the loop's set.
    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        self.statuses.register(poller, KEY_STATUS)
    }

    /// Reports to the supervisor, if there is one.
    pub(super) fn tell(&self, report: &Report) {
        if let Some(channel) = &self.channel {
            channel.report(report);
        }
    }
}

impl Outside for Process {
    fn info(&mut self, facts: &Facts<'_>, sections: &[&str]) -> String {
        let facts = info::Facts {
            config: &self.config,
            disk: self.disk.as_ref(),
            uptime_s: self.started.elapsed().as_secs(),
            door: facts,
        };
        info::text(&facts, sections)
    }

    fn ask_status(&mut self, asker: Asker) {
        self.statuses.ask(asker);
    }

    fn renew(&mut self, rank: Rank) -> bool {
        self.tell(&Report::Renew(rank.member().0));
        self.channel.is_some()
    }
}

/// Answers the requests for the cluster's status.
pub(super) fn give_statuses(clients: &mut RespClients<Process>) {
    let Some((json, askers)) = clients.outside.statuses.take() else { return };
    for asker in askers {
        match &json {
            Some(json) => clients.answer_text(asker, json),
            None => clients.answer_read(asker, ReadAnswer::Unavailable),
        }
    }
}

/// The door's part of the configuration.
pub(super) fn door_config(config: &Config) -> door::Config {
    let members = config.members.iter().map(|member| {
        let address = member.client.ip();
        let host = if address.is_unspecified() { String::new() } else { address.to_string() };
        door::Member { id: member.id, host, port: member.client.port() }
    });
    door::Config {
        cluster: config.cluster.clone(),
        members: members.collect(),
        connections: connection::Config {
            requirepass: config.requirepass.clone(),
            memory_bytes_max: config.maxmemory,
            connections_max: config.maxclients as usize,
            is_cluster: config.cluster_discovery,
            ..connection::Config::default()
        },
    }
}
