//! `libpmix.so.2`, loaded while the program runs: its types, its functions, and a safe face of both.
//!
//! Layouts and numbers are those of the PMIx Standard's C interface (`pmix_common.h`, `pmix.h`), the same in
//! the library's versions 3, 4 and 5: every struct here is one whose members have not changed since version
//! 3, and unions are padded to their full size.
//!
//! Calls that can take long use the library's non-blocking form and are awaited here with a limit, so that a
//! server that does not answer is an error and no hang. An answer that comes after its limit finds its cell
//! still alive: the library holds a count of it.

use super::library::Found;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `pmix_status_t`.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_EXISTS: Status = -11;
pub(super) const ERR_TIMEOUT: Status = -24;
pub(super) const ERR_UNREACH: Status = -25;
pub(super) const ERR_NOT_FOUND: Status = -46;
pub(super) const ERR_DUPLICATE_KEY: Status = -53;
pub(super) const ERR_LOST_CONNECTION: Status = -61;
const OPERATION_SUCCEEDED: Status = -157;
const EVENT_ACTION_COMPLETE: Status = -334;

/// `PMIX_RANK_WILDCARD`: the job as a whole.
pub(super) const WILDCARD: u32 = u32::MAX - 1;

/// `PMIX_MAX_NSLEN + 1`.
const NSPACE_BYTES: usize = 256;
/// `PMIX_MAX_KEYLEN + 1`.
const KEY_BYTES: usize = 512;

// pmix_data_type_t
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_INT: u16 = 6;
const TYPE_INT32: u16 = 9;
const TYPE_UINT: u16 = 11;
const TYPE_UINT16: u16 = 13;
const TYPE_UINT32: u16 = 14;
const TYPE_PROC: u16 = 22;
const TYPE_DATA_RANGE: u16 = 33;
const TYPE_PROC_RANK: u16 = 40;

/// `PMIX_GLOBAL`: for processes of this host and of others.
const SCOPE_GLOBAL: u8 = 3;
/// `PMIX_RANGE_SESSION`.
const RANGE_SESSION: u8 = 4;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawProc {
    nspace: [c_char; NSPACE_BYTES],
    rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    string: *mut c_char,
    int: c_int,
    uint16: u16,
    uint32: u32,
    byte: u8,
    proc: *mut RawProc,
    /// The largest member (`pmix_envar_t`) has three words.
    words: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawValue {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInfo {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: RawValue,
}

/// `pmix_app_t`.
#[repr(C)]
struct RawApp {
    cmd: *mut c_char,
    argv: *mut *mut c_char,
    env: *mut *mut c_char,
    cwd: *mut c_char,
    maxprocs: c_int,
    infos: *mut RawInfo,
    infos_count: usize,
}

/// `pmix_pdata_t`.
#[repr(C)]
struct RawPublished {
    proc: RawProc,
    key: [c_char; KEY_BYTES],
    value: RawValue,
}

const _: () = {
    assert!(size_of::<RawProc>() == 260);
    assert!(size_of::<RawValue>() == 32);
    assert!(size_of::<RawInfo>() == 552);
    assert!(std::mem::offset_of!(RawInfo, value) == 520);
    assert!(size_of::<RawApp>() == 56);
    assert!(size_of::<RawPublished>() == 808);
    assert!(std::mem::offset_of!(RawPublished, value) == 776);
};

type OpDone = extern "C" fn(Status, *mut c_void);
type ValueDone = extern "C" fn(Status, *mut RawValue, *mut c_void);
type SpawnDone = extern "C" fn(Status, *const c_char, *mut c_void);
type EventDone = extern "C" fn(Status, *mut RawInfo, usize, Option<OpDone>, *mut c_void, *mut c_void);
type OnEvent = extern "C" fn(
    usize,
    Status,
    *const RawProc,
    *mut RawInfo,
    usize,
    *mut RawInfo,
    usize,
    Option<EventDone>,
    *mut c_void,
);
type Registered = extern "C" fn(Status, usize, *mut c_void);

/// The functions that are used. Each has the same signature in versions 3, 4 and 5.
struct Functions {
    init: unsafe extern "C" fn(*mut RawProc, *mut RawInfo, usize) -> Status,
    finalize: unsafe extern "C" fn(*const RawInfo, usize) -> Status,
    abort: unsafe extern "C" fn(c_int, *const c_char, *mut RawProc, usize) -> Status,
    put: unsafe extern "C" fn(u8, *const c_char, *mut RawValue) -> Status,
    commit: unsafe extern "C" fn() -> Status,
    fence: unsafe extern "C" fn(
        *const RawProc,
        usize,
        *const RawInfo,
        usize,
        Option<OpDone>,
        *mut c_void,
    ) -> Status,
    get: unsafe extern "C" fn(
        *const RawProc,
        *const c_char,
        *const RawInfo,
        usize,
        Option<ValueDone>,
        *mut c_void,
    ) -> Status,
    publish: unsafe extern "C" fn(*const RawInfo, usize) -> Status,
    lookup: unsafe extern "C" fn(*mut RawPublished, usize, *const RawInfo, usize) -> Status,
    unpublish: unsafe extern "C" fn(*const *const c_char, *const RawInfo, usize) -> Status,
    spawn: unsafe extern "C" fn(
        *const RawInfo,
        usize,
        *mut RawApp,
        usize,
        Option<SpawnDone>,
        *mut c_void,
    ) -> Status,
    resolve_nodes: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> Status,
    resolve_peers:
        unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut RawProc, *mut usize) -> Status,
    register: unsafe extern "C" fn(
        *mut Status,
        usize,
        *mut RawInfo,
        usize,
        Option<OnEvent>,
        Option<Registered>,
        *mut c_void,
    ) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
}

/// The library. It is never unloaded: it has a thread.
pub(super) struct Library {
    functions: Functions,
}

/// A process: its job's namespace and its rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proc {
    pub(super) nspace: String,
    pub(super) rank: u32,
}

/// A value, as far as it is understood here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Number(u32),
    Text(String),
    Other(u16),
}

/// An event of a process or of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) status: Status,
    /// Which process it has happened to.
    pub(super) affected: Option<Proc>,
}

type Handler = Box<dyn Fn(Happened) + Send>;

/// The handler of events. One per process: the library passes its callback no data of ours.
static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the library, from where `found` says. Gives the linker's words where that fails.
pub(super) fn open(found: &Found) -> Result<Library, String> {
    let name = CString::new(found.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a name that ends with a zero. The library's constructors run; they are those of a library that
    // the launcher or the administrator has chosen, which is what loading is for.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror gives null or a text that lives until this thread's next call of its family.
        let text = unsafe { libc::dlerror() };
        let text = if text.is_null() { None } else { borrowed_text(text) };
        return Err(text.unwrap_or_else(|| "it cannot be loaded".to_owned()));
    }
    // SAFETY: each function is looked up by the name whose type the PMIx Standard gives.
    unsafe {
        Ok(Library {
            functions: Functions {
                init: function(handle, c"PMIx_Init")?,
                finalize: function(handle, c"PMIx_Finalize")?,
                abort: function(handle, c"PMIx_Abort")?,
                put: function(handle, c"PMIx_Put")?,
                commit: function(handle, c"PMIx_Commit")?,
                fence: function(handle, c"PMIx_Fence_nb")?,
                get: function(handle, c"PMIx_Get_nb")?,
                publish: function(handle, c"PMIx_Publish")?,
                lookup: function(handle, c"PMIx_Lookup")?,
                unpublish: function(handle, c"PMIx_Unpublish")?,
                spawn: function(handle, c"PMIx_Spawn_nb")?,
                resolve_nodes: function(handle, c"PMIx_Resolve_nodes")?,
                resolve_peers: function(handle, c"PMIx_Resolve_peers")?,
                register: function(handle, c"PMIx_Register_event_handler")?,
                error_string: function(handle, c"PMIx_Error_string")?,
                version: function(handle, c"PMIx_Get_version")?,
            },
        })
    }
}

/// The function of this name.
///
/// # Safety
/// `F` is the type of the function of that name; `handle` is an open library.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: an open handle and a name that ends with a zero.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(format!("it has no {}", name.to_string_lossy()));
    }
    // SAFETY: by the contract F is a pointer to this function, which has an address of this size.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// A text of the library's, copied.
fn borrowed_text(text: *const c_char) -> Option<String> {
    // SAFETY: callers pass null or a text of the library's that ends with a zero and lives during this call.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A text of the library's that is ours to free.
fn owned_text(text: *mut c_char) -> Option<String> {
    let copy = borrowed_text(text);
    // SAFETY: made by the library with malloc for its caller (PMIx Standard, "char**" results), or null.
    unsafe { libc::free(text.cast()) };
    copy
}

/// Text in an array with a zero after it; cut where it is too long, which callers have ruled out.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array: [c_char; N] = [0; N];
    for (to, from) in array[..N - 1].iter_mut().zip(text.bytes()) {
        // A `char` is signed on some targets only.
        *to = c_char::from_ne_bytes([from]);
    }
    array
}

impl RawProc {
    fn new(nspace: &str, rank: u32) -> Self {
        Self { nspace: array(nspace), rank }
    }

    fn read(&self) -> Proc {
        let bytes = self.nspace.iter().take_while(|&&c| c != 0).flat_map(|c| c.to_ne_bytes()).collect();
        Proc { nspace: String::from_utf8(bytes).unwrap_or_default(), rank: self.rank }
    }
}

impl RawValue {
    const NONE: Self = Self { kind: 0, data: Data { words: [0; 3] } };

    /// A copy of what is understood.
    fn read(&self) -> Value {
        // SAFETY: `kind` says which member the library has written; all bit patterns of these are valid.
        unsafe {
            match self.kind {
                TYPE_STRING => borrowed_text(self.data.string).map_or(Value::Other(0), Value::Text),
                TYPE_UINT16 => Value::Number(self.data.uint16.into()),
                TYPE_UINT | TYPE_UINT32 | TYPE_PROC_RANK => Value::Number(self.data.uint32),
                TYPE_INT | TYPE_INT32 if self.data.int >= 0 => Value::Number(self.data.int.cast_unsigned()),
                kind => Value::Other(kind),
            }
        }
    }
}

/// Text as a value; `text` outlives it.
fn text_value(text: &CString) -> RawValue {
    let mut value = RawValue::NONE;
    value.kind = TYPE_STRING;
    value.data.string = text.as_ptr().cast_mut();
    value
}

fn info(key: &str, value: RawValue) -> RawInfo {
    RawInfo { key: array(key), flags: 0, value }
}

fn flag(key: &str) -> RawInfo {
    let mut value = RawValue::NONE;
    value.kind = TYPE_BOOL;
    value.data.flag = true;
    info(key, value)
}

fn seconds(key: &str, time: Duration) -> RawInfo {
    let mut value = RawValue::NONE;
    value.kind = TYPE_INT;
    value.data.int = c_int::try_from(time.as_secs()).unwrap_or(c_int::MAX).max(1);
    info(key, value)
}

fn session_range() -> RawInfo {
    let mut value = RawValue::NONE;
    value.kind = TYPE_DATA_RANGE;
    value.data.byte = RANGE_SESSION;
    info("pmix.range", value)
}

fn text(text: &str) -> CString {
    // A zero inside ends the text, as it would in C.
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Where an answer comes to.
struct Cell<T> {
    answer: Mutex<Option<(Status, T)>>,
    has_come: Condvar,
    /// What the library may read until it answers.
    _procs: RawProc,
}

impl<T> Cell<T> {
    fn new(proc: RawProc) -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(None), has_come: Condvar::new(), _procs: proc })
    }

    fn set(&self, status: Status, value: T) {
        *locked(&self.answer) = Some((status, value));
        self.has_come.notify_all();
    }

    fn wait(&self, limit: Duration) -> Option<(Status, T)> {
        let answer = locked(&self.answer);
        let waited = self.has_come.wait_timeout_while(answer, limit, |answer| answer.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

extern "C" fn on_done(status: Status, cell: *mut c_void) {
    // SAFETY: `cell` is the count that `Library::fence` gave away with this callback, which is called once.
    let cell = unsafe { Arc::from_raw(cell.cast_const().cast::<Cell<()>>()) };
    cell.set(status, ());
}

extern "C" fn on_spawned(status: Status, _nspace: *const c_char, cell: *mut c_void) {
    // SAFETY: `cell` is the count that `Library::spawn` gave away with this callback, which is called once.
    let cell = unsafe { Arc::from_raw(cell.cast_const().cast::<Cell<()>>()) };
    cell.set(status, ());
}

extern "C" fn on_value(status: Status, value: *mut RawValue, cell: *mut c_void) {
    // SAFETY: `cell` is the count that `Library::get` gave away with this callback, which is called once.
    let cell = unsafe { Arc::from_raw(cell.cast_const().cast::<Cell<Option<Value>>>()) };
    // SAFETY: null, or a value of the library's that lives during this call.
    let value = unsafe { value.as_ref() }.map(RawValue::read);
    cell.set(status, value);
}

extern "C" fn on_event(
    _handler: usize,
    status: Status,
    source: *const RawProc,
    infos: *mut RawInfo,
    infos_count: usize,
    _results: *mut RawInfo,
    _results_count: usize,
    done: Option<EventDone>,
    data: *mut c_void,
) {
    // SAFETY: null, or a process that lives during this call.
    let source = unsafe { source.as_ref() }.map(RawProc::read);
    let mut affected = None;
    if !infos.is_null() {
        // SAFETY: the library passes so many infos, which live during this call.
        let infos = unsafe { std::slice::from_raw_parts(infos, infos_count) };
        let key: [c_char; KEY_BYTES] = array("pmix.evproc");
        for info in infos.iter().filter(|info| info.key == key && info.value.kind == TYPE_PROC) {
            // SAFETY: the kind says that the member is a process, by address.
            affected = unsafe { info.value.data.proc.as_ref() }.map(RawProc::read);
        }
    }
    if let Some(handler) = locked(&HANDLER).as_ref() {
        handler(Happened { status, affected: affected.or(source) });
    }
    if let Some(done) = done {
        done(EVENT_ACTION_COMPLETE, null_mut(), 0, None, null_mut(), data);
    }
}

/// Whether an operation has ended well.
fn checked(status: Status) -> Result<(), Status> {
    if matches!(status, SUCCESS | OPERATION_SUCCEEDED) { Ok(()) } else { Err(status) }
}

/// A command for [`Library::spawn`].
pub(super) struct App {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// `NAME=value`.
    pub(super) environment: Vec<String>,
    pub(super) directory: Option<String>,
    pub(super) count: u32,
}

/// Texts as C has them: made with malloc, because the library lengthens and frees them.
fn texts<'a>(list: impl ExactSizeIterator<Item = &'a str>) -> *mut *mut c_char {
    // SAFETY: room for so many addresses and a null, each of a copy that ends with a zero. Memory that is not
    // to be had stays null, which ends the list.
    unsafe {
        let array = libc::calloc(list.len() + 1, size_of::<*mut c_char>()).cast::<*mut c_char>();
        if !array.is_null() {
            for (at, one) in list.enumerate() {
                *array.add(at) = libc::strdup(text(one).as_ptr());
            }
        }
        array
    }
}

/// Frees an array that [`texts`] has made, or that the library has put in its place.
fn free_texts(array: *mut *mut c_char) {
    // SAFETY: null, or a list of texts made with malloc that ends with null and has no other owner.
    unsafe {
        let mut at = array;
        while !at.is_null() && !(*at).is_null() {
            libc::free((*at).cast());
            at = at.add(1);
        }
        libc::free(array.cast());
    }
}

impl RawApp {
    fn new(app: &App) -> Self {
        let argv: Vec<&str> =
            std::iter::once(app.program.as_str()).chain(app.args.iter().map(String::as_str)).collect();
        let copied = |one: &str| {
            // SAFETY: a text that ends with a zero.
            unsafe { libc::strdup(text(one).as_ptr()) }
        };
        Self {
            cmd: copied(&app.program),
            argv: texts(argv.into_iter()),
            env: texts(app.environment.iter().map(String::as_str)),
            cwd: app.directory.as_deref().map_or(null_mut(), copied),
            maxprocs: c_int::try_from(app.count).unwrap_or(c_int::MAX),
            infos: null_mut(),
            infos_count: 0,
        }
    }
}

impl Drop for RawApp {
    fn drop(&mut self) {
        free_texts(self.argv);
        free_texts(self.env);
        // SAFETY: null, or made by `strdup` and without another owner.
        unsafe {
            libc::free(self.cmd.cast());
            libc::free(self.cwd.cast());
        }
    }
}

impl Library {
    /// `PMIx_Init`. It may take as long as the server does not answer.
    pub(super) fn init(&self) -> Result<Proc, Status> {
        let mut proc = RawProc::new("", 0);
        // SAFETY: a process to be written, and no infos.
        checked(unsafe { (self.functions.init)(&mut proc, null_mut(), 0) })?;
        Ok(proc.read())
    }

    /// `PMIx_Finalize`.
    pub(super) fn finalize(&self) -> Result<(), Status> {
        *locked(&HANDLER) = None;
        // SAFETY: no infos.
        checked(unsafe { (self.functions.finalize)(null(), 0) })
    }

    /// `PMIx_Abort` of the whole job.
    pub(super) fn abort(&self, code: c_int, message: &str) -> Result<(), Status> {
        let message = text(message);
        // SAFETY: a text that ends with a zero; no processes means all of the job.
        checked(unsafe { (self.functions.abort)(code, message.as_ptr(), null_mut(), 0) })
    }

    /// `PMIx_Put` for all processes.
    pub(super) fn put(&self, key: &str, value: &str) -> Result<(), Status> {
        let (key, value) = (text(key), text(value));
        let mut value = text_value(&value);
        // SAFETY: a key that ends with a zero and a value of text that outlives the call; the library copies
        // it.
        checked(unsafe { (self.functions.put)(SCOPE_GLOBAL, key.as_ptr(), &mut value) })
    }

    /// `PMIx_Commit`.
    pub(super) fn commit(&self) -> Result<(), Status> {
        // SAFETY: it takes nothing.
        checked(unsafe { (self.functions.commit)() })
    }

    /// `PMIx_Fence_nb` of the job, awaited; with `collects` what was committed comes to every host at once.
    /// `meanwhile` as in [`Launcher::fence_while`](crate::launcher::Launcher::fence_while).
    pub(super) fn fence(
        &self,
        nspace: &str,
        collects: bool,
        limit: Duration,
        meanwhile: &mut dyn FnMut() -> ControlFlow<(), Duration>,
    ) -> Result<(), Status> {
        let cell = Cell::<()>::new(RawProc::new(nspace, WILDCARD));
        let infos = [flag("pmix.collect")];
        let infos = if collects { &infos[..] } else { &[] };
        let given = Arc::into_raw(Arc::clone(&cell)).cast_mut().cast();
        // SAFETY: one process that the cell keeps, infos that the library reads during the call, and a
        // callback with a count of the cell that is its own.
        let status = unsafe {
            let infos_at = if infos.is_empty() { null() } else { infos.as_ptr() };
            (self.functions.fence)(&cell._procs, 1, infos_at, infos.len(), Some(on_done), given)
        };
        if status != SUCCESS {
            // SAFETY: where it does not begin the library calls nothing back, and the count is ours again.
            drop(unsafe { Arc::from_raw(given.cast_const().cast::<Cell<()>>()) });
            return checked(status);
        }
        let end = Instant::now() + limit;
        loop {
            let ControlFlow::Continue(interval) = meanwhile() else { return Ok(()) };
            if let Some((status, ())) = cell.wait(interval) {
                return checked(status);
            }
            if Instant::now() > end {
                return Err(ERR_TIMEOUT);
            }
        }
    }

    /// `PMIx_Get_nb`, awaited; `None` where there is none. With `is_local` it asks no server: it reads the
    /// values that this process got at its start.
    pub(super) fn get(
        &self,
        nspace: &str,
        rank: u32,
        key: &str,
        is_local: bool,
        limit: Duration,
    ) -> Result<Option<Value>, Status> {
        let cell = Cell::<Option<Value>>::new(RawProc::new(nspace, rank));
        let name = text(key);
        let infos = [if is_local { flag("pmix.optional") } else { seconds("pmix.timeout", limit) }];
        let given = Arc::into_raw(Arc::clone(&cell)).cast_mut().cast();
        // SAFETY: a process that the cell keeps, a key that ends with a zero and an info, which the library
        // copies, and a callback with a count of the cell that is its own.
        let status = unsafe {
            (self.functions.get)(&cell._procs, name.as_ptr(), infos.as_ptr(), 1, Some(on_value), given)
        };
        if status != SUCCESS {
            // SAFETY: as in `fence`.
            drop(unsafe { Arc::from_raw(given.cast_const().cast::<Cell<Option<Value>>>()) });
            return if status == ERR_NOT_FOUND { Ok(None) } else { Err(status) };
        }
        // The library has a limit of its own; ours is for one that does not keep it.
        match cell.wait(limit + Duration::from_secs(5)) {
            Some((SUCCESS, value)) => Ok(value),
            Some((ERR_NOT_FOUND, _)) => Ok(None),
            Some((status, _)) => Err(status),
            None => Err(ERR_TIMEOUT),
        }
    }

    /// `PMIx_Spawn_nb`, awaited: the launcher has started all processes of these commands, or none.
    pub(super) fn spawn(&self, apps: &[App], limit: Duration) -> Result<(), Status> {
        let cell = Cell::<()>::new(RawProc::new("", 0));
        let mut raw: Vec<RawApp> = apps.iter().map(RawApp::new).collect();
        let given = Arc::into_raw(Arc::clone(&cell)).cast_mut().cast();
        // SAFETY: no infos; commands that outlive the call, in which the library writes them into its
        // message, and whose texts it may replace by others made with malloc; a callback with a count of the
        // cell that is its own.
        let status = unsafe {
            (self.functions.spawn)(null(), 0, raw.as_mut_ptr(), raw.len(), Some(on_spawned), given)
        };
        if status != SUCCESS {
            // SAFETY: as in `fence`.
            drop(unsafe { Arc::from_raw(given.cast_const().cast::<Cell<()>>()) });
            return checked(status);
        }
        cell.wait(limit).map_or(Err(ERR_TIMEOUT), |(status, ())| checked(status))
    }

    /// The names of the hosts of the job, separated by commas (`PMIx_Resolve_nodes`).
    pub(super) fn resolve_nodes(&self, nspace: &str) -> Result<String, Status> {
        let nspace = text(nspace);
        let mut list = null_mut();
        // SAFETY: a text that ends with a zero, and a place for an address.
        checked(unsafe { (self.functions.resolve_nodes)(nspace.as_ptr(), &mut list) })?;
        Ok(owned_text(list).unwrap_or_default())
    }

    /// The ranks of the job on a host (`PMIx_Resolve_peers`).
    pub(super) fn resolve_peers(&self, nspace: &str, node: &str) -> Result<Vec<u32>, Status> {
        let (nspace_text, node) = (text(nspace), text(node));
        let (mut procs, mut count) = (null_mut::<RawProc>(), 0);
        // SAFETY: texts that end with a zero, and places for an address and a count.
        checked(unsafe {
            (self.functions.resolve_peers)(node.as_ptr(), nspace_text.as_ptr(), &mut procs, &mut count)
        })?;
        if procs.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the library has made so many processes with malloc for us; they are freed after the copy.
        let ranks = unsafe {
            let ranks = std::slice::from_raw_parts(procs, count).iter().map(|proc| proc.rank).collect();
            libc::free(procs.cast());
            ranks
        };
        Ok(ranks)
    }

    /// `PMIx_Publish`, for the session.
    pub(super) fn publish(&self, service: &str, port: &str) -> Result<(), Status> {
        let port = text(port);
        let infos = [info(service, text_value(&port)), session_range()];
        // SAFETY: infos whose text outlives the call.
        checked(unsafe { (self.functions.publish)(infos.as_ptr(), infos.len()) })
    }

    /// `PMIx_Unpublish`.
    pub(super) fn unpublish(&self, service: &str) -> Result<(), Status> {
        let service = text(service);
        let keys = [service.as_ptr(), null()];
        let infos = [session_range()];
        // SAFETY: a list of texts that ends with null, and an info.
        checked(unsafe { (self.functions.unpublish)(keys.as_ptr(), infos.as_ptr(), infos.len()) })
    }

    /// `PMIx_Lookup`.
    pub(super) fn lookup(&self, service: &str) -> Result<Option<String>, Status> {
        let none = RawProc::new("", 0);
        let mut published = RawPublished { proc: none, key: array(service), value: RawValue::NONE };
        let infos = [session_range()];
        // SAFETY: one entry with a key, to be filled, and an info.
        let status = unsafe { (self.functions.lookup)(&mut published, 1, infos.as_ptr(), infos.len()) };
        if status == ERR_NOT_FOUND {
            return Ok(None);
        }
        checked(status)?;
        let Value::Text(port) = published.value.read() else { return Ok(None) };
        // SAFETY: the text was made by the library with malloc for us, and is copied.
        unsafe { libc::free(published.value.data.string.cast()) };
        Ok(Some(port))
    }

    /// Has `handler` called for these events, from the library's thread.
    pub(super) fn watch(&self, events: &[Status], handler: Handler) {
        *locked(&HANDLER) = Some(handler);
        let mut codes = events.to_vec();
        // SAFETY: the codes are copied during the call. Where registering fails there are no events, and the
        // devices find failures by themselves.
        unsafe {
            (self.functions.register)(
                codes.as_mut_ptr(),
                codes.len(),
                null_mut(),
                0,
                Some(on_event),
                None,
                null_mut(),
            );
        }
    }

    /// What a status means.
    pub(super) fn describe(&self, status: Status) -> String {
        // SAFETY: it takes an integer and gives a text that is never freed.
        borrowed_text(unsafe { (self.functions.error_string)(status) }).unwrap_or_default()
    }

    /// The library's version, in its words.
    pub(super) fn version(&self) -> String {
        // SAFETY: it takes nothing and gives a text that is never freed.
        borrowed_text(unsafe { (self.functions.version)() }).unwrap_or_default()
    }
}
