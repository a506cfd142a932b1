//! The smallest program that `ayatori run` can start: it speaks PMI-1 and does one thing. The launcher's
//! tests use it.
//!
//! `ayatori run -n 4 target/debug/examples/rank hello`

use ayatori_launch::environment::{Launch, Pmi1};
use ayatori_launch::pmi::Client;
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Every rank learns every other's card.
fn greet(client: &mut Client) -> Result<(), Box<dyn Error>> {
    let (rank, size) = (client.rank(), client.size());
    client.put(&format!("card-{rank}"), &format!("from-{rank}"))?;
    client.barrier()?;
    for peer in 0..size {
        let card = client.get(&format!("card-{peer}"))?;
        assert_eq!(card, Some(format!("from-{peer}")));
    }
    println!("rank {rank} of {size} in program {}", client.appnum()?);
    Ok(())
}

/// The segment is one file for all: each writes its byte and, after the barrier, reads them all.
fn share(launch: &Pmi1, client: &mut Client) -> Result<(), Box<dyn Error>> {
    let segment = std::fs::File::from(launch.host.shared_segment()?.ok_or("no segment")?);
    let rank = client.rank();
    segment.write_all_at(&[u8::try_from(rank)? + 1], rank.into())?;
    client.barrier()?;
    let mut bytes = vec![0; client.size() as usize];
    segment.read_exact_at(&mut bytes, 0)?;
    let (local_rank, local_size) = (launch.host.local_rank, launch.host.local_size);
    let is_oversubscribed = launch.host.is_oversubscribed();
    println!("segment {bytes:?} local {local_rank:?} of {local_size:?} oversubscribed {is_oversubscribed:?}");
    Ok(())
}

/// Until there is a file `go` in the folder.
fn await_go(folder: &str) {
    while !std::path::Path::new(folder).join("go").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes the process id to the folder, and waits.
fn announce(folder: &str) -> std::io::Result<()> {
    std::fs::write(std::path::Path::new(folder).join("pid"), format!("{}\n", std::process::id()))?;
    await_go(folder);
    Ok(())
}

fn die(signal: i32) -> Result<(), Box<dyn Error>> {
    println!("last words");
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or("no such signal")?;
    // Twice: Rust's handler of SIGSEGV takes the first for a stack overflow, and steps aside.
    for _ in 0..2 {
        rustix::process::kill_process(rustix::process::getpid(), signal)?;
    }
    Ok(())
}

/// All finalize; the chosen one fails then, the others go on until a test says so.
fn fail_late(mut client: Client, is_chosen: bool, code: i32, folder: &str) -> Result<(), Box<dyn Error>> {
    let rank = client.rank();
    client.barrier()?;
    client.finalize()?;
    if is_chosen {
        std::process::exit(code);
    }
    await_go(folder);
    println!("rank {rank} is done");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| args.get(index).map_or("", String::as_str);
    let launch = match Launch::detect() {
        Launch::Pmi1(launch) => launch,
        Launch::Pmix(_) => return Err("this program speaks PMI-1 alone".into()),
        Launch::Singleton => return Err("no launcher".into()),
        Launch::Unusable { what, why } => return Err(format!("{what}: {why}").into()),
    };
    let mut client = Client::connect(&launch)?;
    let rank = client.rank();
    let is_chosen = argument(1).parse() == Ok(rank);
    if argument(0) == "late" {
        return fail_late(client, is_chosen, argument(2).parse()?, argument(3));
    }
    let mut out = std::io::stdout();
    match argument(0) {
        "hello" => greet(&mut client)?,
        // Lines in pieces, so that they would mix if they could.
        "lines" => {
            for line in 0..argument(1).parse()? {
                let text = format!("{rank}:{line}:{}\n", "x".repeat((line * 7) % 300));
                for piece in text.as_bytes().chunks(50) {
                    out.write_all(piece)?;
                    out.flush()?;
                }
            }
        }
        "echo" => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input)?;
            writeln!(out, "rank {rank} read {input:?}")?;
        }
        "launch" => share(&launch, &mut client)?,
        "exit" if is_chosen => {
            client.finalize()?;
            std::process::exit(argument(2).parse()?);
        }
        "leave" if is_chosen => std::process::exit(0),
        "die" if is_chosen => die(argument(2).parse()?)?,
        "abort" if is_chosen => client.abort(argument(2).parse()?, Some("as the test asked"))?,
        // Waits for a file after its number, which a test writes; does not come to finalize.
        "abort-and-exit" if is_chosen => {
            announce(argument(3))?;
            client.abort(argument(2).parse()?, Some("as the test asked"))?;
            std::process::exit(argument(2).parse()?);
        }
        "barrier" => client.barrier()?,
        "names" => {
            assert_eq!(client.lookup("service")?, None);
            client.publish("service", "port")?;
            assert_eq!(client.lookup("service")?.as_deref(), Some("port"));
            client.unpublish("service")?;
            assert!(client.unpublish("service").is_err());
        }
        _ => {}
    }
    if matches!(argument(0), "exit" | "leave" | "die" | "abort" | "abort-and-exit" | "sleep") {
        // Not the chosen one: it waits for an end that must come from outside.
        std::thread::sleep(Duration::from_secs(600));
    }
    if argument(0) != "leave" {
        client.finalize()?;
    }
    Ok(())
}
