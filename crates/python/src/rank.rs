//! Python generators as ranks.
//!
//! A function of the user's is called once a rank with an [`Mpi`] and gives a generator. What it yields is an
//! [`Operation`], begun when it is yielded; what `yield` answers is the operation's [`Status`]. Errors of
//! MPI are thrown into the generator. All ranks run on the thread that called: the generators share one
//! interpreter anyway.

use std::cell::RefCell;
use std::rc::Rc;

use ayatori_core::Error as MpiError;
use ayatori_core::coll::Collective;
use ayatori_core::ids::{Source, TagSelector};
use ayatori_core::request::{Origin, Status as Ended};
use ayatori_sim::cluster;
use ayatori_sim::simulation::{Outcome, Simulation, SimulationError};
use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::prelude::*;

use crate::arguments::{bytes, failed, wrong};
use crate::results::Done;

/// A function that makes generators, and what one of them raised.
pub(crate) struct Ranks {
    function: Py<PyAny>,
    rounds: u32,
    raised: Rc<RefCell<Option<PyErr>>>,
}

impl Ranks {
    pub(crate) fn new(function: &Bound<'_, PyAny>, rounds: u32) -> Ranks {
        Ranks { function: function.clone().unbind(), rounds, raised: Rc::default() }
    }

    pub(crate) fn run(&self, simulation: &mut Simulation) -> Result<Outcome, SimulationError> {
        simulation.run_with(|mpi| {
            let function = Python::attach(|py| self.function.clone_ref(py));
            let (raised, rounds) = (self.raised.clone(), self.rounds);
            async move {
                for _ in 0..rounds {
                    if let Err(error) = drive(&mpi, &function).await {
                        raised.borrow_mut().get_or_insert(error);
                        // It ends the run; the user sees what was raised.
                        return Err(MpiError::Argument("the rank's generator raised an exception"));
                    }
                }
                Ok(())
            }
        })
    }

    /// What a generator raised comes first.
    pub(crate) fn outcome(&self, done: PyResult<Done>) -> PyResult<Done> {
        match self.raised.borrow_mut().take() {
            Some(error) => Err(error),
            None => done,
        }
    }
}

/// Runs a rank's generator to its end.
async fn drive(mpi: &cluster::Mpi, function: &Py<PyAny>) -> PyResult<()> {
    let generator = Python::attach(|py| -> PyResult<Option<Py<PyAny>>> {
        let generator = function.bind(py).call1((Mpi { mpi: mpi.clone() },))?;
        // A function without a yield has done its work.
        if generator.is_none() {
            return Ok(None);
        }
        if !generator.hasattr("send")? {
            let got = generator.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a rank's function is a generator (it yields); this gave {got}"
            )));
        }
        Ok(Some(generator.unbind()))
    })?;
    let Some(generator) = generator else { return Ok(()) };
    let mut answer: Result<Option<Ended>, MpiError> = Ok(None);
    loop {
        match Python::attach(|py| step(py, generator.bind(py), answer, mpi.rank()))? {
            Some(begun) => answer = begun.end(mpi).await,
            None => return Ok(()),
        }
    }
}

/// Lets a generator go on to its next `yield`; none if it has ended.
fn step(
    py: Python<'_>,
    generator: &Bound<'_, PyAny>,
    answer: Result<Option<Ended>, MpiError>,
    rank: u32,
) -> PyResult<Option<Begun>> {
    py.check_signals()?;
    let next = match answer {
        Ok(ended) => generator.call_method1("send", (ended.map(Status::of),)),
        Err(error) => generator.call_method1("throw", (failed(format!("rank {rank}: {error}")),)),
    };
    let yielded = match next {
        Ok(yielded) => yielded,
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(operation) = yielded.cast::<Operation>() else {
        let got = yielded.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "rank {rank} yielded {got}: yield what a method of mpi gives, such as mpi.send(…)"
        )));
    };
    let begun = operation.borrow().begun.borrow_mut().take();
    begun.map(Some).ok_or_else(|| wrong(format!("rank {rank} yielded the same operation twice")))
}

/// An operation that a generator waits for.
enum Begun {
    Send { to: u32, tag: i32, bytes: u64 },
    Receive { from: Source, tag: TagSelector, bytes: u64 },
    Exchange { to: u32, from: u32, tag: i32, bytes: u64 },
    Wait(Vec<cluster::Request>),
    Collective { operation: Collective, bytes: u64, algorithm: Option<String> },
}

impl Begun {
    /// The status of the last message received, if one is.
    async fn end(self, mpi: &cluster::Mpi) -> Result<Option<Ended>, MpiError> {
        match self {
            Begun::Send { to, tag, bytes } => mpi.send(to, tag, bytes).await.map(|()| None),
            Begun::Receive { from: Source::Rank(from), tag: TagSelector::Tag(tag), bytes } => {
                mpi.recv(from, tag, bytes).await.map(Some)
            }
            Begun::Receive { from, tag, bytes } => {
                let request = mpi.irecv_any(from, tag, bytes)?;
                mpi.wait(request).await.map(Some)
            }
            Begun::Exchange { to, from, tag, bytes } => mpi.sendrecv(to, from, tag, bytes).await.map(Some),
            Begun::Wait(requests) => {
                let (mut last, mut failure) = (None, Ok(()));
                for request in requests {
                    match mpi.wait(request).await {
                        Ok(status) => last = Some(status),
                        Err(error) => failure = failure.and(Err(error)),
                    }
                }
                failure.map(|()| last)
            }
            Begun::Collective { operation, bytes, algorithm } => {
                mpi.collective(operation, bytes, algorithm.as_deref()).await.map(|()| None)
            }
        }
    }
}

/// What a rank yields.
#[pyclass(unsendable, module = "ayatori")]
pub(crate) struct Operation {
    begun: RefCell<Option<Begun>>,
}

impl Operation {
    fn of(begun: Begun) -> Operation {
        Operation { begun: RefCell::new(Some(begun)) }
    }
}

/// An operation under way (`isend`, `irecv`): give it to `wait` or `wait_all`.
#[pyclass(unsendable, module = "ayatori")]
pub(crate) struct Request {
    request: RefCell<Option<cluster::Request>>,
}

impl Request {
    fn take(&self) -> PyResult<cluster::Request> {
        self.request.borrow_mut().take().ok_or_else(|| wrong("this request has been waited for"))
    }
}

/// How a receive ended.
#[pyclass(frozen, module = "ayatori", get_all)]
pub(crate) struct Status {
    /// The sender; None if there was no message.
    source: Option<u32>,
    /// The tag; None if there was no message.
    tag: Option<i32>,
    /// Length received.
    bytes: u64,
}

impl Status {
    fn of(ended: Ended) -> Status {
        let source = match ended.source {
            Origin::Rank(rank) => Some(rank),
            _ => None,
        };
        Status { source, tag: ended.tag, bytes: ended.bytes }
    }
}

#[pymethods]
impl Status {
    fn __repr__(&self) -> String {
        let text = |value: Option<i64>| value.map_or("None".to_owned(), |value| value.to_string());
        let (source, tag) = (text(self.source.map(i64::from)), text(self.tag.map(i64::from)));
        format!("Status(source={source}, tag={tag}, bytes={})", self.bytes)
    }
}

/// A rank's way into the simulated library.
#[pyclass(unsendable, module = "ayatori")]
pub(crate) struct Mpi {
    mpi: cluster::Mpi,
}

fn source(from: Option<u32>) -> Source {
    from.map_or(Source::Any, Source::Rank)
}

fn selector(tag: Option<i32>) -> TagSelector {
    tag.map_or(TagSelector::Any, TagSelector::Tag)
}

#[pymethods]
impl Mpi {
    /// This rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.mpi.rank()
    }

    /// Number of ranks.
    #[getter]
    fn size(&self) -> u32 {
        self.mpi.size()
    }

    /// This process' time, ps.
    #[getter]
    fn now_ps(&self) -> u64 {
        self.mpi.now_ps()
    }

    /// Computes for so many nanoseconds, at once: not to be yielded.
    fn compute(&self, nanoseconds: f64) -> PyResult<()> {
        if !(0.0..=1e15).contains(&nanoseconds) {
            return Err(wrong(format!("compute({nanoseconds}): from 0 to 1e15 nanoseconds")));
        }
        self.mpi.compute((nanoseconds * 1e3) as u64);
        Ok(())
    }

    /// Sends; to be yielded.
    #[pyo3(signature = (to, bytes, tag = 0))]
    fn send(&self, to: u32, bytes: &Bound<'_, PyAny>, tag: i32) -> PyResult<Operation> {
        Ok(Operation::of(Begun::Send { to, tag, bytes: self::bytes(bytes)? }))
    }

    /// Receives; to be yielded. None is any source, any tag.
    #[pyo3(signature = (source, bytes, tag = Some(0)))]
    fn recv(&self, source: Option<u32>, bytes: &Bound<'_, PyAny>, tag: Option<i32>) -> PyResult<Operation> {
        let (from, tag) = (self::source(source), selector(tag));
        Ok(Operation::of(Begun::Receive { from, tag, bytes: self::bytes(bytes)? }))
    }

    /// Sends to one and receives from another; to be yielded.
    #[pyo3(signature = (to, source, bytes, tag = 0))]
    fn sendrecv(&self, to: u32, source: u32, bytes: &Bound<'_, PyAny>, tag: i32) -> PyResult<Operation> {
        Ok(Operation::of(Begun::Exchange { to, from: source, tag, bytes: self::bytes(bytes)? }))
    }

    /// Begins to send, at once; give what it answers to `wait`.
    #[pyo3(signature = (to, bytes, tag = 0))]
    fn isend(&self, to: u32, bytes: &Bound<'_, PyAny>, tag: i32) -> PyResult<Request> {
        let request = self.mpi.isend(to, tag, self::bytes(bytes)?).map_err(|error| self.failed(error))?;
        Ok(Request { request: RefCell::new(Some(request)) })
    }

    /// Begins to receive, at once; give what it answers to `wait`.
    #[pyo3(signature = (source, bytes, tag = Some(0)))]
    fn irecv(&self, source: Option<u32>, bytes: &Bound<'_, PyAny>, tag: Option<i32>) -> PyResult<Request> {
        let request = self.mpi.irecv_any(self::source(source), selector(tag), self::bytes(bytes)?);
        let request = request.map_err(|error| self.failed(error))?;
        Ok(Request { request: RefCell::new(Some(request)) })
    }

    /// Waits for a request; to be yielded.
    fn wait(&self, request: &Request) -> PyResult<Operation> {
        Ok(Operation::of(Begun::Wait(vec![request.take()?])))
    }

    /// Waits for all requests; to be yielded.
    fn wait_all(&self, requests: Vec<PyRef<'_, Request>>) -> PyResult<Operation> {
        let requests = requests.iter().map(|request| request.take()).collect::<PyResult<_>>()?;
        Ok(Operation::of(Begun::Wait(requests)))
    }

    /// Takes part in a collective operation of all ranks; to be yielded.
    #[pyo3(signature = (operation, bytes, algorithm = None))]
    fn collective(
        &self,
        operation: &str,
        bytes: &Bound<'_, PyAny>,
        algorithm: Option<String>,
    ) -> PyResult<Operation> {
        // It says which there are.
        let known = crate::names::algorithms(operation)?;
        if let Some(name) = algorithm.as_deref().filter(|name| !known.contains(name)) {
            return Err(wrong(format!("--algorithm {name}: {operation} has {}", known.join(", "))));
        }
        let found = Collective::by_name(operation).ok_or_else(|| wrong(operation))?;
        Ok(Operation::of(Begun::Collective { operation: found, bytes: self::bytes(bytes)?, algorithm }))
    }

    /// Waits until all ranks have come here; to be yielded.
    fn barrier(&self) -> Operation {
        Operation::of(Begun::Collective { operation: Collective::Barrier, bytes: 0, algorithm: None })
    }
}

impl Mpi {
    fn failed(&self, error: MpiError) -> PyErr {
        failed(format!("rank {}: {error}", self.mpi.rank()))
    }
}
