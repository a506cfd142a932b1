//! Playbooks for Ansible that put a plan's files on switches and hosts, and take them back where the system
//! can.
//!
//! Owns: `ansible/inventory.yml` and `ansible/apply.yml`. Only systems that Ansible's own modules reach are
//! written: Linux (bridges, systemd-networkd, hosts) by `ansible.builtin`; Junos, EOS and NX-OS by their
//! vendors' collections. Switches of other makes are named in a comment: their files are entered by hand.
//! Deliberately absent: passwords and keys.

use std::fmt::Write as _;

use crate::dialect::ConfigFile;
use crate::plan::{Plan, SwitchPlan};

/// How a group of switches is reached and changed.
struct System {
    dialect: &'static str,
    /// Settings of the group.
    variables: &'static [(&'static str, &'static str)],
    /// The tasks of its play.
    tasks: &'static str,
}

/// Tasks for a Linux switch or host: install the files, run the script at once, and restore the previous
/// state if the machine cannot be reached afterwards.
const SYSTEMS: &[System] = &[
    System {
        dialect: "linux-bridge",
        variables: &[("ansible_become", "true")],
        tasks: r#"
    - name: The bridge's script
      ansible.builtin.copy:
        src: "{{ playbook_dir }}/../{{ inventory_hostname }}.sh"
        dest: /usr/local/sbin/ayatori-switch
        mode: "0755"
        backup: true
      register: script
    - name: The unit that runs it at each start
      ansible.builtin.copy:
        src: "{{ playbook_dir }}/../{{ inventory_hostname }}.service"
        dest: /etc/systemd/system/ayatori-switch.service
        mode: "0644"
    - name: Change the bridge, and back if it fails or nobody gets through afterwards
      block:
        - name: Change the bridge
          ansible.builtin.systemd_service:
            name: ayatori-switch
            enabled: true
            state: restarted
            daemon_reload: true
        - name: The switch is reached still
          ansible.builtin.wait_for_connection:
            timeout: 60
      rescue:
        - name: The script of before
          ansible.builtin.shell: |
            cp '{{ script.backup_file }}' /usr/local/sbin/ayatori-switch
            /usr/local/sbin/ayatori-switch
          when: script.backup_file is defined
        - name: Say so
          ansible.builtin.fail:
            msg: "the plan could not be applied; the script of before runs again where there was one"
"#,
    },
    System {
        dialect: "systemd-networkd",
        variables: &[("ansible_become", "true")],
        tasks: r#"
    - name: The files of systemd-networkd
      ansible.builtin.copy:
        src: "{{ playbook_dir }}/../{{ inventory_hostname }}/"
        dest: /etc/systemd/network/
        mode: "0644"
        backup: true
      register: files
    - name: Read them
      ansible.builtin.command: networkctl reload
      when: files.changed
"#,
    },
    System {
        dialect: "junos-els",
        variables: &[
            ("ansible_connection", "ansible.netcommon.netconf"),
            ("ansible_network_os", "junipernetworks.junos.junos"),
        ],
        tasks: r#"
    - name: The configuration, taken back after five minutes unless confirmed
      junipernetworks.junos.junos_config:
        src: "{{ playbook_dir }}/../{{ inventory_hostname }}.set"
        src_format: set
        confirm: 5
    - name: Confirm
      junipernetworks.junos.junos_config:
        confirm_commit: true
"#,
    },
    System {
        dialect: "arista-eos",
        variables: &[
            ("ansible_connection", "ansible.netcommon.network_cli"),
            ("ansible_network_os", "arista.eos.eos"),
        ],
        tasks: r#"
    - name: The configuration, in a session that is committed whole or not at all
      arista.eos.eos_config:
        src: "{{ playbook_dir }}/../{{ inventory_hostname }}.cfg"
        backup: true
        save_when: modified
"#,
    },
    System {
        dialect: "cisco-nxos",
        variables: &[
            ("ansible_connection", "ansible.netcommon.network_cli"),
            ("ansible_network_os", "cisco.nxos.nxos"),
        ],
        tasks: r#"
    - name: A checkpoint to go back to
      cisco.nxos.nxos_rollback:
        checkpoint_file: ayatori
    - name: The configuration
      block:
        - name: Enter it
          cisco.nxos.nxos_config:
            src: "{{ playbook_dir }}/../{{ inventory_hostname }}.cfg"
            save_when: modified
      rescue:
        - name: Back to the checkpoint
          cisco.nxos.nxos_rollback:
            rollback_to: ayatori
        - name: Say so
          ansible.builtin.fail:
            msg: "the plan could not be applied; the checkpoint was restored"
"#,
    },
];

const HOST_TASKS: &str = r#"
    - name: This host's script, and what teaches the switches
      ansible.builtin.copy:
        src: "{{ playbook_dir }}/../hosts/{{ item.src }}"
        dest: "{{ item.dest }}"
        mode: "{{ item.mode }}"
      loop:
        - {src: "{{ inventory_hostname }}.sh", dest: /usr/local/sbin/ayatori-host, mode: "0755"}
        - {src: ayatori-prime, dest: /usr/local/sbin/ayatori-prime, mode: "0755"}
        - {src: ayatori-host.service, dest: /etc/systemd/system/ayatori-host.service, mode: "0644"}
        - {src: ayatori-prime.service, dest: /etc/systemd/system/ayatori-prime.service, mode: "0644"}
        - {src: ayatori-prime.timer, dest: /etc/systemd/system/ayatori-prime.timer, mode: "0644"}
    - name: Interfaces and addresses, now and at each start
      ansible.builtin.systemd_service:
        name: ayatori-host
        enabled: true
        state: restarted
        daemon_reload: true
    - name: Teach the switches, now and before they forget
      ansible.builtin.systemd_service:
        name: "{{ item }}"
        enabled: "{{ item == 'ayatori-prime.timer' }}"
        state: started
      loop: [ayatori-prime.timer, ayatori-prime.service]
"#;

/// A dialect's name as a group: letters, digits and `_`.
fn group(dialect: &str) -> String {
    format!("switches_{}", dialect.replace('-', "_"))
}

fn switches<'a>(plan: &'a Plan, dialect: &'a str) -> impl Iterator<Item = &'a SwitchPlan> {
    // A bridge inside a host is set up with its host.
    plan.switches.iter().filter(move |switch| switch.dialect == dialect && switch.inside_host.is_none())
}

/// The inventory and the playbook of a plan. `ansible_host` is left to the reader: the plan knows no
/// addresses that reach devices beside the network that is being changed.
pub fn files(plan: &Plan) -> Vec<ConfigFile> {
    let file = |name: &str, text| ConfigFile { name: format!("ansible/{name}"), text, executable: false };
    vec![file("inventory.yml", inventory(plan)), file("apply.yml", playbook(plan))]
}

fn inventory(plan: &Plan) -> String {
    let mut text = format!(
        "# Written by `ayatori plan` for machine {}. Say how each device is reached (ansible_host, \
        ansible_user) in\n\
         # host_vars or in an inventory of your own beside: by a way that does not run over these \
         ports.\nall:\n  children:\n",
        plan.machine
    );
    for system in SYSTEMS.iter().filter(|system| switches(plan, system.dialect).next().is_some()) {
        let _ = writeln!(text, "    {}:\n      vars:", group(system.dialect));
        for (key, value) in system.variables {
            let _ = writeln!(text, "        {key}: {value}");
        }
        text += "      hosts:\n";
        for switch in switches(plan, system.dialect) {
            let _ = writeln!(text, "        {:?}: {{}}", switch.name);
        }
    }
    text += "    hosts_of_plan:\n      vars:\n        ansible_become: true\n      hosts:\n";
    for host in &plan.hosts {
        let _ = writeln!(text, "        {:?}: {{}}", host.name);
    }
    text
}

fn playbook(plan: &Plan) -> String {
    let mut text = format!("# Written by `ayatori plan` for machine {}.\n", plan.machine);
    let is_written = |switch: &&SwitchPlan| SYSTEMS.iter().any(|system| system.dialect == switch.dialect);
    let by_hand: Vec<&str> = plan
        .switches
        .iter()
        .filter(|switch| switch.inside_host.is_none() && !is_written(switch))
        .map(|switch| switch.name.as_str())
        .collect();
    for names in by_hand.chunks(8) {
        let _ = writeln!(text, "# By hand, no play here: {}", names.join(", "));
    }
    text += "---\n";
    for system in SYSTEMS.iter().filter(|system| switches(plan, system.dialect).next().is_some()) {
        let _ = write!(
            text,
            "- name: Switches, {}\n  hosts: {}\n  gather_facts: false\n  serial: 1\n  any_errors_fatal: \
            true\n  tasks:{}",
            system.dialect,
            group(system.dialect),
            system.tasks
        );
    }
    let _ =
        write!(text, "- name: Hosts\n  hosts: hosts_of_plan\n  gather_facts: false\n  tasks:{HOST_TASKS}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{by_name, golden_tests::example};

    #[test]
    fn each_system_that_ansible_reaches_has_its_play() {
        for system in SYSTEMS {
            let plan = example(by_name(system.dialect).unwrap(), None);
            let [inventory, playbook] =
                <[ConfigFile; 2]>::try_from(files(&plan)).unwrap().map(|file| file.text);
            assert!(
                inventory.contains(&group(system.dialect)) && inventory.contains("\"left\""),
                "{inventory}"
            );
            assert!(playbook.contains(&format!("hosts: {}", group(system.dialect))), "{playbook}");
            assert!(!playbook.contains("By hand"), "{playbook}");
        }
    }

    #[test]
    fn the_inventory_names_every_switch_and_host_once() {
        let mut plan = example(by_name("linux-bridge").unwrap(), None);
        // The bridge of `node2` is set up with it.
        plan.switches[1].inside_host = Some(plan.hosts[2].id);
        let [inventory, playbook] = <[ConfigFile; 2]>::try_from(files(&plan)).unwrap().map(|file| file.text);
        let (comment, lines) = inventory.split_once("\nall:\n").unwrap();
        assert!(comment.lines().all(|line| line.starts_with('#')), "{comment}");
        let wanted = [
            "  children:",
            "    switches_linux_bridge:",
            "      vars:",
            "        ansible_become: true",
            "      hosts:",
            "        \"left\": {}",
            "    hosts_of_plan:",
            "      vars:",
            "        ansible_become: true",
            "      hosts:",
            "        \"node0\": {}",
            "        \"node1\": {}",
            "        \"node2\": {}",
            "        \"node3\": {}",
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), wanted);
        let (comment, plays) = playbook.split_once("\n---\n").unwrap();
        assert!(comment.lines().all(|line| line.starts_with('#')), "{comment}");
        assert!(plays.starts_with("- name: Switches, linux-bridge\n"), "{plays}");
    }

    #[test]
    fn switches_of_other_makes_are_named() {
        let plan = example(by_name("dell-os6").unwrap(), None);
        let playbook = files(&plan).remove(1).text;
        assert!(playbook.contains("# By hand, no play here: left, right"), "{playbook}");
        assert!(playbook.contains("hosts: hosts_of_plan"), "{playbook}");
        // Eight in a line, as there may be hundreds.
        let mut many = example(by_name("dell-os6").unwrap(), None);
        let named = |number: usize| SwitchPlan { name: format!("s{number}"), ..many.switches[0].clone() };
        many.switches = (0..10).map(named).collect();
        let playbook = files(&many).remove(1).text;
        let lines: Vec<&str> =
            playbook.lines().filter_map(|line| line.strip_prefix("# By hand, no play here: ")).collect();
        assert_eq!(lines, ["s0, s1, s2, s3, s4, s5, s6, s7", "s8, s9"]);
    }
}
