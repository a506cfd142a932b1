//! Which basic types a packed stream is made of (the type signature of MPI-5.0 §5.1).

use crate::datatype::Predefined;
use crate::error::Error;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The basic types of one element of a datatype, in order. Cheap to clone.
///
/// A pair counts as one [`Predefined`] here and as two basic elements (`MPI_Get_elements`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    of: Of,
    bytes: usize,
    elements: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Nothing,
    One(Predefined),
    Repeat(usize, Arc<Signature>),
    Sequence(Arc<[Part]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// Bytes of the parts before.
    bytes_before: usize,
    /// Basic elements of the parts before.
    elements_before: usize,
    signature: Signature,
}

impl Signature {
    const NOTHING: Self = Self { of: Of::Nothing, bytes: 0, elements: 0 };

    /// A predefined type.
    pub const fn of(datatype: Predefined) -> Self {
        let elements = if datatype.pair_layout_bytes().is_some() { 2 } else { 1 };
        Self { of: Of::One(datatype), bytes: datatype.size_bytes(), elements }
    }

    /// `count` times the same.
    ///
    /// # Errors
    /// [`Error::Count`] if there are more bytes than an address space has.
    pub fn repeat(&self, count: usize) -> Result<Self, Error> {
        let bytes = self.bytes.checked_mul(count).ok_or(Error::Count)?;
        let (count, of) = match &self.of {
            _ if count == 0 || bytes == 0 => return Ok(Self::NOTHING),
            _ if count == 1 => return Ok(self.clone()),
            Of::Repeat(inner, of) => (inner * count, of.clone()),
            _ => (count, Arc::new(self.clone())),
        };
        Ok(Self { elements: of.elements * count, of: Of::Repeat(count, of), bytes })
    }

    /// One after the other.
    ///
    /// # Errors
    /// [`Error::Count`] if there are more bytes than an address space has.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let mut list: Vec<Self> = Vec::new();
        for part in parts {
            match part.of {
                Of::Nothing => {}
                Of::Sequence(inner) => {
                    inner.iter().try_for_each(|part| push(&mut list, part.signature.clone()))?;
                }
                _ => push(&mut list, part)?,
            }
        }
        if list.len() < 2 {
            return Ok(list.pop().unwrap_or(Self::NOTHING));
        }
        let (mut bytes, mut elements) = (0_usize, 0);
        let mut placed = Vec::with_capacity(list.len());
        for signature in list {
            let (bytes_before, elements_before) = (bytes, elements);
            bytes = bytes.checked_add(signature.bytes).ok_or(Error::Count)?;
            elements += signature.elements;
            placed.push(Part { bytes_before, elements_before, signature });
        }
        Ok(Self { of: Of::Sequence(placed.into()), bytes, elements })
    }

    /// Bytes of the packed stream.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many basic elements there are.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// The predefined type that all of it is made of, if it is one type only; `None` also if it is nothing.
    pub fn single(&self) -> Option<Predefined> {
        match &self.of {
            Of::One(datatype) => Some(*datatype),
            Of::Repeat(_, of) => of.single(),
            // Neighbours of one type have become one part.
            Of::Sequence(_) | Of::Nothing => None,
        }
    }

    /// How many basic elements the first `bytes` are; `None` if they end inside of one, or there are fewer.
    pub fn elements_in(&self, bytes: usize) -> Option<usize> {
        match &self.of {
            _ if bytes == 0 => Some(0),
            _ if bytes >= self.bytes => (bytes == self.bytes).then_some(self.elements),
            Of::Nothing => None,
            Of::One(datatype) => datatype.pair_layout_bytes().filter(|(value, _)| *value == bytes).map(|_| 1),
            Of::Repeat(_, of) => Some(bytes / of.bytes * of.elements + of.elements_in(bytes % of.bytes)?),
            Of::Sequence(parts) => {
                let at = parts.partition_point(|part| part.bytes_before <= bytes).saturating_sub(1);
                let part = &parts[at];
                Some(part.elements_before + part.signature.elements_in(bytes - part.bytes_before)?)
            }
        }
    }

    /// Bytes of the first `elements` basic elements. There are at least that many elements.
    pub fn bytes_of(&self, elements: usize) -> usize {
        match &self.of {
            _ if elements == 0 => 0,
            _ if elements >= self.elements => self.bytes,
            Of::Nothing => 0,
            Of::One(datatype) => datatype.pair_layout_bytes().map_or(self.bytes, |(value, _)| value),
            Of::Repeat(_, of) => elements / of.elements * of.bytes + of.bytes_of(elements % of.elements),
            Of::Sequence(parts) => {
                let at = parts.partition_point(|part| part.elements_before <= elements).saturating_sub(1);
                let part = &parts[at];
                part.bytes_before + part.signature.bytes_of(elements - part.elements_before)
            }
        }
    }

    /// A number of the sequence of basic types of `count` of these: the same for the same sequence, however
    /// the datatype was made (a pair is its two types), and for others with a probability of some 2^-60. 0 if
    /// it is packed data, or nothing: any types fit that.
    pub fn digest(&self, count: usize) -> u64 {
        let is_packed = self.single() == Some(Predefined::Packed);
        if is_packed { 0 } else { self.polynomial().repeat(count).value }
    }

    /// The basic types as the coefficients of a polynomial.
    fn polynomial(&self) -> Polynomial {
        match &self.of {
            Of::Nothing => Polynomial::NOTHING,
            Of::One(datatype) => match datatype.pair_types() {
                Some((value, index)) => Polynomial::of(value).then(Polynomial::of(index)),
                None => Polynomial::of(*datatype),
            },
            Of::Repeat(count, of) => of.polynomial().repeat(*count),
            Of::Sequence(parts) => {
                let parts = parts.iter().map(|part| part.signature.polynomial());
                parts.fold(Polynomial::NOTHING, Polynomial::then)
            }
        }
    }

    /// Runs `f(datatype, count)` for all of it in order, with runs of one predefined type.
    ///
    /// # Errors
    /// The first of `f`'s.
    pub fn for_each<E>(&self, f: &mut impl FnMut(Predefined, usize) -> Result<(), E>) -> Result<(), E> {
        match &self.of {
            Of::Nothing => Ok(()),
            Of::One(datatype) => f(*datatype, 1),
            Of::Repeat(count, of) => match of.of {
                Of::One(datatype) => f(datatype, *count),
                _ => (0..*count).try_for_each(|_| of.for_each(f)),
            },
            Of::Sequence(parts) => parts.iter().try_for_each(|part| part.signature.for_each(f)),
        }
    }
}

/// The value of a polynomial at [`Polynomial::AT`], modulo the prime 2^61 - 1, by Horner's rule: what comes
/// later has the lower powers.
#[derive(Clone, Copy)]
struct Polynomial {
    value: u64,
    /// `AT` to the power of how many coefficients there are.
    power: u64,
}

impl Polynomial {
    const NOTHING: Self = Self { value: 0, power: 1 };
    const PRIME: u64 = (1 << 61) - 1;
    /// Any number will do.
    const AT: u64 = 0x0f3a_94c1_5b7e_2d69;

    /// One basic type.
    const fn of(datatype: Predefined) -> Self {
        Self { value: 1 + datatype as u64, power: Self::AT }
    }

    const fn multiply(a: u64, b: u64) -> u64 {
        (a as u128 * b as u128 % Self::PRIME as u128) as u64
    }

    /// One after the other.
    const fn then(self, next: Self) -> Self {
        let value = (Self::multiply(self.value, next.power) + next.value) % Self::PRIME;
        Self { value, power: Self::multiply(self.power, next.power) }
    }

    /// Repeats it `count` times, by doubling.
    fn repeat(self, mut count: usize) -> Self {
        let (mut all, mut doubled) = (Self::NOTHING, self);
        while count > 0 {
            if count & 1 == 1 {
                all = all.then(doubled);
            }
            doubled = doubled.then(doubled);
            count >>= 1;
        }
        all
    }
}

/// Puts a part, which is no sequence, behind the others; the same again makes a repetition.
fn push(list: &mut Vec<Signature>, part: Signature) -> Result<(), Error> {
    fn counted(signature: &Signature) -> (usize, &Of) {
        match &signature.of {
            Of::Repeat(count, of) => (*count, &of.of),
            of => (1, of),
        }
    }
    if let Some(last) = list.last() {
        let ((a, of), (b, other)) = (counted(last), counted(&part));
        // Only basic types are compared: comparing trees again and again could take long.
        if let (Of::One(of), Of::One(other)) = (of, other)
            && of == other
        {
            let merged = Signature::of(*of).repeat(a + b)?;
            list.pop();
            list.push(merged);
            return Ok(());
        }
    }
    list.push(part);
    Ok(())
}
