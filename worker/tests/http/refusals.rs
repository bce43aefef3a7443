use portcullis_worker::tools::NotRunCode;

use crate::support::{Server, get, http, not_run, reaching};

#[tokio::test]
async fn a_private_address_is_not_even_connected_to() {
    let server = Server::start(vec![]).await;
    let port = server.address.port();
    let closed = reaching(&[], vec![]);
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fe80::1]",
    ] {
        let why = not_run(get(&closed, &format!("http://{host}:{port}/")).await);
        assert_eq!(why.code, NotRunCode::AddressRefused, "{host}: {why}");
        assert!(why.message.contains("`allow_private`"), "no mend: {why}");
    }
    assert!(server.requests().is_empty());
}

/// An agent with `curl` at hand would approve itself here; with `http` it must not either.
#[tokio::test]
async fn our_own_ports_are_refused_though_the_address_is_listed() {
    let api = Server::start(vec![]).await;
    let port = api.address.port();
    let http = http(vec![port]);
    for host in ["127.0.0.1", "127.0.0.9", "localhost", "LOCALHOST", "[::1]"] {
        let why = not_run(get(&http, &format!("http://{host}:{port}/v1/approvals")).await);
        assert_eq!(why.code, NotRunCode::AddressRefused, "{host}: {why}");
        assert!(why.message.contains("belongs to the API"), "{host}: {why}");
    }
    assert!(api.requests().is_empty());
}
