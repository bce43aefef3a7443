//! What does a first configuration look like?
//!
//! Authority: none; it writes a start that works as it is, for the user to change.
//! Invariant: nothing that exists is overwritten, and no secret is readable by others or printed.
//! If we crash here: some files are there and others are not; the error names them.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::exit::{Ended, Exit, Failure};
use crate::output::Output;

/// The folder of everything that no tool may see.
pub(crate) const DATA_DIR: &str = "portcullis-data";
/// The approver `local`'s token, in the data folder.
pub(crate) const TOKEN_FILE: &str = "local.token";
const NOTARY_FILE: &str = "notary.key";
const NOTARY_ID: &str = "notary-1";
const SECRET_FILE: &str = "greet.secret";
const TEMPLATE: &str = include_str!("init/portcullis.toml");

/// Writes it.
pub(crate) fn run(folder: &Path, output: Output) -> Ended {
    let (config, data) = (folder.join(crate::config::FILE), folder.join(DATA_DIR));
    for path in [&config, &data] {
        if path.symlink_metadata().is_ok() {
            let message = format!("{} is there already", path.display());
            return Err(Failure::new(Exit::Failed, "exists", message)
                .mend("choose another folder, or move it away"));
        }
    }
    write(folder, &config, &data)?;
    if output.json {
        output.value(&json!({
            "config": config, "data_dir": data, "approver": "local",
            "token_file": data.join(TOKEN_FILE),
        }));
        return Ok(Exit::Done);
    }
    output.line(&format!("wrote {}", config.display()));
    output.line(&format!("      {}/  keys, tokens, the store", data.display()));
    output.line("");
    let here = if folder == Path::new(".") { "" } else { "in that folder, " };
    output.line(&format!("next, {here}in two terminals:"));
    output.line("  portcullis up");
    output.line(r#"  portcullis runs start greeter --input '{"name": "world"}' --wait"#);
    output.line("and while it waits for you:");
    output.line("  portcullis approvals list");
    output.line("  portcullis approvals approve <id>");
    Ok(Exit::Done)
}

fn write(folder: &Path, config: &Path, data: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|why| cannot(folder, &why))?;
    let private = std::fs::DirBuilder::new().mode(0o700).create(data);
    private.map_err(|why| cannot(data, &why))?;
    let (pkcs8, public) = notary_key()?;
    let token = BASE64URL_NOPAD.encode(&random()?);
    let secret = format!("whsec_{}", BASE64.encode(&random()?));
    private_file(&data.join(NOTARY_FILE), &pkcs8)?;
    private_file(&data.join(TOKEN_FILE), format!("{token}\n").as_bytes())?;
    private_file(&data.join(SECRET_FILE), format!("{secret}\n").as_bytes())?;
    let text = TEMPLATE
        .replace("{{notary_id}}", NOTARY_ID)
        .replace("{{notary_public_key}}", &BASE64.encode(&public))
        .replace("{{token_sha256}}", &HEXLOWER.encode(&Sha256::digest(token.as_bytes())));
    new_file(config, text.as_bytes(), 0o644)
}

fn notary_key() -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let unlucky = |why: String| Failure::new(Exit::Failed, "no_key", why);
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new())
        .map_err(|_| unlucky("the system gives no random bytes for a key".to_owned()))?;
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref())
        .map_err(|why| unlucky(format!("the new key cannot be read: {why}")))?;
    Ok((pkcs8.as_ref().to_vec(), pair.public_key().as_ref().to_vec()))
}

fn random() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|why| {
        let message = format!("the system gives no random bytes: {why}");
        Failure::new(Exit::Failed, "no_random", message)
    })?;
    Ok(bytes)
}

fn private_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    new_file(path, bytes, 0o600)
}

fn new_file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|why| cannot(path, &why))
}

fn cannot(path: &Path, why: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, "cannot_write", format!("cannot write {}: {why}", path.display()))
}
