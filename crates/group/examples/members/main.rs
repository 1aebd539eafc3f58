//! Processes of this machine that found a group, join it, leave it, are killed, stopped and cut
//! off; each prints the views that it is told.
//!
//! ```console
//! $ cargo run -p gregale-group --example members                 # a tour, on shm and then on tcp
//! $ cargo run -p gregale-group --example members -- tcp --ask    # the same by hand: type `help`
//! ```

mod company;
mod member;
mod ports;
mod relay;

use company::{Company, ROLE};
use std::io::BufRead;

/// The silence after which a member is suspected.
const SUSPECT_MS: u64 = 500;

const HELP: &str = "\
found N | join N        start a process on seat N (1 to 12)
leave N                 let it leave in order
kill N                  kill -9
stop N | cont N         SIGSTOP and SIGCONT
cut N ... | mend N ...  cut these seats off from all others (tcp), and mend the network
say N TEXT              multicast
quit";

/// What happens in the tour: commands, and the views that they lead to.
const TOUR: &[(&str, &str, &[usize])] = &[
    ("One process founds the group.", "found 1", &[1]),
    ("Others join, with any member's help.", "join 2", &[1, 2]),
    ("", "join 3", &[1, 2, 3]),
    ("", "join 4", &[1, 2, 3, 4]),
    ("", "join 5", &[1, 2, 3, 4, 5]),
    ("One leaves in order.", "leave 2", &[1, 3, 4, 5]),
    ("One is killed: the eldest, which led.", "kill 1", &[3, 4, 5]),
    ("Another process takes the seat.", "join 1", &[1, 3, 4, 5]),
    ("One is stopped, and taken for failed ...", "stop 5", &[1, 3, 4]),
    ("... and learns it when it wakes.", "cont 5", &[]),
    ("One is cut off: it has no majority, and stops.", "cut 3", &[1, 4]),
];

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return member::run(&role);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asks = arguments.iter().any(|one| one == "--ask");
    let named: Vec<&str> =
        ["shm", "tcp"].into_iter().filter(|name| arguments.iter().any(|one| one == name)).collect();
    let transports = if named.is_empty() { vec!["shm", "tcp"] } else { named };
    for transport in transports {
        println!("\n== {transport}");
        let mut company = Company::new(transport, SUSPECT_MS, &[]);
        company.prints = true;
        if asks { ask(&mut company) } else { tour(&mut company) }
    }
}

fn tour(company: &mut Company) {
    for (text, command, seats) in TOUR {
        println!("\n{text}\n> {command}");
        if let Err(why) = obey(company, command) {
            println!("  ({why})");
            continue;
        }
        company.await_view(seats);
        if let Some(seat) = ["cont ", "cut "].iter().find_map(|word| command.strip_prefix(word)) {
            let seat = seat.parse().expect("the tour names seats");
            company.await_line(seat, "end", |line| line.starts_with("ended"));
            company.await_exit(seat);
        }
    }
    println!("\nThe others leave.");
    for seat in [3, 4, 1] {
        if company.is_running(seat) && obey(company, &format!("leave {seat}")).is_ok() {
            company.await_exit(seat);
        }
    }
}

fn ask(company: &mut Company) {
    println!("{HELP}");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.trim() {
            "quit" => return,
            "" => {}
            command => {
                if let Err(why) = obey(company, command) {
                    println!("  ({why})");
                }
            }
        }
    }
}

/// Obeys a command.
fn obey(company: &mut Company, command: &str) -> Result<(), String> {
    let (verb, rest) = command.split_once(' ').ok_or(HELP)?;
    let seats: Vec<usize> = rest.split(' ').map_while(|word| word.parse().ok()).collect();
    let [seat, ..] = *seats else { return Err(HELP.to_owned()) };
    if !(1..=company::SEATS).contains(&seat) {
        return Err(format!("seats are 1 to {}", company::SEATS));
    }
    let is_start = matches!(verb, "found" | "join");
    if is_start == company.is_running(seat) {
        let no = if is_start { "already a" } else { "no" };
        return Err(format!("{no} process runs on seat {seat}"));
    }
    match verb {
        "found" | "join" => company.start(seat, verb == "found"),
        "leave" => company.tell(seat, "leave"),
        "kill" => company.signal(seat, "KILL"),
        "stop" => company.signal(seat, "STOP"),
        "cont" => company.signal(seat, "CONT"),
        "cut" | "mend" if !company.cut(&seats, verb == "cut") => {
            return Err("shared memory cannot be cut: see tcp".to_owned());
        }
        "cut" | "mend" => {}
        "say" => {
            let text = rest.split_once(' ').map_or("", |(_, text)| text);
            company.tell(seat, &format!("say {text}"));
        }
        _ => return Err(HELP.to_owned()),
    }
    Ok(())
}
