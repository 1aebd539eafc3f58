//! SUBSCRIBE and its family: messages to a connection that answer no request.
//!
//! A message comes to every member through the log, and each member sends it to its own clients.
//! That is best effort: a client that is away, or does not read, misses it.

use std::collections::{BTreeMap, BTreeSet};

use super::Connection;
use super::door::Door;
use super::held::Kind;
use super::limits::OutputClass;
use crate::command::{CommandSpec, wrong_arity};
use crate::exec::{glob_matches, is_short};
use crate::reply::{Protocol, Reply};
use crate::store::Published;

/// The most bytes of the names to which one connection is subscribed, counting a few for each.
pub const SUBSCRIBED_BYTES_MAX: usize = 1 << 20;

/// The most bytes of the patterns to which one connection is subscribed: each is matched against
/// each message's channel, and takes up to the product of the lengths.
pub const PATTERNS_BYTES_MAX: usize = 64 << 10;

/// The cost of a name beside its bytes.
const NAME_BYTES: usize = 64;

/// A request of PUBSUB, which concerns all connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChannelQuery {
    /// The channels with a subscriber that match this pattern.
    Channels(Option<Vec<u8>>),
    /// The number of subscribers of each of these channels.
    Subscribers(Vec<Vec<u8>>),
    /// The number of patterns.
    #[default]
    Patterns,
}

/// The subscriptions of a connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    bytes: usize,
    pattern_bytes: usize,
    /// The request of a PUBSUB command.
    pub(super) query: ChannelQuery,
}

impl Subscriptions {
    pub(super) fn n(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    pub(super) fn n_channels(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn n_patterns(&self) -> usize {
        self.patterns.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Subscriptions::default();
    }

    fn set(&mut self, of_patterns: bool) -> &mut BTreeSet<Vec<u8>> {
        if of_patterns { &mut self.patterns } else { &mut self.channels }
    }

    fn add(&mut self, of_patterns: bool, name: &[u8]) {
        if self.set(of_patterns).insert(name.to_vec()) {
            self.bytes += name.len() + NAME_BYTES;
            self.pattern_bytes += if of_patterns { name.len() } else { 0 };
        }
    }

    fn remove(&mut self, of_patterns: bool, name: &[u8]) {
        if self.set(of_patterns).remove(name) {
            self.bytes -= name.len() + NAME_BYTES;
            self.pattern_bytes -= if of_patterns { name.len() } else { 0 };
        }
    }
}

impl Door {
    /// Whether the connection is in the mode in which RESP2 allows only a few commands.
    pub(super) fn is_only_subscriber(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions.n() > 0
    }

    /// The reason why a subscriber may not send this command, if it may not.
    pub(super) fn refusal_to_a_subscriber(&self, spec: &CommandSpec) -> Option<String> {
        let may = matches!(
            spec.name,
            "subscribe" | "psubscribe" | "unsubscribe" | "punsubscribe" | "ping" | "quit" | "reset"
        );
        (self.is_only_subscriber() && !may).then(|| {
            format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                spec.name
            )
        })
    }

    /// Answers PING of a subscriber, in RESP2.
    pub(super) fn pong(&mut self, args: &[&[u8]]) {
        self.reply.array(2);
        self.reply.bulk(b"pong");
        self.reply.bulk(args.get(1).copied().unwrap_or_default());
    }

    /// SUBSCRIBE, PSUBSCRIBE, UNSUBSCRIBE, PUNSUBSCRIBE: one message for each name.
    pub(super) fn subscribe(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let of_patterns = spec.name.starts_with('p');
        let adds = !spec.name.contains("un");
        let names: Vec<Vec<u8>> = match &args[1..] {
            [] => self.subscriptions.set(of_patterns).iter().cloned().collect(),
            names => names.iter().map(|name| name.to_vec()).collect(),
        };
        let what = if of_patterns { "pattern" } else { "channel" };
        if adds && !names.iter().all(|name| is_short(what, name, &mut self.reply)) {
            return;
        }
        let lengths: usize = names.iter().map(Vec::len).sum();
        let bytes = lengths + names.len() * NAME_BYTES;
        let of = &self.subscriptions;
        let is_too_much = of.bytes + bytes > SUBSCRIBED_BYTES_MAX
            || of_patterns && of.pattern_bytes + lengths > PATTERNS_BYTES_MAX;
        if adds && is_too_much {
            self.reply.error_fmt(format_args!(
                "ERR this connection is subscribed to names of more than {SUBSCRIBED_BYTES_MAX} \
                 bytes, or to patterns of more than {PATTERNS_BYTES_MAX} (gregale's limits)"
            ));
            return;
        }
        // As in Redis, CLIENT REPLY does not suppress what a subscriber hears.
        self.break_silence();
        if names.is_empty() {
            self.acknowledge_subscription(spec, None);
        }
        for name in names {
            if adds {
                self.subscriptions.add(of_patterns, &name);
            } else {
                self.subscriptions.remove(of_patterns, &name);
            }
            self.acknowledge_subscription(spec, Some(&name));
        }
    }

    fn acknowledge_subscription(&mut self, spec: &CommandSpec, name: Option<&[u8]>) {
        let n = self.subscriptions.n();
        self.reply.push(3);
        self.reply.bulk(spec.name.as_bytes());
        match name {
            Some(name) => self.reply.bulk(name),
            None => self.reply.null(),
        }
        self.reply.integer(n as i64);
    }

    /// PUBSUB: the owner knows the subscriptions of all connections.
    pub(super) fn ask_channels(&mut self, spec: &'static CommandSpec, args: &[&[u8]]) {
        let query = match (spec.name, &args[1..]) {
            ("pubsub|channels", [_]) => ChannelQuery::Channels(None),
            ("pubsub|channels", [_, pattern]) => {
                if !is_short("pattern", pattern, &mut self.reply) {
                    return;
                }
                ChannelQuery::Channels(Some(pattern.to_vec()))
            }
            ("pubsub|numsub", [_, names @ ..]) => {
                ChannelQuery::Subscribers(names.iter().map(|name| name.to_vec()).collect())
            }
            ("pubsub|numpat", _) => ChannelQuery::Patterns,
            // There are no sharded channels.
            ("pubsub|shardchannels", _) => return self.reply.array(0),
            ("pubsub|shardnumsub", [_, names @ ..]) => {
                self.reply.array(2 * names.len());
                for name in names {
                    self.reply.bulk(name);
                    self.reply.integer(0);
                }
                return;
            }
            ("pubsub|help", _) => return help(&mut self.reply),
            _ => return wrong_arity(spec, &mut self.reply),
        };
        self.subscriptions.query = query;
        self.held.hold(Kind::Channels);
    }

    /// The number of copies of the message for this client; `None` if they exceed what may wait for
    /// it.
    pub(super) fn hear(&mut self, published: &Published) -> Option<usize> {
        let Published { channel, message } = published;
        let most = self.config.output_limits.of(OutputClass::PubSub).hard_bytes;
        let room = match most {
            0 => u64::MAX,
            most => most.saturating_sub(self.replies.waiting_bytes() as u64),
        };
        let mut out = Reply::new(self.protocol);
        let mut n = 0;
        if self.subscriptions.channels.contains(channel) {
            out.push(3);
            [&b"message"[..], channel, message].into_iter().for_each(|part| out.bulk(part));
            n += 1;
        }
        for pattern in &self.subscriptions.patterns {
            if glob_matches(pattern, channel) {
                // C13: one message may match as many patterns as there is room for names.
                if out.len() as u64 >= room {
                    return None;
                }
                out.push(4);
                let parts = [&b"pmessage"[..], pattern, channel, message];
                parts.into_iter().for_each(|part| out.bulk(part));
                n += 1;
            }
        }
        if n > 0 {
            self.replies.interject(out.as_bytes());
        }
        Some(n)
    }
}

/// Answers PUBSUB for all connections of a member.
pub fn answer_channels<'a>(
    query: &ChannelQuery,
    all: impl Iterator<Item = &'a Connection>,
    reply: &mut Reply,
) {
    let all = all.map(|connection| &connection.door.subscriptions);
    match query {
        ChannelQuery::Channels(pattern) => {
            let is_wanted = |name: &&Vec<u8>| {
                pattern.as_ref().is_none_or(|pattern| glob_matches(pattern, name))
            };
            let names: BTreeSet<&Vec<u8>> =
                all.flat_map(|of| of.channels.iter()).filter(is_wanted).collect();
            reply.array(names.len());
            names.into_iter().for_each(|name| reply.bulk(name));
        }
        ChannelQuery::Subscribers(names) => {
            let mut counts: BTreeMap<&Vec<u8>, i64> = names.iter().map(|name| (name, 0)).collect();
            for of in all {
                // A request may name far more channels than a connection has, or far fewer.
                if counts.len() <= of.channels.len() {
                    let count = |(name, n): (&&Vec<u8>, &mut i64)| {
                        *n += i64::from(of.channels.contains(*name));
                    };
                    counts.iter_mut().for_each(count);
                    continue;
                }
                for name in &of.channels {
                    if let Some(n) = counts.get_mut(name) {
                        *n += 1;
                    }
                }
            }
            reply.array(2 * names.len());
            for name in names {
                reply.bulk(name);
                reply.integer(counts[name]);
            }
        }
        ChannelQuery::Patterns => {
            let patterns: BTreeSet<&Vec<u8>> = all.flat_map(|of| of.patterns.iter()).collect();
            reply.integer(patterns.len() as i64);
        }
    }
}

fn help(reply: &mut Reply) {
    reply.help(&[
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Return the channels of this member that match a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers of this member for the specified channels.",
    ]);
}
