//! `gregale protocols`: the protocols' own table of their promises.

use clap::Args;
use console::{Format, Outcome};
use proto::table::{self, Row};
use serde_json::{Value, json};
use std::process::ExitCode;

/// `gregale protocols`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale protocols --format json")]
pub(crate) struct ProtocolsArgs {
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

pub(crate) fn run(args: &ProtocolsArgs) -> Outcome {
    match args.format {
        Format::Json => {
            let rows: Vec<Value> = table::all().map(as_json).collect();
            outln!("{}", json!({ "protocols": rows }));
        }
        Format::Table => {
            table::all().for_each(|row| out!("{}", as_text(row)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(row: &Row) -> Value {
    json!({
        "protocol": row.name,
        "summary": row.summary,
        "source": row.source,
        "ordering": row.ordering.name(),
        "consistency": row.consistency,
        "survives": row.survives,
        "write_cost": row.write_cost,
        "read_cost": row.read_cost,
        "leader_change": row.leader_change,
        "fabrics": row.fabrics,
        "durability": row.durability,
    })
}

/// One block per protocol: the sentences are too long for columns.
fn as_text(row: &Row) -> String {
    let lines = [
        ("summary", row.summary.to_owned()),
        ("source", row.source.to_owned()),
        ("ordering", row.ordering.name().to_owned()),
        ("consistency", row.consistency.to_owned()),
        ("survives", row.survives.to_owned()),
        ("a write costs", row.write_cost.to_owned()),
        ("a read costs", row.read_cost.to_owned()),
        ("leader change", row.leader_change.to_owned()),
        ("fabrics", row.fabrics.join(", ")),
        ("durability", row.durability.join(", ")),
    ];
    let body: String = lines.iter().map(|(name, text)| format!("  {name:<15}{text}\n")).collect();
    format!("{}\n{body}\n", row.name)
}
