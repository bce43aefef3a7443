//! When is this process told to stop?

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::exit::{Exit, Failure};

/// Two tokens: the first signal cancels the first one, the next signal the other.
pub(super) fn watch() -> Result<(CancellationToken, CancellationToken), Failure> {
    let listen = |kind| {
        signal(kind).map_err(|why| {
            Failure::new(Exit::Failed, "signals", format!("signals cannot be received: {why}"))
        })
    };
    let (mut term, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let (stop, killed) = (CancellationToken::new(), CancellationToken::new());
    let tokens = (stop.clone(), killed.clone());
    tokio::spawn(async move {
        next(&mut term, &mut interrupt).await;
        info!("stopping; a second signal stops at once");
        stop.cancel();
        next(&mut term, &mut interrupt).await;
        killed.cancel();
    });
    Ok(tokens)
}

async fn next(term: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}
