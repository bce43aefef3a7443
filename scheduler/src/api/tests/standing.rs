use axum::body::Body;
use axum::http::Request;
use portcullis_engine::ports::Condition;
use portcullis_proto::job::Attendance;
use serde_json::json;

use crate::api::ROUTES;
use crate::fake::{START_MS, Stage, Trouble, settings};
use crate::reminders::calendar::Rule;
use crate::settings::{CatchUp, Overlap, Reminder};

#[tokio::test]
async fn the_description_and_the_server_agree_on_every_path() {
    let stage = Stage::new();
    let described = stage.get("/openapi.json").await.json;
    let paths = described["paths"].as_object().unwrap();
    let listed: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(listed, ROUTES.len());
    for (method, path, _) in ROUTES {
        assert!(paths[*path][*method].is_object(), "{method} {path}");
        if *path == "/v1/events" {
            continue; // It does not end; it has tests of its own.
        }
        let at = path.replace("{id}", "x").replace("{route}", "x");
        let request = Request::builder().method(method.to_uppercase().as_str()).uri(at);
        let told = stage.send(request.body(Body::empty()).unwrap()).await;
        let code = told.no().1;
        assert!(code != "no_such_path" && code != "wrong_method", "{method} {path}: {told:?}");
    }
}

#[tokio::test]
async fn every_reference_in_the_description_leads_somewhere() {
    let described = crate::api::openapi::description();
    let text = described.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(described["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn a_scheduler_without_its_store_is_alive_and_not_ready() {
    let stage = Stage::new();
    assert_eq!(stage.get("/readyz").await.json["ready"], json!(true));
    stage.bus.condition.send_replace(Condition::Down);
    let told = stage.get("/readyz").await;
    assert_eq!((told.status.as_u16(), &told.json["bus"]), (200, &json!("down")));
    stage.store.trouble(Some(Trouble::Down));
    let told = stage.get("/readyz").await;
    assert_eq!((told.status.as_u16(), &told.json["store"]), (503, &json!("down")));
    assert_eq!(stage.get("/healthz").await.status, 200);
    for path in ["/v1/runs", "/v1/approvals", "/v1/waits", "/v1/events"] {
        assert_eq!(stage.get(path).await.no(), (503, "store_unavailable"), "{path}");
    }
}

#[tokio::test]
async fn reminders_and_routes_are_listed_without_their_secrets() {
    let mut settings = settings();
    settings.reminders.insert(
        "nightly".parse().unwrap(),
        Reminder {
            agent: "greeter".parse().unwrap(),
            tenant: "acme".parse().unwrap(),
            rule: Rule::every(3_600_000, START_MS).unwrap(),
            input: json!({}),
            catch_up: CatchUp::One,
            overlap: Overlap::Skip,
            attendance: Attendance::Unattended,
        },
    );
    let stage = Stage::with(settings);
    let before = stage.get("/v1/reminders").await.json;
    assert_eq!(before["reminders"][0]["armed"], json!(false));
    stage.scheduler.sync_reminders().await.unwrap();
    let after = stage.get("/v1/reminders").await.json;
    assert_eq!(after["reminders"][0]["armed"], json!(true));
    assert_eq!(after["reminders"][0]["next_fire"], START_MS + 3_600_000);
    let told = stage.get("/v1/webhooks").await.json;
    assert_eq!(told["webhooks"][0]["path"], "/hooks/github");
    assert!(!told.to_string().contains("0123456789abcdef"));
}

#[tokio::test]
async fn the_gauges_tell_how_much_waits_and_how_long() {
    let stage = Stage::new();
    stage.ask("a").await;
    stage.start("b").await;
    stage.store.advance(90_000);
    let readings = stage.scheduler.gauges().await.unwrap();
    let count = |name: &str| readings.runs.iter().find(|(phase, _)| *phase == name).unwrap().1;
    assert_eq!((count("waiting"), count("queued"), count("ended")), (1, 1, 0));
    assert_eq!(readings.approvals_open, 1);
    assert!((readings.approval_age_seconds - 90.0).abs() < 0.001);
    assert!((readings.queue_age_seconds - 90.0).abs() < 0.001);
}
