//! Tables behind handles.
//!
//! A handle is an integer that fits an `int`, so conversion for Fortran is a cast and nothing the user passes
//! is ever dereferenced:
//!
//! ```text
//! predefined      0x001 … 0xfff, the ABI's own values
//! made by us      30..27 kind   26..20 generation   19..0 index
//! of the core     30..29 ones   28..22 generation   21..0 index in the core, see `request.rs`
//! ```
//!
//! The index counts from the kind's first predefined value, so both sorts find their slot by the same mask
//! and subtraction, and one comparison with the handle stored there shows whether it is of this kind, alive,
//! and not an older one of the slot: `and, sub, cmp, load, cmp`. A freed slot's generation is incremented, so
//! use of a freed handle is detected (unless the slot was reused 128 times).

use crate::abi::*;
use crate::fault::{Fault, fault};
use std::ffi::c_int;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const GENERATION_BITS: u32 = 7;
const KIND_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;

/// A type of handle.
pub(crate) trait Handle: Copy + Eq {
    /// Between 1 and 15, its own for each type.
    const KIND: usize;
    /// The null handle, the lowest of the kind's predefined values.
    const NULL: Self;
    /// How many values the ABI predefines or keeps for this kind, counted from the null handle.
    const PREDEFINED_COUNT: usize;
    /// What a bad one is answered with.
    const ERROR_CLASS: c_int;
    /// For messages.
    const WHAT: &'static str;
    /// The first handle made: generation 0, the index after the predefined ones.
    const FIRST_MADE: Self;
    /// The integer.
    fn bits(self) -> usize;
    /// The handle of an integer.
    fn from_bits(bits: usize) -> Self;
}

macro_rules! kinds {
    ($($kind:literal $name:ident $null:ident $predefined:literal $class:ident $what:literal;)*) => {$(
        impl Handle for $name {
            const KIND: usize = $kind;
            const NULL: Self = $null;
            const PREDEFINED_COUNT: usize = $predefined;
            const ERROR_CLASS: c_int = $class;
            const WHAT: &'static str = $what;
            const FIRST_MADE: Self = Self($kind << KIND_SHIFT | ($null.0 + $predefined));
            #[inline(always)]
            fn bits(self) -> usize {
                self.0
            }
            #[inline(always)]
            fn from_bits(bits: usize) -> Self {
                Self(bits)
            }
        }
    )*};
}

kinds! {
    1 MPI_Comm MPI_COMM_NULL 3 MPI_ERR_COMM "communicator";
    2 MPI_Group MPI_GROUP_NULL 2 MPI_ERR_GROUP "group";
    3 MPI_Win MPI_WIN_NULL 1 MPI_ERR_WIN "window";
    4 MPI_File MPI_FILE_NULL 1 MPI_ERR_FILE "file";
    5 MPI_Session MPI_SESSION_NULL 1 MPI_ERR_SESSION "session";
    6 MPI_Message MPI_MESSAGE_NULL 2 MPI_ERR_REQUEST "message";
    7 MPI_Info MPI_INFO_NULL 2 MPI_ERR_INFO "info object";
    8 MPI_Errhandler MPI_ERRHANDLER_NULL 4 MPI_ERR_ERRHANDLER "error handler";
    9 MPI_Request MPI_REQUEST_NULL 1 MPI_ERR_REQUEST "request";
    10 MPI_Datatype MPI_DATATYPE_NULL 0x100 MPI_ERR_TYPE "datatype";
    11 MPI_Op MPI_OP_NULL 0x20 MPI_ERR_OP "operation";
}

/// Whether a handle's bits are those of a made object of this kind.
pub(crate) fn is_made<H: Handle>(bits: usize) -> bool {
    bits >> KIND_SHIFT == H::KIND
}

/// The objects of one kind.
pub(crate) struct Table<H, T> {
    slots: Vec<Slot<H, T>>,
    /// Vacant slots, the last freed on top: it is still in the cache.
    vacant: Vec<u32>,
}

struct Slot<H, T> {
    /// The handle of the object in here; while vacant, that of the next one without meaning yet.
    handle: H,
    object: Option<T>,
}

impl<H: Handle, T> Table<H, T> {
    /// An empty table. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }

    #[inline(always)]
    fn index(handle: H) -> usize {
        (handle.bits() & INDEX_MASK).wrapping_sub(H::NULL.bits())
    }

    fn vacant_slot(index: usize, generation: usize) -> Slot<H, T> {
        let low = index + H::NULL.bits();
        let bits = match index < H::PREDEFINED_COUNT {
            true => low,
            false => H::KIND << KIND_SHIFT | generation << INDEX_BITS | low,
        };
        Slot { handle: H::from_bits(bits), object: None }
    }

    /// The handle of the first object put in.
    pub(crate) const FIRST: H = H::FIRST_MADE;

    fn reserve_predefined(&mut self) {
        while self.slots.len() < H::PREDEFINED_COUNT {
            self.slots.push(Self::vacant_slot(self.slots.len(), 0));
        }
    }

    /// Puts the object of a predefined handle in.
    pub(crate) fn insert_predefined(&mut self, handle: H, object: T) {
        self.reserve_predefined();
        self.slots[Self::index(handle)].object = Some(object);
    }

    /// Number of objects other than the predefined ones.
    pub(crate) fn made_count(&self) -> usize {
        self.slots.len().saturating_sub(H::PREDEFINED_COUNT) - self.vacant.len()
    }

    /// The fault of putting `count` more objects in, if the table would be full before (a million objects).
    pub(crate) fn check_room(&self, count: usize) -> Result<(), Fault> {
        let alive_count = self.slots.len().max(H::PREDEFINED_COUNT) - self.vacant.len();
        if alive_count + count + H::NULL.bits() <= INDEX_MASK + 1 {
            return Ok(());
        }
        Err(fault(MPI_ERR_NO_MEM, format_args!("{alive_count} objects of kind {} are alive", H::WHAT)))
    }

    /// Puts an object in; its handle. Fails when the table is full.
    pub(crate) fn insert(&mut self, object: T) -> Result<H, Fault> {
        self.reserve_predefined();
        let index = match self.vacant.pop() {
            Some(index) => index as usize,
            None => {
                self.check_room(1)?;
                let index = self.slots.len();
                self.slots.push(Self::vacant_slot(index, 0));
                index
            }
        };
        let slot = &mut self.slots[index];
        slot.object = Some(object);
        Ok(slot.handle)
    }

    /// The object of a handle, if there is one.
    #[inline(always)]
    pub(crate) fn find(&self, handle: H) -> Option<&T> {
        let slot = self.slots.get(Self::index(handle)).filter(|slot| slot.handle == handle)?;
        slot.object.as_ref()
    }

    /// The object of a handle; `name` is the argument a bad one came in.
    #[inline(always)]
    pub(crate) fn get(&self, handle: H, name: &str) -> Result<&T, Fault> {
        self.find(handle).ok_or_else(|| bad(handle, name))
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.object.as_ref())
    }

    /// As [`find`](Self::find), to change it.
    #[inline(always)]
    pub(crate) fn find_mut(&mut self, handle: H) -> Option<&mut T> {
        let slot = self.slots.get_mut(Self::index(handle)).filter(|slot| slot.handle == handle)?;
        slot.object.as_mut()
    }

    /// As [`get`](Self::get), to change it.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, handle: H, name: &str) -> Result<&mut T, Fault> {
        self.find_mut(handle).ok_or_else(|| bad(handle, name))
    }

    /// Takes the object of a handle out: the handle is bad from now on.
    pub(crate) fn remove(&mut self, handle: H, name: &str) -> Result<T, Fault> {
        let index = Self::index(handle);
        if let Some(slot) = self.slots.get_mut(index)
            && slot.handle == handle
            && let Some(object) = slot.object.take()
        {
            if index >= H::PREDEFINED_COUNT {
                let generation = ((handle.bits() >> INDEX_BITS) + 1) & ((1 << GENERATION_BITS) - 1);
                *slot = Self::vacant_slot(index, generation);
                self.vacant.push(index as u32);
            }
            return Ok(object);
        }
        Err(bad(handle, name))
    }
}

/// The fault of a handle that is null, of another kind, freed or no handle at all.
#[cold]
#[inline(never)]
pub(crate) fn bad<H: Handle>(handle: H, name: &str) -> Fault {
    let bits = handle.bits();
    let class = H::ERROR_CLASS;
    if let Some(known) = handle_name(bits) {
        return fault(class, format_args!("argument {name} is {known}"));
    }
    fault(class, format_args!("argument {name} is not a {} or was freed (handle {bits:#x})", H::WHAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_and_made_handles_find_their_objects() {
        let mut table = Table::<MPI_Comm, u32>::new();
        table.insert_predefined(MPI_COMM_WORLD, 1);
        let made: Vec<_> = (0..100).map(|i| table.insert(10 + i).unwrap()).collect();
        assert_eq!(*table.get(MPI_COMM_WORLD, "comm").unwrap(), 1);
        for (i, handle) in made.iter().enumerate() {
            assert!(handle.0 >= 0x1000 && handle.0 <= i32::MAX as usize);
            assert_eq!(*table.get(*handle, "comm").unwrap(), 10 + i as u32);
        }
    }

    #[test]
    fn invalid_handles_are_refused_with_the_class_of_their_kind() {
        let mut comms = Table::<MPI_Comm, u32>::new();
        let mut groups = Table::<MPI_Group, u32>::new();
        let (comm, group) = (comms.insert(1).unwrap(), groups.insert(2).unwrap());
        assert_eq!(comms.remove(comm, "comm").unwrap(), 1);
        let reused = comms.insert(3).unwrap();
        assert_ne!(comm, reused);
        for bits in [0, 1, 0x100, 0x102, comm.0, group.0, usize::MAX, 0x7fff_ffff, reused.0 | 1 << 40] {
            let fault = comms.get(MPI_Comm(bits), "comm").unwrap_err();
            assert_eq!(fault.code(), MPI_ERR_COMM, "{bits:#x}");
        }
        assert_eq!(groups.get(MPI_Group(comm.0), "group").unwrap_err().code(), MPI_ERR_GROUP);
        assert_eq!(*comms.get(reused, "comm").unwrap(), 3);
    }

    #[test]
    fn a_full_table_takes_nothing_and_says_so_beforehand() {
        let mut table = Table::<MPI_Op, ()>::new();
        let mut handles = Vec::new();
        while table.check_room(1).is_ok() {
            handles.push(table.insert(()).unwrap());
        }
        assert!(handles.len() > 1_000_000);
        assert_eq!(table.insert(()).unwrap_err().code(), MPI_ERR_NO_MEM);
        for handle in &handles[..2] {
            table.remove(*handle, "op").unwrap();
        }
        assert!(table.check_room(2).is_ok() && table.check_room(3).is_err());
        assert!(table.insert(()).is_ok() && table.insert(()).is_ok() && table.insert(()).is_err());
    }

    #[test]
    fn a_table_agrees_with_a_map_over_random_inserts_and_removes() {
        let mut table = Table::<MPI_Op, u64>::new();
        let mut model = std::collections::BTreeMap::new();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for step in 0..10_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if !random.is_multiple_of(3) || model.is_empty() {
                let handle = table.insert(step).unwrap();
                assert!(model.insert(handle, step).is_none(), "handle given twice");
            } else {
                let handle = *model.keys().nth(random as usize / 3 % model.len()).unwrap();
                assert_eq!(table.remove(handle, "op").ok(), model.remove(&handle));
                assert!(table.get(handle, "op").is_err());
            }
        }
        assert!(model.iter().all(|(handle, value)| table.get(*handle, "op").unwrap() == value));
    }
}
