//! What may a tool's process touch?
//!
//! A tool runs whatever an agent thought of. Between it and the data folder, the keys, the tokens
//! and the ports of the API, Redis and RabbitMQ stands this module: a tool that could reach them
//! could approve itself, and the gate would be a joke.
//!
//! How: the worker starts its own binary again as a *helper* ([`run_helper`]) with a
//! [`Plan`](plan::Plan) as its first argument. The helper narrows itself, layer by layer, and then
//! becomes the tool by `execve`, so nothing has to run between `fork` and `exec` of a threaded
//! process.
//!
//! ```text
//! rlimits → parent-death signal → close fds → no_new_privs → landlock → seccomp → execve
//! ```
//!
//! Authority: the kernel. Nothing in this process decides for the tool once it runs.
//! Invariant: with [`Mode::Enforce`] a tool starts with every required layer on, or it doesn't
//! start: the helper exits before `execve` and the call is «not run».
//! If we crash here: the leader of the tool dies by its parent-death signal and the rest of its
//! process group by the [`watch`], which notices that the worker is gone.
//!
//! What it does not stop, as no layer of Linux 6.12 does: `stat` of a path whose name is known;
//! `chmod`, `chown` and `utime` of files that the tool's user owns (so give tools a [`User`] of
//! their own); UDP to anywhere once `dns` is on. A path is guarded where it lies: a hard link or a
//! bind mount of it under an allowed folder is not seen.

mod files;
mod helper;
mod plan;
mod policy;
mod probe;
mod syscalls;
mod watch;

pub use helper::run_helper;
pub use policy::{Limits, Mode, PolicyError, SandboxPolicy, User};
pub use probe::{Layers, probe};

pub(crate) use plan::{REFUSED_EXIT_CODE, Refusal, RefusalCode};
pub(crate) use policy::Sandbox;
pub(crate) use watch::Watch;
