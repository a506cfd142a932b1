//! `external32`, the representation of data that all MPI libraries share (MPI-5.0 §14.5.2): big-endian, IEEE,
//! and of sizes that do not depend on the machine.

use crate::datatype::{Element, LONG_DOUBLE, LongDoubleFormat, Number, Predefined};
use alloc::vec::Vec;
use rustc_apfloat::ieee::{Double, Quad, X87DoubleExtended};
use rustc_apfloat::{Float, FloatConvert, Round};

/// Bytes of a number in external32, where `native` is how it lies in memory. `long` is 4 bytes, `wchar_t` is
/// 2.
const fn number_bytes(datatype: Predefined, native: Number) -> usize {
    use Predefined::{Long, LongInt, UnsignedLong, Wchar};
    match (datatype, native) {
        (Long | UnsignedLong | LongInt, Number::Signed(_) | Number::Unsigned(_)) => 4,
        (Wchar, _) => 2,
        (_, Number::LongDouble) => 16,
        (_, number) => number.size_bytes(),
    }
}

/// The numbers that an element is made of, as its packed bytes have them.
const fn numbers(datatype: Predefined) -> (Number, Option<Number>) {
    match datatype.element() {
        Element::Number(number) => (number, None),
        Element::Complex(number) => (number, Some(number)),
        Element::Pair(value, index) => (value, Some(index)),
    }
}

/// Bytes of one element in external32 (`MPI_Pack_external_size`).
pub const fn size_bytes(datatype: Predefined) -> usize {
    let (first, second) = numbers(datatype);
    let rest = match second {
        Some(second) => number_bytes(datatype, second),
        None => 0,
    };
    number_bytes(datatype, first) + rest
}

/// Adds elements in external32 to `external`. `native` is packed and a whole number of elements.
///
/// Integers that are too long for external32 lose their high bytes.
pub fn encode(datatype: Predefined, native: &[u8], external: &mut Vec<u8>) {
    let (first, second) = numbers(datatype);
    for element in native.chunks_exact(datatype.size_bytes()) {
        let (a, b) = element.split_at(first.size_bytes());
        encode_number(first, number_bytes(datatype, first), a, external);
        if let Some(second) = second {
            encode_number(second, number_bytes(datatype, second), b, external);
        }
    }
}

/// Adds elements from external32 to `native`, packed. `external` is a whole number of elements.
pub fn decode(datatype: Predefined, external: &[u8], native: &mut Vec<u8>) {
    let (first, second) = numbers(datatype);
    for element in external.chunks_exact(size_bytes(datatype)) {
        let (a, b) = element.split_at(number_bytes(datatype, first));
        decode_number(first, a, native);
        if let Some(second) = second {
            decode_number(second, b, native);
        }
    }
}

fn encode_number(number: Number, external_bytes: usize, native: &[u8], external: &mut Vec<u8>) {
    // All targets are little-endian (`op/soft_float.rs` checks that).
    if number == Number::LongDouble {
        external.extend(long_double_to_quad(native).to_be_bytes());
    } else {
        external.extend(native[..external_bytes].iter().rev());
    }
}

fn decode_number(number: Number, external: &[u8], native: &mut Vec<u8>) {
    let len = number.size_bytes();
    let is_negative = matches!(number, Number::Signed(_)) && external[0] & 0x80 != 0;
    let mut bytes = [if is_negative { 0xff } else { 0 }; 16];
    if number == Number::LongDouble {
        let mut quad = [0; 16];
        quad.copy_from_slice(external);
        bytes = long_double_of_quad(u128::from_be_bytes(quad));
    } else {
        bytes.iter_mut().zip(external.iter().rev()).for_each(|(to, from)| *to = *from);
    }
    native.extend(&bytes[..len]);
}

fn converted<A: FloatConvert<B>, B: Float>(bits: u128) -> u128 {
    let mut loses_info = false;
    A::from_bits(bits).convert_r(Round::NearestTiesToEven, &mut loses_info).value.to_bits()
}

/// The binary128 of a `long double`'s bytes, lowest first.
fn long_double_to_quad(bytes: &[u8]) -> u128 {
    let significant = match LONG_DOUBLE {
        LongDoubleFormat::X87 => 10,
        LongDoubleFormat::Quad => 16,
        LongDoubleFormat::Double => 8,
    };
    let bits = bytes[..significant].iter().rev().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    match LONG_DOUBLE {
        LongDoubleFormat::X87 => converted::<X87DoubleExtended, Quad>(bits),
        LongDoubleFormat::Quad => bits,
        LongDoubleFormat::Double => converted::<Double, Quad>(bits),
    }
}

/// A `long double`'s bytes, lowest first.
fn long_double_of_quad(quad: u128) -> [u8; 16] {
    match LONG_DOUBLE {
        LongDoubleFormat::X87 => converted::<Quad, X87DoubleExtended>(quad),
        LongDoubleFormat::Quad => quad,
        LongDoubleFormat::Double => converted::<Quad, Double>(quad),
    }
    .to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn encoded(datatype: Predefined, native: &[u8]) -> Vec<u8> {
        let mut external = Vec::new();
        encode(datatype, native, &mut external);
        let mut back = Vec::new();
        decode(datatype, &external, &mut back);
        assert_eq!(back, native, "{datatype:?}");
        external
    }

    #[test]
    fn numbers_are_big_endian_and_of_the_standards_sizes() {
        use Predefined as P;
        assert_eq!(encoded(P::Int, &(-2_i32).to_ne_bytes()), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(encoded(P::Long, &(-3 as core::ffi::c_long).to_ne_bytes()), [0xff, 0xff, 0xff, 0xfd]);
        assert_eq!(encoded(P::UnsignedLong, &(7 as core::ffi::c_ulong).to_ne_bytes()), [0, 0, 0, 7]);
        assert_eq!(encoded(P::Double, &1.0_f64.to_ne_bytes()), [0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(P::Long, &(0x0100_0000 as core::ffi::c_long).to_ne_bytes()), [1, 0, 0, 0]);
        let complex = [1.0_f32.to_ne_bytes(), (-2.0_f32).to_ne_bytes()].concat();
        assert_eq!(encoded(P::CFloatComplex, &complex), [0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]);
        let pair = [&5_i16.to_ne_bytes()[..], &9_i32.to_ne_bytes()].concat();
        assert_eq!(encoded(P::ShortInt, &pair), [0, 5, 0, 0, 0, 9]);
        for datatype in P::ALL {
            let zeros = vec![0; 3 * datatype.size_bytes()];
            assert_eq!(encoded(*datatype, &zeros).len(), 3 * size_bytes(*datatype), "{datatype:?}");
        }
        assert_eq!((size_bytes(P::LongInt), size_bytes(P::Wchar), size_bytes(P::LongDouble)), (8, 2, 16));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn extended_precision_becomes_binary128() {
        // 1.5: the explicit leading bit of the x87 format goes, the exponent has the same width.
        let mut native = [0; 16];
        native[..10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x3f]);
        let external = encoded(Predefined::LongDouble, &native);
        assert_eq!(external[..4], [0x3f, 0xff, 0x80, 0]);
        // What is in the padding does not matter.
        native[10..].fill(0xAA);
        let mut same = Vec::new();
        encode(Predefined::LongDouble, &native, &mut same);
        assert_eq!(same, external);
    }
}
