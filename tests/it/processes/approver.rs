//! The shipped approver: thirty lines of Python that read the topic, decide and sign.

use portcullis_tests::processes::{Agent, Installation, People, PythonApprover, Setup, outcome};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_approver_lets_what_it_approves_run_once_and_is_silent_about_the_rest() {
    let agents = vec![
        Agent::new("deployer").appends("deployed").gated(),
        Agent::new("eraser").appends("erased").gated(),
    ];
    let setup = Setup { people: People::ServiceOnly, approval_seconds: 5.0, ..Setup::of(agents) };
    let site = Installation::distributed(&setup);
    let crew = site.start().await;
    let approver = PythonApprover::start(&site.bus_url());
    let erasing = crew.run("eraser", json!({})).await;
    let deploying = crew.run("deployer", json!({})).await;
    let run = crew.ended(&deploying).await;
    assert_eq!(outcome(&run), ("succeeded", "done"), "{}", approver.log());
    let vote = &run["calls"][0]["approval"]["votes"][0];
    assert_eq!((&vote["by"], &vote["channel"]), (&json!("carol"), &json!("amqp")));
    let run = crew.ended(&erasing).await;
    assert_eq!(run["calls"][0]["denial"]["code"], "approval_timed_out");
    assert_eq!(site.effects.lines(), ["deployed"]);
}
