//! The loops of the predefined operations, one per operation and representation.
//!
//! Each loop walks two byte slices in steps of one element and converts by `from_ne_bytes`, so that any
//! address will do; with the length of a step known at compile time and slices that cannot alias, LLVM makes
//! vector loops of them.

use super::soft_float::{LongDouble, Quad, SoftHalf};
use super::{Kernel, Operation};
use crate::datatype::{Element, Number, Predefined};

/// A number as bytes in memory. `N` is its size.
pub(super) trait Scalar<const N: usize>: Copy {
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
}

/// Arithmetic for sums and products.
pub(super) trait Ring: Copy {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => { $(
        impl Scalar<{ size_of::<$t>() }> for $t {
            #[inline(always)]
            fn load(bytes: [u8; size_of::<$t>()]) -> Self { Self::from_ne_bytes(bytes) }
            #[inline(always)]
            fn store(self) -> [u8; size_of::<$t>()] { self.to_ne_bytes() }
        }
    )* };
}
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);

macro_rules! hardware_floats {
    ($($t:ty)*) => { $(
        impl Scalar<{ size_of::<$t>() }> for $t {
            #[inline(always)]
            fn load(bytes: [u8; size_of::<$t>()]) -> Self { Self::from_ne_bytes(bytes) }
            #[inline(always)]
            fn store(self) -> [u8; size_of::<$t>()] { self.to_ne_bytes() }
        }
        impl Ring for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
        }
    )* };
}
hardware_floats!(f32 f64);

/// `inout[i] = f(input[i], inout[i])`, element by element.
#[inline(always)]
fn zip<T: Scalar<N>, const N: usize>(input: &[u8], inout: &mut [u8], f: impl Fn(T, T) -> T) {
    let (input, inout) = (input.as_chunks::<N>().0, inout.as_chunks_mut::<N>().0);
    for (a, b) in input.iter().zip(inout) {
        *b = f(T::load(*a), T::load(*b)).store();
    }
}

/// The smaller; the second if they do not compare (a NaN), as `a < b ? a : b` in C.
#[inline(always)]
fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

/// The larger; the second if they do not compare.
#[inline(always)]
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

macro_rules! integer_kernel {
    ($op:expr, $t:ty) => {{
        type T = $t;
        const N: usize = size_of::<T>();
        let kernel: Kernel = match $op {
            Operation::Sum => |a, b| zip::<T, N>(a, b, T::wrapping_add),
            Operation::Prod => |a, b| zip::<T, N>(a, b, T::wrapping_mul),
            Operation::Min => |a, b| zip::<T, N>(a, b, smaller),
            Operation::Max => |a, b| zip::<T, N>(a, b, larger),
            Operation::Band => |a, b| zip::<T, N>(a, b, |x, y| x & y),
            Operation::Bor => |a, b| zip::<T, N>(a, b, |x, y| x | y),
            Operation::Bxor => |a, b| zip::<T, N>(a, b, |x, y| x ^ y),
            Operation::Land => |a, b| zip::<T, N>(a, b, |x, y| T::from(x != 0) & T::from(y != 0)),
            Operation::Lor => |a, b| zip::<T, N>(a, b, |x, y| T::from(x | y != 0)),
            Operation::Lxor => |a, b| zip::<T, N>(a, b, |x, y| T::from((x != 0) ^ (y != 0))),
            _ => return None,
        };
        Some(kernel)
    }};
}

macro_rules! float_kernel {
    ($op:expr, $t:ty, $n:expr) => {{
        type T = $t;
        const N: usize = $n;
        let kernel: Kernel = match $op {
            Operation::Sum => |a, b| zip::<T, N>(a, b, Ring::add),
            Operation::Prod => |a, b| zip::<T, N>(a, b, Ring::mul),
            Operation::Min => |a, b| zip::<T, N>(a, b, smaller),
            Operation::Max => |a, b| zip::<T, N>(a, b, larger),
            _ => return None,
        };
        Some(kernel)
    }};
}

/// A complex number whose parts take `N` bytes each.
#[derive(Clone, Copy)]
struct ComplexOf<T> {
    re: T,
    im: T,
}

impl<T: Ring> ComplexOf<T> {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re.add(other.re), im: self.im.add(other.im) }
    }

    /// By the definition, without C Annex G's repair of infinities, as every MPI library computes it.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re.mul(other.re).sub(self.im.mul(other.im)),
            im: self.re.mul(other.im).add(self.im.mul(other.re)),
        }
    }
}

fn zip_complex<T: Scalar<N> + Ring, const N: usize>(
    input: &[u8],
    inout: &mut [u8],
    f: impl Fn(ComplexOf<T>, ComplexOf<T>) -> ComplexOf<T>,
) {
    let (input, inout) = (input.as_chunks::<N>().0, inout.as_chunks_mut::<N>().0);
    for (a, b) in input.as_chunks::<2>().0.iter().zip(inout.as_chunks_mut::<2>().0) {
        let result = f(
            ComplexOf { re: T::load(a[0]), im: T::load(a[1]) },
            ComplexOf { re: T::load(b[0]), im: T::load(b[1]) },
        );
        *b = [result.re.store(), result.im.store()];
    }
}

macro_rules! complex_kernel {
    ($op:expr, $t:ty, $n:expr) => {{
        let kernel: Kernel = match $op {
            Operation::Sum => |a, b| zip_complex::<$t, { $n }>(a, b, ComplexOf::add),
            Operation::Prod => |a, b| zip_complex::<$t, { $n }>(a, b, ComplexOf::mul),
            _ => return None,
        };
        Some(kernel)
    }};
}

/// `MPI_MINLOC` and `MPI_MAXLOC` (MPI-5.0 §6.9.4): the better value wins; of equal values the lower index.
/// `AT` is the index' offset, `EXTENT` the distance of two pairs; padding is left as it is.
#[inline(always)]
fn zip_pairs<V, I, const N: usize, const M: usize, const AT: usize, const EXTENT: usize>(
    input: &[u8],
    inout: &mut [u8],
    better: impl Fn(V, V) -> bool,
) where
    V: Scalar<N> + PartialEq,
    I: Scalar<M> + PartialOrd,
{
    let part = |pair: &[u8; EXTENT]| -> (V, I) {
        let mut value = [0; N];
        let mut index = [0; M];
        value.copy_from_slice(&pair[..N]);
        index.copy_from_slice(&pair[AT..AT + M]);
        (V::load(value), I::load(index))
    };
    for (a, b) in input.as_chunks::<EXTENT>().0.iter().zip(inout.as_chunks_mut::<EXTENT>().0) {
        let ((value_a, index_a), (value_b, index_b)) = (part(a), part(b));
        if better(value_a, value_b) || (value_a == value_b && index_a < index_b) {
            b[..N].copy_from_slice(&value_a.store());
            b[AT..AT + M].copy_from_slice(&index_a.store());
        }
    }
}

macro_rules! pair_kernel {
    ($op:expr, $v:ty, $vn:expr, $i:ty, $in:expr) => {{
        const AT: usize = ($vn as usize).next_multiple_of($in);
        const ALIGN: usize = if $vn > $in { $vn } else { $in };
        const EXTENT: usize = (AT + $in).next_multiple_of(ALIGN);
        let kernel: Kernel = match $op {
            Operation::Minloc => {
                |a, b| zip_pairs::<$v, $i, { $vn }, { $in }, AT, EXTENT>(a, b, |x, y| x < y)
            }
            Operation::Maxloc => {
                |a, b| zip_pairs::<$v, $i, { $vn }, { $in }, AT, EXTENT>(a, b, |x, y| x > y)
            }
            _ => return None,
        };
        Some(kernel)
    }};
}

fn number_kernel(op: Operation, number: Number) -> Option<Kernel> {
    match number {
        Number::Signed(1) => integer_kernel!(op, i8),
        Number::Signed(2) => integer_kernel!(op, i16),
        Number::Signed(4) => integer_kernel!(op, i32),
        Number::Signed(8) => integer_kernel!(op, i64),
        Number::Signed(16) => integer_kernel!(op, i128),
        Number::Unsigned(1) => integer_kernel!(op, u8),
        Number::Unsigned(2) => integer_kernel!(op, u16),
        Number::Unsigned(4) => integer_kernel!(op, u32),
        Number::Unsigned(8) => integer_kernel!(op, u64),
        Number::Signed(_) | Number::Unsigned(_) => None,
        Number::Half => float_kernel!(op, SoftHalf, 2),
        Number::Single => float_kernel!(op, f32, 4),
        Number::Double => float_kernel!(op, f64, 8),
        Number::LongDouble => float_kernel!(op, LongDouble, Number::LongDouble.size_bytes()),
        Number::Quad => float_kernel!(op, Quad, 16),
    }
}

fn complex_number_kernel(op: Operation, part: Number) -> Option<Kernel> {
    match part {
        Number::Half => complex_kernel!(op, SoftHalf, 2),
        Number::Single => complex_kernel!(op, f32, 4),
        Number::Double => complex_kernel!(op, f64, 8),
        Number::LongDouble => complex_kernel!(op, LongDouble, Number::LongDouble.size_bytes()),
        Number::Quad => complex_kernel!(op, Quad, 16),
        Number::Signed(_) | Number::Unsigned(_) => None,
    }
}

fn pair_of_kernel(op: Operation, value: Number, index: Number) -> Option<Kernel> {
    match (value, index) {
        (Number::Single, Number::Signed(4)) => pair_kernel!(op, f32, 4, i32, 4),
        (Number::Double, Number::Signed(4)) => pair_kernel!(op, f64, 8, i32, 4),
        (Number::Signed(8), Number::Signed(4)) => pair_kernel!(op, i64, 8, i32, 4),
        (Number::Signed(4), Number::Signed(4)) => pair_kernel!(op, i32, 4, i32, 4),
        (Number::Signed(2), Number::Signed(4)) => pair_kernel!(op, i16, 2, i32, 4),
        (Number::LongDouble, Number::Signed(4)) => {
            pair_kernel!(op, LongDouble, Number::LongDouble.size_bytes(), i32, 4)
        }
        (Number::Single, Number::Single) => pair_kernel!(op, f32, 4, f32, 4),
        (Number::Double, Number::Double) => pair_kernel!(op, f64, 8, f64, 8),
        _ => None,
    }
}

/// The kernel of an operation on a type; `None` if it is not defined there.
pub(super) fn find(operation: Operation, datatype: Predefined) -> Option<Kernel> {
    match operation {
        Operation::Replace => return Some(|input, inout| inout.copy_from_slice(input)),
        Operation::NoOp => return Some(|_, _| {}),
        _ if !operation.is_defined_on(datatype) => return None,
        _ => {}
    }
    match datatype.element() {
        Element::Number(number) => number_kernel(operation, number),
        Element::Complex(part) => complex_number_kernel(operation, part),
        Element::Pair(value, index) => pair_of_kernel(operation, value, index),
    }
}
