//! The constants of a foreign ABI beside ours, and the C that goes from one to the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use crate::abi::table::{Function, Item};

/// One of the two ABIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Abi {
    /// libmpi.so.12
    Mpich,
    /// libmpi.so.40
    #[value(name = "openmpi")]
    OpenMpi,
}

impl Abi {
    pub(crate) const ALL: [Self; 2] = [Self::Mpich, Self::OpenMpi];

    /// Its name in options, files and directories.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }
}

/// What the foreign ABI has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(i64),
    /// A variable or a function of the library; the integer that stands for it in Fortran.
    Symbol(String, Option<i64>),
}

/// A predefined handle that the standard ABI lacks.
pub(crate) struct Extra {
    pub(crate) of: String,
    pub(crate) name: String,
    pub(crate) value: Value,
    /// One of ours that is the same under another name.
    pub(crate) ours: Option<String>,
}

/// The constants of a foreign ABI.
pub(crate) struct Foreign {
    pub(crate) abi: Abi,
    values: BTreeMap<String, Value>,
    pub(crate) extras: Vec<Extra>,
    /// Error classes that the standard ABI lacks: the name, the number there, and ours of `mpi-ext.h`.
    classes: Vec<(String, i64, i64)>,
}

/// The kinds of opaque objects.
pub(super) const HANDLES: &[&str] = &[
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// Constants of which an argument has one: by the prefixes of their names, or by the names.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("special_rank", &["MPI_ANY_SOURCE", "MPI_PROC_NULL", "MPI_ROOT"]),
    ("error_class", &["MPI_ERR_", "MPI_T_ERR_", "MPI_SUCCESS"]),
    ("thread", &["MPI_THREAD_"]),
    ("order", &["MPI_ORDER_"]),
    ("distribution", &["MPI_DISTRIBUTE_NONE", "MPI_DISTRIBUTE_BLOCK", "MPI_DISTRIBUTE_CYCLIC"]),
    ("combiner", &["MPI_COMBINER_"]),
    ("typeclass", &["MPI_TYPECLASS_"]),
    ("comparison", &["MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"]),
    ("topology", &["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH"]),
    ("split_type", &["MPI_COMM_TYPE_"]),
    ("lock", &["MPI_LOCK_"]),
    ("flavor", &["MPI_WIN_FLAVOR_"]),
    ("model", &["MPI_WIN_UNIFIED", "MPI_WIN_SEPARATE"]),
    ("whence", &["MPI_SEEK_"]),
    (
        "keyval",
        &[
            "MPI_KEYVAL_INVALID",
            "MPI_TAG_UB",
            "MPI_IO",
            "MPI_HOST",
            "MPI_WTIME_IS_GLOBAL",
            "MPI_APPNUM",
            "MPI_LASTUSEDCODE",
            "MPI_UNIVERSE_SIZE",
            "MPI_WIN_BASE",
            "MPI_WIN_DISP_UNIT",
            "MPI_WIN_SIZE",
            "MPI_WIN_CREATE_FLAVOR",
            "MPI_WIN_MODEL",
        ],
    ),
    ("verbosity", &["MPI_T_VERBOSITY_"]),
    ("bind", &["MPI_T_BIND_"]),
    ("scope", &["MPI_T_SCOPE_"]),
    ("pvar_class", &["MPI_T_PVAR_CLASS_"]),
    ("cb_safety", &["MPI_T_CB_"]),
    ("source_order", &["MPI_T_SOURCE_"]),
];

/// Constants of which an argument has a sum.
const SUMS: &[(&str, &[&str])] = &[
    (
        "access",
        &[
            "MPI_MODE_APPEND",
            "MPI_MODE_CREATE",
            "MPI_MODE_DELETE_ON_CLOSE",
            "MPI_MODE_EXCL",
            "MPI_MODE_RDONLY",
            "MPI_MODE_RDWR",
            "MPI_MODE_SEQUENTIAL",
            "MPI_MODE_UNIQUE_OPEN",
            "MPI_MODE_WRONLY",
        ],
    ),
    ("assertion", &["MPI_MODE_NO"]),
];

impl Foreign {
    /// Reads a table.
    ///
    /// # Errors
    /// A line cannot be read.
    pub(crate) fn read(abi: Abi, text: &str) -> Result<Self> {
        let (mut values, mut extras, mut classes) = (BTreeMap::new(), Vec::new(), Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["extra", of, name, value, ..] => extras.push(Extra {
                    of: of.to_owned(),
                    name: name.to_owned(),
                    value: read_value(value, None),
                    ours: words.get(4).map(|ours| (*ours).to_owned()),
                }),
                ["class", name, value, ours] => {
                    classes.push((name.to_owned(), number(value)?, number(ours)?))
                }
                [name, value] => {
                    values.insert(name.to_owned(), read_value(value, None));
                }
                [name, value, integer] => {
                    let integer = integer.parse().with_context(|| line.to_owned())?;
                    values.insert(name.to_owned(), read_value(value, Some(integer)));
                }
                _ => bail!("cannot read `{line}`"),
            }
        }
        Ok(Self { abi, values, extras, classes })
    }

    /// What it has under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// All constants, in the order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.values.iter()
    }

    fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }
}

fn read_value(text: &str, integer: Option<i64>) -> Value {
    match number(text) {
        Ok(number) => Value::Number(number),
        Err(_) => Value::Symbol(text.to_owned(), integer),
    }
}

fn number(text: &str) -> Result<i64> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.with_context(|| format!("`{text}` is no number"))
}

/// The constants of ours: name, value, and the C type if it is not an integer's.
pub(super) struct Ours {
    pub(super) name: String,
    pub(super) value: i64,
    pub(super) of: Option<String>,
}

/// All of them. Versions are not among them.
///
/// # Errors
/// A value cannot be read.
pub(super) fn ours(items: &[Item]) -> Result<Vec<Ours>> {
    let mut all: Vec<Ours> = Vec::new();
    for item in items {
        let (name, value, of) = match item {
            Item::Int { name, value } | Item::Define { name, value } => (name, number(value)?, None),
            Item::Typed { ty, name, value } => (name, number(value)?, Some(ty.clone())),
            Item::Alias { name, other } => {
                let known = all.iter().find(|constant| constant.name == *other);
                let known = known.with_context(|| format!("{name} is another name of nothing"))?;
                (name, known.value, known.of.clone())
            }
            _ => continue,
        };
        if !["MPI_VERSION", "MPI_SUBVERSION", "MPI_ABI_VERSION", "MPI_ABI_SUBVERSION"]
            .contains(&name.as_str())
        {
            all.push(Ours { name: name.clone(), value, of });
        }
    }
    Ok(all)
}

/// The members of a group.
fn members<'a>(ours: &'a [Ours], names: &[&str]) -> Vec<&'a Ours> {
    let is_member = |constant: &&Ours| {
        let is_number = constant.of.is_none();
        is_number
            && names.iter().any(|name| match name.ends_with('_') || *name == "MPI_MODE_NO" {
                true => constant.name.starts_with(name),
                false => constant.name == *name,
            })
    };
    ours.iter().filter(is_member).collect()
}

/// `foreign.h`: the ABI's own `mpi.h`, as far as the translator needs it.
pub(super) fn header(foreign: &Foreign, ours: &[Ours], items: &[Item], functions: &[Function]) -> String {
    let mut out = format!(
        "/* {}'s ABI. Written by `cargo xtask translate`. SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         #ifndef TRANSLATE_FOREIGN_H\n#define TRANSLATE_FOREIGN_H\n#include \"{}_types.h\"\n\
         typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset;\ntypedef int64_t MPI_Count;\n\
         typedef int MPI_Fint;\ntypedef int MPI_T_cb_safety;\ntypedef int MPI_T_source_order;\n",
        foreign.abi.name(),
        foreign.abi.name()
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for item in items {
        match item {
            Item::Handle { name, tag } if name.starts_with("MPI_T_") => {
                line(format!("typedef struct {tag} *{name};"));
            }
            Item::C(text) if text.starts_with("typedef") && text.contains("_f") && text.ends_with(';') => {
                line(text.clone());
            }
            _ => {}
        }
    }
    let extras = foreign.extras.iter().map(|extra| (extra.name.as_str(), Some(&extra.of), &extra.value));
    let constants = ours.iter().filter_map(|c| Some((c.name.as_str(), c.of.as_ref(), foreign.get(&c.name)?)));
    for (name, of, value) in constants.chain(extras) {
        match (value, of) {
            (Value::Number(value), None) => line(format!("#define {name} ({value})")),
            (Value::Number(value), Some(of)) if of == "MPI_Offset" => {
                line(format!("#define {name} (({of}){value})"))
            }
            (Value::Number(value), Some(of)) => {
                line(format!("#define {name} (({of})(intptr_t){value})"));
            }
            (Value::Symbol(symbol, _), Some(of)) if symbol == name => {
                line(format!("extern {of} const {name};"))
            }
            (Value::Symbol(symbol, _), Some(of)) if of.contains("_function") => {
                let ty = of.trim_end_matches('*');
                line(format!("extern {ty} {symbol};\n#define {name} {symbol}"));
            }
            (Value::Symbol(symbol, _), of) => {
                let of = of.map_or("void *", String::as_str);
                line(format!("extern uintptr_t {symbol}[];\n#define {name} (({of})(void *){symbol})"));
            }
        }
    }
    for function in functions {
        for prefix in ["", "P"] {
            line(format!("{} {prefix}{}({});", function.result, function.name, function.c_params));
        }
    }
    out.push_str("#endif\n");
    out
}

/// `values.h`: our constants, and functions from each group to the other side's and back.
pub(super) fn values(foreign: &Foreign, ours: &[Ours]) -> String {
    let mut out = String::from(
        "/* Written by `cargo xtask translate`. SPDX-License-Identifier: MIT OR Apache-2.0 */\n",
    );
    for Ours { name, value, of } in ours {
        match of {
            Some(of) if HANDLES.contains(&of.as_str()) => {
                let _ = writeln!(out, "#define A_{name} ((a_handle){value:#x})");
            }
            Some(of) if of.contains('*') => {
                let _ = writeln!(out, "#define A_{name} ((void *){value})");
            }
            _ => {
                let _ = writeln!(out, "#define A_{name} ({value})");
            }
        }
    }
    for (group, names) in GROUPS {
        number_group(&mut out, foreign, group, &members(ours, names));
    }
    for (group, names) in SUMS {
        sum_group(&mut out, foreign, group, &members(ours, names));
    }
    for of in HANDLES {
        let known = known(foreign, ours, of);
        match foreign.abi {
            Abi::Mpich => mpich_handle(&mut out, foreign, of, &known),
            Abi::OpenMpi => openmpi_handle(&mut out, of, &known),
        }
    }
    out
}

/// The predefined handles of a kind that both sides have.
fn known<'a>(foreign: &Foreign, ours: &'a [Ours], of: &str) -> Vec<&'a Ours> {
    ours.iter().filter(|c| c.of.as_deref() == Some(of) && foreign.has(&c.name)).collect()
}

fn number_group(out: &mut String, foreign: &Foreign, group: &str, members: &[&Ours]) {
    // Numbers that no constant has: MPI_UNDEFINED is the same in all ABIs; the keys that the library makes
    // begin at 1000; the rest must stay wrong on the other side.
    let other = match group {
        "keyval" => ["x < 1000 ? A_MPI_KEYVAL_INVALID : x", "x"],
        "error_class" => ["~0x5eed", "MPI_ERR_OTHER"],
        _ => ["x == A_MPI_UNDEFINED ? x : ~0x5eed", "x"],
    };
    for (direction, other) in ["in", "out"].into_iter().zip(other) {
        let how = match group {
            "special_rank" => "INLINE",
            "error_class" => "COLD",
            _ => "static inline",
        };
        let _ = writeln!(out, "{how} int {direction}_{group}(int x)\n{{\n    switch (x) {{");
        let mut seen = Vec::new();
        for Ours { name, .. } in members.iter().filter(|c| foreign.has(&c.name)) {
            let value = foreign.get(name).cloned();
            if direction == "in" && seen.contains(&value) {
                continue;
            }
            seen.push(value);
            let (from, to) = if direction == "in" { ("", "A_") } else { ("A_", "") };
            let _ = writeln!(out, "    case {from}{name}: return {to}{name};");
            // Fortran's keys of MPICH are C's plus one.
            if direction == "in"
                && group == "keyval"
                && foreign.abi == Abi::Mpich
                && name != "MPI_KEYVAL_INVALID"
            {
                let _ = writeln!(out, "    case {name} + 1: return A_{name};");
            }
        }
        if group == "error_class" {
            more_classes(out, foreign, direction);
        }
        let _ = writeln!(out, "    default: return {other};\n    }}\n}}");
    }
}

/// Classes of ours that a foreign ABI may lack, and what it has for them.
const NEAREST: &[(&str, &str)] = &[
    ("MPI_ERR_ERRHANDLER", "MPI_ERR_ARG"),
    ("MPI_T_ERR_NOT_ACCESSIBLE", "MPI_T_ERR_INVALID"),
    ("MPI_T_ERR_NOT_SUPPORTED", "MPI_T_ERR_INVALID"),
];

/// Error classes that only one of both has.
fn more_classes(out: &mut String, foreign: &Foreign, direction: &str) {
    for (name, value, ours) in &foreign.classes {
        let (from, to) = if direction == "in" { (value, ours) } else { (ours, value) };
        let _ = writeln!(out, "    case {from:#x}: return {to:#x}; /* {name} */");
    }
    for (name, nearest) in NEAREST.iter().filter(|(name, _)| direction == "out" && !foreign.has(name)) {
        let _ = writeln!(out, "    case A_{name}: return {nearest};");
    }
}

fn sum_group(out: &mut String, foreign: &Foreign, group: &str, members: &[&Ours]) {
    for direction in ["in", "out"] {
        let (from, to) = if direction == "in" { ("", "A_") } else { ("A_", "") };
        let _ = writeln!(out, "static inline int {direction}_{group}(int x)\n{{\n    int y = 0;");
        for Ours { name, .. } in members.iter().filter(|c| foreign.has(&c.name)) {
            let _ = writeln!(out, "    if (x & {from}{name}) y |= {to}{name}, x &= ~{from}{name};");
        }
        let _ = writeln!(out, "    return x == 0 ? y : y | 1 << 30;\n}}");
    }
}

/// The lowest and the highest predefined value of ours, for tables.
fn range(known: &[&Ours]) -> (i64, i64) {
    let values = || known.iter().map(|c| c.value);
    (values().min().unwrap_or(0), values().max().unwrap_or(0))
}

/// `out_MPI_X` by a table; `entry` is the foreign value as an initialiser.
fn out_table(out: &mut String, of: &str, known: &[&Ours], made: &str) {
    let (low, high) = range(known);
    let null = &known[0].name;
    let _ = writeln!(out, "extern HIDDEN const {of} of_{of}[{}];", high - low + 1);
    let _ = writeln!(
        out,
        "INLINE {of} out_{of}(a_handle a)\n{{\n    if (a >= A_MADE) return {made};\n    \
         return a - {low} <= {} ? of_{of}[a - {low}] : {null};\n}}",
        high - low
    );
}

/// The tables that `values.h` declares, and the objects behind Open MPI's handles.
pub(super) fn tables(foreign: &Foreign, ours: &[Ours]) -> String {
    let mut out = String::from(
        "/* Written by `cargo xtask translate`. SPDX-License-Identifier: MIT OR Apache-2.0 */\n\
         #include \"translate.h\"\n",
    );
    if foreign.abi == Abi::OpenMpi {
        objects(&mut out, foreign, ours);
    }
    for of in HANDLES {
        let known = known(foreign, ours, of);
        let (low, high) = range(&known);
        let _ = writeln!(out, "const {of} of_{of}[{}] = {{", high - low + 1);
        for value in low..=high {
            // The first name is the right one: aliases come after. Of two foreign types that are one of ours
            // the extra one comes back: C programs use it.
            let name = &known.iter().find(|c| c.value == value).unwrap_or(&known[0]).name;
            let extra = foreign.extras.iter().find(|extra| extra.ours.as_ref() == Some(name));
            let _ = writeln!(out, "    {},", extra.map_or(name, |extra| &extra.name));
        }
        out.push_str("};\n");
    }
    if foreign.abi == Abi::OpenMpi {
        HANDLES.iter().for_each(|of| integers(&mut out, foreign, ours, of));
    } else {
        // A place that is empty matches nothing: 0 belongs to the first, which has 1 until it is taken.
        out.push_str("const struct builtin builtins[256] = {\n    [0] = {1, 0},\n");
        let mut seen = Vec::new();
        for c in known(foreign, ours, "MPI_Datatype") {
            if let Some(Value::Number(value)) = foreign.get(&c.name)
                && value >> 24 == 0x4c
                && !seen.contains(value)
            {
                seen.push(*value);
                let _ = writeln!(out, "    [{}] = {{{value:#x}, A_{}}},", value & 0xff, c.name);
            }
        }
        for extra in &foreign.extras {
            if let (Value::Number(value), Some(ours)) = (&extra.value, &extra.ours) {
                let _ = writeln!(out, "    [{}] = {{{value:#x}, A_{ours}}},", value & 0xff);
            }
        }
        out.push_str("};\n");
    }
    out
}

/// Bytes of the object behind each predefined handle of Open MPI 4 and 5: a program that is not
/// position-independent has a copy of that size.
fn object_bytes(of: &str) -> i64 {
    match of {
        "MPI_Op" => 2048,
        "MPI_File" => 1536,
        "MPI_Errhandler" => 1024,
        "MPI_Comm" | "MPI_Datatype" | "MPI_Win" | "MPI_Session" => 512,
        _ => 256,
    }
}

/// Values below [`A_MADE`](tables) that no handle of ours has: an extra of the foreign ABI is this plus its
/// place.
const EXTRA: i64 = 0xe00;

fn objects(out: &mut String, foreign: &Foreign, ours: &[Ours]) {
    let mut done = Vec::new();
    for c in ours {
        if let (Some(Value::Symbol(symbol, _)), Some(of)) = (foreign.get(&c.name), &c.of)
            && HANDLES.contains(&of.as_str())
            && !done.contains(symbol)
        {
            let _ = writeln!(out, "uintptr_t {symbol}[{}] = {{A_{}}};", object_bytes(of) / 8, c.name);
            done.push(symbol.clone());
        }
    }
    for (i, extra) in foreign.extras.iter().enumerate() {
        if let Value::Symbol(symbol, _) = &extra.value {
            let refused = format!("{:#x}", EXTRA + i as i64);
            let value = extra.ours.as_ref().map_or(refused, |ours| format!("A_{ours}"));
            let _ = writeln!(out, "uintptr_t {symbol}[{}] = {{{value}}};", object_bytes(&extra.of) / 8);
        }
    }
    out.push_str("a_handle refuse_extra(a_handle a)\n{\n    switch (a) {\n");
    for (i, extra) in foreign.extras.iter().enumerate() {
        let _ =
            writeln!(out, "    case {:#x}: return refuse_handle(\"{}\", a);", EXTRA + i as i64, extra.name);
    }
    out.push_str("    default: return A_BAD(a);\n    }\n}\n");
}

/// What stands for a handle of Open MPI in Fortran: its place in a table, and our handle for one that was
/// made.
fn integers(out: &mut String, foreign: &Foreign, ours: &[Ours], of: &str) {
    let _ =
        writeln!(out, "static const struct {{\n    {of} handle;\n    int integer;\n}} integers_{of}[] = {{");
    for c in known(foreign, ours, of) {
        if let Some(Value::Symbol(_, Some(integer))) = foreign.get(&c.name) {
            let _ = writeln!(out, "    {{{}, {integer}}},", c.name);
        }
    }
    let count = format!("(int)(sizeof integers_{of} / sizeof *integers_{of})");
    let _ = writeln!(
        out,
        "}};\nint integer_of_{of}({of} x)\n{{\n    \
         if ((intptr_t)x < 0) return (int)((uintptr_t)x & ~MADE);\n    \
         for (int i = 0; i < {count}; i++) {{\n        \
         if (integers_{of}[i].handle == x) return integers_{of}[i].integer;\n    }}\n    return -1;\n}}\n\
         {of} {of}_of_integer(int x)\n{{\n    if (x >= A_MADE) return ({of})((uintptr_t)x | MADE);\n    \
         for (int i = 0; i < {count}; i++) {{\n        \
         if (integers_{of}[i].integer == x) return integers_{of}[i].handle;\n    }}\n    return NULL;\n}}"
    );
}

fn mpich_handle(out: &mut String, foreign: &Foreign, of: &str, known: &[&Ours]) {
    let is_file = of == "MPI_File";
    if of == "MPI_Datatype" {
        out.push_str(
            "struct builtin {\n    int foreign;\n    int ours;\n};\n\
             extern HIDDEN const struct builtin builtins[256];\n",
        );
    }
    if !is_file {
        mpich_predefined(out, foreign, of, known);
    }
    let _ = writeln!(out, "INLINE a_handle in_{of}({of} x)\n{{");
    match of {
        // Pairs of a value and an index have the highest bit, too.
        "MPI_Datatype" => out.push_str(
            "    const struct builtin *builtin = &builtins[x & 0xff];\n    \
             if (likely(builtin->foreign == x)) return (a_handle)builtin->ours;\n    \
             if (likely((unsigned)x >> 27 == 0x1a)) return x & 0x7fffffff;\n",
        ),
        // A file is our handle, as the address of nothing.
        "MPI_File" => out.push_str("    if ((uintptr_t)x >= A_MADE) return (a_handle)x;\n"),
        "MPI_Comm" => out.push_str(
            "    if (likely(x == MPI_COMM_WORLD)) return A_MPI_COMM_WORLD;\n    \
             if (likely(x < 0)) return x & 0x7fffffff;\n",
        ),
        _ => out.push_str("    if (likely(x < 0)) return x & 0x7fffffff;\n"),
    }
    if is_file {
        let _ = writeln!(out, "    return x == MPI_FILE_NULL ? A_MPI_FILE_NULL : A_BAD(x);\n}}");
    } else {
        let _ = writeln!(out, "    return in_predefined_{of}(x);\n}}");
    }
    let made = if is_file { "(MPI_File)a".to_owned() } else { format!("({of})(unsigned)(a | 0x80000000u)") };
    out_table(out, of, known, &made);
    let (to, from) = if is_file { ("(int)(intptr_t)x", "(MPI_File)(intptr_t)x") } else { ("x", "x") };
    let _ = writeln!(out, "static inline int integer_of_{of}({of} x) {{ return {to}; }}");
    let _ = writeln!(out, "static inline {of} {of}_of_integer(int x) {{ return {from}; }}");
    if of == "MPI_Datatype" {
        // There is nothing that an integer could point to.
        out.push_str("#define in_unsure_MPI_Datatype in_MPI_Datatype\n");
    }
}

/// The rest of `in_MPI_X`: what no rule finds.
fn mpich_predefined(out: &mut String, foreign: &Foreign, of: &str, known: &[&Ours]) {
    // A call of an operation or an error handler by a predefined name is not rare, but dear anyway.
    let _ = writeln!(out, "COLD a_handle in_predefined_{of}({of} x)\n{{\n    switch (x) {{");
    let mut seen = Vec::new();
    for c in known {
        let value = foreign.get(&c.name);
        if let Some(Value::Number(number)) = value
            && !seen.contains(&value)
            && !(of == "MPI_Datatype" && number >> 24 == 0x4c)
        {
            let _ = writeln!(out, "    case {}: return A_{};", c.name, c.name);
        }
        seen.push(value);
    }
    for extra in foreign.extras.iter().filter(|extra| extra.of == of && extra.ours.is_none()) {
        let name = &extra.name;
        let _ = writeln!(out, "    case {name}: return refuse_handle(\"{name}\", (uintptr_t)x);");
    }
    out.push_str("    default: return A_BAD(x);\n    }\n}\n");
}

fn openmpi_handle(out: &mut String, of: &str, known: &[&Ours]) {
    if of == "MPI_Comm" {
        out.push_str("HIDDEN __attribute__((cold)) a_handle refuse_extra(a_handle a);\n");
        out.push_str("#define MADE ((uintptr_t)1 << 63)\n");
    }
    let _ = writeln!(
        out,
        "INLINE a_handle in_{of}({of} x)\n{{\n    \
         if ((intptr_t)x < 0) return (uintptr_t)x & ~MADE;\n    \
         if (unlikely((uintptr_t)x < 4096)) return A_BAD(x);\n    a_handle a = *(const a_handle *)x;\n    \
         return unlikely(a >= {EXTRA:#x}) ? refuse_extra(a) : a;\n}}"
    );
    out_table(out, of, known, &format!("({of})(a | MADE)"));
    let _ = writeln!(out, "HIDDEN int integer_of_{of}({of} x);\nHIDDEN {of} {of}_of_integer(int x);");
    if of == "MPI_Datatype" {
        // Where the standard does not look at an argument, there may be anything in it, so it is not
        // followed.
        let (low, high) = range(known);
        let _ = writeln!(
            out,
            "static inline a_handle in_unsure_{of}({of} x)\n{{\n    \
             if ((intptr_t)x < 0) return (uintptr_t)x & ~MADE;\n    \
             for (int i = 0; i <= {}; i++) {{\n        if (of_{of}[i] == x) return in_{of}(x);\n    }}\n    \
             return A_BAD(x);\n}}",
            high - low
        );
    }
}
