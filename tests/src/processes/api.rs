//! What anybody can ask a process over HTTP.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::{PATIENCE, token_of, until};

/// The longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Status and body of an answer.
pub type Answer = (u16, Value);

/// The HTTP server of one process.
#[derive(Clone, Debug)]
pub struct Api {
    port: u16,
}

/// Without connections kept open: the process at the other end is killed now and then.
static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
    // Already installed by another test of this process, or now: both will do.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder().pool_max_idle_per_host(0).timeout(ANSWER).build().unwrap()
});

impl Api {
    pub(crate) const fn at(port: u16) -> Self {
        Self { port }
    }

    /// An address of it.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Whether it answers, and with 200.
    pub async fn is_ok(&self, path: &str) -> bool {
        let answer = CLIENT.get(self.url(path)).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// # Panics
    /// When there is no answer.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask(CLIENT.get(self.url(path))).await.unwrap()
    }

    /// # Panics
    /// When there is no answer.
    pub async fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Answer {
        let mut request = CLIENT.post(self.url(path)).json(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        self.ask(request).await.unwrap()
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    /// Sends a body with headers, as a webhook's sender does; the `Retry-After` of the answer too.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn hook(
        &self,
        route: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> (u16, Value, Option<String>) {
        self.try_hook(route, headers, body).await.expect("an answer")
    }

    /// The same, to a process that may not be there. `None`: there was no answer.
    pub async fn try_hook(
        &self,
        route: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> Option<(u16, Value, Option<String>)> {
        let mut request = CLIENT.post(self.url(&format!("/hooks/{route}")));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.header("content-type", "application/json").body(body.to_owned());
        let answer = request.send().await.ok()?;
        let later = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let later = later.map(ToOwned::to_owned);
        Some((answer.status().as_u16(), answer.json().await.ok()?, later))
    }

    /// Starts a run that nobody attends; its id.
    ///
    /// # Panics
    /// When it is not accepted.
    pub async fn run(&self, agent: &str, input: Value) -> String {
        let body = json!({ "agent": agent, "input": input });
        let (status, answer) = self.post("/v1/runs", None, &body).await;
        assert_eq!(status, 202, "{answer}");
        answer["run_id"].as_str().unwrap().to_owned()
    }

    /// Asks for a run, and says whether it was accepted: its id, or the answer.
    ///
    /// # Errors
    /// Whatever else than 202 was answered, or that nothing was.
    pub async fn try_run(&self, agent: &str, input: Value) -> Result<String, String> {
        let body = json!({ "agent": agent, "input": input });
        let asked = self.ask(CLIENT.post(self.url("/v1/runs")).json(&body)).await;
        match asked {
            Ok((202, answer)) => Ok(answer["run_id"].as_str().unwrap().to_owned()),
            Ok((status, answer)) => Err(format!("{status} {answer}")),
            Err(why) => Err(why.to_string()),
        }
    }

    /// A run as it is shown.
    ///
    /// # Panics
    /// When there is none, or no answer.
    pub async fn show(&self, id: &str) -> Value {
        let (status, run) = self.get(&format!("/v1/runs/{id}")).await;
        assert_eq!(status, 200, "{run}");
        run
    }

    /// A run as it is shown. `None`: there is none, or no answer.
    pub async fn try_show(&self, id: &str) -> Option<Value> {
        let asked = self.ask(CLIENT.get(self.url(&format!("/v1/runs/{id}")))).await;
        asked.ok().filter(|(status, _)| *status == 200).map(|(_, run)| run)
    }

    /// Every run there is, page by page.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn all_runs(&self) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let (status, page) = self.get(&format!("/v1/runs?limit=500{after}")).await;
            assert_eq!(status, 200, "{page}");
            all.extend(page["runs"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return all,
            }
        }
    }

    /// What waits in everybody's inbox; nothing when there is no answer.
    pub async fn open_requests(&self) -> Vec<Value> {
        let asked = self.ask(CLIENT.get(self.url("/v1/approvals?limit=500"))).await;
        let listed = asked.ok().and_then(|(_, body)| body["approvals"].as_array().cloned());
        listed.unwrap_or_default()
    }

    /// Every run that it lists.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn runs(&self) -> Vec<Value> {
        let (status, page) = self.get("/v1/runs?limit=500").await;
        assert_eq!(status, 200, "{page}");
        page["runs"].as_array().unwrap().clone()
    }

    /// Waits until a run is shown as wanted. A process that does not answer meanwhile is waited
    /// for.
    ///
    /// # Panics
    /// When it is not within [`PATIENCE`]; says how the run stood.
    pub async fn until(&self, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let looking = async {
            loop {
                let shown = self.ask(CLIENT.get(self.url(&format!("/v1/runs/{id}")))).await;
                if let Ok((200, run)) = shown {
                    last = run;
                    if wanted(&last) {
                        return;
                    }
                }
                // sleep: a poll of what other processes do, bounded by PATIENCE
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let looked = tokio::time::timeout(PATIENCE, looking).await;
        assert!(looked.is_ok(), "{what}: not within {PATIENCE:?}; the run is {last:#}");
        last
    }

    /// Waits for a run's end.
    pub async fn ended(&self, id: &str) -> Value {
        self.until(id, "the run ends", |run| run["phase"] == "ended").await
    }

    /// Waits until a run is parked, and nobody has decided its first request.
    pub async fn asked(&self, id: &str) -> Value {
        let run = self
            .until(id, "the run waits for a decision", |run| {
                run["phase"] == "waiting" && open(run).is_some()
            })
            .await;
        open(&run).expect("one is open").clone()
    }

    /// A request as it is shown.
    ///
    /// # Panics
    /// When there is none, or no answer.
    pub async fn approval(&self, id: &str) -> Value {
        let (status, shown) = self.get(&format!("/v1/approvals/{id}")).await;
        assert_eq!(status, 200, "{shown}");
        shown
    }

    /// Decides a request as it was shown, with an approver's token.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn decide(&self, shown: &Value, who: &str, verdict: &str) -> Answer {
        let id = shown["approval_id"].as_str().unwrap();
        let body = json!({
            "verdict": verdict, "nonce": shown["nonce"], "args_hash": shown["args_hash"],
        });
        let path = format!("/v1/approvals/{id}/decision");
        self.post(&path, Some(&token_of(who)), &body).await
    }

    /// The same, to a process that may not be there. `None`: there was no answer.
    pub async fn try_decide(&self, shown: &Value, who: &str, verdict: &str) -> Option<Answer> {
        let path = format!("/v1/approvals/{}/decision", shown["approval_id"].as_str()?);
        let body = json!({
            "verdict": verdict, "nonce": shown["nonce"], "args_hash": shown["args_hash"],
        });
        let request = CLIENT.post(self.url(&path)).json(&body).bearer_auth(token_of(who));
        self.ask(request).await.ok()
    }

    /// The sum of a metric over all its labels; 0 when it is not there.
    pub async fn metric(&self, name: &str) -> f64 {
        self.metric_with(name, "").await
    }

    /// The same over the lines with a label such as `answer="forged"`.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn metric_with(&self, name: &str, label: &str) -> f64 {
        let answer = CLIENT.get(self.url("/metrics")).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let of_name = |line: &&str| {
            let rest = line.strip_prefix(name).and_then(|rest| rest.chars().next());
            rest.is_some_and(|next| next == '{' || next == ' ')
        };
        let lines = text.lines().filter(of_name).filter(|line| line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until a metric has a value.
    ///
    /// # Panics
    /// When it has not within [`PATIENCE`].
    pub async fn until_metric(&self, name: &str, label: &str, value: f64) {
        let has = async || self.metric_with(name, label).await == value;
        until(&format!("{name} {label} is {value}"), has).await;
    }
}

fn open(run: &Value) -> Option<&Value> {
    let calls = run["calls"].as_array()?;
    calls.iter().map(|call| &call["approval"]).find(|asked| asked["state"] == "requested")
}
