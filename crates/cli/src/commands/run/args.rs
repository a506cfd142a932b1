//! The command line of `ayatori run`, and what it means: a [`JobSpec`].

use super::coded;
use crate::exit::Coded;
use ayatori_core::device::{Gap, NotGap};
use ayatori_devices::tcp::RailFilter;
use ayatori_launch::allocation::Allocation;
use ayatori_launch::binary;
use ayatori_launch::environment;
use ayatori_launch::hosts::HostSpec;
use ayatori_launch::machine::hostname;
use ayatori_launch::spec::{self, App, Cluster, JobSpec, Program};
use clap::{Parser, ValueEnum};
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// The default command to run a program on a host. It fails instead of asking, because no user can answer.
const DEFAULT_AGENT: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}";

/// What `ayatori run` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Several programs form one job when separated by a colon, each with its own -n, --env and --wdir:
  ayatori run -n 1 ./master : -n 3 --env ROLE=worker ./worker

-np, -genv NAME VALUE, -env NAME VALUE and other single-dash forms of mpiexec are understood.
Exit code: that of the first rank that failed; 128 + N when signal N ended it; 124 on --timeout;
127 when the program is not found, 126 when it cannot be executed.")]
pub(crate) struct Args {
    /// How ranks are tied to CPUs; by default `core` when every rank can have cores of its own
    #[arg(long, value_name = "WHAT")]
    bind_to: Option<Binding>,
    /// Begin each line of output with the rank: `[3] …`
    #[arg(short = 'l', long, visible_alias = "prepend-rank")]
    tag_output: bool,
    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How many processes there is room for, those that MPI_Comm_spawn adds included (MPI_UNIVERSE_SIZE);
    /// without it the slots of the hosts, if any are named
    #[arg(long, visible_alias = "usize", value_name = "N", env = "AYATORI_UNIVERSE_SIZE")]
    universe_size: Option<NonZeroU32>,
    /// Say what is started where, and how each rank ended
    #[arg(short, long)]
    verbose: bool,
    /// Go on without ranks that fail: their peers get errors, and may shrink their communicators
    #[arg(long)]
    survive: bool,
    /// Compare the arguments of collective operations between ranks before they run, for an error that names
    /// the differing rank; costs two more rounds of messages
    #[arg(long)]
    check: bool,
    /// Set a variable for the ranks of all programs
    #[arg(long, value_name = "NAME=VALUE")]
    genv: Vec<OsString>,
    /// Print what would be started where and by which commands, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Start the ranks on these hosts, each with as many at a time as it has slots [default: the hosts of the
    /// batch system's allocation, if in one, else this machine]
    #[arg(long, value_name = "HOST[:SLOTS],…", aliases = ["host", "hostlist"])]
    hosts: Option<String>,
    /// The same from a file: a host a line
    #[arg(long, value_name = "FILE", alias = "machinefile", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// The command that runs something on a host: '{host}' stands for its name, '{index}' for its number in
    /// the job [default: the batch system's own, if in an allocation, else ssh without questions]
    #[arg(long, value_name = "COMMAND", env = "AYATORI_AGENT")]
    agent: Option<String>,
    /// Agents that the launcher, and each agent, starts at most itself where there are more hosts; 0: the
    /// launcher starts all [default: 32 with ssh, else 0]
    #[arg(long, value_name = "N", env = "AYATORI_BRANCH_COUNT", value_parser = branch_count)]
    branch_count: Option<usize>,
    /// The interfaces (eth1) and networks (10.1.0.0/16) that may carry messages between hosts [default: all
    /// that work]
    #[arg(long, value_name = "RAIL,…")]
    rails: Option<String>,
    /// Interfaces and networks that may not
    #[arg(long, value_name = "RAIL,…")]
    no_rails: Option<String>,
    #[command(flatten)]
    library: LibraryArgs,
    /// The MPI that the programs were built for: what they ask for, or one whatever they ask for
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    abi: Abi,
    /// Accepted for Open MPI's scripts; more ranks than CPUs are always allowed
    #[arg(long, hide = true)]
    oversubscribe: bool,
    /// Accepted for Open MPI's scripts
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    #[command(flatten)]
    app: AppArgs,
}

impl Args {
    /// Whether to start nothing.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// Settings passed to the library in each rank's environment.
#[derive(Debug, Clone, Default, clap::Args)]
struct LibraryArgs {
    /// Progress of messages: by calls, by calls and a thread, or by a thread alone [default: assisted]
    #[arg(long, value_name = "WHO")]
    progress: Option<Progress>,
    /// Silence after each packet of a long message between hosts, in packet times: 1 is half of the rail's
    /// rate
    #[arg(long, value_name = "PACKETS", value_parser = gap)]
    gap: Option<Gap>,
    /// As much more for each hop between switches on the way
    #[arg(long, value_name = "PACKETS", value_parser = gap)]
    gap_per_hop: Option<Gap>,
    /// So many hops add nothing
    #[arg(long, value_name = "HOPS")]
    gap_free_hops: Option<u32>,
}

impl LibraryArgs {
    /// As variables.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let progress = self.progress.map(|progress| match progress {
            Progress::Inline => "inline".to_owned(),
            Progress::Assisted => "assisted".to_owned(),
            Progress::Offload => "offload".to_owned(),
        });
        let all = [
            (environment::ENV_PROGRESS, progress),
            (environment::ENV_GAP, self.gap.map(|gap| gap.to_string())),
            (environment::ENV_GAP_PER_HOP, self.gap_per_hop.map(|gap| gap.to_string())),
            (environment::ENV_GAP_FREE_HOPS, self.gap_free_hops.map(|hops| hops.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))).collect()
    }
}

/// The progress mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Progress {
    /// Only calls of MPI
    Inline,
    /// Calls of MPI, and a thread while there are none
    Assisted,
    /// A thread that owns the devices; calls give it commands
    Offload,
}

fn ranks(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "not a number of ranks, 1 or more")
}

fn gap(text: &str) -> Result<Gap, NotGap> {
    text.parse()
}

/// What each program of a job takes.
#[derive(Debug, Default, clap::Args)]
struct AppArgs {
    /// Number of ranks to start [default: 1; with --hosts or in an allocation as many as there are slots]
    #[arg(short = 'n', long = "np", visible_alias = "ntasks", value_name = "N", value_parser = ranks)]
    ranks: Option<usize>,
    /// Set a variable for the ranks of this program; without a value, pass on the one there is
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Start the ranks of this program in this directory
    #[arg(long, visible_alias = "wd", value_name = "DIRECTORY")]
    wdir: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A program after the first: only what belongs to it.
#[derive(Debug, Parser)]
#[command(name = "ayatori run", no_binary_name = true)]
struct NextApp {
    #[command(flatten)]
    app: AppArgs,
}

/// How ranks are tied to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Binding {
    /// Each rank gets cores of its own
    Core,
    /// The operating system decides
    None,
}

impl From<Binding> for spec::Binding {
    fn from(binding: Binding) -> Self {
        match binding {
            Binding::Core => spec::Binding::Core,
            Binding::None => spec::Binding::None,
        }
    }
}

/// The MPI that a program was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Abi {
    /// As the libraries that it needs say
    Auto,
    /// The ABI of MPI-5.0: libmpi_abi.so.1
    Standard,
    /// MPICH, Intel MPI and their like: libmpi.so.12
    Mpich,
    /// Open MPI 4 and 5: libmpi.so.40
    Openmpi,
}

impl Abi {
    /// The one that is forced.
    fn forced(self) -> Option<spec::Abi> {
        match self {
            Self::Auto => None,
            Self::Standard => Some(spec::Abi::Standard),
            Self::Mpich => Some(spec::Abi::Mpich),
            Self::Openmpi => Some(spec::Abi::OpenMpi),
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be above 0".to_owned()),
    }
}

fn branch_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(1) => Err("1 would start the agents one behind another; give 0 or at least 2".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("not a number of agents".to_owned()),
    }
}

/// The job. `allocation`: the batch system's data.
///
/// # Errors
/// The command line can be parsed and is wrong nevertheless.
pub(super) fn job_spec(
    args: Args,
    allocation: anyhow::Result<Option<Allocation>>,
) -> anyhow::Result<JobSpec> {
    let place = place(&args, allocation)?;
    let slots_count = place.as_ref().map(|place| place.hosts.iter().map(|host| host.slots).sum());
    let cluster = place.map_or(Ok(None), |place| cluster(&args, place))?;
    let mut genv = args.library.environment();
    if args.check {
        genv.push(("AYATORI_CHECK".into(), "1".into()));
    }
    for pair in &args.genv {
        genv.push(variable(pair)?);
    }
    let mut first = args.app;
    let words = std::mem::take(&mut first.command);
    let mut apps = Vec::new();
    for (index, words) in words.split(|word| word == ":").enumerate() {
        let mut app = if index == 0 {
            AppArgs { command: words.to_vec(), ..std::mem::take(&mut first) }
        } else {
            let parsed = NextApp::try_parse_from(normalise(words.to_vec())).map_err(|error| {
                let text = error.to_string();
                let text = text.trim_start_matches("error: ").trim_end();
                Coded::usage(format!("in program {} of the job: {text}", index + 1))
            });
            parsed?.app
        };
        if app.command.is_empty() {
            return Err(Coded::usage("a program is missing beside ':'"));
        }
        let command = std::mem::take(&mut app.command);
        let mut app = application(app, command, &genv, slots_count)?;
        binary::prepare(&mut app.program, args.abi.forced()).map_err(coded)?;
        apps.push(app);
    }
    Ok(JobSpec {
        apps,
        binding: args.bind_to.map(Into::into),
        is_tagged: args.tag_output,
        timeout: args.timeout,
        is_verbose: args.verbose,
        survives: args.survive,
        cluster,
        universe_size: args.universe_size.map(NonZeroU32::get),
        values: Vec::new(),
        is_spawned: false,
        abi: args.abi.forced(),
    })
}

/// A program of the job.
fn application(
    args: AppArgs,
    mut command: Vec<OsString>,
    genv: &[(OsString, OsString)],
    slots_count: Option<usize>,
) -> anyhow::Result<App> {
    let ranks_count = args.ranks.or(slots_count).unwrap_or(1);
    if ranks_count == 0 {
        return Err(Coded::usage("-n 0: a job has at least one rank"));
    }
    let name = command.remove(0);
    if name.as_bytes().starts_with(b"-") {
        return Err(Coded::usage(format!(
            "unknown option '{}' (see `ayatori run --help`; a program of that name is run as ./{0})",
            name.display()
        )));
    }
    let mut env = genv.to_vec();
    for pair in &args.env {
        env.push(variable(pair)?);
    }
    let program = Program { name, args: command, env, wdir: args.wdir.map(Into::into) };
    Ok(App { ranks_count, program })
}

/// The hosts that the job is for, and how to reach them.
struct Place {
    hosts: Vec<HostSpec>,
    /// How, if the batch system says it.
    agent: Option<Vec<String>>,
    /// The name of this host, if known.
    own_name: Option<String>,
}

/// The hosts that were named, else those of the allocation; `None`: this machine.
fn place(args: &Args, allocation: anyhow::Result<Option<Allocation>>) -> anyhow::Result<Option<Place>> {
    let named = match (&args.hosts, &args.hostfile) {
        (Some(list), _) => Some(HostSpec::list(list).map_err(coded)?),
        (None, Some(file)) => Some(HostSpec::file(file).map_err(coded)?),
        (None, None) => None,
    };
    // Hosts of the allocation that are named are reached as the others of it.
    let allocation = match allocation {
        Ok(allocation) => allocation,
        Err(_) if named.is_some() => None,
        Err(error) => return Err(coded(error)),
    };
    if let Some(hosts) = named {
        let is_ours =
            |names: &Allocation| hosts.iter().all(|host| names.hosts.iter().any(|own| own.name == host.name));
        let allocation = allocation.filter(|allocation| is_ours(allocation) && !allocation.counts_hosts());
        let (agent, own_name) = allocation.map_or((None, None), |own| (own.agent, own.own_name));
        return Ok(Some(Place { hosts, agent, own_name }));
    }
    if let Some(Allocation { hosts, agent, own_name, .. }) = allocation {
        return Ok(Some(Place { hosts, agent, own_name }));
    }
    let is_agent_typed = args.agent.is_some() && std::env::var_os("AYATORI_AGENT").is_none();
    for (is_typed, what) in [
        (is_agent_typed, "--agent says how to reach hosts"),
        (args.rails.is_some(), "--rails says what carries messages between hosts"),
        (args.no_rails.is_some(), "--no-rails says what carries no messages between hosts"),
    ] {
        if is_typed {
            return Err(Coded::usage(format!("{what}, and there are none: give --hosts")));
        }
    }
    Ok(None)
}

/// How to reach the hosts, if they are not this machine alone.
fn cluster(args: &Args, place: Place) -> anyhow::Result<Option<Cluster>> {
    for (option, text) in [("--rails", &args.rails), ("--no-rails", &args.no_rails)] {
        RailFilter::new(text.as_deref(), None).map_err(|error| Coded::usage(format!("{option}: {error}")))?;
    }
    let Place { hosts, agent, own_name } = place;
    let is_here = |name: &str| {
        matches!(name, "localhost" | "127.0.0.1" | "::1")
            || name == hostname()
            || own_name.as_deref() == Some(name)
    };
    if args.agent.is_none() && hosts.iter().all(|host| is_here(&host.name)) {
        return Ok(None);
    }
    let agent = match (&args.agent, agent) {
        (None, Some(agent)) => agent,
        (typed, _) => split_words(typed.as_deref().unwrap_or(DEFAULT_AGENT))?,
    };
    if !agent.iter().any(|word| word.contains("{host}") || word.contains("{index}")) {
        return Err(Coded::usage(
            "--agent: the command has no {host} for the host's name, as in 'ssh {host}'",
        ));
    }
    let (rails, no_rails) = (args.rails.clone(), args.no_rails.clone());
    Ok(Some(Cluster { hosts, agent, branch_count: args.branch_count, rails, no_rails }))
}

/// `NAME=VALUE`, or `NAME` for the value it has here.
fn variable(pair: &OsStr) -> anyhow::Result<(OsString, OsString)> {
    let bytes = pair.as_bytes();
    let (name, value) = match bytes.iter().position(|&b| b == b'=') {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
        None => (pair, None),
    };
    if name.is_empty() {
        return Err(Coded::usage(format!("'{}' is not NAME=VALUE", pair.display())));
    }
    let value = value.or_else(|| std::env::var_os(name)).ok_or_else(|| {
        Coded::usage(format!("the variable {0} is not set here; give it a value: {0}=…", name.display()))
    })?;
    Ok((name.to_owned(), value))
}

/// The words of a command line, with quotes as a shell has them.
fn split_words(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Coded::usage(format!("--agent '{text}': a quote is not closed")));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(Coded::usage("--agent: the command is empty"));
    }
    Ok(words)
}

/// Rewrites what other launchers have taught people, up to the program: `-np 4` to `--np 4`,
/// `-genv A B` to `--genv A=B`.
pub(crate) fn normalise(args: Vec<OsString>) -> Vec<OsString> {
    let options = <Args as clap::Args>::augment_args(clap::Command::new("run"));
    let find_long = |name: &str| {
        options.get_arguments().find(|arg| {
            let is_alias = |names: Option<Vec<&str>>| names.is_some_and(|names| names.contains(&name));
            arg.get_long() == Some(name) || is_alias(arg.get_all_aliases())
        })
    };
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values();
    let mut args = args.into_iter();
    let mut out: Vec<OsString> = Vec::new();
    while let Some(word) = args.next() {
        let text = word.to_str().unwrap_or_default().to_owned();
        let is_option = text.starts_with('-') && text.len() > 1 && text != "--";
        if !is_option {
            // The program (or `--`, or a name that is not text): the rest is its own.
            out.push(word);
            break;
        }
        let name = text.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
        let is_short = !text.starts_with("--");
        let long = if is_short && name.len() < 2 { None } else { find_long(&name) };
        let Some(option) = long else {
            let short = text[1..].chars().next().filter(|_| is_short);
            let known = options.get_arguments().find(|arg| short.is_some() && arg.get_short() == short);
            out.push(word);
            if text.len() == 2 && known.is_some_and(takes_value) {
                out.extend(args.next());
            }
            continue;
        };
        out.push(if is_short { format!("-{text}").into() } else { word });
        if takes_value(option) && !text.contains('=') {
            let mut value = args.next();
            let is_pair = is_short && matches!(name.as_str(), "genv" | "env");
            if let Some(name) = value.as_mut().filter(|v| is_pair && !v.as_bytes().contains(&b'=')) {
                let value = args.next().unwrap_or_default();
                let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
                *name = OsString::from_vec(pair);
            }
            out.extend(value);
        }
    }
    out.extend(args);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Run {
        #[command(flatten)]
        args: Args,
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn spec(line: &str) -> anyhow::Result<JobSpec> {
        let mut all = vec![OsString::from("run")];
        all.extend(normalise(words(line)));
        job_spec(Run::try_parse_from(all)?.args, Ok(None))
    }

    fn in_allocation(line: &str) -> JobSpec {
        let allocation = Allocation {
            title: "Slurm job 7".to_owned(),
            hosts: HostSpec::list("n1:4,n2:2").expect("hosts"),
            agent: Some(vec!["srun".to_owned(), "{host}".to_owned()]),
            own_name: Some("n1".to_owned()),
        };
        let mut all = vec![OsString::from("run")];
        all.extend(normalise(words(line)));
        job_spec(Run::try_parse_from(all).expect("options").args, Ok(Some(allocation))).expect("spec")
    }

    #[test]
    fn an_allocation_gives_hosts_slots_and_the_way_to_them() {
        let spec = in_allocation("true");
        let cluster = spec.cluster.as_ref().expect("hosts");
        assert_eq!((spec.ranks_count(), cluster.agent.join(" ")), (6, "srun {host}".to_owned()));
        assert_eq!(in_allocation("-n 3 true").ranks_count(), 3);
    }

    #[test]
    fn named_hosts_win_over_the_allocations() {
        let agent = |line: &str| in_allocation(line).cluster.map(|cluster| cluster.agent.join(" "));
        assert_eq!(agent("--hosts n2 true").as_deref(), Some("srun {host}"));
        assert_eq!(agent("--hosts x true").as_deref(), Some(DEFAULT_AGENT));
        assert_eq!(agent("--agent ssh{host} true").as_deref(), Some("ssh{host}"));
        // This host by either of its names.
        assert_eq!(agent("--hosts localhost:2 true"), None);
        assert_eq!(agent("--hosts n1:2 true"), None);
    }

    #[test]
    fn single_dash_options_are_understood_up_to_the_program() {
        let got = normalise(words("-np 4 -genv A B -x C=1 -bind-to core --wdir /tmp -l prog -np 3 -genv X"));
        let want = "--np 4 --genv A=B -x C=1 --bind-to core --wdir /tmp -l prog -np 3 -genv X";
        assert_eq!(got, words(want));
        assert_eq!(normalise(words("-env A B -n 2 prog")), words("--env A=B -n 2 prog"));
        assert_eq!(spec("-usize 9 -n 2 true").expect("spec").universe_size, Some(9));
        assert!(spec("-usize 0 -n 2 true").is_err());
    }

    #[test]
    fn programs_separated_by_a_colon_form_one_job() {
        let spec = spec("-n 2 --genv G=1 true a : -np 3 -env E e --wdir /tmp sh -c x : false").expect("spec");
        assert_eq!(spec.ranks_count(), 6);
        let [first, second, third] = &spec.apps[..] else { panic!("{spec:?}") };
        assert_eq!((first.ranks_count, &first.program.args), (2, &words("a")));
        assert_eq!((second.ranks_count, &second.program.args), (3, &words("-c x")));
        assert_eq!(second.program.env, [("G".into(), "1".into()), ("E".into(), "e".into())]);
        assert_eq!(second.program.wdir.as_deref(), Some(OsStr::new("/tmp")));
        assert_eq!((third.ranks_count, third.program.env.len()), (1, 1));
    }

    #[test]
    fn hosts_say_how_many_ranks_where_no_number_does() {
        let one = spec("--hosts a:2,b:3 -agent x{host} no-such-program-here").expect("spec");
        assert_eq!(one.ranks_count(), 5);
        let two = spec("-host a,b -n 4 --rails eth1,10.0.0.0/8 p").expect("spec");
        let cluster = two.cluster.expect("hosts");
        assert_eq!((cluster.agent.join(" "), cluster.hosts.len()), (DEFAULT_AGENT.to_owned(), 2));
        let here = |line| spec(line).map(|spec| (spec.ranks_count(), spec.cluster)).expect("spec");
        assert_eq!(here("-n 2 --host localhost:4 true"), (2, None));
        assert_eq!(here("--host localhost:4 --rails eth1 true"), (4, None));
        let branches = |line| spec(line).expect("spec").cluster.and_then(|cluster| cluster.branch_count);
        assert_eq!((branches("--hosts a,b p"), branches("-branch-count 0 --hosts a,b p")), (None, Some(0)));
    }

    #[test]
    fn what_the_library_is_told_stands_in_the_environment() {
        let spec = spec("-n 2 --progress inline --gap 0.5 --gap-free-hops 2 true").expect("spec");
        let env: Vec<String> = spec.apps[0]
            .program
            .env
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(env, ["AYATORI_PROGRESS=inline", "AYATORI_GAP=0.5", "AYATORI_GAP_FREE_HOPS=2"]);
    }

    #[test]
    fn what_is_wrong_on_the_command_line_is_named() {
        for (line, part) in [
            ("-n 0 true", "at least one rank"),
            ("-n 2 --frobnicate true", "unknown option '--frobnicate'"),
            ("-n 2 --hosts a:0 true", "host 'a:0'"),
            ("-n 2 --hosts a --agent ssh true", "no {host}"),
            ("-n 2 --agent x{host} true", "give --hosts"),
            ("-n 2 --rails eth1 true", "between hosts, and there are none: give --hosts"),
            ("-n 2 --no-rails eth1 true", "between hosts, and there are none: give --hosts"),
            ("-n 2 --hosts a --rails 10.0.0.0/77 true", "'10.0.0.0/77' names no rail"),
            ("-n 2 --progress never true", "invalid value 'never'"),
            ("-n 2 --gap -1 true", "--gap"),
            ("-n 2 --gap much true", "a gap is a number of packet times"),
            ("-n two true", "not a number of ranks"),
            ("-n 2 true : -n -1 true", "not a number of ranks"),
            ("-n 2 -x NOT_SET_HERE_7 true", "NOT_SET_HERE_7 is not set"),
            ("-n 2 true : -n 0 true", "at least one rank"),
            ("-n 2 true :", "in program 2"),
            ("-n two true", "invalid value 'two'"),
            ("--branch-count 1 --hosts a,b true", "give 0 or at least 2"),
            ("--timeout -3 true", "--timeout"),
        ] {
            let error = format!("{:#}", spec(line).expect_err(line));
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn an_agents_command_is_split_as_a_shell_would() {
        let words = |text| split_words(text).expect("words");
        assert_eq!(words("ssh -o 'Log Level=x' {host}"), ["ssh", "-o", "Log Level=x", "{host}"]);
        assert_eq!(words("ip  netns\texec \"\" a'b'c"), ["ip", "netns", "exec", "", "abc"]);
        assert!(split_words("ssh 'x").is_err());
        assert!(split_words("  ").is_err());
    }
}
