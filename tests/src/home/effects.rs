//! Effects, counted where our store cannot be wrong about them: lines of a file.

use std::path::{Path, PathBuf};

/// The folder that tools work in, and the file they append to.
#[derive(Clone, Debug)]
pub struct Effects {
    work: PathBuf,
}

impl Effects {
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let work = folder.join("work");
        std::fs::create_dir_all(&work).unwrap();
        Self { work }
    }

    /// Where tools run.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The lines so far, in order.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.work.join("effects.log"));
        text.map(|t| t.lines().map(ToOwned::to_owned).collect()).unwrap_or_default()
    }

    #[must_use]
    pub fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|found| *found == line).count()
    }
}
