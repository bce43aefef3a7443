//! A worker that is cut off from Redis or from RabbitMQ: nothing is refused, nothing arrives.

use portcullis_tests::processes::{Installation, Running, Setup, facts, outcome};
use portcullis_tests::servers::Line;
use serde_json::json;

use super::{plain, waiter};

/// The first worker, with a line of its own to Redis.
async fn behind_a_line(site: &mut Installation) -> (Running, Line) {
    let line = Line::to(site.servers().redis.port()).await;
    let url = format!("redis://127.0.0.1:{}/0", line.port());
    let worker = site.worker_with(0, &[("PORTCULLIS_STORE_URL", url)]).await;
    (worker, line)
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_from_redis_a_worker_kills_its_tool_by_the_end_of_its_lease() {
    let mut site = Installation::distributed(&Setup::of(vec![waiter(), plain()]));
    let desk = site.scheduler(0).await;
    let (first, line) = behind_a_line(&mut site).await;
    let id = desk.run("waiter", json!({})).await;
    site.until_effects("begun", 1).await;
    line.cut();
    let mut second = site.worker(1).await;
    let run = desk.ended(&id).await;
    assert_eq!(outcome(&run), ("interrupted", "outcome_unknown"));
    first.await_tools_gone();
    site.signal("go");
    site.signal("end");
    assert_eq!(site.effects.lines(), ["begun"]);
    line.mend();
    // It is a worker again, and has nothing to say about what it lost.
    second.kill9();
    let next = desk.run("plain", json!({})).await;
    assert_eq!(outcome(&desk.ended(&next).await), ("succeeded", "done"));
    assert_eq!(desk.show(&id).await["history"], run["history"]);
    assert_eq!(site.effects.lines(), ["begun".to_owned(), next]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_from_rabbitmq_a_worker_goes_on_and_nothing_runs_twice() {
    let site = Installation::distributed(&Setup::of(vec![waiter(), plain()]));
    let desk = site.scheduler(0).await;
    let bus_url = site.bus_url();
    let port: u16 = bus_url.rsplit_once(':').unwrap().1.split('/').next().unwrap().parse().unwrap();
    let line = Line::to(port).await;
    let url = bus_url.replace(&format!(":{port}/"), &format!(":{}/", line.port()));
    let _first = site.worker_with(0, &[("PORTCULLIS_BUS_URL", url)]).await;
    let id = desk.run("waiter", json!({})).await;
    site.until_effects("begun", 1).await;
    line.cut();
    let meanwhile = desk.run("plain", json!({})).await;
    site.signal("go");
    site.signal("end");
    assert_eq!(outcome(&desk.ended(&id).await), ("succeeded", "done"));
    // Nothing rings: it looks into the store by itself.
    assert_eq!(outcome(&desk.ended(&meanwhile).await), ("succeeded", "done"));
    line.mend();
    // What it could not acknowledge comes again, before or with this one.
    let after = desk.run("plain", json!({})).await;
    assert_eq!(outcome(&desk.ended(&after).await), ("succeeded", "done"));
    assert_eq!(site.effects.lines(), ["begun".to_owned(), "acted".to_owned(), meanwhile, after]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_the_commit_of_a_start_and_the_tool_the_run_is_interrupted() {
    let mut site = Installation::distributed(&Setup::of(vec![plain()]));
    let desk = site.scheduler(0).await;
    let (mut first, line) = behind_a_line(&mut site).await;
    line.keep_answers_from("\"started\"");
    let id = desk.run("plain", json!({})).await;
    line.until_caught().await;
    // The store has the start, and the worker does not know.
    desk.until(&id, "the start is committed", |run| facts(run).contains(&"started")).await;
    assert_eq!(first.tools(), [0_u32; 0]);
    first.kill9();
    let _second = site.worker(1).await;
    let run = desk.ended(&id).await;
    assert_eq!(outcome(&run), ("interrupted", "outcome_unknown"));
    assert_eq!(facts(&run).iter().filter(|fact| **fact == "started").count(), 1);
    assert_eq!(site.effects.lines(), [""; 0]);
}
