//! What the tests need as processes of their own: the sandbox's helper, and a worker that can be
//! killed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_worker::sandbox::{self, Mode, SandboxPolicy, User};
use portcullis_worker::tools::shell::{Shell, ShellSettings};
use portcullis_worker::tools::{Invocation, Outcome, Tool as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NOBODY: User = User { uid: 65_534, gid: 65_534 };

fn main() {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|mode| mode.to_str()) {
        Some("sandbox-exec") => sandbox::run_helper(args),
        Some("worker") => run_worker(None, args.map(into_string)),
        Some("worker-for-nobody") => run_worker(Some(NOBODY), args.map(into_string)),
        _ => panic!("say `sandbox-exec`, `worker` or `worker-for-nobody`"),
    }
}

fn into_string(arg: OsString) -> String {
    arg.into_string().expect("UTF-8")
}

/// A worker with one call: `<work folder> <argv>`. Prints the outcome.
fn run_worker(user: Option<User>, mut args: impl Iterator<Item = String>) {
    let work_dir = PathBuf::from(args.next().expect("a work folder"));
    let helper = vec!["/proc/self/exe".into(), "sandbox-exec".into()];
    let mut policy = SandboxPolicy::new(Mode::Enforce, work_dir);
    policy.user = user;
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
