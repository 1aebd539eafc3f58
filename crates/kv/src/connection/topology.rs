//! CLUSTER, ROLE and SENTINEL, by which client libraries find the members.
//!
//! Every member executes every command, so any answer that names live members is a good one. The
//! answers have the forms that clients know: a Redis Cluster in which each live member is a master
//! of a share of the slots, or sentinels that each name the leader. A client that holds an old
//! answer is still served, by whichever member it asks.

use super::door::Door;
use super::held::{Kind, TopologyQuery};
use crate::command::CommandSpec;
use crate::exec::{SYNTAX, parse_integer};
use crate::partition::slot_of;
use crate::reply::Reply;

/// The number of hash slots of a Redis Cluster.
const SLOTS: u32 = 16_384;

/// The name by which clients usually ask sentinels for their master.
const USUAL_NAME: &str = "mymaster";

const DISABLED: &str = "ERR This instance has cluster support disabled";

/// A member, as reported to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// An id of forty hexadecimal digits that no other node has.
    pub id: String,
    /// The member's host for clients; empty for the host that they have reached.
    pub host: String,
    /// The member's port.
    pub port: u16,
    /// Whether the answering member hears it.
    pub is_live: bool,
    /// The number of slots that it has executed.
    pub offset: u64,
}

/// The members, as reported to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The cluster's name, which is also its master's name.
    pub name: String,
    /// The members in the order of their numbers.
    pub nodes: Vec<Node>,
    /// The member that answers.
    pub me: usize,
    /// The member that leads, as far as the answering member knows.
    pub leader: usize,
}

/// Whether the command is answered here.
pub(super) fn is_about_members(name: &str) -> bool {
    let others = ["asking", "readonly", "readwrite", "role", "sentinel"];
    others.contains(&name) || name.starts_with("cluster")
}

impl Door {
    /// Answers what is known here, and asks the owner for the rest.
    pub(super) fn ask_topology(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let reply = &mut self.reply;
        let is_of_cluster = !matches!(spec.name, "role" | "sentinel");
        if spec.name == "cluster|help" {
            return help(reply);
        }
        if is_of_cluster && !self.config.is_cluster {
            return reply.error(DISABLED);
        }
        match spec.name {
            // Every member takes every command, so the mode makes no difference.
            "asking" | "readonly" | "readwrite" => reply.ok(),
            "cluster|keyslot" => reply.integer(slot_of(args[2]).into()),
            "cluster|countkeysinslot" | "cluster|getkeysinslot" => match slot(args[2]) {
                None => reply.error("ERR Invalid slot"),
                Some(_) => reply.error(
                    "ERR gregale does not keep its keys by slots: every member has all of them; \
                     use DBSIZE or SCAN",
                ),
            },
            "cluster|slots" | "cluster|shards" | "cluster|nodes" | "cluster|info"
            | "cluster|myid" | "cluster|links" | "role" | "sentinel" => {
                let args = args[1..].iter().map(|arg| arg.to_vec()).collect();
                self.held.topology = TopologyQuery { name: spec.name, args };
                self.held.hold(Kind::Topology);
            }
            _ => reply.error(
                "ERR gregale's members are changed with `gregale member`, not by CLUSTER commands",
            ),
        }
    }
}

impl Topology {
    /// Appends the answer. `host` is the address at which the client has reached this member.
    pub fn answer(&self, query: &TopologyQuery, host: &str, reply: &mut Reply) {
        match query.name {
            "cluster|slots" => self.slots(host, reply),
            "cluster|shards" => self.shards(host, reply),
            "cluster|nodes" => reply.verbatim(&self.list(host)),
            "cluster|info" => reply.verbatim(&self.info()),
            "cluster|myid" => reply.bulk(self.nodes[self.me].id.as_bytes()),
            "cluster|links" => reply.array(0),
            "role" => self.role(host, reply),
            _ => self.sentinel(&query.args, host, reply),
        }
    }

    /// The live nodes, each with its slots: equal shares.
    fn shares(&self) -> impl Iterator<Item = (&Node, u32, u32)> {
        let n = self.nodes.iter().filter(|node| node.is_live).count() as u32;
        let live = self.nodes.iter().filter(|node| node.is_live);
        live.zip(0..).map(move |(node, at)| (node, at * SLOTS / n, (at + 1) * SLOTS / n - 1))
    }

    fn slots(&self, host: &str, reply: &mut Reply) {
        reply.array(self.shares().count());
        for (node, first, last) in self.shares() {
            reply.array(3);
            reply.integer(first.into());
            reply.integer(last.into());
            reply.array(4);
            reply.bulk(node.host_for(host).as_bytes());
            reply.integer(node.port.into());
            reply.bulk(node.id.as_bytes());
            reply.array(0);
        }
    }

    fn shards(&self, host: &str, reply: &mut Reply) {
        reply.array(self.shares().count());
        for (node, first, last) in self.shares() {
            reply.map(2);
            reply.bulk(b"slots");
            reply.array(2);
            reply.integer(first.into());
            reply.integer(last.into());
            reply.bulk(b"nodes");
            reply.array(1);
            let host = node.host_for(host);
            let (port, offset) = (node.port.to_string(), node.offset.to_string());
            let texts = [("id", &*node.id), ("ip", host), ("endpoint", host), ("role", "master")];
            reply.map(texts.len() + 3);
            for (name, text) in texts {
                reply.bulk(name.as_bytes());
                reply.bulk(text.as_bytes());
            }
            reply.bulk(b"health");
            reply.bulk(b"online");
            for (name, number) in [("port", port), ("replication-offset", offset)] {
                reply.bulk(name.as_bytes());
                reply.integer(parse_integer(number.as_bytes()).unwrap_or_default());
            }
        }
    }

    fn list(&self, host: &str) -> String {
        let mut text = String::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let flags = match (at == self.me, node.is_live) {
                (true, _) => "myself,master",
                (false, true) => "master",
                (false, false) => "master,fail",
            };
            let link = if node.is_live { "connected" } else { "disconnected" };
            // No member speaks Redis's own protocol between nodes; clients only split the port off.
            let bus = node.port.checked_add(10_000).unwrap_or_default();
            let Node { id, port, .. } = node;
            text += &format!("{id} {}:{port}@{bus} {flags} - 0 0 {at} {link}", node.host_for(host));
            if let Some((_, first, last)) = self.shares().find(|(other, ..)| other.id == *id) {
                text += &format!(" {first}-{last}");
            }
            text.push('\n');
        }
        text
    }

    fn info(&self) -> String {
        let n = self.nodes.len();
        let live = self.shares().count();
        let state = if live > 0 { "ok" } else { "fail" };
        format!(
            "cluster_state:{state}\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\
             \r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{n}\r\n\
             cluster_size:{live}\r\ncluster_current_epoch:{n}\r\ncluster_my_epoch:{}\r\n\
             cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
             total_cluster_links_buffer_limit_exceeded:0\r\n",
            self.me
        )
    }

    fn role(&self, host: &str, reply: &mut Reply) {
        let me = &self.nodes[self.me];
        let others = || self.others().filter(|node| node.is_live);
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(me.offset as i64);
        reply.array(others().count());
        for node in others() {
            reply.array(3);
            reply.bulk(node.host_for(host).as_bytes());
            reply.bulk_integer(node.port.into());
            reply.bulk_integer(node.offset as i64);
        }
    }

    fn others(&self) -> impl Iterator<Item = &Node> {
        let all = self.nodes.iter().enumerate();
        all.filter(|(at, _)| *at != self.me).map(|(_, node)| node)
    }

    /// The member that sentinels call the master: the leader, while this member hears it.
    fn master(&self) -> &Node {
        let leader = self.nodes.get(self.leader).filter(|node| node.is_live);
        leader.unwrap_or(&self.nodes[self.me])
    }

    fn sentinel(&self, args: &[Vec<u8>], host: &str, reply: &mut Reply) {
        let word = args[0].to_ascii_lowercase();
        match (&word[..], &args[1..]) {
            (b"get-master-addr-by-name", [_]) => {
                let master = self.master();
                reply.array(2);
                reply.bulk(master.host_for(host).as_bytes());
                reply.bulk_integer(master.port.into());
            }
            (b"masters", []) => {
                let names = [USUAL_NAME, &self.name];
                let n = if self.name == USUAL_NAME { 1 } else { 2 };
                reply.array(n);
                for name in &names[..n] {
                    self.put_instance(name, self.master(), "master", host, reply);
                }
            }
            (b"master", [name]) => {
                let name = String::from_utf8_lossy(name);
                self.put_instance(&name, self.master(), "master", host, reply);
            }
            (b"sentinels", [_]) => {
                reply.array(self.others().count());
                for node in self.others() {
                    self.put_instance(&node.id, node, "sentinel", host, reply);
                }
            }
            (b"replicas" | b"slaves", [_]) => {
                let master = self.master();
                let replicas = || self.nodes.iter().filter(|node| node.id != master.id);
                reply.array(replicas().count());
                for node in replicas() {
                    let name = format!("{}:{}", node.host_for(host), node.port);
                    self.put_instance(&name, node, "slave", host, reply);
                }
            }
            (b"myid", []) => reply.bulk(self.nodes[self.me].id.as_bytes()),
            (b"ckquorum", [_]) => {
                let n = self.nodes.iter().filter(|node| node.is_live).count();
                if 2 * n > self.nodes.len() {
                    reply.simple(&format!(
                        "OK {n} usable Sentinels. Quorum and failover \
                        authorization can be reached"
                    ));
                } else {
                    reply.error_fmt(format_args!("NOQUORUM {n} usable Sentinels"));
                }
            }
            _ => reply.error(SYNTAX),
        }
    }

    /// An instance in a sentinel's words: fields and values.
    fn put_instance(&self, name: &str, node: &Node, role: &str, host: &str, reply: &mut Reply) {
        let flags = if node.is_live { role.to_owned() } else { format!("{role},s_down") };
        let master = self.master();
        let (port, n) = (node.port.to_string(), self.nodes.len());
        let (others, quorum) = ((n - 1).to_string(), (n / 2 + 1).to_string());
        let master_port = master.port.to_string();
        let mut fields = vec![
            ("name", name),
            ("ip", node.host_for(host)),
            ("port", &port),
            ("runid", &node.id),
            ("flags", &flags),
            ("link-pending-commands", "0"),
            ("link-refcount", "1"),
            ("last-ping-sent", "0"),
            ("last-ok-ping-reply", "0"),
            ("last-ping-reply", "0"),
            ("down-after-milliseconds", "1000"),
        ];
        match role {
            "master" => fields.extend([
                ("role-reported", "master"),
                ("config-epoch", "0"),
                ("num-slaves", &others),
                ("num-other-sentinels", &others),
                ("quorum", &quorum),
                ("failover-timeout", "1000"),
                ("parallel-syncs", "1"),
            ]),
            "slave" => fields.extend([
                ("role-reported", "slave"),
                ("master-link-status", "ok"),
                ("master-host", master.host_for(host)),
                ("master-port", &master_port),
                ("slave-priority", "100"),
            ]),
            _ => fields.push(("voted-leader", "?")),
        }
        reply.map(fields.len());
        for (field, value) in fields {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

impl Node {
    fn host_for<'a>(&'a self, reached: &'a str) -> &'a str {
        if self.host.is_empty() { reached } else { &self.host }
    }
}

fn slot(text: &[u8]) -> Option<u32> {
    parse_integer(text).and_then(|slot| u32::try_from(slot).ok()).filter(|slot| *slot < SLOTS)
}

fn help(reply: &mut Reply) {
    const LINES: [&str; 13] = [
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "INFO",
        "    Return information about the cluster.",
        "KEYSLOT <key>",
        "    Return the hash slot for <key>.",
        "MYID",
        "    Return the node id.",
        "NODES",
        "    Return cluster configuration seen by node.",
        "SLOTS",
        "    Return information about slots range mappings.",
        "SHARDS",
        "    Return information about slot range mappings and the nodes associated with them.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Protocol;

    fn topology(live: [bool; 3]) -> Topology {
        let node = |at: usize| Node {
            id: format!("{at:040}"),
            host: if at == 0 { String::new() } else { "10.0.0.1".to_owned() },
            port: 7000 + at as u16,
            is_live: live[at],
            offset: 5,
        };
        Topology { name: "cluster".to_owned(), nodes: (0..3).map(node).collect(), me: 0, leader: 1 }
    }

    fn text(topology: &Topology, name: &'static str, args: &[&str]) -> String {
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let mut reply = Reply::new(Protocol::Resp2);
        topology.answer(&TopologyQuery { name, args }, "127.0.0.1", &mut reply);
        String::from_utf8(reply.take()).unwrap()
    }

    #[test]
    fn live_members_share_all_slots_and_a_dead_one_has_none() {
        for live in [[true; 3], [true, false, true], [true, false, false]] {
            let topology = topology(live);
            let mut next = 0;
            for (node, first, last) in topology.shares() {
                assert!(node.is_live && first == next && last >= first);
                next = last + 1;
            }
            assert_eq!(next, SLOTS);
        }
        let nodes = text(&topology([true, false, true]), "cluster|nodes", &[]);
        assert!(
            nodes.contains("10.0.0.1:7001@17001 master,fail - 0 0 1 disconnected\n"),
            "{nodes}"
        );
        assert!(nodes.contains("127.0.0.1:7000@17000 myself,master - 0 0 0 connected 0-8191\n"));
    }

    #[test]
    fn role_lists_the_live_others_with_what_they_have_executed() {
        let said = text(&topology([true; 3]), "role", &[]);
        let other = |at| format!("*3\r\n$8\r\n10.0.0.1\r\n$4\r\n700{at}\r\n$1\r\n5\r\n");
        let head = |n: usize| format!("*3\r\n$6\r\nmaster\r\n:5\r\n*{n}\r\n");
        assert_eq!(said, head(2) + &other(1) + &other(2));
        let said = text(&topology([true, false, true]), "role", &[]);
        assert_eq!(said, head(1) + &other(2));
    }

    #[test]
    fn sentinels_list_masters_replicas_and_each_other() {
        let ask = |args: &[&str]| text(&topology([true; 3]), "sentinel", args);
        for args in [&["masters"][..], &["master", "mymaster"]] {
            let said = ask(args);
            assert!(said.contains("\r\nmymaster\r\n") && said.contains("\r\n7001\r\n"), "{said}");
        }
        // One master, by each of its names.
        let masters = |name: &str| {
            let topology = Topology { name: name.to_owned(), ..topology([true; 3]) };
            text(&topology, "sentinel", &["masters"])
        };
        let named = |said: &str, name: &str| said.matches(&format!("\r\n{name}\r\n")).count();
        let both = masters("cluster");
        assert!(both.starts_with("*2\r\n"), "{both}");
        assert_eq!((named(&both, "mymaster"), named(&both, "cluster")), (1, 1));
        let one = masters("mymaster");
        assert!(one.starts_with("*1\r\n") && named(&one, "mymaster") == 1, "{one}");
        for (word, own) in [("sentinels", "7000"), ("replicas", "7001")] {
            let said = ask(&[word, "mymaster"]);
            let port = |port: &str| said.contains(&format!("$4\r\nport\r\n$4\r\n{port}\r\n"));
            let listed = ["7000", "7001", "7002"].map(port);
            let expected = ["7000", "7001", "7002"].map(|port| port != own);
            assert!(said.starts_with("*2\r\n") && listed == expected, "{word}: {said}");
        }
    }

    #[test]
    fn sentinels_name_the_leader_and_a_live_member_once_it_is_dead() {
        let asked = ["get-master-addr-by-name", "anything"];
        let named = text(&topology([true; 3]), "sentinel", &asked);
        assert_eq!(named, "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7001\r\n");
        let named = text(&topology([true, false, true]), "sentinel", &asked);
        assert_eq!(named, "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7000\r\n");
    }
}
