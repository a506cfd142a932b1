//! Chapter "tool": the tool interface (MPI-5.0 §15.3). Its functions answer with error codes of their own,
//! and a null pointer says that the caller does not want a result.

use crate::abi::*;
use crate::arguments::*;
use crate::phase::{Phase, phase, thread_level};
use crate::runtime::helper;
use crate::runtime::mode::{self, Mode};
use crate::state::process;
use crate::tool::{self, CATEGORIES, Outcome, PERFORMANCES, TEXT_BYTES, Tools, check, controls, with};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a function's body. A panic is a bug of the library, and does not leave it.
fn answer(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => MPI_ERR_INTERN,
    }
}

/// Stores a text in memory for `*len` bytes, as much as fits, and in `len` how many it needs with its final
/// zero.
fn give_text(text: &str, memory: OutText, len: InOut<c_int>) {
    let Ok(capacity) = len.get("len") else { return };
    if !memory.is_null() && capacity > 0 {
        let _ = memory.set("name", text.as_bytes(), capacity as usize);
    }
    let _ = len.set("len", text.len() as c_int + 1);
}

/// The element of an index.
fn at<T>(all: &[T], index: c_int) -> Outcome<(usize, &T)> {
    let found = usize::try_from(index).ok().and_then(|index| Some((index, all.get(index)?)));
    found.ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// The index of a name.
fn find(name: Text, mut names: impl Iterator<Item = (usize, impl AsRef<str>)>, index: Out<c_int>) -> Outcome {
    check()?;
    let name = name.get("name").map_err(|_| MPI_T_ERR_INVALID_NAME)?;
    let found = names.find(|(_, other)| other.as_ref().as_bytes() == name).ok_or(MPI_T_ERR_INVALID_NAME)?;
    index.set_if_wanted(found.0 as c_int);
    Ok(())
}

/// The first of some indices.
fn give_indices(all: &[c_int], len: c_int, indices: Out<c_int>) -> Outcome {
    let count = usize::try_from(len).map_err(|_| MPI_T_ERR_INVALID)?.min(all.len());
    indices.set_all("indices", &all[..count]).map_err(|_| MPI_T_ERR_INVALID)
}

/// The names of the progress modes, the only enumeration.
const MODES: [(Mode, &str); 3] =
    [(Mode::Inline, "inline"), (Mode::Assisted, "assisted"), (Mode::Offload, "offload")];
const MODES_ENUM: MPI_T_enum = MPI_T_enum(1);

/// The control variable of a handle.
fn control_of(tools: &Tools, handle: MPI_T_cvar_handle) -> Outcome<usize> {
    tools.controls.get(&handle.0).copied().ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// The performance variable of a handle in a session.
fn performance_of(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Outcome<usize> {
    with(|tools| {
        if !tools.sessions.contains_key(&session.0) {
            return Err(MPI_T_ERR_INVALID_SESSION);
        }
        match tools.performances.get(&handle.0) {
            Some((of, index)) if *of == session.0 => Ok(*index),
            _ => Err(MPI_T_ERR_INVALID_HANDLE),
        }
    })
}

/// The answer to every attempt to change a performance variable: `code`, if the handle is good.
/// `MPI_T_PVAR_ALL_HANDLES` names no variable that can change.
fn refuse(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, code: c_int) -> Outcome {
    if handle == MPI_T_PVAR_ALL_HANDLES {
        let is_open = with(|tools| Ok(tools.sessions.contains_key(&session.0)))?;
        return if is_open { Ok(()) } else { Err(MPI_T_ERR_INVALID_SESSION) };
    }
    performance_of(session, handle)?;
    Err(code)
}

/// Reads a control variable.
fn read_control(index: usize, buf: *mut c_void) -> Outcome {
    let control = &controls()[index];
    if control.is_progress {
        let mode = if phase() == Phase::Before { mode::asked_for() } else { mode::mode() };
        return Out::<c_int>::from_void(buf).set("buf", mode.number()).map_err(|_| MPI_T_ERR_INVALID);
    }
    let value = tool::setting(index);
    let mut text = [0_u8; TEXT_BYTES];
    let len = value.len().min(TEXT_BYTES - 1);
    text[..len].copy_from_slice(&value.as_bytes()[..len]);
    Out::<u8>::from_void(buf).set_all("buf", &text).map_err(|_| MPI_T_ERR_INVALID)
}

/// Writes the progress mode.
fn write_control(index: usize, buf: *const c_void) -> Outcome {
    if !controls()[index].is_progress {
        return Err(MPI_T_ERR_CVAR_SET_NEVER);
    }
    let number =
        In::from(Out::<c_int>::from_void(buf.cast_mut())).get("buf").map_err(|_| MPI_T_ERR_INVALID)?;
    let mode = Mode::from_number(number).ok_or(MPI_T_ERR_INVALID)?;
    if phase() != Phase::Running {
        return Err(MPI_T_ERR_CVAR_SET_NOT_NOW);
    }
    let set = helper::set_mode(mode);
    // The end of a call notifies the helper of work under way.
    drop(process());
    if set == mode { Ok(()) } else { Err(MPI_T_ERR_CVAR_SET_NOT_NOW) }
}

api! {
    /// Grants what MPI itself was started with; before that, serialized calls.
    fn MPI_T_init_thread(required: c_int, provided: Out<c_int>) -> c_int {
        answer(|| {
            // Calls that may overlap with those of MPI need a process that knows of it.
            let most = if phase() == Phase::Running { thread_level() } else { MPI_THREAD_SERIALIZED };
            provided.set("provided", required.clamp(MPI_THREAD_SINGLE, most)).map_err(|_| MPI_T_ERR_INVALID)?;
            tool::init();
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_finalize() -> c_int {
        answer(|| {
            tool::finalize()
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_enum_get_info(
        enumtype: MPI_T_enum,
        num: Out<c_int>,
        name: OutText,
        name_len: InOut<c_int>,
    ) -> c_int {
        answer(|| {
            check()?;
            if enumtype != MODES_ENUM {
                return Err(MPI_T_ERR_INVALID_HANDLE);
            }
            num.set_if_wanted(MODES.len() as c_int);
            give_text("progress_mode", name, name_len);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_enum_get_item(
        enumtype: MPI_T_enum,
        indx: c_int,
        value: Out<c_int>,
        name: OutText,
        name_len: InOut<c_int>,
    ) -> c_int {
        answer(|| {
            check()?;
            if enumtype != MODES_ENUM {
                return Err(MPI_T_ERR_INVALID_HANDLE);
            }
            let (_, (mode, text)) = at(&MODES, indx).map_err(|_| MPI_T_ERR_INVALID_ITEM)?;
            value.set_if_wanted(mode.number());
            give_text(text, name, name_len);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_get_num(num_cvar: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            num_cvar.set_if_wanted(controls().len() as c_int);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_get_info(
        cvar_index: c_int,
        name: OutText,
        name_len: InOut<c_int>,
        verbosity: Out<c_int>,
        datatype: Out<MPI_Datatype>,
        enumtype: Out<MPI_T_enum>,
        desc: OutText,
        desc_len: InOut<c_int>,
        bind: Out<c_int>,
        scope: Out<c_int>,
    ) -> c_int {
        answer(|| {
            check()?;
            let (_, control) = at(controls(), cvar_index)?;
            give_text(&control.name, name, name_len);
            give_text(&control.description, desc, desc_len);
            verbosity.set_if_wanted(MPI_T_VERBOSITY_USER_BASIC);
            bind.set_if_wanted(MPI_T_BIND_NO_OBJECT);
            let (ty, names, reach) = match control.is_progress {
                true => (MPI_INT, MODES_ENUM, MPI_T_SCOPE_LOCAL),
                false => (MPI_CHAR, MPI_T_ENUM_NULL, MPI_T_SCOPE_READONLY),
            };
            datatype.set_if_wanted(ty);
            enumtype.set_if_wanted(names);
            scope.set_if_wanted(reach);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_get_index(name: Text, cvar_index: Out<c_int>) -> c_int {
        answer(|| {
            find(name, controls().iter().map(|control| &control.name).enumerate(), cvar_index)
        })
    }

    /// No variable is bound to an object.
    fn MPI_T_cvar_handle_alloc(
        cvar_index: c_int,
        obj_handle: *mut c_void,
        handle: Out<MPI_T_cvar_handle>,
        count: Out<c_int>,
    ) -> c_int {
        answer(|| {
            let _ = obj_handle;
            check()?;
            let (index, control) = at(controls(), cvar_index)?;
            let made = with(|tools| {
                let made = tools.new_handle();
                tools.controls.insert(made, index);
                Ok(made)
            })?;
            count.set_if_wanted(if control.is_progress { 1 } else { TEXT_BYTES as c_int });
            handle.set("handle", MPI_T_cvar_handle(made)).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_handle_free(handle: InOut<MPI_T_cvar_handle>) -> c_int {
        answer(|| {
            let given = handle.get("handle").map_err(|_| MPI_T_ERR_INVALID)?;
            with(|tools| tools.controls.remove(&given.0).map(|_| ()).ok_or(MPI_T_ERR_INVALID_HANDLE))?;
            handle.set("handle", MPI_T_CVAR_HANDLE_NULL).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
        answer(|| {
            read_control(with(|tools| control_of(tools, handle))?, buf)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> c_int {
        answer(|| {
            write_control(with(|tools| control_of(tools, handle))?, buf)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_get_num(num_pvar: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            num_pvar.set_if_wanted(PERFORMANCES.len() as c_int);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_get_info(
        pvar_index: c_int,
        name: OutText,
        name_len: InOut<c_int>,
        verbosity: Out<c_int>,
        var_class: Out<c_int>,
        datatype: Out<MPI_Datatype>,
        enumtype: Out<MPI_T_enum>,
        desc: OutText,
        desc_len: InOut<c_int>,
        bind: Out<c_int>,
        readonly: Out<c_int>,
        continuous: Out<c_int>,
        atomic: Out<c_int>,
    ) -> c_int {
        answer(|| {
            check()?;
            let (_, variable) = at(&PERFORMANCES, pvar_index)?;
            give_text(variable.name, name, name_len);
            give_text(variable.description, desc, desc_len);
            verbosity.set_if_wanted(MPI_T_VERBOSITY_USER_BASIC);
            var_class.set_if_wanted(variable.class);
            datatype.set_if_wanted(MPI_UNSIGNED_LONG_LONG);
            enumtype.set_if_wanted(MPI_T_ENUM_NULL);
            bind.set_if_wanted(MPI_T_BIND_NO_OBJECT);
            readonly.set_if_wanted(1);
            continuous.set_if_wanted(1);
            atomic.set_if_wanted(0);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_get_index(name: Text, var_class: c_int, pvar_index: Out<c_int>) -> c_int {
        answer(|| {
            let of_class =
                PERFORMANCES.iter().enumerate().filter(|(_, variable)| variable.class == var_class);
            find(name, of_class.map(|(at, variable)| (at, variable.name)), pvar_index)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_session_create(session: Out<MPI_T_pvar_session>) -> c_int {
        answer(|| {
            let made = with(|tools| {
                let made = tools.new_handle();
                tools.sessions.insert(made, ());
                Ok(made)
            })?;
            session.set("session", MPI_T_pvar_session(made)).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// The session's handles are gone with it.
    fn MPI_T_pvar_session_free(session: InOut<MPI_T_pvar_session>) -> c_int {
        answer(|| {
            let given = session.get("session").map_err(|_| MPI_T_ERR_INVALID)?;
            with(|tools| {
                tools.sessions.remove(&given.0).ok_or(MPI_T_ERR_INVALID_SESSION)?;
                tools.performances.retain(|_, (of, _)| *of != given.0);
                Ok(())
            })?;
            session.set("session", MPI_T_PVAR_SESSION_NULL).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// No variable is bound to an object.
    fn MPI_T_pvar_handle_alloc(
        session: MPI_T_pvar_session,
        pvar_index: c_int,
        obj_handle: *mut c_void,
        handle: Out<MPI_T_pvar_handle>,
        count: Out<c_int>,
    ) -> c_int {
        answer(|| {
            let _ = obj_handle;
            let made = with(|tools| {
                let (index, _) = at(&PERFORMANCES, pvar_index)?;
                if !tools.sessions.contains_key(&session.0) {
                    return Err(MPI_T_ERR_INVALID_SESSION);
                }
                let made = tools.new_handle();
                tools.performances.insert(made, (session.0, index));
                Ok(made)
            })?;
            count.set_if_wanted(1);
            handle.set("handle", MPI_T_pvar_handle(made)).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_handle_free(session: MPI_T_pvar_session, handle: InOut<MPI_T_pvar_handle>) -> c_int {
        answer(|| {
            let given = handle.get("handle").map_err(|_| MPI_T_ERR_INVALID)?;
            performance_of(session, given)?;
            with(|tools| tools.performances.remove(&given.0).map(|_| ()).ok_or(MPI_T_ERR_INVALID_HANDLE))?;
            handle.set("handle", MPI_T_PVAR_HANDLE_NULL).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// All variables count without pause.
    fn MPI_T_pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        answer(|| {
            refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP)
        })
    }

    /// All variables count without pause.
    fn MPI_T_pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        answer(|| {
            refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_pvar_read(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: *mut c_void) -> c_int {
        answer(|| {
            let value = tool::performance(performance_of(session, handle)?);
            Out::<u64>::from_void(buf).set("buf", value).map_err(|_| MPI_T_ERR_INVALID)
        })
    }

    /// No variable can be written.
    fn MPI_T_pvar_write(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: *const c_void) -> c_int {
        answer(|| {
            let _ = buf;
            refuse(session, handle, MPI_T_ERR_PVAR_NO_WRITE)
        })
    }

    /// No variable can be written.
    fn MPI_T_pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        answer(|| {
            refuse(session, handle, MPI_T_ERR_PVAR_NO_WRITE)
        })
    }

    /// No variable can be written.
    fn MPI_T_pvar_readreset(
        session: MPI_T_pvar_session,
        handle: MPI_T_pvar_handle,
        buf: *mut c_void,
    ) -> c_int {
        answer(|| {
            let _ = buf;
            performance_of(session, handle)?;
            Err(MPI_T_ERR_PVAR_NO_ATOMIC)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_category_get_num(num_cat: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            num_cat.set_if_wanted(CATEGORIES.len() as c_int);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_category_get_info(
        cat_index: c_int,
        name: OutText,
        name_len: InOut<c_int>,
        desc: OutText,
        desc_len: InOut<c_int>,
        num_cvars: Out<c_int>,
        num_pvars: Out<c_int>,
        num_categories: Out<c_int>,
    ) -> c_int {
        answer(|| {
            check()?;
            let (index, category) = at(&CATEGORIES, cat_index)?;
            give_text(category.name, name, name_len);
            give_text(category.description, desc, desc_len);
            num_cvars.set_if_wanted(tool::controls_of(index).len() as c_int);
            num_pvars.set_if_wanted(tool::performances_of(index).len() as c_int);
            num_categories.set_if_wanted(0);
            Ok(())
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_category_get_index(name: Text, cat_index: Out<c_int>) -> c_int {
        answer(|| {
            find(name, CATEGORIES.iter().map(|category| category.name).enumerate(), cat_index)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            let (index, _) = at(&CATEGORIES, cat_index)?;
            give_indices(&tool::controls_of(index), len, indices)
        })
    }

    /// MPI-5.0 §15.3
    fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            let (index, _) = at(&CATEGORIES, cat_index)?;
            give_indices(&tool::performances_of(index), len, indices)
        })
    }

    /// There are none in any category.
    fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            at(&CATEGORIES, cat_index)?;
            give_indices(&[], len, indices)
        })
    }

    /// There are none in any category.
    fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            at(&CATEGORIES, cat_index)?;
            give_indices(&[], len, indices)
        })
    }

    /// There are no events.
    fn MPI_T_category_get_num_events(cat_index: c_int, num_events: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            at(&CATEGORIES, cat_index)?;
            num_events.set_if_wanted(0);
            Ok(())
        })
    }

    /// Categories never change.
    fn MPI_T_category_changed(update_number: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            update_number.set_if_wanted(0);
            Ok(())
        })
    }

    /// There are no events, and so no sources.
    fn MPI_T_source_get_num(num_sources: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            num_sources.set_if_wanted(0);
            Ok(())
        })
    }

    /// There are no events.
    fn MPI_T_event_get_num(num_events: Out<c_int>) -> c_int {
        answer(|| {
            check()?;
            num_events.set_if_wanted(0);
            Ok(())
        })
    }

    /// There are no events.
    fn MPI_T_event_callback_get_info(
        event_registration: MPI_T_event_registration,
        cb_safety: c_int,
        info_used: Out<MPI_Info>,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, cb_safety, info_used);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_callback_set_info(
        event_registration: MPI_T_event_registration,
        cb_safety: c_int,
        info: MPI_Info,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, cb_safety, info);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_copy(event_instance: MPI_T_event_instance, buffer: *mut c_void) -> c_int {
        answer(|| {
            let _ = (event_instance, buffer);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_get_index(name: Text, event_index: Out<c_int>) -> c_int {
        answer(|| {
            let _ = (name, event_index);
            check()?;
            Err(MPI_T_ERR_INVALID_NAME)
        })
    }

    /// There are no events.
    fn MPI_T_event_get_info(
        event_index: c_int,
        name: OutText,
        name_len: Out<c_int>,
        verbosity: Out<c_int>,
        array_of_datatypes: Out<MPI_Datatype>,
        array_of_displacements: Out<MPI_Aint>,
        num_elements: Out<c_int>,
        enumtype: Out<MPI_T_enum>,
        info: Out<MPI_Info>,
        desc: OutText,
        desc_len: Out<c_int>,
        bind: Out<c_int>,
    ) -> c_int {
        answer(|| {
            let _ = (event_index, name, name_len, verbosity, array_of_datatypes, array_of_displacements, num_elements, enumtype, info, desc, desc_len, bind);
            check()?;
            Err(MPI_T_ERR_INVALID_INDEX)
        })
    }

    /// There are no events.
    fn MPI_T_event_get_source(event_instance: MPI_T_event_instance, source_index: Out<c_int>) -> c_int {
        answer(|| {
            let _ = (event_instance, source_index);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_get_timestamp(
        event_instance: MPI_T_event_instance,
        event_timestamp: Out<MPI_Count>,
    ) -> c_int {
        answer(|| {
            let _ = (event_instance, event_timestamp);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_handle_alloc(
        event_index: c_int,
        obj_handle: *mut c_void,
        info: MPI_Info,
        event_registration: Out<MPI_T_event_registration>,
    ) -> c_int {
        answer(|| {
            let _ = (event_index, obj_handle, info, event_registration);
            check()?;
            Err(MPI_T_ERR_INVALID_INDEX)
        })
    }

    /// There are no events.
    fn MPI_T_event_handle_free(
        event_registration: MPI_T_event_registration,
        user_data: *mut c_void,
        free_cb_function: Callback,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, user_data, free_cb_function);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_handle_get_info(
        event_registration: MPI_T_event_registration,
        info_used: Out<MPI_Info>,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, info_used);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_handle_set_info(event_registration: MPI_T_event_registration, info: MPI_Info) -> c_int {
        answer(|| {
            let _ = (event_registration, info);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_read(
        event_instance: MPI_T_event_instance,
        element_index: c_int,
        buffer: *mut c_void,
    ) -> c_int {
        answer(|| {
            let _ = (event_instance, element_index, buffer);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_register_callback(
        event_registration: MPI_T_event_registration,
        cb_safety: c_int,
        info: MPI_Info,
        user_data: *mut c_void,
        event_cb_function: Callback,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, cb_safety, info, user_data, event_cb_function);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_event_set_dropped_handler(
        event_registration: MPI_T_event_registration,
        dropped_cb_function: Callback,
    ) -> c_int {
        answer(|| {
            let _ = (event_registration, dropped_cb_function);
            check()?;
            Err(MPI_T_ERR_INVALID_HANDLE)
        })
    }

    /// There are no events.
    fn MPI_T_source_get_info(
        source_index: c_int,
        name: OutText,
        name_len: Out<c_int>,
        desc: OutText,
        desc_len: Out<c_int>,
        ordering: Out<c_int>,
        ticks_per_second: Out<MPI_Count>,
        max_ticks: Out<MPI_Count>,
        info: Out<MPI_Info>,
    ) -> c_int {
        answer(|| {
            let _ = (source_index, name, name_len, desc, desc_len, ordering, ticks_per_second, max_ticks, info);
            check()?;
            Err(MPI_T_ERR_INVALID_INDEX)
        })
    }

    /// There are no events.
    fn MPI_T_source_get_timestamp(source_index: c_int, timestamp: Out<MPI_Count>) -> c_int {
        answer(|| {
            let _ = (source_index, timestamp);
            check()?;
            Err(MPI_T_ERR_INVALID_INDEX)
        })
    }
}
