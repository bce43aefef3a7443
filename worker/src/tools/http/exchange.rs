//! How does one call become requests, and the last answer a result?
//!
//! Authority: the server's status. Invariant: the first request decides between «not run» and
//! «failed»: once it is connected, nothing after it can say that nothing was sent. Credentials
//! never follow a redirect to another origin, and no redirect leads from https to http.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Map, Value, json};

use super::args::{Args, Body, is_web};
use super::reach::{CheckedResolver, Reach, Refused};
use crate::tools::{NotRun, NotRunCode, Outcome};

const REDIRECTS_MAX: usize = 5;
const RESPONSE_BYTES_MAX: usize = 256 * 1024;
const RESPONSE_HEADERS_MAX: usize = 64;
const RESPONSE_HEADER_BYTES_MAX: usize = 16 * 1024;
/// The only headers that follow a redirect to another origin: any other might be a credential.
const HARMLESS: &[&str] = &["accept", "accept-language", "content-type", "user-agent"];
/// Says once more what the settings say already; some servers ask for it.
const USER_AGENT: &str = concat!("portcullis/", env!("CARGO_PKG_VERSION"));

/// The clients, and where they may go.
pub(super) struct Exchange {
    reach: Arc<Reach>,
    open: Client,
    /// For the ports of the API, Redis and RabbitMQ: this machine does not exist.
    guarded: Client,
}

/// What went wrong on the way to an answer.
enum Broken {
    /// Before a connection stood.
    Unsent(NotRun),
    /// Afterwards.
    Unknown(String),
}

impl Exchange {
    pub(super) fn new(reach: Reach, connect_wait: Duration) -> Result<Self, reqwest::Error> {
        let reach = Arc::new(reach);
        let client = |guarded: bool| {
            Client::builder()
                .dns_resolver(Arc::new(CheckedResolver::new(reach.clone(), guarded)))
                .redirect(reqwest::redirect::Policy::none())
                // A proxy would resolve and connect where nobody checks.
                .no_proxy()
                .connect_timeout(connect_wait)
                .retry(reqwest::retry::never())
                // A kept connection can die under a request and leave its outcome open for nothing.
                .pool_max_idle_per_host(0)
                .referer(false)
                .user_agent(USER_AGENT)
                .build()
        };
        Ok(Self { open: client(false)?, guarded: client(true)?, reach: reach.clone() })
    }

    /// All requests of one call. Bounded by the caller's timeout.
    pub(super) async fn run(&self, mut args: Args, key: &str, claim: &str) -> Outcome {
        for hop in 0..=REDIRECTS_MAX {
            let response = match self.send(&args, key, claim).await {
                Ok(response) => response,
                Err(Broken::Unsent(why)) if hop == 0 => return why.into(),
                Err(Broken::Unsent(why)) => {
                    return redirect_failed(why.code.as_str(), &why.message, &args);
                }
                Err(Broken::Unknown(why)) => {
                    return Outcome::Failed(json!({ "error": "outcome_unknown", "message": why }));
                }
            };
            match next_hop(&response, &args.url) {
                Ok(None) => return answer(response, hop).await,
                Ok(Some(url)) => args = args.redirected(response.status(), url),
                Err(why) => return redirect_failed("redirect_refused", &why, &args),
            }
        }
        redirect_failed("too_many_redirects", "more than 5 redirects", &args)
    }

    async fn send(&self, args: &Args, key: &str, claim: &str) -> Result<Response, Broken> {
        let refused = |why: &dyn Error| {
            Broken::Unsent(NotRun::new(NotRunCode::AddressRefused, why.to_string()))
        };
        let guarded = args.url.port_or_known_default().is_none_or(|port| self.reach.guards(port));
        // The connector resolves names only; an address in the URL is checked here.
        if let Some(address) = literal_address(&args.url) {
            let host = args.url.host_str().unwrap_or_default();
            self.reach.check(host, address, guarded).map_err(|why| refused(&why))?;
        }
        let client = if guarded { &self.guarded } else { &self.open };
        let request =
            args.build(client).header("idempotency-key", key).header("portcullis-claim", claim);
        request.send().await.map_err(|error| match find::<Refused>(&error) {
            Some(why) => refused(why),
            None => broken(&error),
        })
    }
}

impl Args {
    fn build(&self, client: &Client) -> RequestBuilder {
        let mut request = client.request(self.method.clone(), self.url.clone());
        request = match &self.body {
            Body::Empty => request,
            Body::Text(text) => request.body(text.clone()),
            Body::Json(value) => request.json(value),
        };
        // What the call says replaces what the body implies, such as the content type.
        let headers = self.headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, value.parse().ok()?))
        });
        request.headers(headers.collect::<HeaderMap>())
    }

    /// The request after a redirect, 307 and 308 repeat it, the others only look.
    fn redirected(mut self, status: StatusCode, url: Url) -> Self {
        let repeats =
            status == StatusCode::TEMPORARY_REDIRECT || status == StatusCode::PERMANENT_REDIRECT;
        let reads = self.method == Method::GET || self.method == Method::HEAD;
        if !repeats && !reads {
            self.method = Method::GET;
            self.body = Body::Empty;
            self.headers.retain(|name, _| !name.starts_with("content-"));
        }
        if self.url.origin() != url.origin() {
            self.headers.retain(|name, _| HARMLESS.contains(&name.as_str()));
        }
        self.url = url;
        self
    }
}

/// The address in the URL itself. The URL's parser has read every odd spelling of IPv4 by now.
fn literal_address(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn broken(error: &reqwest::Error) -> Broken {
    let code = match (error.is_connect(), error.is_dns()) {
        (_, true) => NotRunCode::ResolveFailed,
        (true, false) => NotRunCode::ConnectFailed,
        (false, false) => return Broken::Unknown(chain(error)),
    };
    Broken::Unsent(NotRun::new(code, chain(error)))
}

/// The first error of this type among the causes.
fn find<T: Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// All causes in one line. reqwest's own sentence says the URL, which may hold a secret in its
/// query.
fn chain(error: &reqwest::Error) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    if causes.is_empty() { "the request failed".to_owned() } else { causes.join(": ") }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// `None`: this answer is the last.
fn next_hop(response: &Response, from: &Url) -> Result<Option<Url>, String> {
    let redirects = [301, 302, 303, 307, 308].contains(&response.status().as_u16());
    let Some(location) = response.headers().get(LOCATION).filter(|_| redirects) else {
        return Ok(None);
    };
    let location = location.to_str().map_err(|_| "the location is no text".to_owned())?;
    redirect_target(location, from).map(Some)
}

fn redirect_target(location: &str, from: &Url) -> Result<Url, String> {
    let mut url =
        from.join(location).map_err(|error| format!("the location is no URL: {error}"))?;
    if !is_web(&url) {
        return Err(format!("the location is a `{}` URL", url.scheme()));
    }
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err("the location leads from https to http".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the location contains a user or password".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// A request was answered, so it is too late for «not run».
fn redirect_failed(code: &str, message: &str, args: &Args) -> Outcome {
    let host = args.url.host_str().unwrap_or_default();
    Outcome::Failed(json!({ "error": code, "message": message, "at_host": host }))
}

async fn answer(mut response: Response, redirects: usize) -> Outcome {
    let status = response.status();
    let mut result = json!({
        "status": status.as_u16(),
        "headers": headers(&response),
        "redirects": redirects,
    });
    let whole = read_body(&mut response, &mut result).await;
    match whole {
        Ok(()) if status.is_client_error() || status.is_server_error() => Outcome::Failed(result),
        Ok(()) => Outcome::Succeeded(result),
        // It answered, but what, we do not know to the end.
        Err(error) => {
            result["error"] = "response_incomplete".into();
            result["message"] = chain(&error).into();
            Outcome::Failed(result)
        }
    }
}

/// Reads up to the limit; the rest is never fetched.
async fn read_body(response: &mut Response, result: &mut Value) -> Result<(), reqwest::Error> {
    let length = response.content_length();
    let mut body: Vec<u8> = Vec::new();
    let mut truncated = false;
    let mut end = Ok(());
    while !truncated {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = (RESPONSE_BYTES_MAX - body.len()).min(chunk.len());
                body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                truncated = room < chunk.len();
            }
            Ok(None) => break,
            Err(error) => {
                end = Err(error);
                break;
            }
        }
    }
    let mut text = String::from_utf8_lossy(&body).into_owned();
    if truncated {
        text.push_str("\n[… the rest is left out …]");
        result["body_truncated"] = json!(true);
    }
    result["body"] = text.into();
    result["body_bytes"] = if truncated { json!(length) } else { json!(body.len()) };
    end
}

/// The first headers, within a bound. Cookies are left out: they are credentials.
fn headers(response: &Response) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut bytes = 0;
    for (name, value) in response.headers().iter().take(RESPONSE_HEADERS_MAX) {
        bytes += name.as_str().len() + value.len();
        if RESPONSE_HEADER_BYTES_MAX < bytes {
            break;
        }
        if name != "set-cookie" {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            kept.insert(name.as_str().to_owned(), value.into());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_may_lead_to_https_but_not_away_from_it() {
        let from: Url = "https://example.org/a".parse().unwrap();
        assert_eq!(redirect_target("/b#c", &from).unwrap().as_str(), "https://example.org/b");
        assert!(redirect_target("http://example.org/b", &from).is_err());
        let from: Url = "http://example.org/a".parse().unwrap();
        assert!(redirect_target("https://example.org/b", &from).is_ok());
    }
}
