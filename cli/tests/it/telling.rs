//! What a process tells others: traces, metrics, log lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::Signal;

use crate::site::{NAME, Site};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Takes OTLP over HTTP: every body that is posted, with its path.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            std::thread::spawn(move || {
                while let Some(posted) = take(&stream) {
                    if tell.send(posted).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, told)
}

/// One request of a connection.
fn take(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| 0 < *read)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some((first.split(' ').nth(1)?.to_owned(), body))
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

/// What a plain HTTP request is answered.
fn http(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn start(port: u16, traceparent: &str) -> String {
    let body = format!(r#"{{"agent": "greeter", "input": {NAME}}}"#);
    let length = body.len();
    let answer = http(
        port,
        &format!(
            "POST /v1/runs HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/json\r\n\
             traceparent: {traceparent}\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        ),
    );
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    value["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_is_one_trace_from_the_caller_to_the_tool() {
    let site = Site::init("30");
    let (url, posted) = collector();
    let up = site.start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    up.wait_for("listening");
    let run = start(site.port, &format!("00-{TRACE}-b7ad6b7169203331-00"));
    let request = format!("{run}.0.1");
    site.await_request(&request);
    assert_eq!(site.run(&["approvals", "approve", &request]).code, 0);
    assert_eq!(site.run(&["runs", "follow", &run]).code, 0);
    up.signal(Signal::TERM);
    assert_eq!(up.end(), 0, "the rest is flushed at the end");
    let bodies: Vec<(String, Vec<u8>)> = posted.try_iter().collect();
    let spans: Vec<u8> = bodies
        .iter()
        .filter(|(path, _)| path == "/v1/traces")
        .flat_map(|(_, body)| body.clone())
        .collect();
    let trace = data_encoding::HEXLOWER.decode(TRACE.as_bytes()).unwrap();
    // The start, both claims, the call, the decision; and the decision's request links to it.
    assert!(6 <= count(&spans, &trace), "{} spans", count(&spans, &trace));
    for name in ["run", "call", "decide", "http"] {
        assert!(0 < count(&spans, name.as_bytes()), "{name}");
    }
    assert!(bodies.iter().any(|(path, _)| path == "/v1/metrics"));
}

#[test]
fn metrics_say_what_waits_and_that_nobody_is_busy_with_it() {
    let site = Site::init("30");
    let _up = site.up();
    site.ask();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: localhost:{}\r\nconnection: close\r\n\r\n",
        site.port
    );
    let metrics = http(site.port, &request);
    for line in [
        "portcullis_runs{phase=\"waiting\"} 1",
        "portcullis_runs_parked 1",
        "portcullis_approvals_open 1",
        "portcullis_worker_busy 0",
        "portcullis_worker_slots 16",
        "portcullis_bus_condition{condition=\"up\"} 1",
    ] {
        assert!(metrics.lines().any(|one| one == line), "no `{line}` in\n{metrics}");
    }
}

#[test]
fn log_lines_can_be_json() {
    let site = Site::init("30");
    let up = site.start_with(&[("PORTCULLIS_LOG_FORMAT", "json")]);
    for line in up.wait_for("listening") {
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(value["level"].is_string() && value["message"].is_string(), "{line}");
    }
}

#[test]
fn a_log_level_that_is_none_is_wrong_usage() {
    let site = Site::init("30");
    let mut up = site.command(&["up"]);
    let done = up.env("PORTCULLIS_LOG_LEVEL", "loud=very").stdout(Stdio::null()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8(done.stderr).unwrap().contains("`log.level`"));
}
