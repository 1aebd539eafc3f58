//! Which arguments of a request are keys.

use super::CommandSpec;

/// Why a request has no keys to name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeysError {
    /// The command takes none.
    #[error("ERR The command has no key arguments")]
    None,
    /// The number of arguments does not fit the command.
    #[error("ERR Invalid number of arguments specified for command")]
    Arity,
}

/// The indices of the keys among `args`, whose first is the command's name.
///
/// # Errors
/// When the command has no keys, or the number of arguments does not fit.
pub fn keys_of(
    spec: &CommandSpec,
    args: &[&[u8]],
) -> Result<impl Iterator<Item = usize> + use<>, KeysError> {
    if spec.keys.first == 0 {
        return Err(KeysError::None);
    }
    if !spec.accepts(args.len()) {
        return Err(KeysError::Arity);
    }
    let first = spec.keys.first as usize;
    let last = if spec.keys.last < 0 {
        args.len().saturating_sub(spec.keys.last.unsigned_abs() as usize)
    } else {
        spec.keys.last as usize
    };
    Ok((first..=last).step_by(spec.keys.step as usize))
}
