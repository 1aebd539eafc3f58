//! Tests of what a program's settings say.

use super::*;

fn program(command: &str) -> Program {
    Program::of(command)
}

fn refused(command: &str) -> String {
    program(command).check().unwrap_err().to_string()
}

#[test]
fn a_command_that_cannot_be_replicated_is_refused_with_the_remedy() {
    assert!(program("sh -c 'x {socket}'").check().is_ok());
    assert!(program("sh {dir} ${HOME} {port}").check().is_ok(), "capitals are the program's");
    assert!(refused("sh 'x {socket}").contains("quote"));
    assert!(refused("").contains("names no program"));
    assert!(refused("sh x").contains("say where the program listens"));
    assert!(refused("sh {socket} {port}").contains("by one of them alone"));
    assert!(refused("sh {udp} {port}").contains("by one of them alone"));
    let quiet = Program { attach: Some(Attach::Proxy), ..program("sh {udp}") };
    assert!(quiet.check().unwrap_err().to_string().contains("--program-rest waits"));
    assert!(refused("sh {socket} {data}").contains("{data} stands for nothing"));
    assert!(refused("no-such-program {socket}").contains("no program \"no-such-program\""));
    assert!(refused("/bin/no-such {socket}").contains("install it"));
}

#[test]
fn checkpoints_take_a_way_to_save_and_comparisons() {
    assert_eq!(program("redis-server {socket}").checkpoint(), CHECKPOINT);
    assert_eq!(program("memcached -s {socket}").checkpoint(), 0);
    let none = Program { compare: 0, ..program("redis-server {socket}") };
    assert_eq!(none.checkpoint(), 0);
    let asked = |of: Program| Program { checkpoint: Some(9), ..of }.check();
    let refused = asked(Program { compare: 0, ..program("sh {socket}") });
    assert!(refused.unwrap_err().to_string().contains("--program-compare"));
    assert!(asked(program("sh {socket}")).unwrap_err().to_string().contains("SAVE"));
    let resp = Program { rest: Some(RestBy::Resp), ..program("sh {socket}") };
    assert!(asked(resp).is_ok());
    let files = Program { save: Some(SaveBy::Files), ..program("sh {socket}") };
    assert_eq!((files.checkpoint(), program("sh {socket}").saves_files()), (CHECKPOINT, false));
    assert!(asked(files.clone()).is_ok());
    let never = Program { compare: 0, ..files.clone() };
    assert_eq!((never.checkpoint(), never.check().is_ok()), (0, true));
    let closes = |of: Program| Program { close_s: Some(5), ..of }.check();
    assert!(closes(files).is_ok());
    assert!(closes(program("sh {socket}")).unwrap_err().to_string().contains("--program-save"));
}

#[test]
fn a_program_that_begins_with_its_log_of_writes_is_not_saved_by_save() {
    let logs = program("redis-server --unixsocket {socket} --appendonly yes");
    let refusal = logs.check_checkpoints().unwrap_err().to_string();
    assert!(refusal.contains("--program-save files"), "{refusal}");
    let is_taken = |of: Program| of.check_checkpoints().is_ok();
    assert!(is_taken(Program { save: Some(SaveBy::Files), ..logs.clone() }));
    assert!(is_taken(Program { checkpoint: Some(0), ..logs }));
    assert!(is_taken(program("redis-server --unixsocket {socket} --appendonly no")));
}

#[test]
fn a_dump_of_processes_takes_what_it_can_put_back() {
    let of = |command: &str| Program { save: Some(SaveBy::Criu), ..program(command) };
    let redis = of("redis-server {socket}");
    assert_eq!((redis.attach(), redis.rest()), (Attach::Proxy, RestBy::Resp));
    assert_eq!(
        (of("sh {socket}").rest(), of("sh {socket}").checkpoint()),
        (RestBy::Quiet, CHECKPOINT)
    );
    assert!(redis.saves_at_halts() && !redis.saves_files());
    assert!(of("sh {socketdir}").check_checkpoints().is_ok());
    let strict = Program { confine: Confine::Strict, ..redis.clone() };
    assert!(strict.check_checkpoints().is_ok());
    let refused = |of: Program| of.check_checkpoints().unwrap_err().to_string();
    assert!(refused(of("sh {port}")).contains("{socketdir}"));
    assert!(refused(of("sh {udp}")).contains("--program-save files"));
    let loads = Program { attach: Some(Attach::Preload), ..redis.clone() };
    assert!(refused(loads).contains("leave --program-attach out"));
    let asks = Program { outbound: true, ..redis.clone() };
    assert!(refused(asks).contains("leave --program-outbound out"));
    let free = Program { confine: Confine::None, ..redis };
    assert!(refused(free).contains("leave --program-confine out"));
}

#[test]
fn a_program_is_asked_to_end_where_it_is_saved_by_its_files() {
    let asked = Program { end: EndBy::Term, ..program("sh {socket}") };
    let refusal = |of: &Program| of.check_checkpoints().unwrap_err().to_string();
    assert!(refusal(&asked).contains("--program-save files"));
    let saved = Program { save: Some(SaveBy::Files), ..asked };
    assert!(saved.check_checkpoints().is_ok());
    let timed = Program { time: Time::Log, ..saved };
    assert!(refusal(&timed).contains("--program-time kernel"));
}

#[test]
fn reads_beside_the_log_take_known_replies_and_change_nothing() {
    let reads = |command: &str, reads| Program { reads, ..program(command) };
    let refusal = |of: Program| of.check_reads(&of.words().unwrap()).unwrap_err().to_string();
    let redis = reads("redis-server --unixsocket {socket}", ReadsOf::Resp);
    assert!(redis.check_reads(&redis.words().unwrap()).is_ok());
    let other = refusal(Program { rest: Some(RestBy::Waits), ..redis.clone() });
    assert!(other.contains("--program-rest resp"), "{other}");
    assert!(refusal(reads("memcached -s {socket}", ReadsOf::Resp)).contains("--program-rest"));
    let turns = Program { order: InputOrder::Loop, ..redis };
    assert!(refusal(turns).contains("--program-order serial"));
    let evicts = "redis-server --unixsocket {socket} --maxmemory-policy allkeys-lru";
    assert!(refusal(reads(evicts, ReadsOf::Resp)).contains("--program-reads none"));
    let keeps = reads("redis-server {socket} --maxmemory-policy noeviction", ReadsOf::Resp);
    assert!(keeps.check_reads(&keeps.words().unwrap()).is_ok());
}

#[test]
fn a_program_that_evicts_by_its_own_clock_is_refused() {
    let evicts = program("sh {socket} --maxmemory 1gb --maxmemory-policy allkeys-lru");
    let refusal = evicts.check().unwrap_err().to_string();
    assert!(refusal.contains("--program-time log"), "{refusal}");
    assert!(Program { time: Time::Log, ..evicts }.check().is_ok());
    assert!(program("sh {socket} --maxmemory-policy noeviction").check().is_ok());
}

#[test]
fn answers_are_held_where_copies_are_compared_and_all_execute_all() {
    let strict = Program { output: Output::Strict, ..program("redis-server {socket}") };
    assert!(strict.check_output().is_ok());
    let refusal = |of: Program| of.check_output().unwrap_err().to_string();
    let reads = refusal(Program { reads: ReadsOf::Resp, ..strict.clone() });
    assert!(reads.contains("--program-reads none"), "{reads}");
    let blind = refusal(Program { compare: 0, ..strict });
    assert!(blind.contains("--program-compare 1000"), "{blind}");
}

#[test]
fn the_program_names_how_its_rest_is_known() {
    assert_eq!(program("/usr/bin/redis-server {socket}").rest(), RestBy::Resp);
    assert_eq!(program("memcached -s {socket}").rest(), RestBy::Memcached);
    assert_eq!(program("sh -c 'x {socket}'").rest(), RestBy::Waits);
    let proxy = Program { attach: Some(Attach::Proxy), ..program("sh -c 'x {socket}'") };
    assert_eq!(proxy.rest(), RestBy::Quiet);
    let waits = Program { rest: Some(RestBy::Waits), ..proxy.clone() };
    assert!(waits.check().unwrap_err().to_string().contains("--program-attach preload"));
    let timed = Program { time: Time::Log, ..proxy.clone() };
    assert!(timed.check().unwrap_err().to_string().contains("--program-time kernel"));
    let redis = program("redis-server {socket}");
    let turns = Program { order: InputOrder::Loop, ..redis.clone() };
    assert_eq!((redis.speaks_resp(), turns.rest()), (true, RestBy::Waits));
    assert!(turns.speaks_resp() && !waits.speaks_resp());
    let memcached = program("/usr/bin/memcached -s {socket}");
    let waits_too = Program { rest: Some(RestBy::Waits), ..memcached };
    assert!(waits_too.speaks_memcached() && !redis.speaks_memcached());
    let refused = |of: Program| of.check().unwrap_err().to_string();
    for of in
        [proxy, Program { rest: Some(RestBy::Resp), attach: Some(Attach::Proxy), ..redis.clone() }]
    {
        let turns = Program { order: InputOrder::Loop, ..of };
        assert!(refused(turns).contains("--program-attach preload"));
    }
    // Replies tell when a turn is over, as the library does.
    let counted =
        Program { rest: Some(RestBy::Resp), order: InputOrder::Loop, ..program("sh {socket}") };
    assert!(counted.check().is_ok());
    let silent = Program { rest: Some(RestBy::Quiet), ..counted };
    assert!(refused(silent).contains("--program-rest waits"));
    let said = Program { rest: Some(RestBy::Resp), ..program("mine {socket}") };
    assert_eq!(said.rest(), RestBy::Resp);
}
