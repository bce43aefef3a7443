//! What the tests need as processes of their own: the sandbox's helper, and a worker that can be
//! killed.

use std::path::PathBuf;
use std::time::Duration;

use portcullis_worker::sandbox::{self, Mode, SandboxPolicy};
use portcullis_worker::tools::shell::{Shell, ShellSettings};
use portcullis_worker::tools::{Invocation, Outcome, Tool as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn main() {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|mode| mode.to_str()) {
        Some("sandbox-exec") => sandbox::run_helper(args),
        Some("worker") => run_worker(args.map(|arg| arg.into_string().expect("UTF-8"))),
        _ => panic!("say `sandbox-exec` or `worker <work folder> <argv>`"),
    }
}

/// A worker with one call. Prints the outcome.
fn run_worker(mut args: impl Iterator<Item = String>) {
    let work_dir = PathBuf::from(args.next().expect("a work folder"));
    let helper = vec!["/proc/self/exe".into(), "sandbox-exec".into()];
    let policy = SandboxPolicy::new(Mode::Enforce, work_dir);
    let shell = Shell::new(ShellSettings::new(helper), policy).expect("a sound policy");
    let call = Invocation {
        args: json!({ "argv": args.collect::<Vec<_>>() }),
        idempotency_key: "run/1".to_owned(),
        claim_id: "claim".to_owned(),
        not_after_ms: 0,
        timeout: Duration::from_secs(60),
        cancel: CancellationToken::new(),
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(shell.run(call)) {
        Outcome::Succeeded(result) | Outcome::Failed(result) => println!("{result}"),
        Outcome::NotRun(why) => println!("not run: {why}"),
    }
}
