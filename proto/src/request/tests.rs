use super::*;
use crate::call::args_hash;
use crate::ids::{JobKey, RouteName, ShardCount};
use serde_json::{Value, json};

const FIXTURE: &[u8] = include_bytes!("../../fixtures/request/v1.json");

fn request() -> ApprovalRequest {
    let route = RouteName::new("github").unwrap();
    let key = JobKey::webhook(&route, Digest::of_bytes(b"delivery"));
    let run = RunId::of(&key, ShardCount::new(16).unwrap());
    let tool = ToolName::new("shell").unwrap();
    let args = json!({"argv": ["./deploy.sh", "v1.4.2"], "timeout_s": 30.5});
    ApprovalRequest {
        v: 1,
        approval_id: ApprovalId::of(&run, 2, 1),
        rev: 1,
        nonce: Nonce([0x2a; 16]),
        args_hash: args_hash(&run, 2, &tool, &args).unwrap(),
        tenant: Tenant::new("acme").unwrap(),
        pool: PoolName::new("ops").unwrap(),
        risk: Risk::High,
        need: 1,
        tool,
        args: Payload::Inline(args),
        run_id: run,
        agent: AgentName::new("deployer").unwrap(),
        origin: Origin::Webhook { route },
        depth: 0,
        replaces: None,
        previous_attempt_unknown: false,
        asked_at: Ms(1_767_225_600_000),
        deadline: Ms(1_767_227_400_000),
    }
}

#[test]
fn the_first_version_is_still_read_and_is_what_is_written() {
    let read: ApprovalRequest = serde_json::from_slice(FIXTURE).unwrap();
    assert_eq!(read, request());
    let value: Value = serde_json::from_slice(FIXTURE).unwrap();
    assert_eq!(serde_json::to_value(request()).unwrap(), value);
}
