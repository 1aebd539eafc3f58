//! Scripts have their documented effect, alike at every replica and within their bounds.

use super::*;
use crate::command::resolve;
use crate::store::Db;

fn eval_on(store: &mut Store, words: &[&str]) -> String {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut reply = Reply::default();
    if let Some(spec) = resolve(&args, &mut reply) {
        reply.bounded("ERR too long", |reply| store.execute(Db::ZERO, spec, &args, 7, reply));
    }
    String::from_utf8_lossy(reply.as_bytes()).into_owned()
}

fn eval(script: &str) -> String {
    eval_on(&mut Store::new(0), &["EVAL", script, "0"])
}

#[test]
fn a_script_reads_and_writes() {
    let mut store = Store::new(0);
    let text = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
    assert_eq!(eval_on(&mut store, &["EVAL", text, "1", "k", "v"]), "$1\r\nv\r\n");
    let sha = hex(&sha_of(text.as_bytes()));
    assert_eq!(eval_on(&mut store, &["EVALSHA", &sha, "1", "k", "w"]), "$1\r\nw\r\n");
    assert!(eval_on(&mut store, &["EVALSHA", &sha[1..], "0"]).starts_with("-NOSCRIPT"));
}

#[test]
fn s1_nothing_shows_an_address_or_the_history_of_a_table() {
    assert_eq!(eval("return tostring({})"), "$21\r\ntable: 0x000000000000\r\n");
    assert_eq!(
        eval("return tostring(setmetatable({}, {__metatable={__tostring=1}}))"),
        "$21\r\ntable: 0x000000000000\r\n"
    );
    let walk = "local t = {} t[{}] = 1 for k in pairs(t) do end return 1";
    assert!(eval(walk).contains("no order that replicas share"), "{}", eval(walk));
    let mixed = "local t = {z=1, b=2, a=3, 10, 20, [true]=4, [-1]=5} local o = {} \
                 for k in pairs(t) do o[#o + 1] = tostring(k) end return table.concat(o, ' ')";
    assert_eq!(eval(mixed), "$17\r\n-1 1 2 a b z true\r\n");
    for absent in ["io", "os", "debug", "require", "dofile", "loadfile", "newproxy", "getfenv"] {
        assert!(eval(&format!("return {absent}")).contains("nonexistent global"), "{absent}");
    }
    assert!(eval("return loadstring('\\27Lua')()").starts_with('-'));
    assert_eq!(eval("return string.dump"), "$-1\r\n");
}

#[test]
fn s2_a_script_without_end_is_stopped() {
    let loops = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() pcall(f) f() end f()",
        "local c = coroutine.wrap(function() while true do end end) c()",
        "while true do local ok = pcall(coroutine.wrap(function() while true do end end)) end",
        "return ('a'):rep(5000):find(('.-'):rep(20) .. 'b')",
        "while true do redis.pcall('GET', 'k') end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do next(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end",
        "local s = ('a'):rep(1e6) while true do local x = s:upper() end",
        "local s = ('a'):rep(1e6) while true do local x = redis.sha1hex(s) end",
        "local s = ('a'):rep(6e5) while true do redis.call('ECHO', s) end",
        "local s = ('return 1 '):rep(1e5) while true do pcall(loadstring, s) end",
        "local t = {} for i = 1, 2e4 do t[i] = 'x' end while true do table.concat(t) end",
        "redis.call('SET', 'k', ('x'):rep(5e5)) while true do redis.call('SETRANGE', 'k', 0, 'y') end",
        "while true do local x = string.format('%99.50f', 1e300) end",
        "while true do pcall(redis.call, 'NOSUCH') end",
        "local s = ('a'):rep(1e7) while true do if s .. 'a' < s .. 'b' then end end",
    ];
    for script in loops {
        let reply = eval(script);
        let is_bounded = reply.contains("too many steps") || reply.contains("not enough memory");
        assert!(reply.starts_with('-') && is_bounded, "{script}: {reply}");
    }
    assert!(eval("local s = 'x' while true do s = s .. s end").contains("not enough memory"));
    assert!(eval("return ('x'):rep(1e9)").contains("not enough memory"));
}

#[test]
fn what_a_script_has_written_stays_when_it_fails() {
    let mut store = Store::new(0);
    let text = "redis.call('SET', KEYS[1], 'half') error('broken')";
    let reply = eval_on(&mut store, &["EVAL", text, "1", "k"]);
    assert!(reply.starts_with("-ERR user_script:1: broken script: "), "{reply}");
    assert_eq!(store.value(b"k"), Some(&b"half"[..]));
}

#[test]
fn over_the_memory_limit_a_script_begins_no_growth_and_ends_what_it_began() {
    let mut store = Store::new(1);
    let fill =
        "redis.call('SET', 'a', 'b') redis.call('SET', 'c', 'd') return redis.call('GET', 'c')";
    assert_eq!(eval_on(&mut store, &["EVAL", fill, "0"]), "$1\r\nd\r\n");
    assert!(eval_on(&mut store, &["EVAL", fill, "0"]).starts_with("-OOM"));
    let shrink = "redis.call('DEL', 'a') return redis.call('SET', 'e', 'f')";
    assert_eq!(eval_on(&mut store, &["EVAL", shrink, "0"]), "+OK\r\n");
}

#[test]
fn a_script_begins_in_its_caller_s_database_and_selects_others_until_its_end() {
    let mut store = Store::new(0);
    let run = |store: &mut Store, number: i64, text: &str| {
        let args: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), b"1", b"k"];
        let mut reply = Reply::default();
        let spec = resolve(&args, &mut reply).unwrap();
        reply.bounded("ERR too long", |reply| {
            store.execute(Db::new(number).unwrap(), spec, &args, 7, reply);
        });
        String::from_utf8_lossy(reply.as_bytes()).into_owned()
    };
    let get = "return redis.call('GET', KEYS[1])";
    let text = "redis.call('SET', KEYS[1], 'three') redis.call('SELECT', 5) \
                redis.call('SET', KEYS[1], 'five') return redis.call('GET', KEYS[1])";
    assert_eq!(run(&mut store, 3, text), "$4\r\nfive\r\n");
    assert_eq!(run(&mut store, 3, get), "$5\r\nthree\r\n");
    assert_eq!(run(&mut store, 5, get), "$4\r\nfive\r\n");
    assert_eq!(run(&mut store, 0, get), "$-1\r\n");
    let far = run(&mut store, 0, "return redis.call('SELECT', 99)");
    assert!(far.starts_with("-ERR DB index is out of range script: "), "{far}");
}

#[test]
fn s2_a_table_that_stands_in_many_places_is_paid_for_in_each() {
    // Without a price the last one would be a reply of 2^60 parts.
    for levels in [18, 60] {
        let text = format!("local t = {{}} for i = 1, {levels} do t = {{t, t}} end return t");
        let reply = eval(&text);
        assert!(reply.starts_with("-ERR Script stopped"), "{levels}: {reply:.60}");
    }
    assert_eq!(eval("local t = {7} return {t, t}"), "*2\r\n*1\r\n:7\r\n*1\r\n:7\r\n");
}

#[test]
fn s2_a_long_set_in_a_pattern_is_paid_for() {
    let text = "return ('x'):rep(20000):find('[' .. ('a'):rep(20000) .. ']')";
    assert!(eval(text).starts_with("-ERR Script stopped"), "{:.60}", eval(text));
    assert_eq!(eval("return ('xyz'):find('[abcz]')"), ":3\r\n");
}

#[test]
fn s2_a_script_pays_for_the_keys_that_it_walks() {
    let mut store = Store::new(0);
    for n in 0..10_000 {
        store.put(&format!("key{n}"), b"", crate::store::Expiry::Clear);
    }
    for walk in ["'KEYS', 'none'", "'SCAN', 0, 'MATCH', 'none', 'COUNT', 1e6"] {
        let text = format!("for i = 1, 1000 do redis.call({walk}) end return 1");
        let reply = eval_on(&mut store, &["EVAL", &text, "0"]);
        assert!(reply.starts_with("-ERR Script stopped"), "{walk}: {reply:.60}");
    }
}

#[test]
fn time_in_a_script_is_state_time() {
    let mut store = Store::new(0);
    store.advance_time(1_234_567);
    let reply = eval_on(&mut store, &["EVAL", "return redis.call('TIME')", "0"]);
    assert_eq!(reply, "*2\r\n$4\r\n1234\r\n$6\r\n567000\r\n");
}

/// Runs scripts as commands of one batch of the log, at a replica of their own, in a thread of its
/// own, which has other addresses and other seeds of hash maps. Returns the digest and the replies.
fn replica(scripts: Vec<Vec<u8>>) -> (u64, Vec<Vec<u8>>) {
    use crate::entry::command::put_plain;
    use crate::entry::{BatchWriter, Origin, Sequence};
    use crate::machine::Machine;
    let run = move || {
        let origin = Origin { rank: base::Rank::at(0), incarnation: base::Incarnation(1) };
        let mut machine = Machine::new(0);
        let mut replies = Vec::new();
        for (slot, script) in scripts.iter().enumerate() {
            let (mut value, mut command) = (Vec::new(), Vec::new());
            let mut writer = BatchWriter::new();
            writer.begin(1_700_000_000_000, &mut value);
            put_plain(&[b"EVAL", script, b"1", b"k"], Protocol::Resp2, &mut command);
            writer.append(origin, Sequence(slot as u64 + 1), &command, 1 << 20, &mut value);
            let mut answer = |_, _, reply: &[u8]| replies.push(reply.to_vec());
            machine.apply(base::Slot(slot as u64), &value, &mut answer).unwrap();
        }
        (machine.digest(), replies)
    };
    std::thread::spawn(run).join().unwrap()
}

#[test]
fn s2_a_script_is_stopped_at_the_same_step_at_every_replica_and_what_it_wrote_stays() {
    let scripts = [
        "local n = 0 while true do n = n + 1 redis.call('SET', KEYS[1], n) end",
        "local t = {} while true do t[#t + 1] = {#t} redis.call('INCR', 'grown') end",
        "local s = '' while true do s = s .. math.random() redis.call('SET', 'text', #s) end",
        "local t = {} for i = 1, 1e9 do t['key' .. math.random(1e6)] = i \
         if i % 1000 == 0 then for k, v in pairs(t) do redis.call('SET', 'last', k) end end end",
        "local function deep(n) redis.call('SET', 'depth', n) return 1 + deep(n + 1) end deep(1)",
        "local function more(n) return coroutine.wrap(function() redis.call('INCR', 'threads') \
         more() end)() end more()",
        "local f = function(s) redis.call('SET', 'nested', #s) return s .. s end \
         local s = 'x' while true do s = s:gsub('.', f) end",
        "while true do local ok, e = pcall(function() redis.call('INCR', 'caught') \
         local t = {} for i = 1, 1e8 do t[i] = i end end) end",
    ];
    let scripts: Vec<Vec<u8>> = scripts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let one = replica(scripts.clone());
    for (script, reply) in scripts.iter().zip(&one.1) {
        assert!(reply.starts_with(b"-"), "{}: {}", script.escape_ascii(), reply.escape_ascii());
    }
    assert_eq!(one, replica(scripts.clone()));
    let kept = replica([scripts[0].clone(), b"return redis.call('GET', KEYS[1])".to_vec()].into());
    assert!(kept.1[1].starts_with(b"$") && kept.1[1] != b"$-1\r\n", "its writes are there");
}

/// Everything that could differ between two processes, in one script.
const VARIED: &str = "local t = {} for i = 1, 50 do t['k' .. i] = math.random(1000) end \
    local o = {} for k, v in pairs(t) do o[#o + 1] = k .. v .. tostring(t) end \
    redis.call('SET', KEYS[1], table.concat(o)) \
    redis.call('SET', 'time', redis.call('TIME')[1]) \
    redis.call('SET', 'random', redis.call('RANDOMKEY')) \
    return redis.call('GET', KEYS[1])";

#[test]
fn s1_two_replicas_run_a_script_alike() {
    use crate::entry::command::put_plain;
    use crate::entry::{BatchWriter, Origin, Sequence};
    use crate::machine::Machine;
    let origin = Origin { rank: base::Rank::at(0), incarnation: base::Incarnation(1) };
    let run = move || {
        let mut machine = Machine::new(0);
        let mut value = Vec::new();
        let mut writer = BatchWriter::new();
        writer.begin(1_700_000_000_000, &mut value);
        let mut command = Vec::new();
        put_plain(&[b"EVAL", VARIED.as_bytes(), b"1", b"k"], Protocol::Resp2, &mut command);
        writer.append(origin, Sequence(1), &command, 1 << 20, &mut value);
        let mut heard = Vec::new();
        machine
            .apply(base::Slot::ZERO, &value, &mut |_, _, reply: &[u8]| heard = reply.to_vec())
            .unwrap();
        (machine, heard)
    };
    let (one, reply) = run();
    // Another thread has other addresses and other seeds of hash maps.
    let (digest, other) = std::thread::spawn(move || {
        let (machine, reply) = run();
        (machine.digest(), reply)
    })
    .join()
    .unwrap();
    assert!(reply.starts_with(b"$") && one.store().len() == 3, "{}", reply.escape_ascii());
    assert_eq!((one.digest(), reply), (digest, other));
}

#[test]
#[ignore = "open: keys with addresses collide differently in each process, so the table grows at \
            another moment, and `#` of a table with holes is another"]
fn s1_the_length_of_a_table_depends_on_no_address() {
    let text = "local out = {} for round = 1, 60 do local t, k = {}, {} \
        for i = 1, 8 do k[i] = {} t[k[i]] = 1 end \
        for i = 1, 7 do t[k[i]] = nil end \
        t[1] = 1 t[3] = 3 t[4] = 4 t[2] = 2 t[2] = nil \
        out[round] = #t end redis.call('SET', KEYS[1], table.concat(out))";
    let script = vec![text.as_bytes().to_vec()];
    let one = replica(script.clone());
    assert!((0..4).all(|_| replica(script.clone()) == one), "the replicas differ");
}

#[test]
fn s1_a_power_is_the_same_on_every_processor() {
    for (x, y) in [(3.889504663177079, -6.156883239273805), (6.8799333376487946, 16.85476617645277)]
    {
        for text in [format!("{x:?} ^ {y:?}"), format!("math.pow({x:?}, {y:?})")] {
            let reply = eval(&format!("return string.format('%.17g', {text})"));
            let shown: f64 = reply.lines().nth(1).unwrap().parse().unwrap();
            assert_eq!(shown.to_bits(), libm::pow(x, y).to_bits(), "{text}");
        }
    }
}

#[test]
fn s3_a_snapshot_brings_the_scripts() {
    use crate::machine::Machine;
    let mut store = Store::new(0);
    eval_on(&mut store, &["SCRIPT", "LOAD", "return 1"]);
    for n in 0..700 {
        eval_on(&mut store, &["EVAL", &format!("return 'a longer text', {n}"), "0"]);
    }
    eval_on(&mut store, &["SCRIPT", "LOAD", &format!("return '{}'", "x".repeat(200_000))]);
    let machine = Machine::of_state(store, crate::client_sessions::ClientSessions::new());
    let mut bytes = Vec::new();
    crate::snapshot::save(&machine, &mut bytes);
    let mut restored = crate::snapshot::restore(&bytes, 0).unwrap();
    assert_eq!(restored.digest(), machine.digest());
    let sha = hex(&sha_of(b"return 1"));
    assert_eq!(eval_on(&mut restored.store, &["EVALSHA", &sha, "0"]), ":1\r\n");
    restored.store.scripts_mut().flush();
    assert_ne!(restored.digest(), machine.digest(), "the digest sees them");
}

#[test]
fn s4_undeclared_keys_are_refused_in_partitions() {
    let mut store = Store::new(0);
    let run = |store: &mut Store, text: &str| {
        let args: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), b"1", b"k"];
        let mut reply = Reply::default();
        let spec = resolve(&args, &mut reply).unwrap();
        reply.bounded("ERR too long", |reply| {
            eval_within(store, &Call { spec, db: Db::ZERO, args: &args, seed: 1 }, true, reply);
        });
        String::from_utf8_lossy(reply.as_bytes()).into_owned()
    };
    assert_eq!(run(&mut store, "return redis.call('SET', KEYS[1], 'v')"), "+OK\r\n");
    for text in [
        "return redis.call('GET', 'l')",
        "return redis.call('DBSIZE')",
        "return redis.call('SELECT', 1)",
        "return redis.call('MOVE', KEYS[1], 1)",
        "return redis.call('COPY', KEYS[1], KEYS[1], 'DB', 1)",
    ] {
        assert!(run(&mut store, text).contains("did not declare"), "{text}");
    }
    assert_eq!(run(&mut store, "return redis.call('PING')"), "+PONG\r\n");
}

#[test]
fn s2_the_text_that_replaces_a_match_is_bounded_and_paid_for() {
    let lua = mlua::Lua::new();
    let expand = |times: usize| {
        let budget = Budget::new(16_000_000);
        let with = lua.create_string("%0".repeat(times)).unwrap();
        let whole = lua.create_string("x".repeat(1_000_000)).unwrap();
        let parts = mlua::Variadic::from_iter([mlua::Value::String(whole)]);
        let result = run::expand(&lua, &budget, (with, parts));
        (result.map(drop).map_err(|error| run::text_of(&error)), 16_000_000 - budget.left())
    };
    assert_eq!(expand(10), (Ok(()), 10 * (2 + 1 + 125_000)));
    assert_eq!(expand(20), (Err("not enough memory".to_owned()), 20 * 2 + 17 * (1 + 125_000)));
}

#[test]
fn s2_a_command_of_a_script_is_no_longer_than_a_client_s() {
    let echo = |bytes: &str| eval(&format!("return redis.call('ECHO', ('x'):rep({bytes}))"));
    assert!(echo("6e5").starts_with("$600000\r\n"), "{:.60}", echo("6e5"));
    assert!(echo("7e5").starts_with("-ERR request is longer than 655360 bytes or 65536 "));
    let many = "local s = ('x'):rep(1e5) local t = {} for i = 1, 7 do t[i] = s end \
                return redis.pcall('DEL', unpack(t))";
    assert!(eval(many).starts_with("-ERR request is longer"), "{:.60}", eval(many));
}

#[test]
fn s2_an_element_far_below_the_first_is_paid_for() {
    let text = "local t = {} for i = 1, 15 do table.insert(t, -3e5, 1) end return #t";
    assert!(eval(text).starts_with("-ERR Script stopped"), "{:.60}", eval(text));
    let near = "local t = {1, 2} table.insert(t, -1, 7) return {t[-1], t[2], t[3]}";
    assert_eq!(eval(near), "*3\r\n:7\r\n:1\r\n:2\r\n");
    for at in ["2 ^ 31", "-2 ^ 31 - 1", "2 ^ 32 - 1e7", "1e300"] {
        let reply = eval(&format!("local t = {{}} table.insert(t, {at}, 1)"));
        let error = "-ERR user_script:1: bad argument #2 to 'insert' (position out of bounds) ";
        assert!(reply.starts_with(error), "{at}: {reply}");
    }
}

#[test]
fn s2_a_long_text_is_paid_for_by_whatever_reads_it() {
    let calls = [
        "('x'):find(s)",
        "string.format(s)",
        "redis.status_reply(s)",
        "redis.error_reply(s)",
        "next(t)",
        "loadstring('return 1', s)",
    ];
    for call in calls {
        let text = format!(
            "local s = ('x'):rep(4e6) local t = {{[s] = 1}} \
             for i = 1, 100 do pcall(function() {call} end) end return 1"
        );
        assert!(eval(&text).starts_with("-ERR Script stopped"), "{call}: {:.60}", eval(&text));
    }
    let below = "local t = {} for i = 1, 2e4 do t[-i] = 'x' end \
                 for i = 1, 2000 do table.concat(t, '', -2e4, -1) end return 1";
    assert!(eval(below).starts_with("-ERR Script stopped"), "{:.60}", eval(below));
}

#[test]
fn s2_an_error_that_lua_keeps_shows_the_beginning_of_a_long_name() {
    let text = "local s = ('x'):rep(1e6) \
                local ok, e = pcall(function() return _G[s] end) return #e";
    assert_eq!(eval(text), ":203\r\n");
    let short = "local ok, e = pcall(function() return _G['x'] end) return e";
    assert!(eval(short).ends_with("nonexistent global variable 'x'\r\n"), "{}", eval(short));
}

#[test]
fn a_table_of_more_strings_than_lua_has_room_for_references_is_answered() {
    let of = |text: &str| eval(&format!("local t = {{}} for i = 1, 9e3 do {text}"));
    let array = of("t[i] = 'v' .. i end return t");
    assert!(array.starts_with("*9000\r\n$2\r\nv1\r\n$2\r\nv2\r\n"), "{array:.60}");
    assert!(array.ends_with("\r\n$5\r\nv9000\r\n"));
    let map = of("t['k' .. i] = 'v' end return {map = t}");
    assert!(map.starts_with("*18000\r\n$2\r\nk1\r\n$1\r\nv\r\n$3\r\nk10\r\n"), "{map:.60}");
}

#[test]
fn a_script_has_more_keys_and_arguments_than_lua_has_room_for_references() {
    let words: Vec<String> = (1..=60_000).map(|n| n.to_string()).collect();
    let text = "return {#KEYS, #ARGV, KEYS[30000], ARGV[1], ARGV[30000], ARGV[30001] == nil}";
    let mut args = vec!["EVAL", text, "30000"];
    args.extend(words.iter().map(|word| &word[..]));
    let reply = eval_on(&mut Store::new(0), &args);
    let expected = "*6\r\n:30000\r\n:30000\r\n$5\r\n30000\r\n$5\r\n30001\r\n$5\r\n60000\r\n:1\r\n";
    assert_eq!(reply, expected);
}

#[test]
fn a_pattern_s_special_bytes_are_those_of_lua() {
    for call in [
        "local x = string.match('abc', ')')",
        "local x = string.gsub('abc', ')', 'x')",
        "for x in string.gmatch('abc', ')') do end",
    ] {
        let reply = eval(call);
        let error = "-ERR user_script:1: invalid pattern capture ";
        assert!(reply.starts_with(error), "{call}: {reply}");
    }
    assert_eq!(eval("return string.find('abc)', ')')"), ":4\r\n");
    assert_eq!(eval("return string.gsub('abc', 'b', '%')"), "$3\r\na\0c\r\n");
}

#[test]
fn a_number_out_of_range_is_the_least_integer_as_in_redis() {
    for number in ["1e300", "-1e300", "1/0", "-1/0", "0/0", "2^63", "-2^63"] {
        assert_eq!(eval(&format!("return {number}")), ":-9223372036854775808\r\n", "{number}");
    }
    assert_eq!(eval("return 9223372036854774784"), ":9223372036854774784\r\n");
    assert_eq!(eval("return -3.9"), ":-3\r\n");
}

#[test]
fn doubles_and_verbatim_strings_are_answered_as_in_redis() {
    let both = |value: &str| {
        let text = format!("redis.setresp(3) return {value}");
        let args: Vec<&[u8]> = vec![b"EVAL", text.as_bytes(), b"0"];
        let mut reply = Reply::new(Protocol::Resp3);
        let spec = resolve(&args, &mut reply).unwrap();
        Store::new(0).execute(Db::ZERO, spec, &args, 7, &mut reply);
        (eval(&text), String::from_utf8_lossy(reply.as_bytes()).into_owned())
    };
    let cases = [
        ("{double = 0.1}", "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"),
        ("{double = 1e300}", "$23\r\n1.0000000000000001e+300\r\n", ",1.0000000000000001e+300\r\n"),
        ("{double = -1/0}", "$4\r\n-inf\r\n", ",-inf\r\n"),
        ("{verbatim_string = {string = 'ab', format = 'txt'}}", "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
        (
            "{verbatim_string = {string = 'ab', format = 'mkdn'}}",
            "$2\r\nab\r\n",
            "=6\r\nmkd:ab\r\n",
        ),
        ("{verbatim_string = {string = 'ab', format = 't'}}", "$2\r\nab\r\n", "=6\r\nt  :ab\r\n"),
        ("{verbatim_string = {string = 'ab'}, 'x'}", "*1\r\n$1\r\nx\r\n", "*1\r\n$1\r\nx\r\n"),
        ("{map = {a = 1}, big_number = '12'}", "$2\r\n12\r\n", "(12\r\n"),
    ];
    for (value, resp2, resp3) in cases {
        assert_eq!(both(value), (resp2.to_owned(), resp3.to_owned()), "{value}");
    }
}

#[test]
fn an_error_of_a_function_of_lua_names_the_function_and_the_script() {
    let cases = [
        ("string.format('%d', 'x')", "bad argument #2 to 'format' (number expected, got string)"),
        ("string.format('%d')", "bad argument #2 to 'format' (no value)"),
        ("string.format()", "bad argument #1 to 'format' (string expected, got no value)"),
        ("string.format('%y', 1)", "invalid option '%y' to 'format'"),
        ("string.sub('a')", "bad argument #2 to 'sub' (number expected, got no value)"),
        ("string.byte('a', {})", "bad argument #2 to 'byte' (number expected, got table)"),
        ("table.concat({1, {}})", "invalid value (table) at index 2 in table for 'concat'"),
        ("table.insert(1, 2)", "bad argument #1 to 'insert' (table expected, got number)"),
        ("table.insert({}, 1, 2, 3)", "wrong number of arguments to 'insert'"),
        ("table.insert({}, 'x', 1)", "bad argument #2 to 'insert' (number expected, got string)"),
        ("table.remove({1}, 'x')", "bad argument #2 to 'remove' (number expected, got string)"),
        ("table.maxn(1)", "bad argument #1 to 'maxn' (table expected, got number)"),
        ("table.sort({2, 1}, 1)", "bad argument #2 to 'sort' (function expected, got number)"),
        ("unpack({}, 'x')", "bad argument #2 to 'unpack' (number expected, got string)"),
        ("table.sort({2, 1}, function() error('own') end)", "own"),
    ];
    for (call, error) in cases {
        let reply = eval(&format!("local x = {call}"));
        let (expected, end) =
            (format!("-ERR user_script:1: {error} script: "), ", on @user_script:1.\r\n");
        assert!(reply.starts_with(&expected) && reply.ends_with(end), "{call}: {reply}");
    }
    let compared = eval("local x = table.sort({1, 'a'})");
    assert!(
        compared.starts_with("-ERR attempt to compare string with number script: "),
        "{compared}"
    );
}

#[test]
fn next_continues_behind_a_key_that_is_gone() {
    let removing = "local t, n = {a = 1, b = 2, 3}, 0 \
                    for k in next, t do t[k] = nil n = n + 1 end return {n, next(t) == nil}";
    assert_eq!(eval(removing), "*2\r\n:3\r\n:1\r\n");
    assert_eq!(eval("return (next({a = 1, c = 2}, 'b'))"), "$1\r\nc\r\n");
}

/// Whether Lua still knew a removed key depended on the address of one that came later, and the
/// cost of a walk on where a key with an address stood in Lua's own order.
#[test]
fn s1_a_walk_depends_on_no_address() {
    let known = "local t = {a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7} local r = {} \
        for i = 1, 64 do t.a = 1 t.a = nil local k = {} t[k] = 1 t[k] = nil \
        r[#r + 1] = pcall(next, t, 'a') and '1' or '0' end \
        redis.call('SET', KEYS[1], table.concat(r))";
    let refused = "local t = {} for i = 1, 3000 do t['key:' .. i] = i end t[{}] = 1 \
        pcall(pairs, t) pcall(next, t) \
        while true do redis.call('INCR', KEYS[1]) end";
    for text in [known, refused] {
        let script = vec![text.as_bytes().to_vec()];
        let one = replica(script.clone());
        assert!((0..4).all(|_| replica(script.clone()) == one), "the replicas differ: {text}");
    }
}

#[test]
fn the_first_line_names_its_engine_without_a_blank() {
    assert_eq!(eval("#!lua\nreturn 1"), ":1\r\n");
    let error = "-ERR Unexpected engine in script shebang: ";
    assert_eq!(eval("#! lua\nreturn 1"), format!("{error}#!\r\n"));
    assert_eq!(eval("#!python\nreturn 1"), format!("{error}#!python\r\n"));
}
