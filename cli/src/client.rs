//! How does a command ask a server?
//!
//! Authority: the server. Its «no» is told in its own words, with an exit code of its kind.
//! Invariant: every request has a deadline. The token that `init` wrote is shown only where it is
//! needed, and only to this machine.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::Refusal;
use crate::args::Api;
use crate::config::Environment;
use crate::exit::{Exit, Failure};
use crate::init::{DATA_DIR, TOKEN_FILE};
use crate::words::one_sentence;

const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(30);
const TOKEN_BYTES_MAX: usize = 512;

/// A server, and what is shown to it.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    /// Given by the user: shown with every request.
    token: Option<String>,
    /// The one that `init` wrote: shown with decisions only.
    own_token: Option<PathBuf>,
}

/// What a request is about, for the exit code of a «no».
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Other,
    Deciding,
}

impl Client {
    /// Reads where the server is and which token to show.
    pub(crate) fn new(
        api: &Api,
        config: &Path,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, "api", message);
        let base = Url::parse(&api.api)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                usage(format!("`{}` is no address of a server", api.api))
                    .mend("write one such as http://127.0.0.1:8080")
            })?;
        let is_here = is_loopback(&base);
        let token = match (&api.token_file, environment.get("PORTCULLIS_TOKEN")) {
            (Some(file), _) => Some(read_token(file)?),
            (None, Some(token)) => Some(token.trim().to_owned()),
            (None, None) => None,
        };
        let folder = config.parent().unwrap_or(Path::new(""));
        let own_token = is_here.then(|| folder.join(DATA_DIR).join(TOKEN_FILE));
        let http = reqwest::Client::builder().connect_timeout(CONNECT_MAX);
        // A proxy would make a request from this machine one from somewhere else.
        let http = if is_here { http.no_proxy() } else { http };
        let http = http
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|why| usage(one_sentence(&why)))?;
        Ok(Self { http, base, token, own_token })
    }

    /// The same server, shown another token: that of nobody, perhaps.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            http: self.http.clone(),
            base: self.base.clone(),
            token: Some(token.to_owned()),
            own_token: None,
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Value), Failure> {
        self.ask(Method::GET, path, None, Act::Other, self.token.clone()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<(T, Value), Failure> {
        self.ask(Method::POST, path, Some(body), Act::Other, self.token.clone()).await
    }

    /// As an approver: with a token, the user's or the one that `init` wrote.
    pub(crate) async fn post_as_approver<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        deciding: bool,
    ) -> Result<(T, Value), Failure> {
        let act = if deciding { Act::Deciding } else { Act::Other };
        let token = match (&self.token, &self.own_token) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) if file.exists() => read_token(file)?,
            (None, Some(_) | None) => {
                let message = "deciding needs an approver's token, on this machine too";
                return Err(Failure::new(Exit::Usage, "no_token", message)
                    .mend("give --token-file or PORTCULLIS_TOKEN; `init` writes one for `local`"));
            }
        };
        self.ask(Method::POST, path, Some(body), act, Some(token)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        act: Act,
        token: Option<String>,
    ) -> Result<(T, Value), Failure> {
        let mut request = self.request(method, path, token).timeout(ANSWER_MAX);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|why| self.unreachable(&why))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|why| self.unreachable(&why))?;
        if !status.is_success() {
            return Err(refused(status, &bytes, act));
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|why| strange(&why))?;
        let read = T::deserialize(&value).map_err(|why| strange(&why))?;
        Ok((read, value))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        token: Option<String>,
    ) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.set_query(query);
        let request = self.http.request(method, url).header("portcullis-channel", "cli");
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Opens the stream of a run's events: each thing it says means «look again».
    pub(crate) async fn bell(&self, run: &str) -> Option<reqwest::Response> {
        let path = format!("/v1/events?run={run}");
        let answer = self.request(Method::GET, &path, self.token.clone()).send().await.ok()?;
        answer.status().is_success().then_some(answer)
    }

    fn unreachable(&self, why: &reqwest::Error) -> Failure {
        let message = format!("no answer from {}: {}", self.base, one_sentence(&without_url(why)));
        Failure::new(Exit::Unreachable, "unreachable", message)
            .mend("is `portcullis up` running there? Else give --api or PORTCULLIS_API_URL")
    }
}

/// reqwest repeats the URL in every message.
fn without_url(why: &reqwest::Error) -> std::io::Error {
    let mut cause: &dyn std::error::Error = why;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = if why.is_timeout() { "it took too long".to_owned() } else { cause.to_string() };
    std::io::Error::other(text)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let usage = |what: String| Failure::new(Exit::Usage, "token", what);
    let text = std::fs::read_to_string(file)
        .map_err(|why| usage(format!("{} cannot be read: {why}", file.display())))?;
    let token = text.trim();
    if token.is_empty() || TOKEN_BYTES_MAX < token.len() {
        return Err(usage(format!("{} holds no token", file.display())));
    }
    Ok(token.to_owned())
}

fn strange(why: &serde_json::Error) -> Failure {
    let message = format!("the server's answer cannot be read: {why}");
    Failure::new(Exit::Failed, "strange_answer", message)
        .mend("is it a portcullis of this release?")
}

fn refused(status: StatusCode, bytes: &[u8], act: Act) -> Failure {
    let Ok(Refusal { error }) = serde_json::from_slice::<Refusal>(bytes) else {
        let message = format!("the server answered {status}, and not as portcullis does");
        let failure = Failure::new(Exit::Failed, "strange_answer", message);
        return failure.mend("does --api lead to the right place?");
    };
    let exit = match (status, act) {
        (StatusCode::NOT_FOUND, _) => Exit::NotFound,
        _ if error.code == "unknown_agent" => Exit::NotFound,
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, _) => Exit::Unreachable,
        (status, Act::Deciding) if status.is_client_error() => Exit::DecisionRefused,
        (StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST, Act::Other) => Exit::Usage,
        (_, Act::Other | Act::Deciding) => Exit::Failed,
    };
    let place = error.place.map(|place| format!("`{place}`: ")).unwrap_or_default();
    Failure {
        exit,
        code: error.code,
        message: format!("{place}{}", error.message),
        mend: error.mend,
    }
}
