//! Where is a server's program on this machine?

use std::path::{Path, PathBuf};

use anyhow::bail;

/// A server program, where it may be besides `PATH`, and the package that brings it.
pub(super) struct Program {
    name: &'static str,
    folders: &'static [&'static str],
    package: &'static str,
    /// Debian's `/usr/sbin/rabbitmq-server` switches to another user and ignores our settings, so
    /// the real one is looked for first.
    folders_first: bool,
}

pub(super) const REDIS: Program = Program {
    name: "redis-server",
    folders: &["/usr/bin", "/usr/local/bin"],
    package: "redis-server",
    folders_first: false,
};

pub(super) const RABBIT: Program = Program {
    name: "rabbitmq-server",
    folders: &["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin"],
    package: "rabbitmq-server",
    folders_first: true,
};

pub(super) const RABBIT_CTL: Program = Program { name: "rabbitmqctl", ..RABBIT };

pub(super) const EPMD: Program = Program {
    name: "epmd",
    folders: &["/usr/bin", "/usr/local/bin", "/usr/lib/erlang/bin"],
    package: "erlang-base",
    folders_first: false,
};

pub(super) const SETPRIV: Program = Program {
    name: "setpriv",
    folders: &["/usr/bin", "/bin"],
    package: "util-linux",
    folders_first: false,
};

impl Program {
    /// The program's absolute path.
    pub(super) fn find(&self) -> anyhow::Result<PathBuf> {
        let folders = self.folders.iter().map(PathBuf::from);
        let path = search_path();
        let path = std::env::split_paths(&path);
        let places: Vec<PathBuf> = match self.folders_first {
            true => folders.chain(path).collect(),
            false => path.chain(folders).collect(),
        };
        match places.iter().map(|folder| folder.join(self.name)).find(|file| is_program(file)) {
            Some(file) => Ok(file),
            None => bail!(
                "`{}` is not installed and this test needs it; install it: apt-get install {}",
                self.name,
                self.package
            ),
        }
    }
}

/// `PATH` as this process got it, for the servers' scripts too.
#[expect(clippy::disallowed_methods, reason = "the harness's edge: where programs are looked for")]
pub(super) fn search_path() -> String {
    match std::env::var("PATH") {
        Ok(path) => path,
        Err(_) => "/usr/bin:/bin".to_owned(),
    }
}

fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn a_missing_program_is_an_error_that_names_its_package() {
        let program = Program {
            name: "no-such-server",
            folders: &["/nowhere"],
            package: "no-such-package",
            folders_first: false,
        };
        let why = program.find().unwrap_err().to_string();
        assert!(why.contains("no-such-server") && why.contains("apt-get install no-such-package"));
    }
}
