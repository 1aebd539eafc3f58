//! `gregale recover`: a cluster whose majority of disks is lost continues from the best disk that
//! is left.
//!
//! A cluster that has lost its majority cannot know what that majority had acknowledged. With this
//! command an operator decides to continue without it: the command shows what each remaining disk
//! holds, reports what may be lost, and begins a new cluster of one member from the best disk. The
//! other members come back as new incarnations, by `gregale up`.
//!
//! - I1 nothing is given up needlessly: the command refuses while a majority is left, and refuses a
//!   disk that is not the best, or that is in use.
//! - I2 nothing is deleted: old directories are put aside under other names.
//! - I3 a directory that was put aside can never take part in the new cluster, whose secret and
//!   incarnations are different.
//! - I4 a recovery that was cut off is finished by the next one: the new disk is whole before
//!   anything is put aside, and a file records it.
//! - I5 only the confirmation changes anything: without it the command shows, and refuses.

mod args;
mod claims;
mod survivors;

pub(crate) use args::RecoverArgs;

use crate::serve::{self, life::Lives};
use crate::up::data::{self, Data, RECOVERING};
use base::{NodeId, Rank};
use console::{Failure, Outcome};
use proto::durable::offline::head_of_one;
use runtime::offline;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use storage::{Directory, Identity};
use survivors::{Left, Survivors};

/// The words of the confirmation.
const WORDS: &str = "acknowledged writes";
/// The name of the new disk, and of the new secret, before they have their final ones.
const NEW: &str = "recovered";
const NEW_SECRET: &str = "recovered.secret";

/// `gregale recover`
pub(crate) fn run(args: &RecoverArgs) -> Outcome {
    let mut data = Data::open_any(&args.directory)?;
    if data.replicates_program() {
        return Err(Failure::new(format_args!(
            "{} holds the log of a replicated program, which cannot be made one state here (what its \
             entries mean depends on the settings of `up`); nothing was changed: start it with a \
             majority of its disks, or another cluster with `--genesis` and the program's own files",
            data.path().display()
        )));
    }
    if let Some(id) = interrupted(&data)? {
        finish(&mut data, id)?;
        return Ok(done(&data, id, data.maxmemory().or(args.maxmemory)));
    }
    if data.is_in_partitions() {
        return Err(Failure::new(format_args!(
            "{} holds a keyspace in partitions, whose disks cannot be gone on from one by one: \
             start it with a majority of its disks",
            data.path().display()
        )));
    }
    let maxmemory = limit(&data, args.maxmemory)?;
    let survivors = Survivors::find(&data, &args.without)?;
    out!("{}", survivors.table());
    let mut best = survivors.choose(args.member)?;
    outln!("\n{}", best.what_may_be_lost);
    confirm(args.yes_i_may_lose.as_deref())?;
    prepare(&data, &mut best, maxmemory)?;
    finish(&mut data, best.id)?;
    Ok(done(&data, best.id, Some(maxmemory)))
}

/// The limit of memory under which the log was written, if an operator's word agrees with it.
fn limit(data: &Data, said: Option<u64>) -> Outcome<u64> {
    match (data.maxmemory(), said) {
        (Some(begun), Some(said)) if begun != said => Err(Failure::new(format_args!(
            "{} holds a cluster that was begun with --maxmemory {begun}, which decided what its log \
             means, and not with {said}: leave --maxmemory (or GREGALE_MAXMEMORY) out; nothing was \
             changed",
            data.path().display()
        ))),
        (begun, said) => Ok(begun.or(said).unwrap_or(0)),
    }
}

/// Asks for the confirmation (I5).
fn confirm(said: Option<&str>) -> Outcome<()> {
    let mend = format!("say --yes-i-may-lose {WORDS:?}, or type it where it is asked for");
    let said = match said {
        Some(said) => said.to_owned(),
        None if std::io::stdin().is_terminal() => {
            out!("Type what you may lose ({WORDS}) to continue: ");
            let _ = std::io::stdout().flush();
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            read.map_err(|error| Failure::os("read standard input", error))?;
            line
        }
        None => return Err(Failure::new(format_args!("nothing was changed: {mend}"))),
    };
    if said.trim() == WORDS {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "{:?} is not {WORDS:?}, and nothing was changed: {mend}",
        said.trim()
    )))
}

/// Makes the new disk, beside the old ones, and records it durably.
fn prepare(data: &Data, best: &mut Left, maxmemory: u64) -> Outcome<()> {
    let rank = Rank::of_member(NodeId(best.id))
        .ok_or_else(|| Failure::new(format_args!("member {} is out of range", best.id)))?;
    let new = data.path().join(NEW);
    // The rest of an unfinished attempt, which no process has used.
    if new.exists() {
        std::fs::remove_dir_all(&new)
            .map_err(|error| Failure::os(format_args!("remove {}", new.display()), error))?;
    }
    // I3
    let secret = data::random_secret()?;
    let life = Lives::beside(data.path(), best.id).begin()?;
    let identity = Identity {
        cluster: serve::fingerprint(secret.as_bytes(), data.name(), data.replicates_program()),
        node: NodeId(best.id),
        incarnation: life.number,
    };
    let mut state = crate::door::offline_state(maxmemory);
    let (prefix, bytes) = best.survivor.fold(&mut state).map_err(Failure::new)?;
    let holding = *best.survivor.holding();
    let head = head_of_one(&holding, rank, life.number);
    let directory = Directory::create(&new, &identity).map_err(Failure::new)?;
    let begun = (life.number, best.promised_by_any);
    offline::begin_from(directory, (prefix, bytes), head, begun).map_err(Failure::new)?;
    data.write_durably(NEW_SECRET, secret.as_bytes())?;
    data.write_durably(RECOVERING, best.id.to_string().as_bytes())
}

/// The member with which an earlier recovery was about to begin.
fn interrupted(data: &Data) -> Outcome<Option<u16>> {
    let path = data.path().join(RECOVERING);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let id = text.trim().parse().ok().filter(|id| (1..=data.members()).contains(id));
            id.map(Some).ok_or_else(|| {
                Failure::new(format_args!(
                    "{} says {text:?}, which is no member: no recovery wrote that, and nothing was \
                     changed; see what the directories hold, and move the file away",
                    path.display()
                ))
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::os(format_args!("read {}", path.display()), error)),
    }
}

/// Puts the old disks aside and the new one in its place (I2, I4). Each step can be repeated.
fn finish(data: &mut Data, id: u16) -> Outcome<()> {
    let (new, own) = (data.path().join(NEW), data.member(id));
    let rename = |from: &Path, to: &Path| {
        std::fs::rename(from, to).map_err(|error| {
            Failure::os(format_args!("move {} to {}", from.display(), to.display()), error)
        })
    };
    for member in 1..=data.members() {
        // Once the new disk has its name, the directory of that name is not old.
        if member != id || new.exists() {
            data.retire(member)?;
        }
    }
    let secret = data.path().join(NEW_SECRET);
    if secret.exists() {
        data.keep_secret()?;
        rename(&secret, &data.secret_file())?;
    }
    if new.exists() {
        rename(&new, &own)?;
    }
    data.sync()?;
    // Only that member has a seat now; the operator has asked for the others to come back.
    data.go_on_from(id)?;
    data.remove_durably(RECOVERING)
}

fn done(data: &Data, id: u16, maxmemory: Option<u64>) -> ExitCode {
    outln!(
        "member {id} alone is the cluster now, as a new one of the same name. Start it:\n  {}\n\
         The other members come back as new incarnations; what they had is kept in *.old-*.",
        command(data, maxmemory)
    );
    ExitCode::SUCCESS
}

/// The command that starts the cluster with the settings that it was begun with.
fn command(data: &Data, maxmemory: Option<u64>) -> String {
    // A cluster that was founded before its limit was recorded is to be told it.
    let limit = maxmemory.map_or(String::new(), |n| format!(" --maxmemory {n}"));
    format!(
        "gregale up --data {} --cluster {} --nodes {} --durability {}{limit}",
        quoted(&data.path().to_string_lossy()),
        quoted(data.name()),
        data.members(),
        data.durability().name()
    )
}

/// Quotes a path for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as it is when the new disk is whole and nothing is put aside yet.
    fn prepared(path: &Path) -> Data {
        let cluster = "version = 1\nname = \"x\"\nmembers = 3\nfounded = true\n";
        std::fs::write(path.join("cluster.toml"), cluster).unwrap();
        std::fs::write(path.join("secret"), "old").unwrap();
        std::fs::write(path.join(NEW_SECRET), "new").unwrap();
        for (name, whose) in [("member-2", "old 2"), ("member-3", "old 3"), (NEW, "new 2")] {
            std::fs::create_dir(path.join(name)).unwrap();
            std::fs::write(path.join(name).join("identity"), whose).unwrap();
        }
        std::fs::write(path.join(RECOVERING), "2").unwrap();
        Data::open_any(path).unwrap()
    }

    /// The meaning of its entries is not known here.
    #[test]
    fn a_replicated_programs_log_is_refused_and_nothing_is_changed() {
        let base = tempfile::tempdir().unwrap();
        prepared(base.path());
        let program = "[keyspace]\nmaxmemory = 0\nprogram = \"redis-server\"\n";
        let cluster = read(base.path(), "cluster.toml") + program;
        std::fs::write(base.path().join("cluster.toml"), cluster).unwrap();
        let args = RecoverArgs {
            directory: base.path().to_owned(),
            member: None,
            without: Vec::new(),
            maxmemory: None,
            yes_i_may_lose: Some(WORDS.to_owned()),
        };
        let refused = run(&args).map(drop).unwrap_err().to_string();
        assert!(refused.contains("replicated program"), "{refused}");
        assert_eq!(read(base.path(), "secret"), "old");
        assert_eq!(read(base.path(), RECOVERING), "2");
    }

    fn read(path: &Path, name: &str) -> String {
        std::fs::read_to_string(path.join(name)).unwrap()
    }

    fn is_finished(path: &Path) {
        assert_eq!(read(path, "member-2/identity"), "new 2");
        assert_eq!(read(path, "member-2.old-1/identity"), "old 2");
        assert_eq!(read(path, "member-3.old-1/identity"), "old 3");
        assert_eq!(read(path, "secret"), "new");
        assert_eq!(read(path, "secret.old-1"), "old", "the old disks belong to it");
        assert!(!path.join("secret.old-2").exists());
        assert!(!path.join(RECOVERING).exists() && !path.join("member-3").exists());
    }

    // I2, I4
    #[test]
    fn a_recovery_that_was_cut_off_anywhere_is_finished_by_the_next() {
        type Step = fn(&Path);
        let steps: [Step; 5] = [
            |path| std::fs::rename(path.join("member-2"), path.join("member-2.old-1")).unwrap(),
            |path| std::fs::rename(path.join("member-3"), path.join("member-3.old-1")).unwrap(),
            |path| {
                std::fs::copy(path.join("secret"), path.join("secret.old-1")).unwrap();
                std::fs::rename(path.join(NEW_SECRET), path.join("secret")).unwrap();
            },
            |path| std::fs::rename(path.join(NEW), path.join("member-2")).unwrap(),
            |path| std::fs::remove_file(path.join(RECOVERING)).unwrap(),
        ];
        for n_done in 0..steps.len() {
            let base = tempfile::tempdir().unwrap();
            let mut data = prepared(base.path());
            steps[..n_done].iter().for_each(|step| step(base.path()));
            assert!(base.path().join(RECOVERING).exists(), "{n_done}");
            let id = interrupted(&data).unwrap().expect("a file says so");
            finish(&mut data, id).unwrap();
            is_finished(base.path());
            // Their seats are empty in the new cluster, and they are to come back.
            assert!(read(base.path(), "cluster.toml").contains("wanted = [1, 3]"));
        }
        let base = tempfile::tempdir().unwrap();
        prepared(base.path());
        steps.iter().for_each(|step| step(base.path()));
        is_finished(base.path());
    }

    /// The content of `cluster.toml` after a recovery, if it contained `words` before.
    fn recovered(words: &str) -> String {
        let base = tempfile::tempdir().unwrap();
        prepared(base.path());
        let cluster = format!("version = 1\nname = \"x\"\nmembers = 3\n{words}\n");
        std::fs::write(base.path().join("cluster.toml"), cluster).unwrap();
        finish(&mut Data::open_any(base.path()).unwrap(), 2).unwrap();
        read(base.path(), "cluster.toml")
    }

    // Otherwise `up` would have the other members found a cluster, and the recovered content would
    // lose to it.
    #[test]
    fn after_a_recovery_nobody_is_a_founder() {
        let after = recovered("founded = false");
        assert!(after.contains("founded = true"), "{after}");
    }

    #[test]
    fn a_removed_member_that_is_recovered_has_its_seat_again() {
        let after = recovered("founded = true\nvacant = [2, 3]");
        assert!(after.contains("vacant = [3]"), "{after}");
    }

    #[test]
    fn a_file_that_names_no_member_of_the_cluster_changes_nothing() {
        let base = tempfile::tempdir().unwrap();
        let data = prepared(base.path());
        for strange in ["9", "0", "two"] {
            std::fs::write(base.path().join(RECOVERING), strange).unwrap();
            let refused = interrupted(&data).unwrap_err().to_string();
            assert!(refused.contains(&format!("{strange:?}")), "{refused}");
        }
    }

    #[test]
    fn what_is_to_be_typed_is_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("/var/lib/gregale-1"), "/var/lib/gregale-1");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    /// `up` refuses to promise less, or to mean something else by the log.
    #[test]
    fn the_command_says_what_the_cluster_was_begun_with() {
        let base = tempfile::tempdir().unwrap();
        let data = prepared(base.path());
        let path = base.path().display();
        let quorum = format!("gregale up --data {path} --cluster x --nodes 3 --durability disk");
        assert_eq!(command(&data, None), format!("{quorum}-quorum"));
        assert_eq!(command(&data, Some(0)), format!("{quorum}-quorum --maxmemory 0"));
        drop(data);
        let all = "\ndurability = \"disk-all\"\n[keyspace]\nmaxmemory = 5000\n";
        let text = read(base.path(), "cluster.toml") + all;
        std::fs::write(base.path().join("cluster.toml"), text).unwrap();
        let data = Data::open_any(base.path()).unwrap();
        assert_eq!(command(&data, data.maxmemory()), format!("{quorum}-all --maxmemory 5000"));
        assert_eq!(limit(&data, None).unwrap(), 5000);
        assert_eq!(limit(&data, Some(5000)).unwrap(), 5000);
        let refused = limit(&data, Some(6000)).unwrap_err().to_string();
        assert!(refused.contains("--maxmemory 5000"), "{refused}");
    }

    // I5
    #[test]
    fn only_the_words_confirm() {
        assert!(confirm(Some("acknowledged writes")).is_ok());
        for wrong in ["", "yes", "Acknowledged writes", "writes"] {
            let refused = confirm(Some(wrong)).unwrap_err().to_string();
            assert!(refused.contains("nothing was changed"), "{refused}");
        }
    }
}
