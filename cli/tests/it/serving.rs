//! How a process starts, what it says, and how it ends.

use rustix::process::Signal;

use crate::site::{Serving, Site};

#[test]
fn a_process_that_is_told_to_stop_ends_in_good_order() {
    let site = Site::init("30");
    let up = site.up();
    up.signal(Signal::TERM);
    up.wait_for("stopped");
    assert_eq!(up.end(), 0);
}

#[test]
fn what_is_broken_is_left_out_loudly_and_the_rest_serves() {
    let site = Site::init("30");
    std::fs::create_dir(site.folder.join("agents.d")).unwrap();
    std::fs::write(site.folder.join("agents.d/broken.toml"), "playbook = 5").unwrap();
    let up = site.start();
    let said = up.wait_for("listening").join("\n");
    assert!(said.contains("ERROR") && said.contains("W043 not loaded: agents.d/broken.toml:1"));
    let started = site.run(&["runs", "start", "broken"]);
    assert_eq!(started.code, 3, "{}", started.err);
    site.ask();
}

#[test]
fn a_pool_without_anybody_is_warned_of() {
    let site = Site::init("30");
    site.edit(&[("pools = [\"default\"]", "pools = [\"others\"]")]);
    let up = site.up();
    let done = site.run(&["runs", "start", "greeter", "--input", crate::site::NAME, "--wait"]);
    assert_eq!(done.code, 5, "{}", done.out);
    assert!(done.out.contains("nobody could be asked"), "{}", done.out);
    drop(up);
}

#[test]
fn one_process_has_the_store() {
    let site = Site::init("30");
    let _up = site.up();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut second = site.command(&["up"]);
    let done = second.env("PORTCULLIS_HTTP_LISTEN", port.to_string()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("is in use by process"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let site = Site::init("30");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut up = site.command(&["up"]);
    let done = up.env("PORTCULLIS_HTTP_LISTEN", &address).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
}

#[test]
fn a_worker_of_its_own_needs_a_store_that_can_be_shared() {
    let site = Site::init("30");
    for role in ["worker", "scheduler"] {
        let done = site.run(&[role]);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains("set `store.url` to redis://…"), "{}", done.err);
    }
}

#[test]
fn a_broken_configuration_starts_nothing() {
    let site = Site::init("30");
    site.edit(&[("slots = 16", "slots = \"many\"")]);
    let done = site.run(&["up"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("`worker.slots`"), "{}", done.err);
}

/// A site whose agent sleeps without asking, and a run of it that has begun to.
fn asleep(seconds: &str) -> (Site, Serving, String) {
    let site = Site::init("30");
    site.edit(&[
        ("[\"echo\", \"Hello, {{ input.name }}!\"]", &format!("[\"sleep\", \"{seconds}\"]")),
        ("gate = \"ask\"", "gate = \"allow\""),
    ]);
    let up = site.up();
    let started = site.run(&["runs", "start", "greeter", "--json"]).json();
    up.wait_for("call begins");
    (site, up, started["run_id"].as_str().unwrap().to_owned())
}

#[test]
fn a_running_tool_may_finish_before_the_process_stops() {
    let (site, up, run) = asleep("1");
    up.signal(Signal::TERM);
    up.wait_for("stopped");
    assert_eq!(up.end(), 0);
    let _again = site.up();
    let followed = site.run(&["runs", "follow", &run]);
    assert_eq!(followed.code, 0, "its call was not interrupted: {}", followed.out);
}

#[test]
fn a_second_signal_stops_at_once() {
    let (_site, up, _) = asleep("60");
    up.signal(Signal::TERM);
    up.wait_for("a second signal stops at once");
    up.signal(Signal::INT);
    up.wait_for("stopped at once");
    assert_eq!(up.end(), 1);
}
