//! Wrong inputs of the planner: each gives one error that names the thing and says what to do, and ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run is stopped after this long, and the test fails: no case here may compute for long.
const HANG_LIMIT: Duration = Duration::from_secs(300);

const MACHINE: &str = r#"name = "m"
cable_price = 3
[switch_models.s]
ports = 12
rate_gbps = 1
vlans_max = 64
mac_table_max = 1000
lag_ports_max = 4
lags_max = 4
aging_time_max_s = 300
buffer_bytes = 100000
latency_ns = 500
price = 100
[host_models.h]
sockets = 2
cores_per_socket = 4
memory_gib = 8
nic = [{ name = "eth0", rate_gbps = 1, mtu_bytes = 1500 }]
[topology]
kind = "ring"
switches = 4
switch_model = "s"
cables = 2
cable_latency_ns = 5
[hosts]
model = "h"
per_switch = 2
[plan]
first_vlan = 101
"#;

const PRICES: &str = r#"currency = "EUR"
[switch_models.s]
ports = 8
rate_gbps = 1
price = 100
[host_models.h]
nic = [{ name = "eth0", rate_gbps = 1 }]
[[cable]]
length_m = 3
price = 4
[racks]
hosts_per_rack = 4
racks_per_row = 2
rack_pitch_m = 0.6
row_pitch_m = 1.2
in_rack_m = 1
"#;

/// Keys with a number, by file, and values that no number can have.
const NUMBERS: &[(&str, &[&str])] = &[
    (
        "plan machine.toml",
        &[
            "cable_price = 3",
            "ports = 12",
            "vlans_max = 64",
            "mac_table_max = 1000",
            "lag_ports_max = 4",
            "lags_max = 4",
            "aging_time_max_s = 300",
            "buffer_bytes = 100000",
            "latency_ns = 500",
            "price = 100",
            "sockets = 2",
            "cores_per_socket = 4",
            "memory_gib = 8",
            "mtu_bytes = 1500",
            "switches = 4",
            "cables = 2",
            "cable_latency_ns = 5",
            "per_switch = 2",
            "first_vlan = 101",
        ],
    ),
    (
        DESIGN,
        &[
            "ports = 8",
            "price = 100",
            "length_m = 3",
            "price = 4",
            "hosts_per_rack = 4",
            "racks_per_row = 2",
            "rack_pitch_m = 0.6",
            "row_pitch_m = 1.2",
            "in_rack_m = 1",
        ],
    ),
];
const NO_NUMBERS: &[&str] = &["-1", "\"many\"", "99999999999999999999999", "nan", "[]"];

const DESIGN: &str = "plan design --hosts 10 --bisection 1G --prices prices.toml";

/// The text replaced in a file; the command; a part of the error's first line.
const CHANGED: &[(&str, &str, &str, &str, &str)] = &[
    // Machines.
    (
        "machine.toml",
        "kind = \"ring\"\nswitches = 4",
        "kind = \"torus\"\nextents = [1000, 1000]",
        "plan machine.toml",
        "1000000 switches, and the planner takes 4096",
    ),
    (
        "machine.toml",
        "kind = \"ring\"\nswitches = 4",
        "kind = \"torus\"\nextents = [1000, 1000]",
        "sim run machine.toml barrier",
        "1000000 switches, and the planner takes 4096",
    ),
    ("machine.toml", "switches = 4", "switches = 2", "plan machine.toml", "ring"),
    ("machine.toml", "per_switch = 2", "per_switch = 9", "plan machine.toml", "ports"),
    (
        "machine.toml",
        "vlans_max = 64",
        "vlans_max = 1\nuntagged_vlans_per_port = \"one\"",
        "plan machine.toml --json",
        "vlans_max",
    ),
    (
        "machine.toml",
        "first_vlan = 101",
        "first_vlan = 4094",
        "plan machine.toml",
        "VLANs from 4094 on go beyond",
    ),
    ("machine.toml", "model = \"h\"", "model = \"g\"", "plan machine.toml", "there is no [host_models.g]"),
    // Price lists.
    ("prices.toml", "price = 100\n", "", DESIGN, "s has no price"),
    ("prices.toml", "[[cable]]\nlength_m = 3\nprice = 4\n", "", DESIGN, "there is no cable to buy"),
    ("prices.toml", "length_m = 3\n", "", DESIGN, "has no `length_m`"),
    ("prices.toml", "length_m = 3\nprice = 4", "length_m = 3", DESIGN, "has no `price`"),
    (
        "prices.toml",
        "[racks]",
        "[[cable]]\nlength_m = 3\nprice = 5\n[racks]",
        DESIGN,
        "two prices for cables of 3 m",
    ),
    ("prices.toml", "[racks]", "[host_models.g]\nnic = []\n[racks]", DESIGN, "has no NIC"),
    (
        "prices.toml",
        "[host_models.h]\nnic = [{ name = \"eth0\", rate_gbps = 1 }]\n",
        "",
        DESIGN,
        "one model of hosts",
    ),
    ("prices.toml", "[racks]", "[rack]", DESIGN, "is not a known key"),
    ("prices.toml", "length_m", "lenght_m", DESIGN, "has no `length_m`"),
    (
        "prices.toml",
        "[switch_models.s]\nports = 8\nrate_gbps = 1\nprice = 100\n",
        "",
        DESIGN,
        "no switch to buy",
    ),
    ("prices.toml", "ports = 8", "ports = 1", DESIGN, "holds 10 hosts: add a model with more ports"),
    ("prices.toml", "in_rack_m = 1", "in_rack_m = 9", DESIGN, "needs a cable of"),
    ("prices.toml", "ports = 8", "ports = 8\nmac_table_max = 2", DESIGN, "passes all checks"),
    ("prices.toml", "currency", "= currency", DESIGN, "prices.toml:1: "),
    // Traffic.
    ("traffic", "h0 h1 5", "h0 h1", TRAFFIC, "traffic:1"),
    ("traffic", "h0 h1 5", "h0 h1 much", TRAFFIC, "traffic:1"),
    ("traffic", "h0 h1 5", "h0 h1 -5", TRAFFIC, "traffic:1"),
    ("traffic", "h0 h1 5", "h0 h1 5 6", TRAFFIC, "this has 4 words"),
    ("traffic", "h0 h1 5", "# none\nh0 h99 5", TRAFFIC, "traffic:2: there is no host \"h99\""),
    // Plans as they were written.
    ("out/plan.json", "\"vlans\"", "\"vlan\"", CHECK, "is not a plan.json"),
    ("out/plan.json", "\"vlans\"", "\"vlan\"", "plan machine.toml --from out", "is not a plan.json"),
    ("out/plan.json", "{", "", CHECK, "is not a plan.json"),
    ("out/plan.json", "\"tagging\": \"switch\"", "\"tagging\": \"nobody\"", CHECK, "is not a plan.json"),
    (
        "out/plan.json",
        "\"tagging\": \"switch\"",
        "\"tagging\": \"host\"",
        "plan machine.toml --from out",
        "hosts that tag",
    ),
    ("out/plan.json", "\"vid\": 101", "\"vid\": 4095", CHECK, "4095 is no VLAN"),
    ("out/plan.json", "\"vid\": 101", "\"vid\": 3000", CHECK, "VLANs are not in ascending order"),
    ("out/plan.json", "\"name\": \"h3\"", "\"name\": \"h9\"", CHECK, "it has no host h3"),
    (
        "out/plan.json",
        "\"name\": \"s2\"",
        "\"name\": \"z2\"",
        "plan show machine.toml --html x.html --plan out",
        "it has no switch s2",
    ),
    (
        "out/plan.json",
        "\"name\": \"s2\"",
        "\"name\": \"z2\"",
        "sim run machine.toml barrier --plan out",
        "it has no switch s2",
    ),
    (
        "out/plan.json",
        "\"name\": \"s2\"",
        "\"name\": \"z2\"",
        "plan prime machine.toml --host h0 --dry-run --plan out",
        "it has no switch s2",
    ),
    ("out/plan.json", "\"dialect\": \"json\"", "\"dialect\": \"sonic\"", CHECK, "another model there"),
];
const TRAFFIC: &str = "plan machine.toml --traffic traffic";
const CHECK: &str = "plan check machine.toml --from out --plan out";

/// Commands alone, and a part of the error.
const TYPED: &[(&str, &str)] = &[
    ("plan machine.toml --frobnicate", "unexpected argument '--frobnicate'"),
    ("plan machine.toml --prune", "--out"),
    ("plan machine.toml --force", "--out"),
    ("plan machine.toml --out", "a value is required"),
    ("plan machine.toml --out machine.toml", "machine.toml"),
    ("plan machine.toml --from nothing", "cannot read the plan nothing"),
    ("plan machine.toml --from .", "cannot read the plan ./plan.json"),
    ("plan machine.toml --from machine.toml", "machine.toml: is not a plan.json"),
    ("plan machine.toml --from out --failures", "cannot be used with"),
    ("plan machine.toml --from out --without-switch s0", "cannot be used with"),
    ("plan machine.toml --without-link s0,s2", "there is no link between these switches"),
    ("plan machine.toml --without-link s0,s9", "no switch \"s9\""),
    ("plan machine.toml --without-link s0", "name two switches"),
    ("plan machine.toml --without-switch h0", "no switch \"h0\""),
    ("plan check machine.toml", "--from"),
    ("plan check machine.toml --from out --plan nothing", "cannot read the plan nothing"),
    ("plan check machine.toml --from out --plan traffic", "traffic: is not a plan.json"),
    ("plan check nothing --from out", "nothing: cannot be read"),
    ("plan check machine.toml --from traffic", "traffic is not a folder"),
    ("plan show machine.toml", "--html"),
    ("plan show machine.toml --html nowhere/x.html", "cannot write nowhere/x.html"),
    ("plan show machine.toml --html x.html --traffic nothing", "cannot read nothing"),
    ("plan show machine.toml --html x.html --plan nothing", "cannot read the plan nothing"),
    ("plan prime machine.toml --host h99 --plan out", "has no host h99; its first is h0"),
    ("plan prime machine.toml --host", "a value is required"),
    ("plan design", "--hosts"),
    ("plan design --hosts 10 --bisection 1G", "--prices"),
    ("plan design --hosts ten --bisection 1G --prices prices.toml", "'ten'"),
    ("plan design --hosts -1 --bisection 1G --prices prices.toml", "-1"),
    ("plan design --hosts 0 --bisection 1G --prices prices.toml", "0 hosts: from 1 to 16384"),
    ("plan design --hosts 99999 --bisection 1G --prices prices.toml", "99999 hosts: from 1 to 16384"),
    ("plan design --hosts 16384 --bisection 1G --prices prices.toml", "holds 16384 hosts"),
    ("plan design --hosts 10 --bisection 1GB --prices prices.toml", "--bisection 1GB: a rate in bit/s"),
    ("plan design --hosts 10 --bisection -1 --prices prices.toml", "-1"),
    ("plan design --hosts 10 --bisection 99T --prices prices.toml", "no network has 99000.0 Gbit/s"),
    ("plan design --hosts 10 --bisection 1G --prices nothing", "cannot read nothing"),
    ("plan design --hosts 10 --bisection 1G --prices out", "cannot read out"),
    ("plan design --hosts 10 --bisection 1G --prices machine.toml", "machine.toml:"),
    ("plan design --hosts 10 --bisection 1G --prices prices.toml --count 0", "'0'"),
    ("plan design --hosts 10 --bisection 1G --prices prices.toml --bytes much", "'much' is no length"),
    ("plan design --hosts 10 --bisection 1G --prices prices.toml --bytes 0 --out traffic", "traffic"),
    ("sim run machine.toml barrier --plan nothing", "cannot read the plan nothing"),
    ("sim run machine.toml barrier --plan prices.toml", "prices.toml: is not a plan.json"),
    ("sim run machine.toml barrier --plan out --extents 2x2", "cannot be used with"),
];

struct Folder {
    folder: tempfile::TempDir,
    plan: String,
}

impl Folder {
    fn new() -> Folder {
        let mut here = Folder { folder: tempfile::tempdir().unwrap(), plan: String::new() };
        here.restore();
        let (code, _, error) = here.run("plan machine.toml --out out");
        assert_eq!(code, Some(0), "{error}");
        here.plan = std::fs::read_to_string(here.path().join("out/plan.json")).unwrap();
        here
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// All files as they are right.
    fn restore(&self) {
        let put = |name: &str, text: &str| std::fs::write(self.path().join(name), text).unwrap();
        put("machine.toml", MACHINE);
        put("prices.toml", PRICES);
        put("traffic", "h0 h1 5\n");
        if !self.plan.is_empty() {
            put("out/plan.json", &self.plan);
        }
    }

    fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from:?}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// Exit code, output, errors.
    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ayatori"));
        command.args(line.split(' ')).current_dir(self.path()).stdin(Stdio::null());
        let out = std::fs::File::create(self.path().join("stdout")).unwrap();
        let err = std::fs::File::create(self.path().join("stderr")).unwrap();
        let mut child = command.stdout(out).stderr(err).spawn().expect("ayatori starts");
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > HANG_LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                panic!("ayatori {line}: no end");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let read = |name: &str| std::fs::read_to_string(self.path().join(name)).unwrap();
        (status.code(), read("stdout"), read("stderr"))
    }

    /// One error in its first line; what follows is the line of the file and what to do.
    fn refuses(&self, line: &str, what: &str, expected: &str) {
        let (code, out, error) = self.run(line);
        let shown = format!("{what}\nayatori {line}\n{error}");
        assert!(matches!(code, Some(1 | 2)), "{code:?} {shown}{out}");
        assert!(error.starts_with("ayatori: ") || error.starts_with("error: "), "{shown}");
        assert!(error.contains(expected), "{expected:?} is not in {shown}");
        assert!(!error.contains("panicked") && error.lines().count() <= 8, "{shown}");
    }
}

#[test]
fn a_hundred_and_fifty_wrong_inputs_get_one_error_each() {
    let here = Folder::new();
    let mut count = 0;
    for (command, keys) in NUMBERS {
        let file = if command.contains("design") { "prices.toml" } else { "machine.toml" };
        for line in *keys {
            let (key, _) = line.split_once(" = ").unwrap();
            for value in NO_NUMBERS {
                here.restore();
                here.change(file, line, &format!("{key} = {value}"));
                // The key is named, with the file and its line.
                here.refuses(command, &format!("{key} = {value}"), &format!("{key}: "));
                count += 1;
            }
        }
    }
    for (file, from, to, command, expected) in CHANGED {
        here.restore();
        here.change(file, from, to);
        here.refuses(command, &format!("{file}: {from:?} -> {to:?}"), expected);
        count += 1;
    }
    here.restore();
    for (command, expected) in TYPED {
        here.refuses(command, "", expected);
        count += 1;
    }
    assert!(count >= 150, "{count} wrong inputs");
    println!("{count} wrong inputs");
}
