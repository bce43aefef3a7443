//! Promise: the shipped files of RabbitMQ and Redis do what they say on real servers.

mod buses;
mod rabbitmq;
mod redis;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_tests::servers::TempFolder;

const PASSWORD: &str = "a password of enough letters";

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// A folder with a password file for each user.
fn secrets(users: &[&str], password: &str) -> TempFolder {
    let folder = TempFolder::new("secrets").unwrap();
    for user in users {
        fs::write(folder.path().join(user), password).unwrap();
    }
    folder
}

/// What a shipped script prints, or what it complains about.
fn run_script(script: &str, argument: &Path) -> Result<String, String> {
    let output = Command::new("bash").arg(shipped(script)).arg(argument).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}
