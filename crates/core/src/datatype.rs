//! The predefined datatypes of the MPI standard ABI and how they lie in memory (MPI-5.0 §3.2.2, §6.9.2, ch.
//! 20).
//!
//! Here is what a type *is*: its size, its extent, the representation of its elements. The handle values of
//! the ABI belong to the C boundary (`ayatori-mpi`). Fortran types have the sizes of every compiler in use
//! today with default options: `INTEGER`, `REAL` and `LOGICAL` 4 bytes, `DOUBLE PRECISION` 8.
//!
//! **Layout.** C types lie as the C compiler of the target lays them out. The pair types with an `int` index
//! (`MPI_DOUBLE_INT` …) are C structures `{ value; int }`: the index follows at its alignment, and the whole
//! is padded to the structure's alignment. So `size` (the bytes that mean something, `MPI_Type_size`) and
//! `extent` (the distance of two elements in memory) differ for some of them:
//!
//! | type | value | index at | size | extent |
//! |---|---|---|---|---|
//! | `MPI_FLOAT_INT`, `MPI_2INT` | 0..4 | 4 | 8 | 8 |
//! | `MPI_SHORT_INT` | 0..2 | 4 | 6 | 8 |
//! | `MPI_DOUBLE_INT`, `MPI_LONG_INT` (64-bit `long`) | 0..8 | 8 | 12 | 16 |
//! | `MPI_LONG_DOUBLE_INT` (16-byte `long double`) | 0..16 | 16 | 20 | 32 |

use core::ffi::{c_int, c_long, c_short};
use core::mem::size_of;

/// Classes of types that the operations of MPI-5.0 §6.9.2 require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// "C integer".
    CInteger,
    /// "Fortran integer".
    FortranInteger,
    /// "Floating point".
    FloatingPoint,
    /// "Logical".
    Logical,
    /// "Complex".
    Complex,
    /// "Byte".
    Byte,
    /// "Multi-language types": addresses, counts, offsets.
    MultiLanguage,
    /// Value and index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair,
    /// Characters and packed data: moved, never computed with.
    Opaque,
}

/// How one number lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// Two's complement, by its number of bytes (1, 2, 4, 8 or 16).
    Signed(u8),
    /// Unsigned, by its number of bytes (1, 2, 4, 8 or 16).
    Unsigned(u8),
    /// IEEE binary16.
    Half,
    /// IEEE binary32.
    Single,
    /// IEEE binary64.
    Double,
    /// The target's `long double`; see [`LONG_DOUBLE`].
    LongDouble,
    /// IEEE binary128.
    Quad,
}

/// How one element lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// One number; also logicals, bytes and characters.
    Number(Number),
    /// Real part, imaginary part.
    Complex(Number),
    /// A C structure of a value and an index.
    Pair(Number, Number),
}

/// The format of the target's `long double`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LongDoubleFormat {
    /// x87 extended precision in 16 bytes, of which 10 count (x86-64 ELF ABI).
    X87,
    /// IEEE binary128 (AArch64 and RISC-V ELF ABIs).
    Quad,
    /// The same as `double` (Windows, Apple's AArch64).
    Double,
}

/// The format of `long double` on this target.
pub const LONG_DOUBLE: LongDoubleFormat =
    if cfg!(windows) || cfg!(all(target_vendor = "apple", target_arch = "aarch64")) {
        LongDoubleFormat::Double
    } else if cfg!(target_arch = "x86_64") {
        LongDoubleFormat::X87
    } else {
        LongDoubleFormat::Quad
    };

impl Number {
    /// Bytes in memory, and in an array also the distance of two.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Signed(bytes) | Self::Unsigned(bytes) => bytes as usize,
            Self::Half => 2,
            Self::Single => 4,
            Self::Double => 8,
            Self::LongDouble if matches!(LONG_DOUBLE, LongDoubleFormat::Double) => 8,
            Self::LongDouble | Self::Quad => 16,
        }
    }
}

impl Element {
    /// Bytes that mean something.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Number(number) => number.size_bytes(),
            Self::Complex(number) => 2 * number.size_bytes(),
            Self::Pair(value, index) => value.size_bytes() + index.size_bytes(),
        }
    }

    /// Where the index of a pair lies: at the next multiple of its own size, which is its alignment.
    const fn index_offset_bytes(value: Number, index: Number) -> usize {
        value.size_bytes().next_multiple_of(index.size_bytes())
    }

    /// Distance of two elements in memory, in bytes.
    pub const fn extent_bytes(self) -> usize {
        match self {
            Self::Pair(value, index) => (Self::index_offset_bytes(value, index) + index.size_bytes())
                .next_multiple_of(self.alignment_bytes()),
            _ => self.size_bytes(),
        }
    }

    /// Alignment of the C type, in bytes.
    pub const fn alignment_bytes(self) -> usize {
        match self {
            Self::Number(number) | Self::Complex(number) => number.size_bytes(),
            Self::Pair(value, index) => {
                let (value, index) = (value.size_bytes(), index.size_bytes());
                if value > index { value } else { index }
            }
        }
    }
}

/// An `int`.
const INT: Number = Number::Signed(size_of::<c_int>() as u8);
const LONG: Number = Number::Signed(size_of::<c_long>() as u8);
const SHORT: Number = Number::Signed(size_of::<c_short>() as u8);
/// `MPI_Aint` is `intptr_t`.
const AINT: Number = Number::Signed(size_of::<usize>() as u8);
/// `char` is signed on some targets only.
const CHAR: Number = if core::ffi::c_char::MIN == 0 { Number::Unsigned(1) } else { Number::Signed(1) };
/// `wchar_t` is unsigned on Windows and on Arm (AAPCS64, 10.1.1), except Apple's.
const WCHAR: Number = if cfg!(windows) {
    Number::Unsigned(2)
} else if cfg!(all(any(target_arch = "aarch64", target_arch = "arm"), not(target_vendor = "apple"))) {
    Number::Unsigned(4)
} else {
    Number::Signed(4)
};

macro_rules! predefined {
    ($($variant:ident $name:literal $class:ident $element:expr;)*) => {
        /// A predefined datatype.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Predefined {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Predefined {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name of the handle, and of the type (`MPI_Type_get_name`).
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The class that operations ask for.
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class),* }
            }

            /// How one element lies in memory.
            pub const fn element(self) -> Element {
                use Element::{Complex, Number as One, Pair};
                use Number::*;
                match self { $(Self::$variant => $element),* }
            }
        }
    };
}

predefined! {
    Aint "MPI_AINT" MultiLanguage One(AINT);
    Count "MPI_COUNT" MultiLanguage One(Signed(8));
    Offset "MPI_OFFSET" MultiLanguage One(Signed(8));
    Packed "MPI_PACKED" Opaque One(Unsigned(1));
    Short "MPI_SHORT" CInteger One(SHORT);
    Int "MPI_INT" CInteger One(INT);
    Long "MPI_LONG" CInteger One(LONG);
    LongLong "MPI_LONG_LONG" CInteger One(Signed(8));
    UnsignedShort "MPI_UNSIGNED_SHORT" CInteger One(Unsigned(size_of::<c_short>() as u8));
    Unsigned "MPI_UNSIGNED" CInteger One(Unsigned(size_of::<c_int>() as u8));
    UnsignedLong "MPI_UNSIGNED_LONG" CInteger One(Unsigned(size_of::<c_long>() as u8));
    UnsignedLongLong "MPI_UNSIGNED_LONG_LONG" CInteger One(Unsigned(8));
    Float "MPI_FLOAT" FloatingPoint One(Single);
    CFloatComplex "MPI_C_FLOAT_COMPLEX" Complex Complex(Single);
    CxxFloatComplex "MPI_CXX_FLOAT_COMPLEX" Complex Complex(Single);
    Double "MPI_DOUBLE" FloatingPoint One(Double);
    CDoubleComplex "MPI_C_DOUBLE_COMPLEX" Complex Complex(Double);
    CxxDoubleComplex "MPI_CXX_DOUBLE_COMPLEX" Complex Complex(Double);
    Logical "MPI_LOGICAL" Logical One(Signed(4));
    Integer "MPI_INTEGER" FortranInteger One(Signed(4));
    Real "MPI_REAL" FloatingPoint One(Single);
    Complex "MPI_COMPLEX" Complex Complex(Single);
    DoublePrecision "MPI_DOUBLE_PRECISION" FloatingPoint One(Double);
    DoubleComplex "MPI_DOUBLE_COMPLEX" Complex Complex(Double);
    LongDouble "MPI_LONG_DOUBLE" FloatingPoint One(LongDouble);
    CLongDoubleComplex "MPI_C_LONG_DOUBLE_COMPLEX" Complex Complex(LongDouble);
    CxxLongDoubleComplex "MPI_CXX_LONG_DOUBLE_COMPLEX" Complex Complex(LongDouble);
    FloatInt "MPI_FLOAT_INT" Pair Pair(Single, INT);
    DoubleInt "MPI_DOUBLE_INT" Pair Pair(Double, INT);
    LongInt "MPI_LONG_INT" Pair Pair(LONG, INT);
    TwoInt "MPI_2INT" Pair Pair(INT, INT);
    ShortInt "MPI_SHORT_INT" Pair Pair(SHORT, INT);
    LongDoubleInt "MPI_LONG_DOUBLE_INT" Pair Pair(LongDouble, INT);
    TwoReal "MPI_2REAL" Pair Pair(Single, Single);
    TwoDoublePrecision "MPI_2DOUBLE_PRECISION" Pair Pair(Double, Double);
    TwoInteger "MPI_2INTEGER" Pair Pair(Signed(4), Signed(4));
    CBool "MPI_C_BOOL" Logical One(Unsigned(1));
    CxxBool "MPI_CXX_BOOL" Logical One(Unsigned(1));
    Wchar "MPI_WCHAR" Opaque One(WCHAR);
    Int8 "MPI_INT8_T" CInteger One(Signed(1));
    Uint8 "MPI_UINT8_T" CInteger One(Unsigned(1));
    // The standard has no operations for text; MPICH and Open MPI take it for an integer, and programs rely
    // on that.
    Char "MPI_CHAR" CInteger One(CHAR);
    SignedChar "MPI_SIGNED_CHAR" CInteger One(Signed(1));
    UnsignedChar "MPI_UNSIGNED_CHAR" CInteger One(Unsigned(1));
    Byte "MPI_BYTE" Byte One(Unsigned(1));
    Int16 "MPI_INT16_T" CInteger One(Signed(2));
    Uint16 "MPI_UINT16_T" CInteger One(Unsigned(2));
    Int32 "MPI_INT32_T" CInteger One(Signed(4));
    Uint32 "MPI_UINT32_T" CInteger One(Unsigned(4));
    Int64 "MPI_INT64_T" CInteger One(Signed(8));
    Uint64 "MPI_UINT64_T" CInteger One(Unsigned(8));
    Logical1 "MPI_LOGICAL1" Logical One(Signed(1));
    Integer1 "MPI_INTEGER1" FortranInteger One(Signed(1));
    Character "MPI_CHARACTER" Opaque One(Unsigned(1));
    Logical2 "MPI_LOGICAL2" Logical One(Signed(2));
    Integer2 "MPI_INTEGER2" FortranInteger One(Signed(2));
    Real2 "MPI_REAL2" FloatingPoint One(Half);
    Logical4 "MPI_LOGICAL4" Logical One(Signed(4));
    Integer4 "MPI_INTEGER4" FortranInteger One(Signed(4));
    Real4 "MPI_REAL4" FloatingPoint One(Single);
    Complex4 "MPI_COMPLEX4" Complex Complex(Half);
    Logical8 "MPI_LOGICAL8" Logical One(Signed(8));
    Integer8 "MPI_INTEGER8" FortranInteger One(Signed(8));
    Real8 "MPI_REAL8" FloatingPoint One(Double);
    Complex8 "MPI_COMPLEX8" Complex Complex(Single);
    Logical16 "MPI_LOGICAL16" Logical One(Signed(16));
    Integer16 "MPI_INTEGER16" FortranInteger One(Signed(16));
    Real16 "MPI_REAL16" FloatingPoint One(Quad);
    Complex16 "MPI_COMPLEX16" Complex Complex(Double);
    Complex32 "MPI_COMPLEX32" Complex Complex(Quad);
}

impl Predefined {
    /// Bytes of one element that mean something (`MPI_Type_size`).
    pub const fn size_bytes(self) -> usize {
        self.element().size_bytes()
    }

    /// Distance of two elements in memory, in bytes (`MPI_Type_get_extent`; the lower bound is 0).
    pub const fn extent_bytes(self) -> usize {
        self.element().extent_bytes()
    }

    /// Whether an array of elements has no gaps.
    pub const fn is_contiguous(self) -> bool {
        self.size_bytes() == self.extent_bytes()
    }

    /// Where a pair's value ends and where its index begins, in bytes; `None` if not a pair.
    pub const fn pair_layout_bytes(self) -> Option<(usize, usize)> {
        match self.element() {
            Element::Pair(value, index) => {
                Some((value.size_bytes(), Element::index_offset_bytes(value, index)))
            }
            _ => None,
        }
    }

    /// The types that a pair is made of, "as if defined by" a constructor (MPI-5.0 §6.9.4); `None` if not a
    /// pair.
    pub const fn pair_types(self) -> Option<(Self, Self)> {
        Some(match self {
            Self::FloatInt => (Self::Float, Self::Int),
            Self::DoubleInt => (Self::Double, Self::Int),
            Self::LongInt => (Self::Long, Self::Int),
            Self::TwoInt => (Self::Int, Self::Int),
            Self::ShortInt => (Self::Short, Self::Int),
            Self::LongDoubleInt => (Self::LongDouble, Self::Int),
            Self::TwoReal => (Self::Real, Self::Real),
            Self::TwoDoublePrecision => (Self::DoublePrecision, Self::DoublePrecision),
            Self::TwoInteger => (Self::Integer, Self::Integer),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::{c_double, c_float, c_longlong};
    use core::mem::{align_of, offset_of};

    #[repr(C)]
    struct Pair<T> {
        value: T,
        index: c_int,
    }

    fn assert_pair_is_laid_out_as_in_c<T>(datatype: Predefined) {
        assert_eq!(datatype.extent_bytes(), size_of::<Pair<T>>(), "{datatype:?}");
        assert_eq!(datatype.element().alignment_bytes(), align_of::<Pair<T>>(), "{datatype:?}");
        assert_eq!(
            datatype.pair_layout_bytes(),
            Some((size_of::<T>(), offset_of!(Pair<T>, index))),
            "{datatype:?}"
        );
        assert_eq!(datatype.size_bytes(), size_of::<T>() + size_of::<c_int>(), "{datatype:?}");
    }

    #[test]
    fn pairs_are_laid_out_as_c_structures() {
        assert_pair_is_laid_out_as_in_c::<c_float>(Predefined::FloatInt);
        assert_pair_is_laid_out_as_in_c::<c_double>(Predefined::DoubleInt);
        assert_pair_is_laid_out_as_in_c::<c_long>(Predefined::LongInt);
        assert_pair_is_laid_out_as_in_c::<c_int>(Predefined::TwoInt);
        assert_pair_is_laid_out_as_in_c::<c_short>(Predefined::ShortInt);
        // u128 has the size and the alignment of a 16-byte `long double`.
        if LONG_DOUBLE != LongDoubleFormat::Double {
            assert_pair_is_laid_out_as_in_c::<u128>(Predefined::LongDoubleInt);
        }
    }

    #[test]
    fn sizes_are_those_of_the_c_types() {
        use Predefined as P;
        for (datatype, bytes) in [
            (P::Int, size_of::<c_int>()),
            (P::Long, size_of::<c_long>()),
            (P::LongLong, size_of::<c_longlong>()),
            (P::Aint, size_of::<usize>()),
            (P::Double, 8),
            (P::CDoubleComplex, 16),
            (P::Logical, 4),
            (P::Complex32, 32),
            (P::Byte, 1),
        ] {
            assert_eq!(datatype.size_bytes(), bytes, "{datatype:?}");
            assert!(datatype.is_contiguous());
        }
    }

    #[test]
    fn the_abi_has_70_predefined_types_with_different_names() {
        let mut names: alloc::vec::Vec<_> = Predefined::ALL.iter().map(|d| d.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Predefined::ALL.len());
        assert_eq!(names.len(), 70);
    }
}
