//! Increments that survive kills: run a cluster, run this, and kill members as you like.
//!
//! ```text
//! gregale up --durability disk-quorum --data /var/tmp/demo
//! cargo run -p gregale-client --example transfer -- 127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002
//! ```
//! It moves money between two accounts, one transaction a transfer, and says at the end whether
//! anything was lost or done twice.

use std::time::{Duration, Instant};

use gregale_client::{Client, Error, Options, Value};

const TRANSFERS: i64 = 10_000;

fn main() -> Result<(), Error> {
    let addresses = std::env::args().nth(1);
    let addresses = addresses.as_deref().unwrap_or("127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002");
    let options = Options::new(addresses.split(',')).deadline(Duration::from_secs(60));
    let mut client = Client::new(options);

    let (from, to) = (format!("account:{}:a", std::process::id()), "b");
    let to = from.replace(":a", to);
    client.call(&["MSET", &from, &TRANSFERS.to_string(), &to, "0"])?;
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for n in 1..=TRANSFERS {
        let begun = Instant::now();
        let moved = client.transaction(&[&["DECR", &from][..], &["INCR", &to]])?;
        // A transfer that was done twice, or not at all, would show at once.
        let expected = vec![Value::Integer(TRANSFERS - n), Value::Integer(n)];
        assert_eq!(moved, Value::Array(expected), "transfer {n}");
        slowest = slowest.max(begun.elapsed());
    }
    let left = client.call(&["MGET", &from, &to])?;
    println!(
        "{TRANSFERS} transfers in {:.1?}, {} of them tried again, the slowest took {slowest:.1?}; \
         left: {left:?}",
        start.elapsed(),
        client.retries(),
    );
    client.close();
    Ok(())
}
