//! Kernels against naive models: element by element, on values and on unaligned memory.

use super::*;
use crate::datatype::{Element, Number};
use alloc::vec;
use alloc::vec::Vec;
use ayatori_random::Random;

/// Applies the operation to arrays placed at an odd address.
fn apply_unaligned(operation: Operation, datatype: Predefined, input: &[u8], inout: &[u8]) -> Vec<u8> {
    let reducer = Reducer::for_accumulate(operation, datatype).unwrap();
    let (mut a, mut b) = (vec![0; input.len() + 1], vec![0; inout.len() + 3]);
    a[1..].copy_from_slice(input);
    b[3..].copy_from_slice(inout);
    reducer.apply(&a[1..], &mut b[3..]);
    b[3..].to_vec()
}

fn bytes_of<const N: usize, T: Copy>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&v| to(v)).collect()
}

const INTEGER_OPERATIONS: [Operation; 10] = [
    Operation::Sum,
    Operation::Min,
    Operation::Max,
    Operation::Prod,
    Operation::Band,
    Operation::Bor,
    Operation::Bxor,
    Operation::Land,
    Operation::Lor,
    Operation::Lxor,
];

/// The model works in 128 bits and wraps to `bits`: one definition for all widths.
fn integer_model(operation: Operation, a: i128, b: i128) -> i128 {
    match operation {
        Operation::Sum => a.wrapping_add(b),
        Operation::Min => a.min(b),
        Operation::Max => a.max(b),
        Operation::Prod => a.wrapping_mul(b),
        Operation::Band => a & b,
        Operation::Bor => a | b,
        Operation::Bxor => a ^ b,
        Operation::Land => i128::from(a != 0 && b != 0),
        Operation::Lor => i128::from(a != 0 || b != 0),
        Operation::Lxor => i128::from((a != 0) != (b != 0)),
        _ => unreachable!(),
    }
}

/// The value of the low `bytes` bytes of `bits`.
fn narrow(bits: i128, bytes: usize, signed: bool) -> i128 {
    let shift = 128 - 8 * bytes as u32;
    if signed { (bits << shift) >> shift } else { ((bits as u128) << shift >> shift) as i128 }
}

#[test]
fn integer_operations_agree_with_128_bit_arithmetic() {
    let mut random = Random::new(7);
    for &datatype in Predefined::ALL {
        let Element::Number(number) = datatype.element() else { continue };
        let (bytes, signed) = match number {
            Number::Signed(bytes) => (usize::from(bytes), true),
            Number::Unsigned(bytes) => (usize::from(bytes), false),
            _ => continue,
        };
        for operation in INTEGER_OPERATIONS.into_iter().filter(|o| o.is_defined_on(datatype)) {
            let draw = |random: &mut Random| -> Vec<i128> {
                (0..67)
                    .map(|i| match i % 5 {
                        0 => 0,
                        1 => i128::from(random.next_u64() % 3),
                        _ => narrow(
                            i128::from(random.next_u64()) << 64 | i128::from(random.next_u64()),
                            bytes,
                            signed,
                        ),
                    })
                    .collect()
            };
            let (a, b) = (draw(&mut random), draw(&mut random));
            let memory = |values: &[i128]| -> Vec<u8> {
                values.iter().flat_map(|v| v.to_le_bytes()[..bytes].to_vec()).collect()
            };
            let model: Vec<i128> = a
                .iter()
                .zip(&b)
                .map(|(&a, &b)| narrow(integer_model(operation, a, b), bytes, signed))
                .collect();
            assert_eq!(
                apply_unaligned(operation, datatype, &memory(&a), &memory(&b)),
                memory(&model),
                "{operation:?} on {datatype:?}"
            );
        }
    }
}

const FLOATS: [f64; 12] =
    [0.0, -0.0, 1.0, -2.5, 3.25, 1e10, -7e-5, 0.1, 65504.0, f64::INFINITY, f64::NEG_INFINITY, 1.0 / 3.0];

fn float_pairs() -> (Vec<f64>, Vec<f64>) {
    FLOATS.iter().flat_map(|&a| FLOATS.map(|b| (a, b))).unzip()
}

fn float_model(operation: Operation, a: f64, b: f64) -> f64 {
    match operation {
        Operation::Sum => a + b,
        Operation::Prod => a * b,
        Operation::Min if a < b => a,
        Operation::Max if a > b => a,
        Operation::Min | Operation::Max => b,
        _ => unreachable!(),
    }
}

const FLOAT_OPERATIONS: [Operation; 4] = [Operation::Sum, Operation::Prod, Operation::Min, Operation::Max];

#[test]
fn float_operations_are_ieee_arithmetic() {
    let (a, b) = float_pairs();
    for operation in FLOAT_OPERATIONS {
        let model: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| float_model(operation, a, b)).collect();
        let got = apply_unaligned(
            operation,
            Predefined::Double,
            &bytes_of(&a, f64::to_ne_bytes),
            &bytes_of(&b, f64::to_ne_bytes),
        );
        for ((got, model), pair) in got.as_chunks().0.iter().zip(&model).zip(a.iter().zip(&b)) {
            let got = f64::from_ne_bytes(*got);
            assert!(
                got.to_bits() == model.to_bits() || got.is_nan() && model.is_nan(),
                "{operation:?} of {pair:?}: {got}, not {model}"
            );
        }
        let singles = |v: &[f64]| -> Vec<f32> { v.iter().map(|&x| x as f32).collect() };
        let (a, b) = (singles(&a), singles(&b));
        let got = apply_unaligned(
            operation,
            Predefined::Real,
            &bytes_of(&a, f32::to_ne_bytes),
            &bytes_of(&b, f32::to_ne_bytes),
        );
        for ((&a, &b), got) in a.iter().zip(&b).zip(got.as_chunks().0) {
            // A sum or product of two f32 is exact enough in f64 to be rounded once more without harm.
            let model = float_model(operation, a.into(), b.into()) as f32;
            let got = f32::from_ne_bytes(*got);
            assert!(got == model || got.is_nan() && model.is_nan(), "{operation:?} of {a} and {b}: {got}");
        }
    }
}

/// binary16 and x87 as exact values of a double, by their definition; independent of `rustc_apfloat`.
fn half_value(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 31, f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1024.0 + fraction) * 2f64.powi(i32::from(e) - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn x87_bytes(value: f64) -> [u8; 16] {
    let mut bytes = [0xAA; 16];
    let bits = value.to_bits();
    let sign = (bits >> 63) as u16;
    let exponent = ((bits >> 52) & 0x7ff) as u16;
    let fraction = (bits & ((1 << 52) - 1)) << 11;
    let (exponent, significand) = match exponent {
        0 if fraction == 0 => (0, 0),
        0x7ff => (0x7fff, 1 << 63 | fraction),
        e => (e + (16383 - 1023), 1 << 63 | fraction),
    };
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..10].copy_from_slice(&(sign << 15 | exponent).to_le_bytes());
    bytes
}

#[test]
fn half_precision_sums_and_products_are_the_nearest_half() {
    let mut random = Random::new(11);
    for operation in [Operation::Sum, Operation::Prod] {
        let a: Vec<u16> = (0..2000).map(|_| random.next_u64() as u16).collect();
        let b: Vec<u16> = (0..2000).map(|_| random.next_u64() as u16).collect();
        let got = apply_unaligned(
            operation,
            Predefined::Real2,
            &bytes_of(&a, u16::to_le_bytes),
            &bytes_of(&b, u16::to_le_bytes),
        );
        for ((&a, &b), got) in a.iter().zip(&b).zip(got.as_chunks().0) {
            let bits = u16::from_le_bytes(*got);
            let (got, exact) = (half_value(bits), float_model(operation, half_value(a), half_value(b)));
            if exact.is_nan() || got.is_nan() {
                assert!(exact.is_nan() && got.is_nan());
                continue;
            }
            if got.is_infinite() {
                assert!(exact.abs() >= 65520.0 && exact.signum() == got.signum(), "{exact}");
                continue;
            }
            // No neighbour of the result is nearer to the exact value (exact in f64 for 11-bit operands,
            // save sums whose tail is far below half a unit).
            for neighbour in [bits.wrapping_sub(1), bits.wrapping_add(1)].map(half_value) {
                let nearer = (neighbour - exact).abs() < (got - exact).abs();
                assert!(!(nearer && neighbour.is_finite()), "{operation:?} {a:#x} {b:#x}: {got} for {exact}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn long_double_is_computed_with_more_than_53_bits() {
    let one_and_a_bit =
        apply_unaligned(Operation::Sum, Predefined::LongDouble, &x87_bytes(1.0), &x87_bytes(2f64.powi(-60)));
    // 1 + 2^-60: the integer bit and bit 63-60 of the significand.
    assert_eq!(one_and_a_bit[..8], (1u64 << 63 | 1 << 3).to_le_bytes());
    let back = apply_unaligned(Operation::Sum, Predefined::LongDouble, &x87_bytes(-1.0), &one_and_a_bit);
    assert_eq!(back[..10], x87_bytes(2f64.powi(-60))[..10]);
    let product = apply_unaligned(Operation::Prod, Predefined::LongDouble, &x87_bytes(-3.0), &x87_bytes(0.5));
    assert_eq!(product[..10], x87_bytes(-1.5)[..10]);
    for (operation, expected) in [(Operation::Min, -4.0), (Operation::Max, 3.5)] {
        let got = apply_unaligned(operation, Predefined::LongDouble, &x87_bytes(3.5), &x87_bytes(-4.0));
        assert_eq!(got[..10], x87_bytes(expected)[..10]);
    }
}

#[test]
fn complex_products_multiply_as_complex_numbers() {
    let a = bytes_of(&[1.0, 2.0, 0.5, -3.0], f64::to_ne_bytes);
    let b = bytes_of(&[3.0, -1.0, 4.0, 0.25], f64::to_ne_bytes);
    let product = apply_unaligned(Operation::Prod, Predefined::CDoubleComplex, &a, &b);
    // (1+2i)(3-i) = 5+5i; (0.5-3i)(4+0.25i) = 2.75-11.875i
    assert_eq!(product, bytes_of(&[5.0, 5.0, 2.75, -11.875], f64::to_ne_bytes));
    let sum = apply_unaligned(Operation::Sum, Predefined::CDoubleComplex, &a, &b);
    assert_eq!(sum, bytes_of(&[4.0, 1.0, 4.5, -2.75], f64::to_ne_bytes));
}

/// A float of a format in its memory, for values that all formats have.
fn float_bytes(number: Number, value: f64) -> Vec<u8> {
    let bits = value.to_bits();
    match number {
        Number::Half => {
            (0..=u16::MAX).find(|&half| half_value(half) == value).unwrap().to_le_bytes().to_vec()
        }
        Number::Single => (value as f32).to_le_bytes().to_vec(),
        Number::Double => bits.to_le_bytes().to_vec(),
        Number::LongDouble => x87_bytes(value).to_vec(),
        Number::Quad if value == 0.0 => vec![0; 16],
        Number::Quad => {
            let exponent = u128::from(bits >> 52 & 0x7ff) + 16383 - 1023;
            let fraction = u128::from(bits & ((1 << 52) - 1)) << 60;
            (u128::from(bits >> 63) << 127 | exponent << 112 | fraction).to_le_bytes().to_vec()
        }
        other => panic!("{other:?} is no float"),
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn complex_numbers_of_all_floats_are_multiplied_and_added() {
    let mut count = 0;
    for &datatype in Predefined::ALL {
        let Element::Complex(part) = datatype.element() else { continue };
        let bytes = |values: [f64; 2]| values.map(|value| float_bytes(part, value)).concat();
        for (operation, expected) in [(Operation::Prod, [5.0, 5.0]), (Operation::Sum, [4.0, 1.0])] {
            // (1+2i)(3-i) = 3-(-2) + (-1+6)i
            let got = apply_unaligned(operation, datatype, &bytes([1.0, 2.0]), &bytes([3.0, -1.0]));
            let (got, expected) = (got.chunks(got.len() / 2), bytes(expected));
            for (got, expected) in got.zip(expected.chunks(expected.len() / 2)) {
                let meant = if part == Number::LongDouble { 10 } else { got.len() };
                assert_eq!(got[..meant], expected[..meant], "{operation:?} of {datatype:?}");
            }
        }
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn replace_takes_the_new_and_no_op_keeps_the_old() {
    for &datatype in Predefined::ALL {
        let len = datatype.extent_bytes();
        let (new, old): (Vec<u8>, Vec<u8>) = (0..len as u8).map(|at| (at, 0xF0 - at)).unzip();
        assert_eq!(apply_unaligned(Operation::Replace, datatype, &new, &old), new, "{datatype:?}");
        assert_eq!(apply_unaligned(Operation::NoOp, datatype, &new, &old), old, "{datatype:?}");
    }
}

/// A pair with garbage in its padding.
fn double_int(value: f64, index: i32) -> Vec<u8> {
    let mut bytes = vec![0x55; 16];
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..12].copy_from_slice(&index.to_ne_bytes());
    bytes
}

#[test]
fn minloc_and_maxloc_take_the_lower_index_and_keep_padding() {
    for (operation, a, b, expected) in [
        (Operation::Minloc, (1.0, 5), (2.0, 3), (1.0, 5)),
        (Operation::Minloc, (2.0, 5), (1.0, 3), (1.0, 3)),
        (Operation::Minloc, (1.0, 5), (1.0, 3), (1.0, 3)),
        (Operation::Minloc, (1.0, 2), (1.0, 3), (1.0, 2)),
        (Operation::Maxloc, (1.0, 5), (2.0, 3), (2.0, 3)),
        (Operation::Maxloc, (9.0, 5), (2.0, 3), (9.0, 5)),
        (Operation::Maxloc, (2.0, 1), (2.0, 3), (2.0, 1)),
    ] {
        let got =
            apply_unaligned(operation, Predefined::DoubleInt, &double_int(a.0, a.1), &double_int(b.0, b.1));
        assert_eq!(got, double_int(expected.0, expected.1), "{operation:?} {a:?} {b:?}");
    }
}

#[test]
fn minloc_works_in_each_pair_types_own_layout() {
    for &datatype in Predefined::ALL {
        let Element::Pair(value, index) = datatype.element() else { continue };
        let (_, at) = datatype.pair_layout_bytes().unwrap();
        let number = |number: Number, value: i16| -> Vec<u8> {
            match number {
                Number::Signed(bytes) => i128::from(value).to_le_bytes()[..bytes.into()].to_vec(),
                Number::Single => f32::from(value).to_le_bytes().to_vec(),
                Number::Double => f64::from(value).to_le_bytes().to_vec(),
                Number::LongDouble => x87_bytes(value.into())[..10].to_vec(),
                _ => unreachable!(),
            }
        };
        let pair = |v: i16, i: i16| -> Vec<u8> {
            let mut bytes = vec![0; datatype.extent_bytes()];
            let (v, i) = (number(value, v), number(index, i));
            bytes[..v.len()].copy_from_slice(&v);
            bytes[at..at + i.len()].copy_from_slice(&i);
            bytes
        };
        let a = [pair(-3, 7), pair(9, 1), pair(4, 4)].concat();
        let b = [pair(2, 1), pair(8, 2), pair(4, 3)].concat();
        let least = apply_unaligned(Operation::Minloc, datatype, &a, &b);
        assert_eq!(least, [pair(-3, 7), pair(8, 2), pair(4, 3)].concat(), "{datatype:?}");
        let most = apply_unaligned(Operation::Maxloc, datatype, &a, &b);
        assert_eq!(most, [pair(2, 1), pair(9, 1), pair(4, 3)].concat(), "{datatype:?}");
    }
}

#[test]
fn exactly_the_defined_operation_type_pairs_have_a_kernel() {
    for &operation in Operation::ALL {
        for &datatype in Predefined::ALL {
            let reducer = Reducer::for_accumulate(operation, datatype);
            assert_eq!(reducer.is_ok(), operation.is_defined_on(datatype), "{operation:?} on {datatype:?}");
            if let Ok(reducer) = reducer {
                let (a, mut b) = (vec![0; 3 * reducer.extent_bytes()], vec![0; 3 * reducer.extent_bytes()]);
                reducer.apply(&a, &mut b);
            }
        }
    }
    assert_eq!(Reducer::predefined(Operation::Band, Predefined::Double).unwrap_err(), Error::Op);
    assert_eq!(Reducer::predefined(Operation::Replace, Predefined::Int).unwrap_err(), Error::Op);
}

#[test]
fn a_users_operation_gets_the_left_operand_first() {
    let minus = Arc::new(|input: &[u8], inout: &mut [u8]| {
        for (a, b) in input.iter().zip(inout) {
            *b = a - *b;
        }
    });
    let reducer = Reducer::user(minus, 1, false).unwrap();
    let mut inout = [1, 2, 3];
    reducer.apply(&[10, 20, 30], &mut inout);
    assert_eq!(inout, [9, 18, 27]);
    assert!(!reducer.is_commutative());
}

/// Not a test of speed but a look at it:
/// `cargo test --release -p ayatori-core kernels_speed -- --ignored --nocapture`.
#[test]
#[ignore = "prints rates; run it alone and in release"]
#[expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "prints what it timed")]
fn kernels_speed() {
    use Predefined as P;
    for (operation, datatype) in [
        (Operation::Sum, P::Double),
        (Operation::Sum, P::Float),
        (Operation::Sum, P::Int),
        (Operation::Max, P::Int8),
        (Operation::Max, P::Double),
        (Operation::Prod, P::CDoubleComplex),
        (Operation::Land, P::Int),
        (Operation::Bor, P::Byte),
        (Operation::Maxloc, P::DoubleInt),
        (Operation::Sum, P::LongDouble),
    ] {
        let reducer = Reducer::predefined(operation, datatype).unwrap();
        let (a, mut b) = (vec![1u8; 32 << 10], vec![1u8; 32 << 10]);
        let mut bytes = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 100 {
            for _ in 0..8 {
                reducer.apply(&a, &mut b);
                bytes += a.len() as u64;
            }
        }
        let rate = bytes as f64 / start.elapsed().as_secs_f64() * 1e-9;
        std::println!("{operation:?} of {datatype:?}: {rate:.1} GB/s of one operand, 32 KiB, in cache");
    }
}

#[test]
fn the_number_of_an_operation_is_its_own() {
    let mut numbers = std::collections::BTreeSet::new();
    for &operation in Operation::ALL {
        let Some(&datatype) = Predefined::ALL.iter().find(|of| operation.is_defined_on(**of)) else {
            continue;
        };
        let Ok(reducer) = Reducer::for_accumulate(operation, datatype) else { continue };
        assert!(numbers.insert(reducer.number()), "{operation:?}");
    }
    let noop = |_: &[u8], _: &mut [u8]| ();
    for commutative in [false, true] {
        let reducer = Reducer::user(Arc::new(noop), 4, commutative).unwrap();
        assert!(numbers.insert(reducer.number()), "commutes: {commutative}");
    }
    assert!(!numbers.contains(&0) && numbers.len() > 10, "{numbers:?}");
    assert_eq!(Reducer::user(Arc::new(noop), 0, true).map(drop), Err(Error::Type));
}
