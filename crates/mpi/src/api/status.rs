//! Chapter "status": what a status says and can be made to say (MPI-5.0 §3.2.5, §3.2.6).

use crate::abi::*;
use crate::boundary::Fault;
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
}
