//! Packed copies for collective operations on data with gaps.
//!
//! Schedules work on contiguous memory. Data with gaps goes through a copy: filled before the operation
//! starts, written back when it is over. Data without gaps is not copied.
//!
//! A function of the user's works on whole elements, so operands of such reductions are copied to an array of
//! elements instead ([`Staging::operand`]). The array holds nothing but the elements' data, and what lies
//! between the elements in the program's memory is not touched.

use crate::abi::*;
use crate::check;
use crate::claim::Given;
use crate::datatype;
use crate::fault::Fault;
use crate::message::{self, Data};
use crate::op::Slots;
use ayatori_core::buffer::Buffer;
use ayatori_core::layout::Region;
use std::cell::Cell;
use std::ffi::c_void;

/// Which way data goes through a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The operation reads it.
    In,
    /// The operation writes all of it.
    Out,
    /// The operation reads it, or leaves parts of it as they are.
    InOut,
}

impl Way {
    /// For an operation's result buffer; in place the operation also reads it.
    pub(crate) fn of_result(is_in_place: bool) -> Self {
        if is_in_place { Self::InOut } else { Self::Out }
    }
}

/// The copies of one operation.
#[derive(Default)]
pub(crate) struct Staging {
    copies: Vec<Copy>,
    /// In check mode the buffers of the call, in the order in which it gave them.
    given: Vec<Given>,
    /// Whether the results of the run are in the program's memory.
    is_drained: Cell<bool>,
}

struct Copy {
    /// The program's elements.
    elements: Region,
    /// Where they are copied to: a packed stream, or an array of elements.
    form: Form,
    way: Way,
    /// The memory of the copy.
    _memory: Vec<u8>,
}

enum Form {
    Packed(Buffer),
    Array(Region),
}

/// Memory for a copy.
fn allocate(len: usize) -> (Vec<u8>, Buffer) {
    let mut memory = vec![0; len];
    // SAFETY: a vector's memory stays where it is until it is dropped or grown. This one is never grown, and
    // its `Copy` keeps it as long as the operation that was given the buffer: a request that is under way is
    // not dropped.
    let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), len) };
    (memory, buffer)
}

impl Staging {
    /// The memory in which the schedule finds, or leaves, the packed stream of `count` elements.
    #[inline]
    pub(crate) fn buffer(
        &mut self,
        way: Way,
        memory: *const c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        name: &str,
    ) -> Result<Buffer, Fault> {
        if check::is_on() {
            self.note(count, datatype, name)?;
        }
        match message::data(memory, count, datatype, name)? {
            Data::Contiguous(buffer) => Ok(buffer),
            Data::Scattered(elements) => {
                let (memory, buffer) = allocate(elements.len());
                self.copies.push(Copy { elements, form: Form::Packed(buffer), way, _memory: memory });
                Ok(buffer)
            }
        }
    }

    /// The memory in which a reduction finds, or leaves, an array of `count` elements.
    #[inline]
    pub(crate) fn operand(
        &mut self,
        way: Way,
        memory: *const c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        name: &str,
    ) -> Result<Buffer, Fault> {
        if check::is_on() {
            self.note(count, datatype, name)?;
        }
        // Pairs include their padding.
        if let Some(basic) = datatype::basic(datatype) {
            return message::elements(memory, count, basic.extent_bytes, name);
        }
        let ty = datatype::get_committed(datatype, "datatype")?;
        if ty.layout.is_contiguous() {
            return message::elements(memory, count, ty.layout.size(), name);
        }
        let Some(elements) = message::region(memory, count, datatype, name)? else {
            return Ok(Buffer::EMPTY);
        };
        let slots = Slots::of(&ty.layout)?;
        let count = elements.len() / slots.layout.size();
        let (memory, buffer) = allocate(slots.bytes * count);
        let span = slots.layout.span(count)?;
        let used = buffer.part((span.lowest - slots.lowest) as usize, span.len);
        let form = Form::Array(Region::new(slots.layout, count, used)?);
        self.copies.push(Copy { elements, form, way, _memory: memory });
        Ok(buffer)
    }

    /// Keeps what a buffer is made of.
    #[cold]
    fn note(&mut self, count: MPI_Count, datatype: MPI_Datatype, name: &str) -> Result<(), Fault> {
        let signature = datatype::get(datatype, "datatype")?.signature.clone();
        let (is_result, count) = (name == "recvbuf", datatype::count(count, "count")?);
        self.given.push(Given { is_result, signature, count });
        Ok(())
    }

    /// The buffers of the call, in check mode.
    pub(crate) fn given(&self) -> &[Given] {
        &self.given
    }

    /// Whether nothing goes through a copy.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Fills the copies: the operation starts.
    pub(crate) fn fill(&self) {
        for copy in self.copies.iter().filter(|copy| copy.way != Way::Out) {
            match &copy.form {
                Form::Packed(packed) => copy.elements.pack(0, *packed),
                Form::Array(array) => copy_elements(&copy.elements, array),
            }
        }
        self.is_drained.set(false);
    }

    /// Writes the copies back, once a run: the operation is over.
    pub(crate) fn drain(&self) {
        if self.is_drained.replace(true) {
            return;
        }
        for copy in self.copies.iter().filter(|copy| copy.way != Way::In) {
            match &copy.form {
                Form::Packed(packed) => copy.elements.unpack(0, *packed),
                Form::Array(array) => copy_elements(array, &copy.elements),
            }
        }
    }
}

/// Copies elements of the same packed stream, some KiB at a time.
fn copy_elements(from: &Region, to: &Region) {
    let mut chunk = [0; 4096];
    let mut offset = 0;
    while offset < from.len() {
        let part = &mut chunk[..(from.len() - offset).min(4096)];
        from.pack(offset, &mut *part);
        to.unpack(offset, &*part);
        offset += part.len();
    }
}
