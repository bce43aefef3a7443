//! How the server starts and stops.

use std::net::Ipv4Addr;
use std::sync::Arc;

use portcullis_scheduler::{Scheduler, Settings};
use portcullis_tests::home::{Home, Kind, PATIENCE, Plan};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_open_streams_and_takes_no_new_work() {
    let home = Home::of(Kind::Embedded, Plan::of(vec![])).await;
    let desk = Desk::open(&home, |_| {}).await;
    let address = desk.address;
    let mut events = desk.follow().await;
    tokio::time::timeout(PATIENCE, desk.close()).await.expect("a stream holds up no stop");
    assert_eq!(events.next().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    home.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_the_settings_do_not_know_of_is_refused() {
    let home = Home::of(Kind::Embedded, Plan::of(vec![])).await;
    // Configured for loopback, where reading needs no token, and bound to the world.
    let settings = Settings::nothing((Ipv4Addr::LOCALHOST, 0).into());
    let scheduler = Scheduler::new(Arc::clone(&home.engine), settings);
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let serving = scheduler.serve(listener, axum::Router::new(), CancellationToken::new());
    let refused = tokio::time::timeout(PATIENCE, serving).await.expect("at once").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    home.stop().await;
}
