//! Chapter "file": opening files, views, pointers and consistency (MPI-5.0 §14). The data access routines are
//! in `data`.

mod data;

pub(crate) use data::*;

use crate::abi::*;
use crate::arguments::*;
use crate::datatype::{self, Datatype, Type};
use crate::fault::{Fault, fault};
use crate::file::{self, get, representation};
use crate::state::process;
use std::ffi::c_int;
use std::sync::Arc;

/// A handle of a type of a view: of predefined ones their own, else a new one that the caller frees.
fn handle_of(ty: &Arc<Type>) -> Result<MPI_Datatype, Fault> {
    match ty.handle {
        Some(handle) => Ok(handle),
        None => datatype::table()?.insert(Datatype { is_committed: true, ..Datatype::new(ty.clone()) }),
    }
}

/// A size in bytes that is not negative.
fn size(size: MPI_Offset) -> Result<u64, Fault> {
    u64::try_from(size).map_err(|_| fault(MPI_ERR_ARG, format_args!("argument size ({size}) is negative")))
}

fn type_extent(fh: MPI_File, datatype: MPI_Datatype) -> Result<isize, Fault> {
    let view = get(fh)?.state().view.clone();
    Ok(view.representation.layout(&*datatype::get(datatype, "datatype")?)?.extent())
}

fn register(
    name: Text,
    functions: [Callback; 3],
    extra_state: UserPointer,
    is_large: bool,
) -> Result<(), Fault> {
    crate::phase::check_running()?;
    let registered = || representation::register(name.get("datarep")?, functions, extra_state, is_large);
    registered().map_err(|fault| fault.on(MPI_FILE_NULL))
}

api! {
    /// MPI-5.0 §14.2.1. Collective: rank 0 opens, and creates, the file first.
    fn MPI_File_open(comm: MPI_Comm, filename: Text, amode: c_int, info: MPI_Info, fh: Out<MPI_File>) {
        let opened = filename.get("filename").and_then(|name| file::open(comm, name, amode, info));
        fh.set("fh", opened.map_err(|fault| fault.on(MPI_FILE_NULL))?)
    }

    /// MPI-5.0 §14.2.2. Collective. All written data is stored.
    fn MPI_File_close(fh: InOut<MPI_File>) {
        let handle = fh.get("fh")?;
        match file::close(handle) {
            Err(fault) if fault.object().is_none() => Err(fault.on(handle)),
            // Closed, also where data could not be stored or the file not be deleted.
            closed => {
                fh.set("fh", MPI_FILE_NULL)?;
                closed
            }
        }
    }

    /// MPI-5.0 §14.2.3
    fn MPI_File_delete(filename: Text, info: MPI_Info) {
        crate::phase::check_running()?;
        let delete = || {
            if info != MPI_INFO_NULL {
                crate::info::with(info, |_| Ok(()))?;
            }
            file::delete(filename.get("filename")?)
        };
        delete().map_err(|fault| fault.on(MPI_FILE_NULL))
    }

    /// MPI-5.0 §14.2.4. Collective.
    fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) on fh {
        let file = get(fh)?;
        let bytes = file.check_writable().and_then(|()| self::size(size));
        file.store.touch();
        file.by_first(bytes, "set the size of", || file.store.fd.set_size(size as u64))
    }

    /// MPI-5.0 §14.2.5. Collective.
    fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) on fh {
        let file = get(fh)?;
        let bytes = file.check_writable().and_then(|()| self::size(size));
        file.store.touch();
        file.by_first(bytes, "preallocate", || match size {
            0 => Ok(()),
            size => file.store.fd.allocate(size as u64),
        })
    }

    /// MPI-5.0 §14.2.6
    fn MPI_File_get_size(fh: MPI_File, size: Out<MPI_Offset>) on fh {
        let file = get(fh)?;
        let bytes = file.store.fd.size().map_err(file.failed("look at"))?;
        size.set("size", bytes as MPI_Offset)
    }

    /// The group is the caller's to free.
    fn MPI_File_get_group(fh: MPI_File, group: Out<MPI_Group>) on fh {
        let members = get(fh)?.party.group.clone();
        let handle = process()?.groups.insert(members.into())?;
        group.set("group", handle)
    }

    /// MPI-5.0 §14.2.7
    fn MPI_File_get_amode(fh: MPI_File, amode: Out<c_int>) on fh {
        amode.set("amode", get(fh)?.amode)
    }

    /// MPI-5.0 §14.2.8. Collective.
    fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) on fh {
        get(fh)?.set_info(info)
    }

    /// The hints in use; the caller's to free.
    fn MPI_File_get_info(fh: MPI_File, info_used: Out<MPI_Info>) on fh {
        let file = get(fh)?;
        let info = file.state().hints.to_info(&file.name, file.party.size);
        crate::info::give_used(info, info_used)
    }

    /// MPI-5.0 §14.3. Collective.
    fn MPI_File_set_view(
        fh: MPI_File,
        disp: MPI_Offset,
        etype: MPI_Datatype,
        filetype: MPI_Datatype,
        datarep: Text,
        info: MPI_Info,
    ) on fh {
        get(fh)?.set_view(disp, (etype, filetype), datarep.get("datarep")?, info)
    }

    /// Types that are not predefined are the caller's to free.
    fn MPI_File_get_view(
        fh: MPI_File,
        disp: Out<MPI_Offset>,
        etype: Out<MPI_Datatype>,
        filetype: Out<MPI_Datatype>,
        datarep: OutText,
    ) on fh {
        let view = get(fh)?.state().view.clone();
        disp.set("disp", view.displacement)?;
        etype.set("etype", handle_of(&view.etype)?)?;
        filetype.set("filetype", handle_of(&view.filetype)?)?;
        datarep.set("datarep", view.representation.name(), MPI_MAX_DATAREP_STRING as usize).map(drop)
    }

    /// MPI-5.0 §14.4.3. In etypes of the view.
    fn MPI_File_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        let file = get(fh)?;
        file.check_not_sequential()?;
        let current = file.state().position;
        let target = file.target(whence, offset, current)?;
        file.state().position = target;
        Ok(())
    }

    /// MPI-5.0 §14.4.3
    fn MPI_File_get_position(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        let file = get(fh)?;
        file.check_not_sequential()?;
        let position = file.state().position;
        offset.set("offset", position)
    }

    /// Where in the file an offset of the view is.
    fn MPI_File_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: Out<MPI_Offset>) on fh {
        let file = get(fh)?;
        file.check_not_sequential()?;
        let view = file.state().view.clone();
        let bytes = view.bytes(offset)?;
        let place = if view.is_empty() { Some(view.displacement as u64) } else { view.place(bytes) };
        let place = place.ok_or_else(|| fault(MPI_ERR_ARG, format_args!("argument offset ({offset}) is too large")))?;
        disp.set("disp", place as MPI_Offset)
    }

    /// MPI-5.0 §14.4.4. Collective.
    fn MPI_File_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        get(fh)?.seek_shared(offset, whence)
    }

    /// MPI-5.0 §14.4.4
    fn MPI_File_get_position_shared(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        let file = get(fh)?;
        file.check_not_sequential()?;
        offset.set("offset", file.shared_position()?)
    }

    /// MPI-5.0 §14.5.1
    fn MPI_File_get_type_extent(fh: MPI_File, datatype: MPI_Datatype, extent: Out<MPI_Aint>) on fh {
        extent.set("extent", type_extent(fh, datatype)?)
    }

    /// MPI-5.0 §14.5.1
    fn MPI_File_get_type_extent_c(fh: MPI_File, datatype: MPI_Datatype, extent: Out<MPI_Count>) on fh {
        extent.set("extent", type_extent(fh, datatype)? as MPI_Count)
    }

    /// MPI-5.0 §14.5.3
    fn MPI_Register_datarep(
        datarep: Text,
        read_conversion_fn: Callback,
        write_conversion_fn: Callback,
        dtype_file_extent_fn: Callback,
        extra_state: UserPointer,
    ) {
        register(datarep, [read_conversion_fn, write_conversion_fn, dtype_file_extent_fn], extra_state, false)
    }

    /// MPI-5.0 §14.5.3
    fn MPI_Register_datarep_c(
        datarep: Text,
        read_conversion_fn: Callback,
        write_conversion_fn: Callback,
        dtype_file_extent_fn: Callback,
        extra_state: UserPointer,
    ) {
        register(datarep, [read_conversion_fn, write_conversion_fn, dtype_file_extent_fn], extra_state, true)
    }

    /// MPI-5.0 §14.6.1. Collective.
    fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) on fh {
        get(fh)?.set_atomicity(flag)
    }

    /// MPI-5.0 §14.6.1
    fn MPI_File_get_atomicity(fh: MPI_File, flag: Out<c_int>) on fh {
        let is_atomic = get(fh)?.state().is_atomic;
        flag.set("flag", c_int::from(is_atomic))
    }

    /// MPI-5.0 §14.6.1. Collective.
    fn MPI_File_sync(fh: MPI_File) on fh {
        get(fh)?.sync()
    }
}
