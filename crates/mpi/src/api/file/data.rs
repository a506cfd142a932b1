//! The data access routines (MPI-5.0 §14.4). Each line of a table is a routine in its two forms, with `int`
//! and `MPI_Count`.

use crate::abi::*;
use crate::arguments::*;
use crate::file::call::{Memory, Start, give};
use crate::file::sys::Way;
use crate::file::{SplitKind, get};
use std::ffi::{c_int, c_void};

/// Routines that wait, at a file pointer. `transfer`: of one process; `transfer_all`: collective.
macro_rules! at_pointers {
    ($($way:ident $start:ident $method:ident $buf:ty, $name:ident $large:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4
            fn $name(
                fh: MPI_File,
                buf: $buf,
                count: c_int,
                datatype: MPI_Datatype,
                status: Out<MPI_Status>,
            ) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                give(&get(fh)?.$method(Way::$way, Start::$start, memory)?, status)
            }
            /// MPI-5.0 §14.4
            fn $large(
                fh: MPI_File,
                buf: $buf,
                count: MPI_Count,
                datatype: MPI_Datatype,
                status: Out<MPI_Status>,
            ) on fh {
                let memory = Memory { buf, count, datatype };
                give(&get(fh)?.$method(Way::$way, Start::$start, memory)?, status)
            }
        }
    )*};
}

at_pointers! {
    Read Own transfer *mut c_void, MPI_File_read MPI_File_read_c;
    Read Own transfer_all *mut c_void, MPI_File_read_all MPI_File_read_all_c;
    Read Shared transfer *mut c_void, MPI_File_read_shared MPI_File_read_shared_c;
    Read Ordered transfer_all *mut c_void, MPI_File_read_ordered MPI_File_read_ordered_c;
    Write Own transfer *const c_void, MPI_File_write MPI_File_write_c;
    Write Own transfer_all *const c_void, MPI_File_write_all MPI_File_write_all_c;
    Write Shared transfer *const c_void, MPI_File_write_shared MPI_File_write_shared_c;
    Write Ordered transfer_all *const c_void, MPI_File_write_ordered MPI_File_write_ordered_c;
}

/// Routines that wait, at an offset.
macro_rules! at_offsets {
    ($($way:ident $method:ident $buf:ty, $name:ident $large:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4.2
            fn $name(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: c_int,
                datatype: MPI_Datatype,
                status: Out<MPI_Status>,
            ) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                give(&get(fh)?.$method(Way::$way, Start::At(offset), memory)?, status)
            }
            /// MPI-5.0 §14.4.2
            fn $large(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: MPI_Count,
                datatype: MPI_Datatype,
                status: Out<MPI_Status>,
            ) on fh {
                let memory = Memory { buf, count, datatype };
                give(&get(fh)?.$method(Way::$way, Start::At(offset), memory)?, status)
            }
        }
    )*};
}

at_offsets! {
    Read transfer *mut c_void, MPI_File_read_at MPI_File_read_at_c;
    Read transfer_all *mut c_void, MPI_File_read_at_all MPI_File_read_at_all_c;
    Write transfer *const c_void, MPI_File_write_at MPI_File_write_at_c;
    Write transfer_all *const c_void, MPI_File_write_at_all MPI_File_write_at_all_c;
}

/// Routines that give a request, at a file pointer. The collective ones go on without the others: none has to
/// wait.
macro_rules! later_at_pointers {
    ($($way:ident $start:ident $buf:ty, $name:ident $large:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4
            fn $name(
                fh: MPI_File,
                buf: $buf,
                count: c_int,
                datatype: MPI_Datatype,
                request: Out<MPI_Request>,
            ) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                request.set("request", get(fh)?.transfer_later(fh, Way::$way, Start::$start, memory)?)
            }
            /// MPI-5.0 §14.4
            fn $large(
                fh: MPI_File,
                buf: $buf,
                count: MPI_Count,
                datatype: MPI_Datatype,
                request: Out<MPI_Request>,
            ) on fh {
                let memory = Memory { buf, count, datatype };
                request.set("request", get(fh)?.transfer_later(fh, Way::$way, Start::$start, memory)?)
            }
        }
    )*};
}

later_at_pointers! {
    Read Own *mut c_void, MPI_File_iread MPI_File_iread_c;
    Read Own *mut c_void, MPI_File_iread_all MPI_File_iread_all_c;
    Read Shared *mut c_void, MPI_File_iread_shared MPI_File_iread_shared_c;
    Write Own *const c_void, MPI_File_iwrite MPI_File_iwrite_c;
    Write Own *const c_void, MPI_File_iwrite_all MPI_File_iwrite_all_c;
    Write Shared *const c_void, MPI_File_iwrite_shared MPI_File_iwrite_shared_c;
}

/// Routines that give a request, at an offset.
macro_rules! later_at_offsets {
    ($($way:ident $buf:ty, $name:ident $large:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4.2
            fn $name(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: c_int,
                datatype: MPI_Datatype,
                request: Out<MPI_Request>,
            ) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                request.set("request", get(fh)?.transfer_later(fh, Way::$way, Start::At(offset), memory)?)
            }
            /// MPI-5.0 §14.4.2
            fn $large(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: MPI_Count,
                datatype: MPI_Datatype,
                request: Out<MPI_Request>,
            ) on fh {
                let memory = Memory { buf, count, datatype };
                request.set("request", get(fh)?.transfer_later(fh, Way::$way, Start::At(offset), memory)?)
            }
        }
    )*};
}

later_at_offsets! {
    Read *mut c_void, MPI_File_iread_at MPI_File_iread_at_c;
    Read *mut c_void, MPI_File_iread_at_all MPI_File_iread_at_all_c;
    Write *const c_void, MPI_File_iwrite_at MPI_File_iwrite_at_c;
    Write *const c_void, MPI_File_iwrite_at_all MPI_File_iwrite_at_all_c;
}

/// Split collective routines (MPI-5.0 §14.4.5), at a file pointer: the beginning in its two forms, and the
/// end.
macro_rules! splits_at_pointers {
    ($($way:ident $start:ident $kind:ident $buf:ty, $begin:ident $large:ident $end:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4.5
            fn $begin(fh: MPI_File, buf: $buf, count: c_int, datatype: MPI_Datatype) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                get(fh)?.begin_all(SplitKind::$kind, Way::$way, Start::$start, memory)
            }
            /// MPI-5.0 §14.4.5
            fn $large(fh: MPI_File, buf: $buf, count: MPI_Count, datatype: MPI_Datatype) on fh {
                let memory = Memory { buf, count, datatype };
                get(fh)?.begin_all(SplitKind::$kind, Way::$way, Start::$start, memory)
            }
            /// MPI-5.0 §14.4.5
            fn $end(fh: MPI_File, buf: $buf, status: Out<MPI_Status>) on fh {
                let _ = buf;
                give(&get(fh)?.end_split(SplitKind::$kind)?, status)
            }
        }
    )*};
}

splits_at_pointers! {
    Read Own ReadAll *mut c_void, MPI_File_read_all_begin MPI_File_read_all_begin_c MPI_File_read_all_end;
    Read Ordered ReadOrdered *mut c_void, MPI_File_read_ordered_begin MPI_File_read_ordered_begin_c MPI_File_read_ordered_end;
    Write Own WriteAll *const c_void, MPI_File_write_all_begin MPI_File_write_all_begin_c MPI_File_write_all_end;
    Write Ordered WriteOrdered *const c_void, MPI_File_write_ordered_begin MPI_File_write_ordered_begin_c MPI_File_write_ordered_end;
}

/// As above, at an offset.
macro_rules! splits_at_offsets {
    ($($way:ident $kind:ident $buf:ty, $begin:ident $large:ident $end:ident;)*) => {$(
        api! {
            /// MPI-5.0 §14.4.5
            fn $begin(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: c_int,
                datatype: MPI_Datatype,
            ) on fh {
                let memory = Memory { buf, count: count.into(), datatype };
                get(fh)?.begin_all(SplitKind::$kind, Way::$way, Start::At(offset), memory)
            }
            /// MPI-5.0 §14.4.5
            fn $large(
                fh: MPI_File,
                offset: MPI_Offset,
                buf: $buf,
                count: MPI_Count,
                datatype: MPI_Datatype,
            ) on fh {
                let memory = Memory { buf, count, datatype };
                get(fh)?.begin_all(SplitKind::$kind, Way::$way, Start::At(offset), memory)
            }
            /// MPI-5.0 §14.4.5
            fn $end(fh: MPI_File, buf: $buf, status: Out<MPI_Status>) on fh {
                let _ = buf;
                give(&get(fh)?.end_split(SplitKind::$kind)?, status)
            }
        }
    )*};
}

splits_at_offsets! {
    Read ReadAtAll *mut c_void, MPI_File_read_at_all_begin MPI_File_read_at_all_begin_c MPI_File_read_at_all_end;
    Write WriteAtAll *const c_void, MPI_File_write_at_all_begin MPI_File_write_at_all_begin_c MPI_File_write_at_all_end;
}
