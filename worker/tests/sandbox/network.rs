use std::net::UdpSocket;
use std::os::unix::net::UnixListener;

use crate::support::{Listener, Place, assert_says, bash, perl, shell};

const PERMISSION: &str = "Operation not permitted";

/// Tries to open a socket with these three arguments and prints what came of it.
fn socket(domain: u32, kind: u32, protocol: u32) -> String {
    format!("socket(S, {domain}, {kind}, {protocol}) and print 'open' or print $!")
}

/// Sends one byte with the connection's first packet, past `connect`.
fn fast_open(port: u16) -> String {
    format!(
        "use Socket; socket(S, 2, 1, 6) or die $!; my $to = sockaddr_in({port}, INADDR_LOOPBACK); \
         defined(send(S, 'x', 0x20000000, $to)) and print 'sent' or print $!"
    )
}

/// The founding fear: an agent that approves itself with `curl`.
#[tokio::test]
async fn no_tool_reaches_the_api_redis_or_rabbitmq() {
    let place = Place::new("ports");
    let [api, redis, rabbitmq, other] = std::array::from_fn(|_| Listener::new());
    let mut closed = place.policy();
    closed.guarded_ports = vec![api.port, redis.port, rabbitmq.port];
    // With a port of its own to go to, a tool has sockets, and only landlock is in the way.
    let mut open = closed.clone();
    open.connect_ports = vec![other.port];

    for (policy, denied) in [(closed, PERMISSION), (open, "Permission denied")] {
        let shell = shell(policy);
        for listener in [&api, &redis, &rabbitmq] {
            let port = listener.port;
            for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
                let said = bash(&shell, &format!("exec 3<>/dev/tcp/{host}/{port}")).await;
                assert_ne!(said["exit_code"], 0, "{said}");
            }
            let connect = format!(
                "use Socket; socket(S, 2, 1, 0) or die $!; \
                 connect(S, sockaddr_in({port}, INADDR_LOOPBACK)) and print 'open' or die $!"
            );
            let said = perl(&shell, &connect).await;
            assert_says(&said, "");
            assert!(said["stderr"].as_str().unwrap().starts_with(denied), "{said}");
            assert_says(
                &perl(&shell, &fast_open(port)).await,
                if denied == PERMISSION { "" } else { denied_send() },
            );
            assert_eq!(listener.connections(), 0, "somebody got through to {port}");
        }
    }
}

/// `MSG_FASTOPEN` is stopped by the system call filter, so the error is the filter's.
fn denied_send() -> &'static str {
    PERMISSION
}

#[tokio::test]
async fn a_port_that_the_policy_names_can_be_reached() {
    let place = Place::new("allowed-port");
    let listener = Listener::new();
    let mut policy = place.policy();
    policy.connect_ports = vec![listener.port];
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{} && echo open", listener.port);
    assert_says(&bash(&shell(policy), &script).await, "open");
    assert_eq!(listener.connections(), 1);
}

#[tokio::test]
async fn a_tool_cannot_listen() {
    let place = Place::new("listen");
    let mut policy = place.policy();
    policy.connect_ports = vec![9];
    let bind = "use Socket; socket(S, 2, 1, 0) or die $!; \
                bind(S, sockaddr_in(0, INADDR_LOOPBACK)) and print 'bound' or print $!";
    assert_says(&perl(&shell(policy), bind).await, "Permission denied");
}

/// Landlock sees TCP only, so whatever else could carry a request is not even opened.
#[tokio::test]
async fn every_socket_but_tcp_is_refused() {
    let place = Place::new("sockets");
    let mut policy = place.policy();
    policy.connect_ports = vec![9];
    let with_tcp = shell(policy);
    let sockets = [
        ("unix stream", 1, 1, 0),
        ("unix datagram", 1, 2, 0),
        ("udp", 2, 2, 0),
        ("udp6", 10, 2, 17),
        ("mptcp", 2, 1, 262),
        ("mptcp6", 10, 1, 262),
        ("smc", 2, 1, 256),
        ("sctp", 2, 1, 132),
        ("raw", 2, 3, 6),
        ("raw with flags", 2, 3 | 0x80000, 1),
        ("seqpacket", 2, 5, 132),
        ("netlink", 16, 3, 0),
        ("packet", 17, 3, 0),
        ("vsock", 40, 1, 0),
    ];
    for (name, domain, kind, protocol) in sockets {
        let said = perl(&with_tcp, &socket(domain, kind, protocol)).await;
        assert_eq!(said["stdout"], PERMISSION, "{name}: {said}");
    }
    for (domain, protocol) in [(2, 0), (2, 6), (10, 0)] {
        assert_says(&perl(&with_tcp, &socket(domain, 1, protocol)).await, "open");
    }
    // Without a port to go to, there is no TCP either.
    for domain in [1, 2, 10] {
        assert_says(&perl(&place.shell(), &socket(domain, 1, 0)).await, PERMISSION);
    }
}

#[tokio::test]
async fn udp_opens_only_with_dns_and_brings_nothing_else_along() {
    let place = Place::new("dns");
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let send = format!("echo x > /dev/udp/127.0.0.1/{port} && echo sent");
    let mut buffer = [0; 8];

    assert_says(&bash(&place.shell(), &send).await, "");
    assert!(receiver.recv(&mut buffer).is_err());

    let mut policy = place.policy();
    policy.dns = true;
    let with_dns = shell(policy);
    assert_says(&bash(&with_dns, &send).await, "sent");
    assert_eq!(receiver.recv(&mut buffer).unwrap(), 2);
    for (domain, kind, protocol) in [(2, 1, 0), (2, 2, 136), (2, 2, 1), (1, 1, 0)] {
        assert_says(&perl(&with_dns, &socket(domain, kind, protocol)).await, PERMISSION);
    }
}

/// Landlock does not stop this one: a container engine's or a Redis socket would be a way out.
#[tokio::test]
async fn a_unix_socket_is_reached_only_if_the_policy_says_so() {
    let place = Place::new("unix");
    let path = place.root.join("data/redis.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let connect = format!(
        "use Socket; socket(S, 1, 1, 0) && connect(S, pack_sockaddr_un('{}')) \
         and print 'open' or print $!",
        path.display()
    );

    assert_says(&perl(&place.shell(), &connect).await, PERMISSION);
    assert!(listener.accept().is_err());

    let mut policy = place.policy();
    policy.unix_sockets = true;
    assert_says(&perl(&shell(policy), &connect).await, "open");
    assert!(listener.accept().is_ok());
}
