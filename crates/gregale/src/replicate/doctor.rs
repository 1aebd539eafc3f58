//! `gregale replicate doctor`: whether and how a program can be replicated, by its files, and by a
//! trial if one is asked for.
//!
//! Without that nothing is run, and what only a run shows (waits past the C library, files that are
//! written) is not seen. Each verdict names what it rests on.

use super::trial::{Trial, request_of, try_out};
use crate::config::{Attach, InputOrder, Program, ReadsOf, RestBy, find};
use crate::elf::{self, Facts};
use clap::{Args, Subcommand, ValueEnum};
use console::{Failure, Format, Outcome};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// `gregale replicate`
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
    gregale replicate doctor 'memcached -s {socket}'\n  \
    gregale up --replicate 'memcached -s {socket}'")]
pub(crate) enum ReplicateCommand {
    /// Say whether and how a program can be replicated, by its files, and by a trial if asked for.
    #[command(after_help = "Examples:\n  \
        gregale replicate doctor 'memcached -s {socket}'            nothing is run\n  \
        gregale replicate doctor 'memcached -s {socket}' --trial\n  \
        gregale replicate doctor 'beanstalkd -l unix:{socket}' --trial --request 'stats\\r\\n'\n\n\
        A trial starts the program as a copy is started, in a directory of its own, which is\n\
        removed then, makes three connections, and watches the system calls by ptrace.")]
    Doctor(DoctorArgs),
}

/// `gregale replicate doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The command line, as for `gregale up --replicate`, or the program's name alone.
    command: String,
    /// Starts the program, and watches what it does.
    #[arg(long)]
    trial: bool,
    /// The request that each connection of the trial sends; \\r, \\n and \\\\ stand for themselves.
    /// (Redis's and memcached's are known.)
    #[arg(long, requires = "trial")]
    request: Option<String>,
    /// The directory that the program begins with, as for `gregale up`.
    #[arg(long, value_name = "DIR", requires = "trial")]
    genesis: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// What is known of a program.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Diagnosis {
    program: String,
    /// Whether it can be replicated, as far as its files tell.
    can: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why_not: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Settings>,
    facts: Vec<&'static str>,
    /// What has to be looked after.
    warnings: Vec<&'static str>,
    /// What a trial has shown, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
}

/// The settings that fit a program.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Settings {
    attach: String,
    order: String,
    /// Whether its loop can be fed by the turn.
    may_loop: bool,
    rest: String,
    /// `--program-reads`, if its reads can run beside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<String>,
    /// Whether its clocks can be the log's.
    may_log_time: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'static str>,
}

/// The command lines of programs that the tests replicate.
const COMMANDS: [(&str, &str); 5] = [
    (
        "redis-server",
        "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' --timeout 0",
    ),
    ("memcached", "memcached -s {socket} -U 0"),
    ("beanstalkd", "beanstalkd -l unix:{socket}"),
    (
        "mariadbd",
        "mariadbd --no-defaults --datadir={dir} --socket={socket} --skip-networking \
         --skip-name-resolve --innodb-use-native-aio=0 --innodb-stats-auto-recalc=0 \
         --connect-timeout=31536000 --wait-timeout=31536000 --interactive-timeout=31536000 \
         --lock-wait-timeout=31536000 --innodb-lock-wait-timeout=100000000",
    ),
    (
        "postgres",
        "postgres -D {dir} -k {socketdir} -c listen_addresses= -c autovacuum=off \
         -c dynamic_shared_memory_type=mmap -c max_parallel_workers_per_gather=0 \
         -c max_logical_replication_workers=0 -c authentication_timeout=600",
    ),
];

const ACCEPTS: [&str; 2] = ["accept", "accept4"];
const LOOPS: [&str; 11] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "__poll_chk",
    "__ppoll_chk",
    "select",
    "pselect",
    "epoll_create",
    "epoll_create1",
];
const CLOCKS: [&str; 4] = ["clock_gettime", "gettimeofday", "time", "timespec_get"];
/// Timers of the kernel, which end by its time.
const ALARMS: [&str; 7] = [
    "setitimer",
    "alarm",
    "ualarm",
    "timer_create",
    "timerfd_create",
    "pthread_mutex_timedlock",
    "sigtimedwait",
];
const DRAWS: [&str; 6] =
    ["getrandom", "getentropy", "arc4random", "arc4random_buf", "RAND_bytes", "gnutls_rnd"];

fn diagnosed(name: &str, attach: Attach, rest: RestBy, facts: &Facts) -> Diagnosis {
    let mut of = Diagnosis {
        program: name.to_owned(),
        can: true,
        why_not: Vec::new(),
        settings: None,
        facts: Vec::new(),
        warnings: Vec::new(),
        trial: None,
    };
    let has_threads = facts.asks_itself_for(&["pthread_create", "thrd_create"]);
    let has_children = facts.asks_itself_for(&["fork", "vfork", "posix_spawn", "posix_spawnp"]);
    let has_loop = facts.asks_for(&LOOPS);
    let listens = facts.asks_for(&ACCEPTS);
    let is_known = COMMANDS.iter().find(|(known, _)| *known == name);
    let said = [
        (facts.is_go, "made by Go: its calls go past the C library"),
        (!facts.loads_libraries, "static: it loads no library"),
        (listens, "accepts connections by the C library"),
        (has_loop, "waits for descriptors in a loop"),
        (has_threads, "starts threads"),
        (has_children, "starts processes"),
        (facts.asks_for(&DRAWS), "draws by calls that are answered alike at all copies"),
    ];
    of.facts.extend(said.iter().filter(|(holds, _)| *holds).map(|(_, text)| text));
    if facts.loads_libraries && !facts.is_go && !listens {
        of.can = false;
        of.why_not.push(
            "neither it nor its libraries accept connections: it is no server, or one that makes \
             system calls of its own (then say --program-attach proxy, and test it)",
        );
        return of;
    }
    let ring = facts.loads("liburing") || facts.asks_for(&["io_uring_queue_init"]);
    let proxied = attach == Attach::Proxy;
    let warned = [
        (
            facts.is_go,
            "goroutines run in an order of their own: copies may differ unless each \
            answer depends on its connection alone",
        ),
        (
            proxied,
            "without the library its rest is known by silence alone (some 400 requests a \
            second), and each copy draws from its own kernel",
        ),
        (ring, "io_uring: what it waits for there is not seen, and what it reads has no turns"),
        (
            facts.asks_itself_for(&["syscall"]),
            "makes system calls of its own: waits among them \
            are not seen, and cost 5 ms each",
        ),
        (
            has_threads,
            "threads that race beyond one request make copies differ; the comparison of \
            answers shows it once an answer does",
        ),
        (
            has_children && !has_threads,
            "processes that race beyond one request make copies differ, as threads would",
        ),
        (
            facts.asks_itself_for(&CLOCKS) && !proxied,
            "what depends on the clock differs between copies (expiry, stamps, seeds from the \
            time) without --program-time log; switch idle time-outs off",
        ),
        (
            proxied,
            "its clocks are its host's, and --program-time log does not cover them: what \
            depends on the time differs between copies",
        ),
        (
            facts.asks_itself_for(&ALARMS) && !proxied,
            "asks for timers or time-outs of the kernel that --program-time log does not cover",
        ),
        (
            facts.loads("libssl") || facts.loads("libgnutls"),
            "TLS inside the program cannot be \
            replicated: leave it off",
        ),
        (
            facts.asks_itself_for(&["recvfrom", "recvmsg"]),
            "what it gets by UDP is replicated at {udp} alone, without streams: \
            otherwise switch it off",
        ),
    ];
    of.warnings.extend(warned.iter().filter(|(holds, _)| *holds).map(|(_, text)| text));
    let is_alone = !has_threads && !has_children;
    let may_loop = attach == Attach::Preload && has_loop && is_alone && !ring;
    let name_of = |value: Option<clap::builder::PossibleValue>| {
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    of.settings = Some(Settings {
        attach: name_of(attach.to_possible_value()),
        order: name_of(InputOrder::Serial.to_possible_value()),
        may_loop,
        rest: name_of(rest.to_possible_value()),
        reads: ReadsOf::by(rest).map(|reads| name_of(reads.to_possible_value())),
        may_log_time: !proxied,
        command: is_known.map(|(_, command)| *command),
    });
    of
}

impl Diagnosis {
    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.program, self.verdict());
        let mut put = |name: &str, value: &str| text += &format!("  {name:<10}{value}\n");
        self.why_not.iter().for_each(|why| put("why", why));
        if let Some(of) = &self.settings {
            put("attach", &of.attach);
            put("order", &of.order);
            if of.may_loop {
                put("", "loop is possible: it has one loop, as far as its files tell");
            }
            put("rest", &of.rest);
            if let Some(reads) = &of.reads {
                put("reads", &format!("in the log, or beside it: --program-reads {reads}"));
            }
            if of.may_log_time {
                put("time", "kernel, or log: --program-time log");
            }
            if let Some(command) = of.command {
                put("command", command);
            }
        }
        self.facts.iter().for_each(|fact| put("fact", fact));
        self.warnings.iter().for_each(|warning| put("warning", warning));
        if let Some(Trial { outcome, why_not, facts, warnings }) = &self.trial {
            put("trial", outcome);
            why_not.iter().for_each(|why| put("why", why));
            facts.iter().for_each(|fact| put("fact", fact));
            warnings.iter().for_each(|warning| put("warning", warning));
        }
        text
    }

    fn verdict(&self) -> &'static str {
        match (self.can, &self.trial) {
            (false, _) => "not replicated",
            (true, None) => "can be replicated, as far as its files tell",
            (true, Some(_)) => "can be replicated, as far as its files and a trial tell",
        }
    }

    /// Adds what a trial has shown.
    fn try_out(&mut self, program: &Program, request: Option<&[u8]>) -> Outcome<()> {
        let trial = try_out(program, request)?;
        self.can &= trial.why_not.is_empty();
        self.trial = Some(trial);
        Ok(())
    }
}

/// The bytes of a request on the command line.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut request, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            request.push(letter);
            continue;
        }
        match letters.next() {
            Some('r') => request.push('\r'),
            Some('n') => request.push('\n'),
            Some('\\') | None => request.push('\\'),
            Some(other) => request.extend(['\\', other]),
        }
    }
    request.into_bytes()
}

/// Runs the subcommand.
pub(crate) fn replicate(command: &ReplicateCommand) -> Outcome {
    let ReplicateCommand::Doctor(args) = command;
    let program = Program { genesis: args.genesis.clone(), ..Program::of(&args.command) };
    let words = program.words()?;
    let file = find(&words[0]).ok_or_else(|| {
        Failure::new(format_args!(
            "there is no program {:?}: install it, or name its path",
            words[0]
        ))
    })?;
    let facts = elf::facts(&file).ok_or_else(|| {
        Failure::new(format_args!("{} is no program for 64 bits", file.display()))
    })?;
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let mut diagnosis = diagnosed(&name, program.attach(), program.rest(), &facts);
    if args.trial {
        program.check()?;
        let request = args.request.as_deref().map(unescaped);
        let request = request.as_deref().or_else(|| request_of(program.rest()));
        diagnosis.try_out(&program, request)?;
    }
    match args.format {
        Format::Json => {
            outln!("{}", serde_json::to_string_pretty(&diagnosis).expect("texts and lists of them"))
        }
        Format::Table => out!("{}", diagnosis.text()),
    }
    Ok(if diagnosis.can { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(names: &[&str]) -> Facts {
        let own_names = names.iter().map(|name| (*name).to_owned()).collect();
        Facts { own_names, loads_libraries: true, ..Facts::default() }
    }

    #[test]
    fn a_loop_without_threads_may_be_fed_by_the_turn() {
        let may_loop = |names: &[&str]| {
            let of = diagnosed("x", Attach::Preload, RestBy::Waits, &facts(names));
            of.settings.map(|of| of.may_loop)
        };
        assert_eq!(may_loop(&["accept", "epoll_wait"]), Some(true));
        assert_eq!(may_loop(&["accept", "epoll_wait", "pthread_create"]), Some(false));
        assert_eq!(may_loop(&["accept"]), Some(false), "a process or thread a connection");
        assert_eq!(may_loop(&["epoll_wait"]), None, "it is no server");
    }

    #[test]
    fn a_request_on_the_command_line_has_ends_of_lines() {
        assert_eq!(unescaped("a\\r\\n\\\\n\\x\\"), b"a\r\n\\n\\x\\");
    }

    #[test]
    fn go_is_warned_of_and_goes_without_the_library() {
        let go = Facts { is_go: true, ..Facts::default() };
        let of = diagnosed("nats-server", Attach::Proxy, RestBy::Quiet, &go);
        assert!(of.can && of.text().contains("goroutines") && of.text().contains("proxy"));
        assert!(of.text().contains("does not cover them"), "its clocks are its own");
    }
}
