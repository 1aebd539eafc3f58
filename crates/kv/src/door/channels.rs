//! Published messages to subscribed clients, and the members as clients see them.

use super::clients::{RespClients, find, mark};
use super::outside::Outside;
use crate::connection::{ChannelQuery, Node, RequestId, Topology, TopologyQuery, answer_channels};
use crate::reply::Reply;
use crate::script;
use crate::store::Published;
use engine::streams::place_of;
use engine::{Desk, View};

impl<O: Outside> RespClients<O> {
    /// Sends these messages to the clients that are subscribed to them.
    pub fn tell(&mut self, all: &[Published]) {
        if all.is_empty() {
            return;
        }
        for &key in &self.subscribers {
            let Some(client) = find(&mut self.clients, key) else { continue };
            let times: usize = all.iter().map(|one| client.connection.hear(one)).sum();
            if times > 0 {
                mark(&mut client.is_dirty, key, &mut self.dirty);
            }
        }
    }

    /// Notes that the client may have subscribed to a channel, or ended its last subscription.
    pub(super) fn note_subscriber(&mut self, key: u64) {
        let client = find(&mut self.clients, key);
        if client.is_some_and(|client| client.connection.is_subscribed()) {
            self.subscribers.insert(key);
        } else {
            self.subscribers.remove(&key);
        }
    }

    pub(super) fn answer_channels(&mut self, key: u64, id: RequestId, query: &ChannelQuery) {
        let Some(protocol) = self.client(key).map(|client| client.connection.protocol()) else {
            return;
        };
        let mut reply = Reply::new(protocol);
        let of = self.subscribers.iter();
        let all = of.filter_map(|&key| self.clients.get(place_of(key)));
        answer_channels(query, all.map(|client| &client.connection), &mut reply);
        if let Some(client) = self.client(key) {
            client.connection.answer(id, reply.as_bytes());
        }
    }

    pub(super) fn answer_topology(
        &mut self,
        key: u64,
        id: RequestId,
        query: &TopologyQuery,
        desk: &Desk,
    ) {
        let topology = self.topology(desk.view());
        if let Some(client) = self.client(key) {
            let host = client.connection.local_host().to_owned();
            client.connection.answer_by(id, |reply| topology.answer(query, &host, reply));
        }
    }

    /// The members as this one knows them.
    fn topology(&self, view: &View) -> Topology {
        let config = &self.config;
        let seated = |rank| view.configuration.is_none_or(|of| of.members.all().contains(rank));
        let nodes: Vec<Node> = config
            .members
            .iter()
            .zip(0..)
            .map(|(member, at)| {
                let rank = base::Rank::at(at);
                let is_me = rank == view.me;
                let applied = if is_me { view.applied } else { view.applied_by[rank.index()] };
                Node {
                    id: script::name_of(format!("{}/{}", config.cluster, member.id).as_bytes()),
                    host: member.host.clone(),
                    port: member.port,
                    is_live: is_me || (view.heard.contains(rank) && seated(rank)),
                    offset: applied.0,
                }
            })
            .collect();
        let first_live = nodes.iter().position(|node| node.is_live).unwrap_or_default();
        let leader = view.trusted.map_or(first_live, base::Rank::index);
        Topology { name: config.cluster.clone(), nodes, me: view.me.index(), leader }
    }
}
