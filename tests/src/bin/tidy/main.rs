//! Does the tree keep the house's rules that neither rustfmt nor clippy knows?
//!
//! Prints `file:line: what is wrong; how to mend it` for every breach and ends with 1 if there is
//! any. Each rule is a pure function over the files, with a test that shows it going red.
//! Run from the repository's root: `cargo run -p portcullis-tests --bin tidy`.

mod codes;
mod crates;
mod docs;
mod imports;
mod marks;
mod names;
mod packages;
mod size;
mod source;

use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};
use source::{Finding, Source};

type Rule = fn(&[Source]) -> Vec<Finding>;

const RULES: [Rule; 14] = [
    size::files_functions_and_lines,
    crates::directions,
    crates::one_list_of_versions,
    imports::adapters_only,
    imports::proto_is_pure,
    names::modules,
    names::module_docs,
    marks::unfinished,
    marks::sleeps_in_tests,
    marks::wildcards_in_the_run,
    marks::machine_paths,
    docs::links_and_mentions,
    codes::warnings_are_explained,
    codes::checks_are_explained,
];

fn main() -> ExitCode {
    match breaches() {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("tidy: {} to mend", findings.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("tidy: {why:#}");
            ExitCode::from(2)
        }
    }
}

fn breaches() -> anyhow::Result<Vec<Finding>> {
    let files = read_tree()?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    findings.extend(docs::required_files(&files));
    findings.extend(packages::licences_and_bans(&packages::metadata()?)?);
    findings.sort();
    Ok(findings)
}

/// Every text file that git has or would take.
fn read_tree() -> anyhow::Result<Vec<Source>> {
    let mut git = Command::new("git");
    let listing = git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = listing.output().context("cannot run git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).context("a file name that is not UTF-8")?;
    let mut files = Vec::new();
    for path in names.split_terminator('\0') {
        match std::fs::read(path) {
            Ok(bytes) => files.push(Source::new(path, String::from_utf8_lossy(&bytes))),
            // Deleted, but not yet in git's index.
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("cannot read {path}")),
        }
    }
    ensure!(
        files.iter().any(|file| file.path == "Cargo.toml"),
        "run it from the repository's root"
    );
    Ok(files)
}
