//! Chapter "request": waiting for, testing, starting and cancelling operations (MPI-5.0 §3.7.3 to §3.9,
//! §13.2).

use crate::abi::*;
use crate::arguments::*;
use crate::fault::{Fault, fault};
use crate::general::{General, user_result};
use crate::message;
use crate::request::{Half, Looked, Remote, Request, SENT, Tested, What, check, object_of};
use crate::runtime::sleepers::tell_resting;
use crate::runtime::wait::{found_nothing, wait_alone, wait_for_any, wait_until};
use crate::state::{Guard, Process, process};
use crate::why::Waits;
use ayatori_core::request::{Completion, Status};
use std::ffi::c_int;

/// How one request ended: its status, its error, and what its handle becomes.
struct Ended {
    status: MPI_Status,
    completion: Completion,
    /// What the user's functions of a generalized request returned.
    user_code: c_int,
    comm: MPI_Comm,
    /// There was nothing to wait for.
    is_nothing: bool,
}

/// Whether requests are over, without waiting and without ending them (`MPI_Request_get_status`).
fn peek(handle: MPI_Request) -> Result<Option<MPI_Status>, Fault> {
    let looked = process()?.look_at(handle)?;
    match looked {
        // The lock is gone: the user's function may call MPI.
        Looked::General(general) => general.query().map(Some),
        Looked::Core(completion) => Ok(completion.map(|completion| message::status(&completion))),
    }
}

/// Whether a request is over. Calls no function of the user's.
fn is_over(handle: MPI_Request) -> Result<bool, Fault> {
    Ok(!matches!(process()?.look_at(handle)?, Looked::Core(None)))
}

/// What a locked look at a request found; a generalized request's functions are called after the lock.
enum Found {
    Ended(Ended, MPI_Request),
    General(Box<General>, MPI_Comm),
}

fn look(process: &mut Process, handle: MPI_Request, name: &str) -> Result<Option<Found>, Fault> {
    let (tested, comm) = process.test(handle, name)?;
    Ok(match tested {
        Tested::Going => None,
        Tested::GeneralOver(general) => Some(Found::General(general, comm)),
        Tested::Nothing => {
            let completion = Completion::EMPTY;
            let status = MPI_Status::empty();
            let ended = Ended { status, completion, user_code: MPI_SUCCESS, comm, is_nothing: true };
            Some(Found::Ended(ended, handle))
        }
        Tested::Over { completion, keeps } => {
            let status = message::status(&completion);
            let after = if keeps { handle } else { MPI_REQUEST_NULL };
            let ended = Ended { status, completion, user_code: MPI_SUCCESS, comm, is_nothing: false };
            Some(Found::Ended(ended, after))
        }
    })
}

/// Ends what was found, with no lock held: stores the new handle.
fn end(found: Found, request: InOut<MPI_Request>, at: usize) -> Result<Ended, Fault> {
    match found {
        Found::Ended(ended, after) => {
            request.set_at("request", at, after)?;
            Ok(ended)
        }
        Found::General(general, comm) => {
            request.set_at("request", at, MPI_REQUEST_NULL)?;
            let (status, user_code) = general.finish();
            Ok(Ended { status, completion: Completion::EMPTY, user_code, comm, is_nothing: false })
        }
    }
}

impl Ended {
    /// The error field that a call for one request writes: none, except in an empty status, which says
    /// success (MPI-5.0 §3.7.3).
    fn error_field(&self) -> Option<c_int> {
        self.is_nothing.then_some(MPI_SUCCESS)
    }

    /// The code for the error field of a status.
    fn code(&self) -> c_int {
        match self.user_code {
            MPI_SUCCESS => self.completion.error.map_or(MPI_SUCCESS, |error| Fault::from(error).code()),
            code => code,
        }
    }

    fn has_failed(&self) -> bool {
        self.completion.error.is_some() || self.user_code != MPI_SUCCESS
    }

    /// Its fault, if it has failed.
    fn check(&self) -> Result<(), Fault> {
        user_result(self.user_code)?;
        check(&self.completion, self.comm)
    }
}

/// Stores an empty status.
fn store_empty(statuses: Out<MPI_Status>, at: usize) {
    store(statuses, at, MPI_Status::empty(), Some(MPI_SUCCESS));
}

/// Stores a status unless it is ignored; the error field only where the call sets it.
fn store(statuses: Out<MPI_Status>, at: usize, status: MPI_Status, error: Option<c_int>) {
    statuses.give(at, &status, error);
}

/// Stores the status of a request that ended without error, unless it is ignored.
#[inline(always)]
fn store_plain(statuses: Out<MPI_Status>, at: usize, handle: MPI_Request, status: Status) {
    if !statuses.is_ignored() {
        let error = (handle == MPI_REQUEST_NULL).then_some(MPI_SUCCESS);
        store(statuses, at, message::status(&Completion { status, error: None }), error);
    }
}

/// The length of an array of requests.
fn length(name: &str, count: c_int) -> Result<usize, Fault> {
    usize::try_from(count)
        .map_err(|_| fault(MPI_ERR_COUNT, format_args!("argument {name} ({count}) is negative")))
}

/// Ends the first finished request of an array. `None`: all go on. `Some(None)`: there is none to wait for.
fn end_any(requests: InOut<MPI_Request>, count: usize) -> Result<Option<Option<(usize, Ended)>>, Fault> {
    let mut found = None;
    let mut active = false;
    {
        let mut process = process()?;
        process.progress();
        for at in 0..count {
            let handle = requests.get_at("array_of_requests", at)?;
            match look(&mut process, handle, "array_of_requests")? {
                Some(Found::Ended(Ended { is_nothing: true, .. }, _)) => {}
                Some(ended) => {
                    found = Some((at, ended));
                    break;
                }
                None => active = true,
            }
        }
    }
    match found {
        Some((at, found)) => Ok(Some(Some((at, end(found, requests, at)?)))),
        None if active => Ok(None),
        None => Ok(Some(None)),
    }
}

/// Answers of the calls for any one of several requests.
fn give_any(ended: Option<(usize, Ended)>, index: Out<c_int>, status: Out<MPI_Status>) -> Result<(), Fault> {
    match ended {
        None => {
            store_empty(status, 0);
            index.set("indx", MPI_UNDEFINED)
        }
        Some((at, ended)) => {
            index.set("indx", at as c_int)?;
            store(status, 0, ended.status, None);
            ended.check()
        }
    }
}

/// Ended requests, each with its place in the caller's array.
type EndedAt = Vec<(usize, Ended)>;

/// Ends every finished request of an array. `None`: all active ones go on, and there are some. `Some(None)`:
/// none was active.
fn end_some(requests: InOut<MPI_Request>, count: usize) -> Result<Option<Option<EndedAt>>, Fault> {
    let mut found = Vec::new();
    let mut active = false;
    {
        let mut process = process()?;
        process.progress();
        for at in 0..count {
            let handle = requests.get_at("array_of_requests", at)?;
            match look(&mut process, handle, "array_of_requests")? {
                Some(Found::Ended(Ended { is_nothing: true, .. }, _)) => {}
                Some(ended) => found.push((at, ended)),
                None => active = true,
            }
        }
    }
    if found.is_empty() {
        return Ok(if active { None } else { Some(None) });
    }
    let ended = found.into_iter().map(|(at, found)| Ok((at, end(found, requests, at)?)));
    Ok(Some(Some(ended.collect::<Result<_, Fault>>()?)))
}

/// Answers of the calls for some of several requests.
fn give_some(
    ended: Option<EndedAt>,
    outcount: Out<c_int>,
    indices: Out<c_int>,
    statuses: Out<MPI_Status>,
) -> Result<(), Fault> {
    let Some(ended) = ended else { return outcount.set("outcount", MPI_UNDEFINED) };
    outcount.set("outcount", ended.len() as c_int)?;
    indices.set_all("array_of_indices", &ended.iter().map(|(at, _)| *at as c_int).collect::<Vec<_>>())?;
    give_statuses(ended.iter().map(|(_, ended)| ended), statuses)
}

/// Stores statuses one after the other; with an error among them, all error fields and the one fault.
fn give_statuses<'a>(
    all: impl Iterator<Item = &'a Ended> + Clone,
    statuses: Out<MPI_Status>,
) -> Result<(), Fault> {
    let failed = all.clone().find(|ended| ended.has_failed());
    for (at, ended) in all.enumerate() {
        store(statuses, at, ended.status, failed.map(|_| ended.code()).or(ended.error_field()));
    }
    failed.map_or(Ok(()), |ended| Err(in_status(ended)))
}

/// The fault of a call for several requests one of which has failed. A handler is told that one's code
/// (MPI-5.0 §9.3.1).
#[cold]
fn in_status(ended: &Ended) -> Fault {
    let failed = ended.check().err();
    let detail = failed.as_ref().map_or_else(String::new, |f| format!("{f:?}"));
    let object = failed.and_then(|failed| failed.object()).unwrap_or(object_of(ended.comm));
    fault(MPI_ERR_IN_STATUS, format_args!("an operation failed: {detail}")).on(object).telling(ended.code())
}

/// Whether every request of an array is over, or one has failed; then ends those that are over. Until then
/// none is touched.
fn end_all(requests: InOut<MPI_Request>, count: usize, statuses: Out<MPI_Status>) -> Result<bool, Fault> {
    let may_have_failed = process()?.failures() > 0;
    let mut is_going = false;
    for at in 0..count {
        is_going |= !is_over(requests.get_at("array_of_requests", at)?)?;
        if is_going && !may_have_failed {
            return Ok(false);
        }
    }
    if is_going && !has_failed(&mut *process()?, requests, (0, count))? {
        return Ok(false);
    }
    end_rest(requests, (0, count), statuses, None)?;
    Ok(true)
}

/// Whether one of these requests has failed. None is touched.
#[cold]
fn has_failed(
    process: &mut Process,
    requests: InOut<MPI_Request>,
    (first, count): (usize, usize),
) -> Result<bool, Fault> {
    for at in first..count {
        let looked = process.look_at(requests.get_at("array_of_requests", at)?)?;
        if matches!(looked, Looked::Core(Some(Completion { error: Some(_), .. }))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the requests of an array from `first` on that are over. If there is an error among them, or `failed`,
/// the request before them, has one, all error fields count, and a request that goes on is pending (MPI-5.0
/// §3.7.5).
#[cold]
fn end_rest(
    requests: InOut<MPI_Request>,
    (first, count): (usize, usize),
    statuses: Out<MPI_Status>,
    mut failed: Option<Ended>,
) -> Result<(), Fault> {
    let ended_before = first - usize::from(failed.is_some());
    let mut codes = Vec::with_capacity(count - ended_before);
    codes.extend(failed.as_ref().map(Ended::code));
    for at in first..count {
        let handle = requests.get_at("array_of_requests", at)?;
        let found = look(&mut *process()?, handle, "array_of_requests")?;
        let Some(found) = found else {
            codes.push(MPI_ERR_PENDING);
            continue;
        };
        let ended = end(found, requests, at)?;
        store(statuses, at, ended.status, ended.error_field());
        codes.push(ended.code());
        if ended.has_failed() {
            failed.get_or_insert(ended);
        }
    }
    let Some(failed) = failed else { return Ok(()) };
    (0..ended_before).for_each(|at| statuses.set_error(at, MPI_SUCCESS));
    codes.into_iter().enumerate().for_each(|(at, code)| statuses.set_error(ended_before + at, code));
    Err(in_status(&failed))
}

/// Ends a request that has completed without error, at once or after a round of progress; its status.
#[inline(always)]
fn test_plain(process: &mut Guard, handle: MPI_Request) -> Option<Status> {
    process.end_plain(handle).or_else(|| {
        process.progress();
        process.end_plain(handle)
    })
}

/// Waits for a request where no other thread may call, and ends it if that is all there is to do; its status.
/// Where a request has failed, waiting for several takes a longer look.
#[inline(never)]
fn wait_plain(
    process: &mut Guard,
    handle: MPI_Request,
    (waits, is_alone): (Waits, bool),
) -> Result<Option<Status>, Fault> {
    if !is_alone && process.failures() > 0 {
        return Ok(None);
    }
    match process.core_id(handle, "request") {
        Ok(Some(id)) if !process.is_shared() => {
            wait_alone(process, id, waits)?;
            Ok(process.end_plain(handle))
        }
        _ => Ok(None),
    }
}

/// Ends requests of an array from `first` on as long as they complete without error, and waits for them where
/// no other thread may call; the first that is not ended.
#[inline]
fn end_leading(
    requests: InOut<MPI_Request>,
    (first, count): (usize, usize),
    statuses: Out<MPI_Status>,
) -> Result<usize, Fault> {
    let mut process = process()?;
    for at in first..count {
        let handle = requests.get_at("array_of_requests", at)?;
        let status = match process.end_plain(handle) {
            Some(status) => status,
            None => match wait_plain(&mut process, handle, (Waits::All(requests, count), count == 1))? {
                Some(status) => status,
                None => return Ok(at),
            },
        };
        requests.set_at("array_of_requests", at, MPI_REQUEST_NULL)?;
        store_plain(statuses, at, handle, status);
    }
    Ok(count)
}

/// Waits for all requests of an array, or until one has failed.
fn wait_all(requests: InOut<MPI_Request>, count: usize, statuses: Out<MPI_Status>) -> Result<(), Fault> {
    let mut at = 0;
    loop {
        at = end_leading(requests, (at, count), statuses)?;
        if at == count {
            return Ok(());
        }
        let Some(found) = wait_among(requests, (at, count))? else {
            return end_rest(requests, (at, count), statuses, None);
        };
        let ended = end(found, requests, at)?;
        store(statuses, at, ended.status, ended.error_field());
        at += 1;
        if ended.has_failed() {
            return end_rest(requests, (at, count), statuses, Some(ended));
        }
    }
}

/// Waits for request `at` of an array of `count`. `None`: it goes on, and one behind it has failed.
fn wait_among(requests: InOut<MPI_Request>, (at, count): (usize, usize)) -> Result<Option<Found>, Fault> {
    let handle = requests.get_at("request", at)?;
    // A request that is already complete needs no round of progress.
    let first = look(&mut *process()?, handle, "request")?;
    if first.is_some() {
        return Ok(first);
    }
    let mut failures = 0;
    wait_until(Waits::All(requests, count), |process| {
        let found = look(process, handle, "request")?;
        if found.is_some() {
            return Ok(Some(found));
        }
        // Another look at the others is of use when something has failed since the last.
        let before = std::mem::replace(&mut failures, process.failures());
        let is_over = failures != before && has_failed(process, requests, (at + 1, count))?;
        Ok(is_over.then_some(None))
    })
}

api! {
    /// MPI-5.0 §3.7.3
    fn MPI_Wait(request: InOut<MPI_Request>, status: Out<MPI_Status>) {
        if end_leading(request, (0, 1), status)? == 1 {
            return Ok(());
        }
        let found = wait_among(request, (0, 1))?.expect("there is no other");
        let ended = end(found, request, 0)?;
        store(status, 0, ended.status, ended.error_field());
        ended.check()
    }

    /// MPI-5.0 §3.7.3
    fn MPI_Test(request: InOut<MPI_Request>, flag: Out<c_int>, status: Out<MPI_Status>) {
        let handle = request.get("request")?;
        let found = {
            let mut process = process()?;
            if let Some(ended) = test_plain(&mut process, handle) {
                flag.set("flag", 1)?;
                request.set("request", MPI_REQUEST_NULL)?;
                store_plain(status, 0, handle, ended);
                return Ok(());
            }
            look(&mut process, handle, "request")?
        };
        flag.set("flag", c_int::from(found.is_some()))?;
        let Some(found) = found else {
            found_nothing();
            return Ok(());
        };
        let ended = end(found, request, 0)?;
        store(status, 0, ended.status, ended.error_field());
        ended.check()
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Waitall(count: c_int, array_of_requests: InOut<MPI_Request>, array_of_statuses: Out<MPI_Status>) {
        wait_all(array_of_requests, length("count", count)?, array_of_statuses)
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Testall(
        count: c_int,
        array_of_requests: InOut<MPI_Request>,
        flag: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        process()?.progress();
        // With an error, too, the call says which requests are over.
        flag.set("flag", 1)?;
        if !end_all(array_of_requests, length("count", count)?, array_of_statuses)? {
            found_nothing();
            flag.set("flag", 0)?;
        }
        Ok(())
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Waitany(
        count: c_int,
        array_of_requests: InOut<MPI_Request>,
        indx: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let count = length("count", count)?;
        let mut ended = end_any(array_of_requests, count)?;
        if ended.is_none() {
            ended = Some(wait_for_any(Waits::Any(array_of_requests, count), || end_any(array_of_requests, count))?);
        }
        give_any(ended.flatten(), indx, status)
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Testany(
        count: c_int,
        array_of_requests: InOut<MPI_Request>,
        indx: Out<c_int>,
        flag: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        match end_any(array_of_requests, length("count", count)?)? {
            None => {
                found_nothing();
                flag.set("flag", 0)?;
                indx.set("indx", MPI_UNDEFINED)
            }
            Some(ended) => {
                flag.set("flag", 1)?;
                give_any(ended, indx, status)
            }
        }
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Waitsome(
        incount: c_int,
        array_of_requests: InOut<MPI_Request>,
        outcount: Out<c_int>,
        array_of_indices: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let count = length("incount", incount)?;
        let mut ended = end_some(array_of_requests, count)?;
        if ended.is_none() {
            ended = Some(wait_for_any(Waits::Any(array_of_requests, count), || end_some(array_of_requests, count))?);
        }
        give_some(ended.flatten(), outcount, array_of_indices, array_of_statuses)
    }

    /// MPI-5.0 §3.7.5
    fn MPI_Testsome(
        incount: c_int,
        array_of_requests: InOut<MPI_Request>,
        outcount: Out<c_int>,
        array_of_indices: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        match end_some(array_of_requests, length("incount", incount)?)? {
            None => {
                found_nothing();
                outcount.set("outcount", 0)
            }
            Some(ended) => give_some(ended, outcount, array_of_indices, array_of_statuses),
        }
    }

    /// MPI-5.0 §3.7.3. The operation goes on.
    fn MPI_Request_free(request: InOut<MPI_Request>) {
        let handle = request.get("request")?;
        if let Some(general) = release(handle)? {
            general.release()?;
        }
        request.set("request", MPI_REQUEST_NULL)
    }

    /// MPI-5.0 §3.8.4
    fn MPI_Cancel(request: InOut<MPI_Request>) {
        match cancel(request.get("request")?)? {
            Some(general) => general.cancel(),
            None => Ok(()),
        }
    }

    /// MPI-5.0 §3.9
    fn MPI_Start(request: InOut<MPI_Request>) {
        start(request, 0)
    }

    /// MPI-5.0 §3.9
    fn MPI_Startall(count: c_int, array_of_requests: InOut<MPI_Request>) {
        (0..length("count", count)?).try_for_each(|at| start(array_of_requests, at))
    }

    /// MPI-5.0 §3.7.6
    fn MPI_Request_get_status(request: MPI_Request, flag: Out<c_int>, status: Out<MPI_Status>) {
        let found = peek(request)?;
        match found {
            Some(found) => store(status, 0, found, is_nothing(request)?.then_some(MPI_SUCCESS)),
            None => found_nothing(),
        }
        flag.set("flag", c_int::from(found.is_some()))
    }

    /// MPI-5.0 §3.7.6
    fn MPI_Request_get_status_all(
        count: c_int,
        array_of_requests: In<MPI_Request>,
        flag: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let all = array_of_requests.to_vec("array_of_requests", count)?;
        let found: Option<Vec<_>> = all.iter().map(|&handle| peek(handle)).collect::<Result<_, _>>()?;
        flag.set("flag", c_int::from(found.is_some()))?;
        for (at, status) in found.into_iter().flatten().enumerate() {
            store(array_of_statuses, at, status, is_nothing(all[at])?.then_some(MPI_SUCCESS));
        }
        Ok(())
    }

    /// MPI-5.0 §3.7.6
    fn MPI_Request_get_status_any(
        count: c_int,
        array_of_requests: In<MPI_Request>,
        indx: Out<c_int>,
        flag: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let all = array_of_requests.to_vec("array_of_requests", count)?;
        let mut active = false;
        for (at, &handle) in all.iter().enumerate() {
            if is_nothing(handle)? {
                continue;
            }
            active = true;
            if let Some(found) = peek(handle)? {
                store(status, 0, found, None);
                indx.set("indx", at as c_int)?;
                return flag.set("flag", 1);
            }
        }
        indx.set("indx", MPI_UNDEFINED)?;
        if !active {
            store_empty(status, 0);
        }
        flag.set("flag", c_int::from(!active))
    }

    /// MPI-5.0 §3.7.6
    fn MPI_Request_get_status_some(
        incount: c_int,
        array_of_requests: In<MPI_Request>,
        outcount: Out<c_int>,
        array_of_indices: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let all = array_of_requests.to_vec("array_of_requests", incount)?;
        let (mut indices, mut active) = (Vec::new(), false);
        for (at, &handle) in all.iter().enumerate() {
            if is_nothing(handle)? {
                continue;
            }
            active = true;
            if let Some(found) = peek(handle)? {
                store(array_of_statuses, indices.len(), found, None);
                indices.push(at as c_int);
            }
        }
        array_of_indices.set_all("array_of_indices", &indices)?;
        outcount.set("outcount", if active { indices.len() as c_int } else { MPI_UNDEFINED })
    }

    /// MPI-5.0 §13.2
    fn MPI_Grequest_start(
        query_fn: Callback,
        free_fn: Callback,
        cancel_fn: Callback,
        extra_state: UserPointer,
        request: Out<MPI_Request>,
    ) {
        let general = General {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra_state,
            is_complete: false,
            is_freed: false,
        };
        let handle = process()?.table_request(What::General(Box::new(general)), MPI_COMM_SELF)?;
        request.set("request", handle)
    }

    /// MPI-5.0 §13.2
    fn MPI_Grequest_complete(request: MPI_Request) {
        let freed = {
            let mut process = process()?;
            let What::General(general) = &mut process.requests.table.get_mut(request, "request")?.what else {
                return Err(fault(MPI_ERR_REQUEST, format_args!("argument request is not a generalized request")));
            };
            general.is_complete = true;
            tell_resting();
            let copy = **general;
            if copy.is_freed {
                process.requests.table.remove(request, "request")?;
            }
            copy.is_freed.then_some(copy)
        };
        freed.map_or(Ok(()), General::release)
    }
}

/// Releases a request. Returns a generalized one that is complete: the caller calls its free function,
/// unlocked.
fn release(handle: MPI_Request) -> Result<Option<General>, Fault> {
    let mut process = process()?;
    if let Some(id) = process.core_id(handle, "request")? {
        process.engine().core.free(id)?;
        return Ok(None);
    }
    if handle == SENT {
        return Ok(None);
    }
    process.take_responses();
    match &mut process.requests.table.get_mut(handle, "request")?.what {
        // MPI_Grequest_complete will still be called with the handle.
        What::General(general) if !general.is_complete => {
            general.is_freed = true;
            return Ok(None);
        }
        What::Remote(Remote { running: Some(Half::Remote), is_freed, .. }) => {
            *is_freed = true;
            return Ok(None);
        }
        What::Collective(persistent) if persistent.is_inactive() => {}
        // It stays, to be waited for.
        What::Collective(_) | What::Making(_) => {
            return Err(fault(
                MPI_ERR_REQUEST,
                format_args!("a collective operation under way cannot be freed"),
            ));
        }
        _ => {}
    }
    let Request { what, .. } = process.requests.table.remove(handle, "request")?;
    match what {
        What::Remote(Remote { running: Some(Half::Going(id)), .. }) => process.engine().core.free(id)?,
        What::Remote(_) => {}
        What::Both(receive, send, kept) => {
            for half in [receive, send] {
                if let Half::Going(id) = half {
                    process.engine().core.free(id)?;
                }
            }
            // The send still uses it; the leak is a few bytes in a rare call.
            std::mem::forget(kept);
        }
        // An operation that goes on keeps the memory it needs.
        What::Sent | What::Flush(..) | What::File(_) | What::Collective(_) | What::Making(_) => {}
        What::General(general) => return Ok(Some(*general)),
    }
    Ok(None)
}

/// Cancels a request. Returns a generalized one: the caller calls its cancel function, unlocked.
fn cancel(handle: MPI_Request) -> Result<Option<General>, Fault> {
    let mut process = process()?;
    let process = &mut *process;
    if let Some(id) = process.core_id(handle, "request")? {
        let engine = process.engine();
        engine.core.cancel(&mut engine.device, id)?;
        return Ok(None);
    }
    let running = match &process.requests.table.get(handle, "request")?.what {
        What::Remote(Remote { running: None, .. }) => {
            return Err(fault(MPI_ERR_REQUEST, format_args!("argument request is not active")));
        }
        What::Remote(Remote { running: Some(Half::Remote), .. }) => process.remote_id(handle),
        What::Remote(Remote { running: Some(Half::Going(id)), .. }) => Some(*id),
        // An access to a file ends soon whether it is cancelled or not.
        What::Remote(_) | What::Sent | What::Flush(..) | What::File(_) => None,
        What::Both(..) => {
            return Err(fault(MPI_ERR_REQUEST, format_args!("a send-receive cannot be cancelled")));
        }
        What::Collective(_) | What::Making(_) => {
            return Err(fault(MPI_ERR_REQUEST, format_args!("a collective operation cannot be cancelled")));
        }
        What::General(general) => return Ok(Some(**general)),
    };
    if let Some(id) = running {
        let engine = process.engine();
        engine.core.cancel(&mut engine.device, id)?;
    }
    Ok(None)
}

fn is_nothing(handle: MPI_Request) -> Result<bool, Fault> {
    if handle == MPI_REQUEST_NULL {
        return Ok(true);
    }
    let mut process = process()?;
    if let Some(id) = process.core_id(handle, "array_of_requests")? {
        return Ok(process.engine().core.is_inactive(id));
    }
    Ok(match &process.requests.table.get(handle, "array_of_requests")?.what {
        What::Collective(persistent) => persistent.is_inactive(),
        What::Remote(remote) => remote.running.is_none(),
        _ => false,
    })
}

fn start(requests: InOut<MPI_Request>, at: usize) -> Result<(), Fault> {
    process()?.start(requests.get_at("request", at)?)
}
