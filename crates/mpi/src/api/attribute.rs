//! Chapter "attribute": keys, and what is cached under them (MPI-5.0 §7.7, §9.1.2).

use crate::abi::*;
use crate::arguments::*;
use crate::attribute::{self, Kind, keyvals};
use crate::fault::{Fault, fault};
use crate::holder::Holder;
use crate::win;
use std::ffi::{c_int, c_void};

fn create(
    kind: Kind,
    copy: Callback,
    delete: Callback,
    keyval: Out<c_int>,
    extra_state: UserPointer,
) -> Result<(), Fault> {
    let id = keyvals().create(kind, copy, delete, extra_state)?;
    keyval.set("keyval", id)
}

fn free(kind: Kind, keyval: InOut<c_int>) -> Result<(), Fault> {
    let id = keyval.get("keyval")?;
    keyvals().free(kind, id)?;
    keyval.set("keyval", MPI_KEYVAL_INVALID)
}

/// Stores an attribute pointer through C's `void *attribute_val`, which means the address of a `void *`.
fn give(found: Option<UserPointer>, attribute_val: *mut c_void, flag: Out<c_int>) -> Result<(), Fault> {
    if let Some(value) = found {
        Out::from_void(attribute_val).set("attribute_val", value)?;
    }
    flag.set("flag", c_int::from(found.is_some()))
}

/// A predefined attribute of communicators: the address of an integer.
fn predefined(keyval: c_int) -> Option<UserPointer> {
    attribute::predefined(keyval).map(|value| UserPointer(value.as_ptr().cast()))
}

/// A predefined attribute of a window: the address of its memory, or of a value that lives as long as the
/// window.
fn predefined_of(win: MPI_Win, keyval: c_int) -> Result<Option<UserPointer>, Fault> {
    let table = win::table()?;
    let values = &table.get(win, "win")?.values;
    let address = |value: &c_int| (&raw const *value).cast_mut().cast();
    Ok(Some(UserPointer(match keyval {
        MPI_WIN_BASE => values.base.0,
        MPI_WIN_SIZE => (&raw const values.size).cast_mut().cast(),
        MPI_WIN_DISP_UNIT => address(&values.disp_unit),
        MPI_WIN_CREATE_FLAVOR => address(&values.flavor),
        MPI_WIN_MODEL => address(&values.model),
        _ => return Ok(None),
    })))
}

impl Holder {
    fn get(self, keyval: c_int, value: *mut c_void, flag: Out<c_int>) -> Result<(), Fault> {
        let own = self.with(|attributes| attributes.get(keyval))?;
        let found = match self {
            Self::Comm(_) if (MPI_TAG_UB..=MPI_UNIVERSE_SIZE).contains(&keyval) => predefined(keyval),
            Self::Win(win) if (MPI_WIN_BASE..=MPI_WIN_MODEL).contains(&keyval) => predefined_of(win, keyval)?,
            holder => {
                keyvals().check_known(holder.kind(), keyval)?;
                own
            }
        };
        give(found, value, flag)
    }

    fn set(self, keyval: c_int, value: *mut c_void) -> Result<(), Fault> {
        // The object before the key, so that a bad handle is reported first.
        self.with(|_| ())?;
        keyvals().check(self.kind(), keyval)?;
        if let Some(old) = self.with(|attributes| attributes.take(keyval))? {
            self.deleted(old)?;
        }
        self.with(|attributes| attributes.set(keyval, UserPointer(value)))?;
        Ok(())
    }

    fn delete(self, keyval: c_int) -> Result<(), Fault> {
        self.with(|_| ())?;
        keyvals().check_known(self.kind(), keyval)?;
        match self.with(|attributes| attributes.take(keyval))? {
            Some(old) => self.deleted(old),
            None => {
                Err(fault(MPI_ERR_KEYVAL, format_args!("the object has no attribute under key {keyval}")))
            }
        }
    }
}

api! {
    /// MPI-5.0 §7.7.2
    fn MPI_Comm_create_keyval(
        comm_copy_attr_fn: Callback,
        comm_delete_attr_fn: Callback,
        comm_keyval: Out<c_int>,
        extra_state: UserPointer,
    ) {
        create(Kind::Comm, comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval, extra_state)
    }

    /// MPI-5.0 §7.7.4
    fn MPI_Type_create_keyval(
        type_copy_attr_fn: Callback,
        type_delete_attr_fn: Callback,
        type_keyval: Out<c_int>,
        extra_state: UserPointer,
    ) {
        create(Kind::Type, type_copy_attr_fn, type_delete_attr_fn, type_keyval, extra_state)
    }

    /// MPI-5.0 §7.7.3
    fn MPI_Win_create_keyval(
        win_copy_attr_fn: Callback,
        win_delete_attr_fn: Callback,
        win_keyval: Out<c_int>,
        extra_state: UserPointer,
    ) {
        create(Kind::Win, win_copy_attr_fn, win_delete_attr_fn, win_keyval, extra_state)
    }

    /// Deprecated since MPI-2.0.
    fn MPI_Keyval_create(
        copy_fn: Callback,
        delete_fn: Callback,
        keyval: Out<c_int>,
        extra_state: UserPointer,
    ) {
        create(Kind::Comm, copy_fn, delete_fn, keyval, extra_state)
    }

    /// The key lives on while attributes use it.
    fn MPI_Comm_free_keyval(comm_keyval: InOut<c_int>) {
        free(Kind::Comm, comm_keyval)
    }

    /// The key lives on while attributes use it.
    fn MPI_Type_free_keyval(type_keyval: InOut<c_int>) {
        free(Kind::Type, type_keyval)
    }

    /// The key lives on while attributes use it.
    fn MPI_Win_free_keyval(win_keyval: InOut<c_int>) {
        free(Kind::Win, win_keyval)
    }

    /// Deprecated since MPI-2.0.
    fn MPI_Keyval_free(keyval: InOut<c_int>) {
        free(Kind::Comm, keyval)
    }

    /// MPI-5.0 §7.7.2
    fn MPI_Comm_get_attr(
        comm: MPI_Comm,
        comm_keyval: c_int,
        attribute_val: *mut c_void,
        flag: Out<c_int>,
    ) on comm {
        Holder::Comm(comm).get(comm_keyval, attribute_val, flag)
    }

    /// Deprecated since MPI-2.0.
    fn MPI_Attr_get(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void, flag: Out<c_int>) on comm {
        Holder::Comm(comm).get(keyval, attribute_val, flag)
    }

    /// MPI-5.0 §7.7.2
    fn MPI_Comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) on comm {
        Holder::Comm(comm).set(comm_keyval, attribute_val)
    }

    /// Deprecated since MPI-2.0.
    fn MPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) on comm {
        Holder::Comm(comm).set(keyval, attribute_val)
    }

    /// MPI-5.0 §7.7.2
    fn MPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) on comm {
        Holder::Comm(comm).delete(comm_keyval)
    }

    /// Deprecated since MPI-2.0.
    fn MPI_Attr_delete(comm: MPI_Comm, keyval: c_int) on comm {
        Holder::Comm(comm).delete(keyval)
    }

    /// MPI-5.0 §7.7.3
    fn MPI_Win_get_attr(
        win: MPI_Win,
        win_keyval: c_int,
        attribute_val: *mut c_void,
        flag: Out<c_int>,
    ) on win {
        Holder::Win(win).get(win_keyval, attribute_val, flag)
    }

    /// MPI-5.0 §7.7.3
    fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) on win {
        Holder::Win(win).set(win_keyval, attribute_val)
    }

    /// MPI-5.0 §7.7.3
    fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) on win {
        Holder::Win(win).delete(win_keyval)
    }

    /// MPI-5.0 §7.7.4
    fn MPI_Type_get_attr(
        datatype: MPI_Datatype,
        type_keyval: c_int,
        attribute_val: *mut c_void,
        flag: Out<c_int>,
    ) {
        Holder::Type(datatype).get(type_keyval, attribute_val, flag)
    }

    /// MPI-5.0 §7.7.4
    fn MPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void) {
        Holder::Type(datatype).set(type_keyval, attribute_val)
    }

    /// MPI-5.0 §7.7.4
    fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        Holder::Type(datatype).delete(type_keyval)
    }
}
