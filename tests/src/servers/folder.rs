//! Where does a server or a test keep its files?

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A new, empty folder under the system's temporary folder, removed with all it holds on drop.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// Makes a folder whose name starts with `portcullis-` and `purpose`.
    ///
    /// # Errors
    /// The temporary folder is not writable, or the system has no random bytes.
    pub fn new(purpose: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("portcullis-{purpose}-{}", random_hex()?));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// The folder's absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Err(why) = fs::remove_dir_all(&self.path) {
            eprintln!("{} stays behind: {why}", self.path.display());
        }
    }
}

/// Sixteen hex digits that no other test, process or run has.
pub(super) fn random_hex() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).map_err(|why| anyhow::anyhow!("no random bytes: {why}"))?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}
