//! Chapter "status": what a status says and can be made to say (MPI-5.0 §3.2.5, §3.2.6).

use crate::abi::*;
use crate::arguments::*;
use crate::datatype::{self, get};
use crate::fault::{Fault, fault};
use std::ffi::c_int;

/// Reads the status a caller must give: MPI_STATUS_IGNORE says nothing.
fn read(status: In<MPI_Status>) -> Result<MPI_Status, Fault> {
    status.get("status")
}

/// Changes the status a caller must give.
fn change(status: InOut<MPI_Status>, change: impl FnOnce(&mut MPI_Status)) -> Result<(), Fault> {
    let mut value = status.get("status")?;
    change(&mut value);
    status.set("status", value)
}

api! {
    /// MPI-5.0 §3.2.5
    fn MPI_Status_get_source(status: In<MPI_Status>, source: Out<c_int>) {
        source.set("source", read(status)?.source)
    }

    /// MPI-5.0 §3.2.5
    fn MPI_Status_get_tag(status: In<MPI_Status>, tag: Out<c_int>) {
        tag.set("tag", read(status)?.tag)
    }

    /// MPI-5.0 §3.2.5
    fn MPI_Status_get_error(status: In<MPI_Status>, error: Out<c_int>) {
        error.set("error", read(status)?.error)
    }

    /// MPI-5.0 §3.2.5
    fn MPI_Status_set_source(status: InOut<MPI_Status>, source: c_int) {
        change(status, |status| status.source = source)
    }

    /// MPI-5.0 §3.2.5
    fn MPI_Status_set_tag(status: InOut<MPI_Status>, tag: c_int) {
        change(status, |status| status.tag = tag)
    }

    /// MPI-5.0 §3.2.5
    fn MPI_Status_set_error(status: InOut<MPI_Status>, error: c_int) {
        change(status, |status| status.error = error)
    }

    /// For generalized requests (MPI-5.0 §13.3).
    fn MPI_Status_set_cancelled(status: InOut<MPI_Status>, flag: c_int) {
        change(status, |status| status.set_cancelled(flag != 0))
    }

    /// MPI-5.0 §3.8.4
    fn MPI_Test_cancelled(status: In<MPI_Status>, flag: Out<c_int>) {
        flag.set("flag", c_int::from(read(status)?.cancelled()))
    }

    /// MPI_UNDEFINED where the length is no whole number of elements, or more than the argument holds.
    fn MPI_Get_count(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<c_int>) {
        let found = get(datatype, "datatype")?.count(read(status)?.length_bytes());
        count.set("count", int_or_undefined(found))
    }

    /// As MPI_Get_count.
    fn MPI_Get_count_c(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>) {
        let found = get(datatype, "datatype")?.count(read(status)?.length_bytes());
        count.set("count", found.unwrap_or(MPI_UNDEFINED.into()))
    }

    /// Counts the numbers that arrived: of a pair value and index.
    fn MPI_Get_elements(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<c_int>) {
        let found = get(datatype, "datatype")?.element_count(read(status)?.length_bytes());
        count.set("count", int_or_undefined(found))
    }

    /// As MPI_Get_elements.
    fn MPI_Get_elements_c(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>) {
        let found = get(datatype, "datatype")?.element_count(read(status)?.length_bytes());
        count.set("count", found.unwrap_or(MPI_UNDEFINED.into()))
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Get_elements_x(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>) {
        let found = get(datatype, "datatype")?.element_count(read(status)?.length_bytes());
        count.set("count", found.unwrap_or(MPI_UNDEFINED.into()))
    }

    /// For generalized requests (MPI-5.0 §13.3).
    fn MPI_Status_set_elements(status: InOut<MPI_Status>, datatype: MPI_Datatype, count: c_int) {
        set_elements(status, datatype, count.into())
    }

    /// For generalized requests (MPI-5.0 §13.3).
    fn MPI_Status_set_elements_c(status: InOut<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count) {
        set_elements(status, datatype, count)
    }

    /// Deprecated since MPI-4.1.
    fn MPI_Status_set_elements_x(status: InOut<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count) {
        set_elements(status, datatype, count)
    }
}

/// A count in an `int`, or MPI_UNDEFINED (MPI-5.0 §3.2.5).
fn int_or_undefined(count: Option<MPI_Count>) -> c_int {
    count.and_then(|count| c_int::try_from(count).ok()).unwrap_or(MPI_UNDEFINED)
}

fn set_elements(status: InOut<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count) -> Result<(), Fault> {
    let ty = get(datatype, "datatype")?;
    datatype::count(count, "count")?;
    let bytes = ty.bytes_of_elements(count);
    let bytes =
        bytes.ok_or_else(|| fault(MPI_ERR_COUNT, format_args!("argument count ({count}) is too large")))?;
    change(status, |status| status.set_length_bytes(bytes))
}
