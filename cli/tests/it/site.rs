//! A folder that `init` made, and a process that serves it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The longest that anything may take here.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a command did.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {}", self.out))
    }
}

/// A folder of its own, gone with it.
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
}

impl Site {
    pub(crate) fn empty() -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let name = format!("portcullis-cli-{}", data_encoding::HEXLOWER.encode(&random));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        // Free now; nobody else on this machine is handed it again so soon.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self { folder, port: free.local_addr().unwrap().port() }
    }

    /// As `init` leaves it, but on a port of its own and with requests that wait this long.
    pub(crate) fn init(timeout_seconds: &str) -> Self {
        let site = Self::empty();
        assert_eq!(site.run(&["init"]).code, 0);
        site.edit(&[
            ("127.0.0.1:8080", &format!("127.0.0.1:{}", site.port)),
            ("timeout_seconds = 1800", &format!("timeout_seconds = {timeout_seconds}")),
        ]);
        site
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("portcullis.toml")
    }

    pub(crate) fn edit(&self, changes: &[(&str, &str)]) {
        let mut text = std::fs::read_to_string(self.config()).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        std::fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("PORTCULLIS_API_URL", format!("http://127.0.0.1:{}", self.port))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    /// Starts `up`, and waits until it listens.
    pub(crate) fn up(&self) -> Serving {
        let serving = self.start();
        serving.wait_for("listening");
        serving
    }

    pub(crate) fn start(&self) -> Serving {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, variables: &[(&str, &str)]) -> Serving {
        let mut command = self.command(&["up"]);
        command.envs(variables.iter().copied()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        Serving { child, lines }
    }

    /// Starts a run that asks, and answers with its id and the request's.
    pub(crate) fn ask(&self) -> (String, String) {
        let started = self.run(&["runs", "start", "greeter", "--input", NAME, "--json"]).json();
        let run = started["run_id"].as_str().unwrap().to_owned();
        let request = format!("{run}.0.1");
        self.await_request(&request);
        (run, request)
    }

    /// Waits until a request is shown to approvers.
    pub(crate) fn await_request(&self, request: &str) {
        let mut watching =
            self.command(&["approvals", "watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let seen = lines::<ChildStdout>(watching.stdout.take().unwrap());
        let shown = std::iter::from_fn(|| seen.recv_timeout(PATIENCE).ok());
        let found = shown.into_iter().any(|line| line.contains(request));
        watching.kill().unwrap();
        watching.wait().unwrap();
        assert!(found, "{request} is not shown");
    }
}

/// The input that the agent of `init` takes.
pub(crate) const NAME: &str = r#"{"name": "world"}"#;

impl Drop for Site {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A process that serves, ended with this.
pub(crate) struct Serving {
    child: Child,
    lines: Receiver<String>,
}

impl Serving {
    /// The lines of the log up to the one with this text.
    pub(crate) fn wait_for(&self, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => {
                    seen.push(line);
                    return seen;
                }
                Ok(line) => seen.push(line),
                Err(why) => panic!("no `{text}` ({why}) in {seen:#?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn end(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn lines<R: std::io::Read + Send + 'static>(from: R) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
