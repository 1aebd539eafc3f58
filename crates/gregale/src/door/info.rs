//! The text of INFO: Redis's sections and field names where clients look for them, and a section of
//! Gregale's own.

use crate::config::{Config, Durability};
use crate::control::{role_name, view_number};
use kv::connection::{Count, REDIS_VERSION};
use kv::door;
use proto::Role;
use runtime::DiskFigures;
use std::fmt::Write;

/// The content of INFO.
pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    /// The disk's figures as of a moment ago.
    pub(super) disk: Option<&'a DiskFigures>,
    pub(super) uptime_s: u64,
    /// The part that the door knows.
    pub(super) door: &'a door::Facts<'a>,
}

type Section = (&'static str, fn(&Facts<'_>, &mut String) -> std::fmt::Result);

const SECTIONS: [Section; 11] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", cpu),
    (COMMANDSTATS, commandstats),
    ("cluster", cluster),
    ("keyspace", keyspace),
    ("gregale", gregale),
];

/// The sections that `wanted` names; an empty list, `default`, `all` and `everything` name all of
/// them.
pub(super) fn text(facts: &Facts<'_>, wanted: &[&str]) -> String {
    let all = wanted.iter().any(|name| ["all", "everything"].contains(name));
    let default = all || wanted.is_empty() || wanted.contains(&"default");
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let is_default = default && name != COMMANDSTATS;
        if all || is_default || wanted.contains(&name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let title = name[..1].to_ascii_uppercase() + &name[1..];
            // Writing to a string cannot fail.
            let _ = write!(text, "# {title}\r\n");
            let _ = write(facts, &mut text);
        }
    }
    text
}

fn server(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    write!(out, "redis_version:{REDIS_VERSION}\r\ngregale_version:{version}\r\n")?;
    let mode = if facts.config.cluster_discovery { "cluster" } else { "standalone" };
    write!(out, "redis_mode:{mode}\r\nos:{}\r\n", std::env::consts::OS)?;
    write!(out, "arch_bits:{}\r\nmultiplexing_api:epoll\r\n", usize::BITS)?;
    write!(out, "process_id:{}\r\n", std::process::id())?;
    write!(out, "tcp_port:{}\r\n", facts.config.own().client.port())?;
    let days = facts.uptime_s / 86_400;
    write!(out, "uptime_in_seconds:{}\r\nuptime_in_days:{days}\r\n", facts.uptime_s)
}

fn clients(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    write!(out, "connected_clients:{}\r\n", facts.door.figures.clients)?;
    write!(out, "maxclients:{}\r\nblocked_clients:0\r\n", facts.config.maxclients)
}

fn memory(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    write!(out, "used_memory:{}\r\n", facts.door.figures.memory_bytes)?;
    write!(out, "maxmemory:{}\r\nmaxmemory_policy:noeviction\r\n", facts.config.maxmemory)
}

/// The section in Redis's words, which call a log on disk an append-only file.
fn persistence(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let on_disk = u8::from(facts.disk.is_some());
    write!(out, "loading:0\r\nrdb_changes_since_last_save:{}\r\n", facts.door.changes)?;
    write!(out, "rdb_bgsave_in_progress:0\r\naof_enabled:{on_disk}\r\n")
}

fn stats(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    write!(out, "total_connections_received:{}\r\n", facts.door.figures.clients_accepted)?;
    write!(out, "total_commands_processed:{}\r\n", facts.door.figures.commands)?;
    write!(out, "rejected_connections:{}\r\n", facts.door.figures.clients_refused)?;
    let closed = facts.door.figures.clients_over_limit;
    write!(out, "client_output_buffer_limit_disconnections:{closed}\r\n")
}

/// Every member takes every command, so for a Redis client every member is a master.
fn replication(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let others = facts.door.view.heard.len().saturating_sub(1);
    write!(
        out,
        "role:master\r\nconnected_slaves:{others}\r\nmaster_failover_state:no-failover\r\n"
    )?;
    write!(out, "master_repl_offset:{}\r\n", facts.door.view.applied.0)
}

/// The processor time that the kernel reports, in hundredths of a second; absent where it does not.
fn cpu(_: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may contain any character. Words follow it.
    let words: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    for (name, at) in [("sys", 12), ("user", 11), ("sys_children", 14), ("user_children", 13)] {
        if let Some(ticks) = words.get(at).and_then(|word| word.parse::<u64>().ok()) {
            write!(out, "used_cpu_{name}:{}.{:02}0000\r\n", ticks / 100, ticks % 100)?;
        }
    }
    Ok(())
}

/// The section appears only if it is asked for, as in Redis.
const COMMANDSTATS: &str = "commandstats";

/// The times that Redis reports are omitted: a command's time is mostly that of its log.
fn commandstats(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    for (name, Count { calls, rejected, failed }) in facts.door.counts.all() {
        write!(out, "cmdstat_{name}:calls={calls},")?;
        write!(out, "rejected_calls={rejected},failed_calls={failed}\r\n")?;
    }
    Ok(())
}

fn cluster(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    write!(out, "cluster_enabled:{}\r\n", u8::from(facts.config.cluster_discovery))
}

fn keyspace(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    for (number, (keys, expiring)) in facts.door.databases.iter().enumerate() {
        if *keys != 0 {
            write!(out, "db{number}:keys={keys},expires={expiring},avg_ttl=0\r\n")?;
        }
    }
    Ok(())
}

fn gregale(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let (config, view) = (facts.config, &facts.door.view);
    write!(out, "gregale_cluster:{}\r\n", config.cluster)?;
    write!(out, "gregale_engine:{}\r\n", config.engine())?;
    write!(out, "gregale_protocol:{}\r\n", config.protocol.name())?;
    write!(out, "gregale_durability:{}\r\n", config.durability.name())?;
    if config.durability == Durability::DiskAll {
        // Members that were not heard lately; `gregale status` also shows disks in trouble.
        let ids = config.members.iter().map(|member| member.id);
        let voters = view.configuration.map(|of| of.members.voters);
        let is_missing = |id: &u16| {
            let rank = base::Rank::at(usize::from(*id) - 1);
            !view.heard.contains(rank) && voters.is_none_or(|voters| voters.contains(rank))
        };
        let missing: Vec<String> = ids.filter(is_missing).map(|id| id.to_string()).collect();
        write!(out, "gregale_writes_wait_for:{}\r\n", missing.join(","))?;
    }
    write!(out, "gregale_fabric:{}\r\n", config.fabric.name())?;
    write!(out, "gregale_member:{}\r\n", config.member)?;
    write!(out, "gregale_role:{}\r\n", role_name(view.role))?;
    let leader = if view.role == Role::Leader { Some(view.me) } else { view.trusted };
    write!(out, "gregale_leader:{}\r\n", leader.map_or(0, |rank| rank.member().0))?;
    let number = view_number(view.configuration.as_ref());
    write!(out, "gregale_view:{number}\r\ngregale_ballot:{}\r\n", view.ballot.0)?;
    write!(out, "gregale_committed:{}\r\n", view.committed.0)?;
    write!(out, "gregale_applied:{}\r\n", view.applied.0)?;
    write!(out, "gregale_data_lost:{}\r\n", u8::from(view.data_lost))?;
    let ahead_ms = facts.door.figures.state_time_ahead_ms;
    write!(out, "gregale_state_time_ahead_ms:{ahead_ms}\r\n")?;
    if let Some(disk) = facts.disk {
        write!(out, "gregale_disk:{}\r\n", disk.place)?;
        write!(
            out,
            "gregale_log_start:{}\r\ngregale_log_end:{}\r\n",
            disk.log_start, disk.log_end
        )?;
        write!(out, "gregale_logged_bytes:{}\r\n", disk.logged_bytes)?;
        write!(out, "gregale_snapshots:{}\r\n", disk.snapshots)?;
        write!(out, "gregale_disk_trouble:{}\r\n", disk.trouble.as_deref().unwrap_or(""))?;
        let last = disk.last_trouble.as_deref().unwrap_or("");
        write!(out, "gregale_disk_last_trouble:{last}\r\n")?;
        let no_snapshot = disk.no_snapshot.as_deref().unwrap_or("");
        write!(out, "gregale_disk_no_snapshot:{no_snapshot}\r\n")?;
    }
    out.push_str(&facts.door.more);
    write!(out, "gregale_members:{}\r\n", config.members.len())?;
    for (at, member) in config.members.iter().enumerate() {
        let rank = base::Rank::at(at);
        let heard = if view.heard.contains(rank) { "up" } else { "down" };
        let applied = view.applied_by[at].0;
        write!(
            out,
            "gregale_member{}:client={},state={heard},applied={applied}\r\n",
            member.id, member.client
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rank;
    use kv::connection::Counts;
    use kv::door::Figures;
    use kv::store::DATABASES;
    use runtime::View;

    fn info(wanted: &[&str]) -> String {
        let file = r#"
            cluster = "demo"
            member = 1
            start = "bootstrap"
            directory = "/x"
            secret_file = "/x/secret"
            members = [{ id = 1, client = "127.0.0.1:7000", control = "127.0.0.1:7200" }]
        "#;
        let config: Config = toml::from_str(file).unwrap();
        let view = View::new(Rank::at(0), 3);
        let figures = Figures { keys: 3, ..Figures::default() };
        let disk = DiskFigures { place: "/d".into(), log_end: 7, ..DiskFigures::default() };
        let more = "gregale_more:1\r\n".to_owned();
        let mut databases = [(0, 0); DATABASES];
        (databases[0], databases[9]) = ((2, 1), (1, 0));
        let counts = &Counts::default();
        let door = &door::Facts { view, figures, databases, changes: 7, counts, more };
        let (config, disk) = (&config, Some(&disk));
        text(&Facts { config, disk, uptime_s: 5, door }, wanted)
    }

    #[test]
    fn sections_look_as_redis_writes_them() {
        let all = info(&[]);
        assert!(all.starts_with("# Server\r\nredis_version:7.0"), "{all}");
        assert!(all.contains("\r\n\r\n# Replication\r\nrole:master\r\n"), "{all}");
        assert!(all.contains("db0:keys=2,expires=1,avg_ttl=0\r\ndb9:keys=1,expires=0,"), "{all}");
        assert_eq!(all, info(&["default"]));
        let everything = info(&["everything", "cpu"]);
        assert_eq!(everything.matches("used_cpu_user:").count(), 1);
        assert!(everything.contains("# Commandstats\r\n") && !all.contains("# Commandstats\r\n"));
    }

    #[test]
    fn one_section_can_be_asked_for() {
        let text = info(&["gregale"]);
        assert!(text.starts_with("# Gregale\r\n") && text.matches('#').count() == 1);
        assert!(text.contains("gregale_more:1\r\n"));
        assert!(text.contains("gregale_durability:memory-quorum\r\n"));
        assert!(text.contains("gregale_disk:/d\r\ngregale_log_start:0\r\ngregale_log_end:7\r\n"));
        assert_eq!(info(&["nonsense"]), "");
    }
}
