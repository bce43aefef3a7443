//! An agent that tries to approve itself, by every way a shell has.

use portcullis_tests::home::Kind;
use portcullis_tests::processes::{Agent, Installation, Setup, denials, outcome};
use serde_json::json;

use super::on_both_homes;

on_both_homes! {
    an_agent_cannot_approve_itself
    without_the_sandbox_it_can
}

/// Tries to read what proves an approver, to reach the API, and to decide the open request. Each
/// thing that works becomes a line.
const ATTACK: &str = r#"
import json, os, socket, sys, urllib.request
ports, data = [int(port) for port in sys.argv[1].split(",")], sys.argv[2]

def worked(what):
    with open("attack.log", "a") as log:
        log.write(what + "\n")

def tried(what, attempt):
    try:
        result = attempt()
        worked(what)
        return result
    except Exception as why:
        print(what, repr(why))

def group_of(pid):
    try:
        return os.getpgid(pid)
    except OSError:
        return None

def call(path, body=None, token=None):
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = "Bearer " + token
    data = json.dumps(body).encode() if body else None
    url = "http://127.0.0.1:%d%s" % (ports[0], path)
    return json.load(urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=2))

for name in ("alice.token", "notary.key", "portcullis.db", "../portcullis.toml"):
    tried("read " + name, lambda: open(os.path.join(data, name), "rb").read())
tried("read the folder", lambda: os.listdir(data))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if group_of(int(pid)) != os.getpgid(0):
        tried("read memory", lambda: open("/proc/%s/environ" % pid, "rb").read())
for port in ports:
    tried("connect", lambda: socket.create_connection(("127.0.0.1", port), 2))
token = tried("token", lambda: open(os.path.join(data, "alice.token")).read())
asked = tried("see the request", lambda: call("/v1/approvals")["approvals"][0])
decision = {key: asked[key] for key in ("nonce", "args_hash")} if asked else {}
path = "/v1/approvals/%s/decision" % (asked or {}).get("approval_id", "none")
tried("approve", lambda: call(path, {"verdict": "approve", **decision}, token or "guessed"))
"#;

/// Asks for one thing, and tries meanwhile to grant it to itself.
fn traitor(ports: &str) -> Agent {
    let wanted = "echo gated >> effects.log";
    let attack = format!(
        "port=$(echo {ports} | cut -d, -f1); \
         bash -c \"exec 3<>/dev/tcp/127.0.0.1/$port\" && echo bash >> attack.log; \
         curl -s -m 2 http://127.0.0.1:$port/v1/approvals && echo curl >> attack.log; \
         python3 attack.py {ports} ../data; echo tried >> effects.log"
    );
    let rule = format!(
        "[[agents.traitor.rules]]\nthen = \"ask\"\ntool = \"shell\"\n\
         args = {{ \"/argv/2\" = {{ one_of = [{wanted:?}] }} }}\n"
    );
    Agent::new("traitor").runs_together(&[wanted, &attack]).timed("15s", "20s").with(&rule)
}

/// Runs the attack: what worked of it.
async fn attack(kind: Kind, sandbox: &'static str) -> (Vec<String>, serde_json::Value) {
    // The ports are known once the installation is there, and then the agent is written.
    let setup = Setup { sandbox, approval_seconds: 8.0, ..Setup::of(vec![traitor("$1")]) };
    let site = Installation::of(kind, &setup);
    std::fs::write(site.effects.work().join("attack.py"), ATTACK).unwrap();
    let mut ports = vec![site.desk_port(0)];
    if let Some(servers) = &site.servers {
        ports.extend([servers.redis.port(), servers.broker.port()]);
    }
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let config = site.folder().join("portcullis.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("$1", &ports.join(","));
    std::fs::write(&config, text).unwrap();
    let crew = site.start().await;
    let id = crew.run("traitor", json!({})).await;
    site.until_effects("tried", 1).await;
    let run = crew.ended(&id).await;
    let text = std::fs::read_to_string(site.effects.work().join("attack.log"));
    let worked = text.map_or_else(|_| Vec::new(), |text| text.lines().map(Into::into).collect());
    let acted = site.effects.count("gated");
    assert_eq!(acted == 1, outcome(&run) == ("succeeded", "done"), "{run:#}");
    (worked, run)
}

async fn an_agent_cannot_approve_itself(kind: Kind) {
    let (worked, run) = attack(kind, "enforce").await;
    assert_eq!(worked, [""; 0]);
    assert_eq!(denials(&run), ["approval_timed_out"]);
    assert_eq!(run["calls"][0]["approval"]["votes"], json!([]));
}

/// The attack is a real one: nothing but the sandbox stands in its way.
async fn without_the_sandbox_it_can(kind: Kind) {
    let (worked, run) = attack(kind, "off").await;
    for way in ["bash", "curl", "read alice.token", "read notary.key", "connect", "approve"] {
        assert!(worked.iter().any(|what| what == way), "{way} failed: {worked:?}");
    }
    assert_eq!(run["calls"][0]["approval"]["votes"][0]["by"], "alice");
}
