//! A server that keeps every request it gets and answers from a script.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_worker::tools::http::{Http, Reach};
use portcullis_worker::tools::{Invocation, NotRun, Outcome, Tool as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// For what takes milliseconds, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One answer of the script, as bytes; the connection closes after it.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

pub(crate) fn redirect(status: u16, to: &str) -> Vec<u8> {
    answer(status, &format!("location: {to}\r\n"), "")
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers one connection after the other with `answers`; an empty one closes without a word.
    pub(crate) async fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                seen.lock().unwrap().push(request);
                stream.write_all(&answer).await.ok();
                stream.shutdown().await.ok();
            }
            // Keeps the port taken, and counts who comes without being expected.
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read_request(&mut stream).await;
                seen.lock().unwrap().push(request);
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Whole requests, so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Head and body, if its length is announced.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if length <= body.len() {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// A tool that may reach this machine, except for `guarded` ports.
pub(crate) fn http(guarded: Vec<u16>) -> Http {
    reaching(&["127.0.0.0/8", "::1", "localhost"], guarded)
}

pub(crate) fn reaching(allow_private: &[&str], guarded: Vec<u16>) -> Http {
    // The first test to come installs it.
    rustls::crypto::ring::default_provider().install_default().ok();
    let entries: Vec<String> = allow_private.iter().map(|entry| (*entry).to_owned()).collect();
    Http::new(Reach::new(&entries, guarded).unwrap()).unwrap()
}

pub(crate) fn call(args: Value) -> Invocation {
    Invocation {
        args,
        idempotency_key: "run-1/2".to_owned(),
        claim_id: "claim-3".to_owned(),
        not_after_ms: 0,
        timeout: PATIENCE,
        cancel: CancellationToken::new(),
    }
}

pub(crate) async fn run(http: &Http, args: Value) -> Outcome {
    http.run(call(http.check(&args).unwrap())).await
}

pub(crate) async fn get(http: &Http, url: &str) -> Outcome {
    run(http, json!({ "method": "GET", "url": url })).await
}

#[track_caller]
pub(crate) fn succeeded(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Succeeded(result) => result,
        Outcome::Failed(result) => panic!("it failed: {result}"),
        Outcome::NotRun(why) => panic!("not run: {why}"),
    }
}

#[track_caller]
pub(crate) fn failed(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Failed(result) => result,
        Outcome::Succeeded(result) => panic!("it succeeded: {result}"),
        Outcome::NotRun(why) => panic!("not run: {why}"),
    }
}

#[track_caller]
pub(crate) fn not_run(outcome: Outcome) -> NotRun {
    match outcome {
        Outcome::NotRun(why) => why,
        Outcome::Succeeded(result) | Outcome::Failed(result) => panic!("it ran: {result}"),
    }
}
