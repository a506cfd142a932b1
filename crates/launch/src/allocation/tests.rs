use super::*;

fn allocation(variables: &[(&str, &str)], file: &str) -> anyhow::Result<Option<Allocation>> {
    let variable = |name: &str| variables.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
    detect(&Sources {
        variable: &variable,
        file: &|_| {
            if file.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(file.to_owned()) }
        },
        command: &|_| Err(std::io::ErrorKind::NotFound.into()),
    })
}

fn hosts(variables: &[(&str, &str)], file: &str) -> String {
    let found = allocation(variables, file).expect("understood").expect("an allocation");
    let hosts: Vec<String> = found.hosts.iter().map(|host| format!("{}:{}", host.name, host.slots)).collect();
    format!("{}: {}", found.title, hosts.join(" "))
}

#[test]
fn without_a_batch_system_there_is_no_allocation() {
    assert_eq!(allocation(&[("SLURM_CONF", "/etc/slurm.conf")], "").unwrap(), None);
    assert_eq!(allocation(&[("FLUX_URI", "local:///run/flux/local")], "").unwrap(), None);
}

#[test]
fn slurms_slots_are_tasks_where_tasks_were_asked_for() {
    let job =
        [("SLURM_JOB_ID", "17"), ("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_JOB_CPUS_PER_NODE", "8(x2),4")];
    assert_eq!(hosts(&job, ""), "Slurm job 17: n1:8 n2:8 n3:4");
    let tasks = [("SLURM_NTASKS", "5"), ("SLURM_TASKS_PER_NODE", "2(x2),1")];
    assert_eq!(hosts(&[&job[..], &tasks[..]].concat(), ""), "Slurm job 17: n1:2 n2:2 n3:1");
    // The variables that sbatch sets without -n are no information.
    assert_eq!(
        hosts(&[&job[..], &[("SLURM_TASKS_PER_NODE", "1(x3)")]].concat(), ""),
        "Slurm job 17: n1:8 n2:8 n3:4"
    );
}

#[test]
fn other_batch_systems_are_read() {
    let pbs = [("PBS_NODEFILE", "/var/spool/pbs/aux/17"), ("PBS_JOBID", "17.server")];
    assert_eq!(hosts(&pbs, "n1\nn1\nn2\n"), "PBS job 17.server: n1:2 n2:1");
    let lsf = [("LSB_JOBID", "3"), ("LSB_MCPU_HOSTS", "a 4 b 2 a 1")];
    assert_eq!(hosts(&lsf, ""), "LSF job 3: a:5 b:2");
    let sge = [("PE_HOSTFILE", "/x"), ("JOB_ID", "9")];
    assert_eq!(hosts(&sge, "a 4 all.q@a UNDEFINED\n"), "Grid Engine job 9: a:4");
}

#[test]
fn an_allocation_that_cannot_be_understood_is_an_error() {
    let error = |variables: &[(&str, &str)]| allocation(variables, "").unwrap_err().to_string();
    assert!(error(&[("SLURM_JOB_NODELIST", "n[1-")]).contains("SLURM_JOB_NODELIST"));
    let short = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_JOB_CPUS_PER_NODE", "8(x2)")];
    assert!(error(&short).contains("SLURM_JOB_CPUS_PER_NODE"));
    assert!(error(&[("PBS_NODEFILE", "/gone")]).contains("/gone"));
    assert!(error(&[("FLUX_URI", "local:///x"), ("FLUX_JOB_ID", "f1")]).contains("flux kvs get resource.R"));
}
