//! Floats that stable Rust does not have: binary16, x87 extended, binary128; computed by `rustc_apfloat`,
//! rounded to nearest even like hardware.

use super::kernel::{Ring, Scalar};
use crate::datatype::Number;
use core::cmp::Ordering;
use rustc_apfloat::Float;
use rustc_apfloat::ieee;

/// A float of format `F` in memory of `N` bytes.
#[derive(Clone, Copy)]
pub(super) struct Soft<F, const N: usize>(F);

/// `MPI_REAL2`.
pub(super) type SoftHalf = Soft<ieee::Half, 2>;
/// `MPI_REAL16`.
pub(super) type Quad = Soft<ieee::Quad, 16>;

impl<F: Float, const N: usize> Scalar<N> for Soft<F, N> {
    fn load(bytes: [u8; N]) -> Self {
        let mut wide = [0; 16];
        // All targets are little-endian (checked below), so the low bytes come first.
        wide[..N].copy_from_slice(&bytes);
        let bits = u128::from_le_bytes(wide);
        let mask = if F::BITS == 128 { u128::MAX } else { (1 << F::BITS) - 1 };
        Self(F::from_bits(bits & mask))
    }

    fn store(self) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0.to_bits().to_le_bytes()[..N]);
        bytes
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "the wire and this file expect little-endian");

impl<F: Float, const N: usize> Ring for Soft<F, N> {
    fn add(self, other: Self) -> Self {
        Self((self.0 + other.0).value)
    }
    fn sub(self, other: Self) -> Self {
        Self((self.0 - other.0).value)
    }
    fn mul(self, other: Self) -> Self {
        Self((self.0 * other.0).value)
    }
}

impl<F: Float, const N: usize> PartialEq for Soft<F, N> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<F: Float, const N: usize> PartialOrd for Soft<F, N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

#[cfg(any(windows, all(target_vendor = "apple", target_arch = "aarch64")))]
type LongDoubleFormat = ieee::Double;
#[cfg(all(not(windows), target_arch = "x86_64"))]
type LongDoubleFormat = ieee::X87DoubleExtended;
#[cfg(not(any(windows, all(target_vendor = "apple", target_arch = "aarch64"), target_arch = "x86_64")))]
type LongDoubleFormat = ieee::Quad;

/// The target's `long double`; see [`crate::datatype::LONG_DOUBLE`].
pub(super) type LongDouble = Soft<LongDoubleFormat, { Number::LongDouble.size_bytes() }>;
