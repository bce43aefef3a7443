//! Promise: a test's servers are its own, come back with their data, and never outlive it.

mod holder;
mod rabbit;
mod redis;

use std::fs;
use std::path::Path;

/// Processes whose working folder, command line or environment names `folder`.
fn processes_using(folder: &Path) -> Vec<String> {
    let needle = folder.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let uses = |process: &Path| {
        let in_folder = fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let named = ["cmdline", "environ"].iter().any(|file| {
            let text = fs::read(process.join(file));
            text.is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(&needle))
        });
        in_folder || named
    };
    entries.filter(|path| uses(path)).map(|path| path.display().to_string()).collect()
}
