//! Accounts in three partitions, and transfers between them: every replica of every partition ends
//! with the same balances, since all apply the same transfers in the same order.
//!
//! ```console
//! $ cargo run -p gregale-multicast --example transfers
//! ```
//!
//! Here each node is a thread of this process; in production each is a process of its own, with the
//! same configuration and another seat.

use multicast::{Door, GroupId, GroupSet, Options, Seat, System};
use std::error::Error;
use std::time::Duration;

const TRANSFERS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::Builder::new().prefix("gregale-").tempdir_in("/dev/shm")?;
    let text = format!(
        r#"
        cluster = "bank"
        secret = "only the bank's nodes know this"
        fabric = "shm"
        directory = "{}"
        order = "hop"
        nodes = 3
        groups = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        "#,
        directory.path().display()
    );
    let system: System = toml::from_str(&text)?;
    let nodes: Vec<Door> =
        (1..=3).map(|node| Door::open(&system, Seat::new(node))).collect::<Result<_, _>>()?;

    // A transfer goes to the two partitions that it concerns, and to no other.
    let mut pending = Vec::new();
    for n in 0..TRANSFERS {
        let (from, to) = (n % 3, (n + 1 + n % 2) % 3);
        let dest: GroupSet = [GroupId::at(from), GroupId::at(to)].into_iter().collect();
        let payload = vec![from as u8, to as u8, (n * n % 50) as u8];
        pending.push(nodes[n % 3].multicast(dest, payload, &Options::default())?);
    }
    for one in pending {
        one.wait()?;
    }

    // By node and partition.
    let mut balances = [[1000_i64; 3]; 3];
    for (node, door) in nodes.iter().enumerate() {
        // Each transfer is delivered twice here: once for each of its partitions.
        for _ in 0..2 * TRANSFERS {
            let delivery = door.next(Duration::from_secs(10)).ok_or("a delivery is missing")?;
            let partition = delivery.group.index();
            let [from, to, amount] = *delivery.message.payload else { Err("no transfer")? };
            let of = &mut balances[node][partition];
            if usize::from(from) == partition {
                *of -= i64::from(amount);
            }
            if usize::from(to) == partition {
                *of += i64::from(amount);
            }
        }
    }
    println!("balances at each node: {balances:?}");
    if balances[0] != balances[1] || balances[1] != balances[2] {
        return Err("the replicas disagree".into());
    }
    println!("sum {} everywhere", balances[0].iter().sum::<i64>());
    for door in nodes {
        door.close()?;
    }
    Ok(())
}
