//! The C library's `pow`, replaced by one that is the same on every processor.
//!
//! Lua computes `^` by C's `pow`. The GNU C library has one for processors with fused
//! multiplication and one for those without, and their last digits differ: two replicas could part
//! over a script. The interpreter is linked into the program, so a function of that name in the
//! program is the one that it calls.
//!
//! A program has to call [`pow`] somewhere, as `kv` does for `math.pow`: the linker then meets this
//! function first. Test `s1_a_power_is_the_same_on_every_processor` of `kv`.

#![no_std]

/// `x` to the power of `y`: `libm`'s, which is written without processor-specific instructions.
// SAFETY: the name and the signature are C's `double pow(double, double)`, the function has its
// value for all arguments (it sets no `errno`, which no caller here reads), and the program defines
// the name nowhere else.
#[unsafe(no_mangle)]
pub extern "C" fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
