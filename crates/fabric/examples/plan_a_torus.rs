//! Plans a 4x4 torus of eight-port switches with two hosts at each, and prints its VLANs, the verdict, one
//! route, and the configuration of one switch.
//!
//!     cargo run -p ayatori-fabric --example plan_a_torus
#![forbid(unsafe_code)]

use ayatori_fabric::description::Machine;
use ayatori_fabric::dialect;
use ayatori_fabric::vlan;

const TORUS: &str = r#"
name = "torus"

[switch_models.eight]
ports = 8
rate_gbps = 1
dialect = "linux-bridge"

[host_models.node]
nic = [{ name = "eth0", rate_gbps = 1 }]

[topology]
kind = "torus"
extents = [4, 4]
switch_model = "eight"

[hosts]
model = "node"
per_switch = 2
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::parse("torus.toml", TORUS)?;
    let plan = vlan::plan(&machine)?;
    println!("{} hosts, {} VLANs, {}", plan.hosts.len(), plan.vlans.len(), plan.method);
    for check in &plan.verdicts.checks {
        println!("  {:10} {:?}: {}", check.name, check.status, check.detail);
    }
    // Two hosts at each switch.
    let [sender, receiver] = [0, 20].map(|host: usize| &plan.hosts[host].attachments[0]);
    let (from, to) = (sender.switch, receiver.switch);
    let route = plan.route(sender, receiver).ok_or("no route")?;
    let hops: Vec<&str> = route.hops.iter().map(|hop| plan.switch(hop.to).name.as_str()).collect();
    println!(
        "{} to {} on VLAN {}: {}",
        plan.switch(from).name,
        plan.switch(to).name,
        route.vid,
        hops.join(", ")
    );
    let dialect = dialect::by_name(&plan.switch(from).dialect).ok_or("no such dialect")?;
    for file in dialect.emit(&plan, from)?.files {
        println!("\n{}:\n{}", file.name, file.text);
    }
    Ok(())
}
