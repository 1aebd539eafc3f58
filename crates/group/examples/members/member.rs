//! A process of the group: what it is told on its input, and what it prints.
//!
//! ```text
//! input   say TEXT | chat | hush | relayed | leave     (the end of the input is a wish to leave)
//! output  view 2: seats 1 2; joined 2; ...      ended: excluded: ...      refused: ...
//! log     V view | S text | D view sequence seat incarnation own text
//! ```
//! In a chat a process sends its next message as soon as the last one is delivered here. Large
//! messages have a filling behind their text, which follows from it.

use group::{Event, Group, Options, Refused, Schedule};
use std::fs::File;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// The length of large messages.
const LARGE_BYTES: u32 = 300_001;
/// How often the input is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The options of a process whose role is `words`:
/// `found|join shm|tcp|large-tcp DIRECTORY SEAT SUSPECT_MS [ADDRESS ... LISTEN]`.
pub(crate) fn options(words: &str) -> (bool, Options) {
    let mut words = words.split(' ');
    let mut word = || words.next().expect("the parent gives five words and more");
    let founds = word() == "found";
    let (transport, directory, seat, suspect_ms) = (word(), word(), word(), word());
    let mut addresses: Vec<SocketAddr> =
        words.map(|address| address.parse().expect("an address")).collect();
    let mut options = match transport {
        "tcp" | "large-tcp" => {
            let listen = addresses.pop().expect("the address to listen at");
            let mut options = Options::tcp("members", "sesame", "members 1", addresses);
            if let group::Transport::Tcp { listen: at, .. } = &mut options.transport {
                *at = Some(listen);
            }
            options
        }
        _ => {
            let options = Options::shm("members", "sesame", "members 1");
            Options { seats: super::company::SEATS, ..options }
        }
    };
    if transport == "large-tcp" {
        (options.message_bytes, options.window) = (LARGE_BYTES, 8);
        options.relay = Schedule::BinomialPipeline;
    }
    options.directory = Path::new(directory).join("memory");
    options.seat = seat.parse().ok().filter(|seat| *seat > 0);
    options.metadata = [u64::from(std::process::id()), 0];
    options.timing.suspect_after = Duration::from_millis(suspect_ms.parse().expect("a number"));
    options.patience = PATIENCE;
    (founds, options)
}

/// Runs a process until it is no longer in the group.
pub(crate) fn run(words: &str) {
    let (founds, options) = options(words);
    let opened = if founds { Group::found(&options) } else { Group::join(&options) };
    let group = match opened {
        Ok(group) => group,
        Err(error) => return say(&format!("refused: {error}")),
    };
    let (me, is_large) = (group.me(), options.message_bytes == LARGE_BYTES);
    let directory = options.directory.parent().expect("it was joined to one");
    let log = directory.join(format!("log-{}-{}", me.seat, me.incarnation));
    let mut log = File::create(log).expect("the parent made the directory");
    let input = read_input();
    let (mut chats, mut n_sent, mut n_own) = (false, 0, 0);
    loop {
        match group.next(LOOK_EVERY) {
            Some(Event::View(view)) => {
                // In one write: a process that is killed leaves whole lines.
                let _ = log.write_all(format!("V {}\n", view.number).as_bytes());
                say(&view.to_string());
            }
            Some(Event::Delivered(one)) => {
                let text = text_of(&one.bytes);
                let (seat, incarnation) = (one.sender.seat, one.sender.incarnation);
                let own = one.own.unwrap_or(0);
                let (view, sequence) = (one.view, one.sequence);
                let line = format!("D {view} {sequence} {seat} {incarnation} {own} {text}\n");
                let _ = log.write_all(line.as_bytes());
                n_own = n_own.max(own);
                if !chats {
                    say(&format!("seat {seat} says: {text}"));
                }
            }
            Some(Event::Inadequate { members }) => say(&format!("inadequate: {members} members")),
            Some(Event::Ended(why)) => return say(&format!("ended: {why}")),
            Some(Event::InadequateSubgroup { .. } | Event::Unsent { .. }) => {}
            Some(Event::Letter { .. } | Event::StateWanted(_) | Event::State { .. }) => {}
            Some(Event::Final { .. } | Event::CaughtUp { .. } | Event::Ahead { .. }) | None => {}
        }
        let next = (chats && n_sent == n_own).then(|| format!("{}.{}", me.seat, n_sent + 1));
        let mut send = |text: &str| {
            // Before it is sent: others may have it before this process does anything more.
            let _ = log.write_all(format!("S {text}\n").as_bytes());
            match group.send(&message(text, is_large)) {
                Ok(number) => n_sent = number,
                Err(Refused::Leaving) => {}
                Err(refused) => say(&format!("not sent: {refused}")),
            }
        };
        if let Some(text) = next {
            send(&text);
        }
        match input.try_recv() {
            Ok(line) if line == "chat" => chats = true,
            Ok(line) if line == "hush" => {
                chats = false;
                say("hushed");
            }
            Ok(line) if line == "relayed" => {
                say(&format!("relayed {} blocks", group.relayed().n_relayed));
            }
            Ok(line) if line.starts_with("say ") => send(&line["say ".len()..]),
            Ok(_) | Err(TryRecvError::Disconnected) => {
                chats = false;
                group.leave(PATIENCE);
            }
            Err(TryRecvError::Empty) => {}
        }
    }
}

/// The byte of the filling of a large message with this text.
fn filling(text: &[u8], at: usize) -> u8 {
    let of_text: usize = text.iter().map(|byte| usize::from(*byte)).sum();
    0x80 | (of_text + at * 31 / 7) as u8
}

/// The bytes of a message with this text.
fn message(text: &str, is_large: bool) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if is_large {
        let rest = bytes.len()..LARGE_BYTES as usize - bytes.len();
        bytes.extend(rest.map(|at| filling(text.as_bytes(), at)));
    }
    bytes
}

/// The text of a message; of one whose filling is not its own, what no process has sent.
fn text_of(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte >= 0x80).next().unwrap_or_default();
    let is_whole = (text.len()..bytes.len()).all(|at| bytes[at] == filling(text, at));
    let text = String::from_utf8_lossy(text).into_owned();
    if is_whole { text } else { format!("{text} (torn)") }
}

pub(crate) fn read_input() -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

pub(crate) fn say(line: &str) {
    // The parent may have gone; then the process leaves at the end of its input.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{line}").and_then(|()| out.flush());
}
