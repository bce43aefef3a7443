//! Who else can read keys, tokens and secrets?

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use portcullis_engine::finding::Finding;

use crate::config::Config;
use crate::serve;

/// The longest configuration file that is searched for a password, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = vec![data_dir(&config.data_dir)];
    findings.extend(notary(config));
    findings.extend(config.secret_files.iter().map(|path| secret(path)));
    findings.push(config_file(&config.file));
    findings
}

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(std::fs::metadata(path)?.permissions().mode())
}

fn data_dir(path: &Path) -> Finding {
    const CHECK: &str = "files-data-folder";
    let shown = path.display().to_string();
    match mode(path) {
        Err(why) => Finding::warning(
            CHECK,
            format!("{shown}: {why}"),
            "it is made at the start, if its parent allows it",
            "portcullis init makes one",
        ),
        Ok(mode) => Finding::of_mode(CHECK, &shown, mode, "keys and tokens are in it", "700"),
    }
}

/// The key that signs what is decided over HTTP.
fn notary(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "files-notary-key";
    let inbox = config.people.roster.pools.values().any(|pool| !pool.inbox.is_empty());
    let Some(path) = &config.notary_key_file else {
        let why = "approvers hold tokens, and nobody can decide over HTTP";
        let mend = "set `approvals.notary_key_file`";
        return inbox
            .then(|| Finding::warning(CHECK, "there is no key", why, mend))
            .into_iter()
            .collect();
    };
    let shown = path.display().to_string();
    let Ok(mode) = mode(path) else {
        // A worker is not given the key.
        let mend = "put it where schedulers run, and only there";
        let found = format!("{shown} is not here");
        return vec![Finding::warning(CHECK, found, "a scheduler does not start without it", mend)];
    };
    vec![match serve::notary(config) {
        Err(failure) => {
            let mend = failure.mend.unwrap_or_default();
            Finding::fatal(CHECK, failure.message, "a scheduler does not start", mend)
        }
        Ok(_) => {
            let why = "whoever has the key can approve anything";
            Finding::of_mode(CHECK, &shown, mode, why, "600")
        }
    }]
}

fn secret(path: &Path) -> Finding {
    const CHECK: &str = "files-secrets";
    let shown = path.display().to_string();
    let why = "whoever has the secret can start the webhook's runs with any input";
    match mode(path) {
        Ok(mode) => Finding::of_mode(CHECK, &shown, mode, why, "600"),
        Err(why) => {
            Finding::unseen(CHECK, format!("{shown}: {why}"), "put it where schedulers run")
        }
    }
}

/// It may be read by everybody, unless a password stands in it.
fn config_file(path: &Path) -> Finding {
    const CHECK: &str = "files-configuration";
    let shown = path.display().to_string();
    let read = || -> std::io::Result<(u32, String)> {
        let metadata = std::fs::metadata(path)?;
        if CONFIG_BYTES_MAX < metadata.len() {
            return Err(std::io::Error::other("it is too long"));
        }
        Ok((metadata.permissions().mode(), std::fs::read_to_string(path)?))
    };
    match read() {
        Ok((mode, text)) if has_password(&text) => {
            let why = "a password of Redis or RabbitMQ is in it";
            Finding::of_mode(CHECK, &shown, mode, why, "600")
        }
        Ok(_) => Finding::fine(CHECK, "no password is in it"),
        Err(why) => Finding::unseen(CHECK, format!("{shown}: {why}"), "look as its owner"),
    }
}

/// Whether some line that is no comment has a URL with a login.
fn has_password(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let urls = lines.filter_map(|line| line.split_once("://").map(|(_, rest)| rest));
    urls.filter_map(|rest| rest.split(['"', '\'', ' ']).next()).any(|url| url.contains('@'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use portcullis_engine::finding::Severity;

    use super::*;

    /// A file of its own, gone with it.
    struct File(PathBuf);

    impl File {
        fn new(text: &str, mode: u32) -> Self {
            let mut random = [0; 8];
            getrandom::fill(&mut random).unwrap();
            let name = format!("portcullis-file-{}", data_encoding::HEXLOWER.encode(&random));
            let path = std::env::temp_dir().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Self(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            fs::remove_file(&self.0).ok();
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_told() {
        for (mode, severity) in
            [(0o600, Severity::Fine), (0o640, Severity::Warning), (0o644, Severity::Fatal)]
        {
            let file = File::new("whsec_x", mode);
            assert_eq!(secret(&file.0).severity, severity, "{mode:o}");
            assert_eq!(data_dir(&file.0).severity, severity, "{mode:o}");
        }
        assert_eq!(secret(Path::new("/nowhere")).severity, Severity::Warning);
        assert_eq!(data_dir(Path::new("/nowhere")).severity, Severity::Warning);
    }

    #[test]
    fn a_configuration_may_be_open_unless_it_holds_a_password() {
        let plain = "# redis://u:p@h\n[store]\nurl = \"redis://127.0.0.1:6379/0\" # a@b\n";
        let secret = "[bus]\nurl = \"amqp://worker:hunter2@broker:5672/x\"\n";
        assert_eq!(config_file(&File::new(plain, 0o644).0).severity, Severity::Fine);
        assert_eq!(config_file(&File::new(secret, 0o644).0).severity, Severity::Fatal);
        assert_eq!(config_file(&File::new(secret, 0o600).0).severity, Severity::Fine);
    }
}
