//! Attributes: pointers of the user cached on communicators, datatypes and windows (MPI-5.0 §7.7).
//!
//! The user's copy and delete functions may call MPI, so none is called with a lock held: [`copy_all`] works
//! on a list of the attributes, [`delete`] on one that was taken out of its object (`holder.rs`).

use crate::abi::*;
use crate::error::LAST_USED_CODE;
use crate::fault::{Fault, fault};
use crate::lock::locked;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

static KEYVALS: Mutex<Keyvals> = Mutex::new(Keyvals::new());

/// The attribute keys, locked.
pub(crate) fn keyvals() -> MutexGuard<'static, Keyvals> {
    locked(&KEYVALS)
}

/// The kind of object an attribute key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

/// An attribute key.
#[derive(Clone, Copy)]
pub(crate) struct Keyval {
    kind: Kind,
    /// 0: not copied; 1: copied as it is; else a function of the user.
    copy: Callback,
    /// 0: nothing to do; else a function of the user.
    delete: Callback,
    extra_state: UserPointer,
    /// The user's handle, until freed, and every attribute.
    user_count: u32,
    freed: bool,
}

/// The attribute keys that exist.
pub(crate) struct Keyvals {
    keyvals: BTreeMap<c_int, Keyval>,
    next: c_int,
}

/// Above every predefined key.
const KEYVAL_FIRST: c_int = 1000;

impl Keyvals {
    pub(crate) const fn new() -> Self {
        Self { keyvals: BTreeMap::new(), next: KEYVAL_FIRST }
    }

    /// A new key.
    pub(crate) fn create(
        &mut self,
        kind: Kind,
        copy: Callback,
        delete: Callback,
        extra_state: UserPointer,
    ) -> Result<c_int, Fault> {
        let id = self.next;
        self.next = id
            .checked_add(1)
            .ok_or_else(|| fault(MPI_ERR_NO_MEM, format_args!("every attribute key has been used")))?;
        self.keyvals.insert(id, Keyval { kind, copy, delete, extra_state, user_count: 1, freed: false });
        Ok(id)
    }

    /// A key of the user's for objects of `kind`.
    fn get(&mut self, kind: Kind, id: c_int) -> Result<&mut Keyval, Fault> {
        match self.keyvals.get_mut(&id) {
            Some(keyval) if keyval.kind == kind => Ok(keyval),
            Some(keyval) => {
                let is = keyval.kind;
                Err(fault(
                    MPI_ERR_KEYVAL,
                    format_args!("attribute key {id} is for a {is:?}, not for a {kind:?}"),
                ))
            }
            None if id == MPI_KEYVAL_INVALID => {
                Err(fault(MPI_ERR_KEYVAL, format_args!("the attribute key is MPI_KEYVAL_INVALID")))
            }
            None if (MPI_TAG_UB..=MPI_WIN_MODEL).contains(&id) => Err(fault(
                MPI_ERR_KEYVAL,
                format_args!("attribute key {id} is predefined and cannot be changed"),
            )),
            None => Err(fault(MPI_ERR_KEYVAL, format_args!("{id} is not an attribute key"))),
        }
    }

    /// Checks that the user may use a key on an object of `kind`.
    pub(crate) fn check(&mut self, kind: Kind, id: c_int) -> Result<(), Fault> {
        if self.get(kind, id)?.freed {
            return Err(fault(MPI_ERR_KEYVAL, format_args!("attribute key {id} was freed")));
        }
        Ok(())
    }

    /// Checks that attributes under a key may be read and deleted. That is so after the key was freed, too,
    /// as long as attributes use it (MPI-5.0 §7.7.2).
    pub(crate) fn check_known(&mut self, kind: Kind, id: c_int) -> Result<(), Fault> {
        self.get(kind, id).map(drop)
    }

    /// The user gives a key back; it lives on while attributes use it. To give it back again meanwhile
    /// changes nothing: programs that do so run on other libraries.
    pub(crate) fn free(&mut self, kind: Kind, id: c_int) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.get(kind, id)?.freed, true) {
            self.release(id);
        }
        Ok(())
    }

    fn retain(&mut self, id: c_int) {
        if let Some(keyval) = self.keyvals.get_mut(&id) {
            keyval.user_count += 1;
        }
    }

    fn release(&mut self, id: c_int) {
        if let Some(keyval) = self.keyvals.get_mut(&id) {
            keyval.user_count -= 1;
            if keyval.user_count == 0 {
                self.keyvals.remove(&id);
            }
        }
    }
}

/// The attributes of one object in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<(c_int, UserPointer)>);

impl Attributes {
    /// The value of a key.
    pub(crate) fn get(&self, keyval: c_int) -> Option<UserPointer> {
        self.0.iter().find(|(id, _)| *id == keyval).map(|(_, value)| *value)
    }

    /// Puts a value in, which becomes a user of its key; gives the one it replaces, still a user.
    pub(crate) fn set(&mut self, keyval: c_int, value: UserPointer) -> Option<UserPointer> {
        keyvals().retain(keyval);
        let old = self.take(keyval);
        self.0.push((keyval, value));
        old.map(|old| old.value)
    }

    /// Takes a value out, still a user of its key.
    pub(crate) fn take(&mut self, keyval: c_int) -> Option<Taken> {
        let position = self.0.iter().position(|(id, _)| *id == keyval)?;
        let (keyval, value) = self.0.remove(position);
        Some(Taken { keyval, value, position })
    }

    /// Takes the attribute that was set last out, still a user of its key.
    pub(crate) fn take_last(&mut self) -> Option<Taken> {
        let (keyval, value) = self.0.pop()?;
        Some(Taken { keyval, value, position: self.0.len() })
    }

    /// Puts an attribute back where it was.
    pub(crate) fn put_back(&mut self, taken: Taken) {
        self.0.insert(taken.position.min(self.0.len()), (taken.keyval, taken.value));
    }

    /// The keys and values.
    pub(crate) fn list(&self) -> Vec<(c_int, UserPointer)> {
        self.0.clone()
    }
}

/// An attribute that was taken out of its object.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) keyval: c_int,
    pub(crate) value: UserPointer,
    /// How many were set before it.
    position: usize,
}

type DeleteFunction = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;
type CopyFunction =
    unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// Calls the user's delete function for an attribute of `object` (its handle's bits), and releases the key. A
/// code the function returns is the fault's code; the attribute then stays, so the caller puts it back.
pub(crate) fn delete(object: usize, id: c_int, value: UserPointer) -> Result<(), Fault> {
    let Some(keyval) = keyvals().keyvals.get(&id).copied() else { return Ok(()) };
    if keyval.delete.0 != 0 {
        // SAFETY: the user registered the pointer as a delete function, whose type in C this is for the three
        // kinds (a handle passes as the integer it is). No lock is held.
        let code = unsafe {
            let function = std::mem::transmute::<usize, DeleteFunction>(keyval.delete.0);
            function(object, id, value.0, keyval.extra_state.0)
        };
        check_user_code(code, "delete", id)?;
    }
    keyvals().release(id);
    Ok(())
}

/// The attributes that a duplicate of `object` gets, by the users' copy functions. Where one refuses there is
/// no duplicate, so no delete function is called for the copies before it: there is no handle to give it.
pub(crate) fn copy_all(object: usize, attributes: &[(c_int, UserPointer)]) -> Result<Attributes, Fault> {
    let mut copies = Attributes::default();
    for (id, value) in attributes {
        let Some(keyval) = keyvals().keyvals.get(id).copied() else { continue };
        let copied = match keyval.copy.0 {
            0 => None,
            1 => Some(*value),
            function => copy_by_user(function, object, *id, *value, keyval.extra_state)
                .inspect_err(|_| copies.0.iter().for_each(|(id, _)| keyvals().release(*id)))?,
        };
        if let Some(value) = copied {
            copies.set(*id, value);
        }
    }
    Ok(copies)
}

fn copy_by_user(
    function: usize,
    object: usize,
    id: c_int,
    value: UserPointer,
    extra_state: UserPointer,
) -> Result<Option<UserPointer>, Fault> {
    let mut copy: *mut c_void = ptr::null_mut();
    let mut flag: c_int = 0;
    // SAFETY: the user registered the pointer as a copy function, whose type in C this is for the three
    // kinds. `attribute_val_out` is a `void *` in C that means the address of a `void *`. No lock is held.
    let code = unsafe {
        let function = std::mem::transmute::<usize, CopyFunction>(function);
        function(object, id, extra_state.0, value.0, (&raw mut copy).cast(), &mut flag)
    };
    check_user_code(code, "copy", id)?;
    Ok((flag != 0).then_some(UserPointer(copy)))
}

fn check_user_code(code: c_int, what: &str, id: c_int) -> Result<(), Fault> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(fault(code, format_args!("the {what} function of attribute key {id} returned {code}"))),
    }
}

static TAG_UB: AtomicI32 = AtomicI32::new(ayatori_core::ids::TAG_UB);
static IO: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(0);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(1);
static APPNUM: AtomicI32 = AtomicI32::new(MPI_UNDEFINED);

/// What the launcher says of the job, and whether its processes read one clock: the values of three
/// predefined attributes. `MPI_Wtime` reads the clock of the host, which no other host has.
pub(crate) fn set_job(universe_size: Option<i32>, appnum: Option<i32>, is_on_one_host: bool) {
    UNIVERSE_SIZE.store(universe_size.unwrap_or(0), Ordering::Relaxed);
    APPNUM.store(appnum.unwrap_or(MPI_UNDEFINED), Ordering::Relaxed);
    WTIME_IS_GLOBAL.store(i32::from(is_on_one_host), Ordering::Relaxed);
}

/// A predefined attribute of communicators, or none where its value is not known. The address stays good.
pub(crate) fn predefined(keyval: c_int) -> Option<&'static AtomicI32> {
    match keyval {
        MPI_LASTUSEDCODE => Some(&LAST_USED_CODE),
        MPI_TAG_UB => Some(&TAG_UB),
        MPI_IO => Some(&IO),
        MPI_HOST => Some(&HOST),
        MPI_WTIME_IS_GLOBAL => Some(&WTIME_IS_GLOBAL),
        MPI_UNIVERSE_SIZE => Some(&UNIVERSE_SIZE).filter(|size| size.load(Ordering::Relaxed) > 0),
        MPI_APPNUM => Some(&APPNUM).filter(|number| number.load(Ordering::Relaxed) >= 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C-unwind" fn refusing(
        _: usize,
        _: c_int,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_int,
    ) -> c_int {
        MPI_ERR_OTHER
    }

    #[test]
    fn refused_copy_leaves_no_user_of_a_key() {
        let create = |copy| {
            keyvals().create(Kind::Comm, Callback(copy), Callback(0), UserPointer(ptr::null_mut())).unwrap()
        };
        let [first, second] = [create(1), create(refusing as CopyFunction as usize)];
        let value = UserPointer(ptr::null_mut());
        assert!(copy_all(0, &[(first, value), (second, value)]).is_err());
        for id in [first, second] {
            keyvals().free(Kind::Comm, id).unwrap();
            assert!(keyvals().check_known(Kind::Comm, id).is_err(), "nobody uses {id}");
        }
    }

    #[test]
    fn attribute_that_is_put_back_stands_where_it_stood() {
        let [a, b, c] = [1, 2, 3].map(|at: usize| (at as c_int, UserPointer(at as *mut c_void)));
        let mut attributes = Attributes(vec![a, b, c]);
        let taken = attributes.take(b.0).unwrap();
        attributes.put_back(taken);
        assert_eq!(attributes.list(), [a, b, c]);
        let taken = attributes.take_last().unwrap();
        attributes.take(a.0);
        attributes.put_back(taken);
        assert_eq!(attributes.list(), [b, c]);
    }

    #[test]
    fn the_clock_is_global_where_all_processes_are_on_one_host() {
        let value = || predefined(MPI_WTIME_IS_GLOBAL).map(|value| value.load(Ordering::Relaxed));
        set_job(None, None, false);
        assert_eq!(value(), Some(0));
        set_job(None, None, true);
        assert_eq!(value(), Some(1));
    }
}
