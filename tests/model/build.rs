//! Copies the rules, with a switch at every guard.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};

include!("mutants.rs");

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script where it is so")]
fn main() -> anyhow::Result<()> {
    let from = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto/src");
    let to = PathBuf::from(env::var("OUT_DIR")?).join("proto");
    println!("cargo::rerun-if-changed=mutants.rs");
    println!("cargo::rerun-if-changed=mutants");
    println!("cargo::rerun-if-changed={}", from.display());
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    for mutant in mutants() {
        ensure!(from.join(mutant.file).is_file(), "{}: no file {}", mutant.name, mutant.file);
    }
    copy(&from, &to, Path::new(""))
}

fn copy(from: &Path, to: &Path, inner: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to.join(inner))?;
    for entry in fs::read_dir(from.join(inner))? {
        let entry = entry?;
        let path = inner.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(from, to, &path)?;
        } else {
            let text = fs::read_to_string(entry.path())?;
            fs::write(to.join(&path), switched(&path, &text)?)?;
        }
    }
    Ok(())
}

/// The file with a switch at each of its guards, under a module of another crate.
fn switched(path: &Path, text: &str) -> anyhow::Result<String> {
    // Tests stay behind, and stand at the end of every file.
    let mut text = text.split("#[cfg(test)]").next().context("at least one part")?.to_owned();
    if path == Path::new("lib.rs") {
        text = text.lines().filter(|line| !line.starts_with("//!")).collect::<Vec<_>>().join("\n");
    }
    let here = mutants().enumerate().filter(|(_, m)| Path::new(m.file) == path);
    for (number, mutant) in here {
        let found = text.matches(mutant.guard()).count();
        if found != 1 {
            bail!(
                "the guard of `{}` stands {found} times in proto/src/{}, not once:\n{}\n\
                 mend its text in tests/model/mutants.rs",
                mutant.name,
                mutant.file,
                mutant.guard(),
            );
        }
        let by = mutant.without().replace("OUT", &format!("(OUT:{number})"));
        text = text.replace(mutant.guard(), &by);
    }
    let text = text.replace("crate::", "crate::mutated::proto::");
    let text = text.replace("(OUT:", "crate::mutation::is_out(");
    Ok(text)
}
