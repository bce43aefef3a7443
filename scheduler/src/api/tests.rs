//! Every route, by its answer: what an outsider sees.

mod approvals;
mod events;
mod guard;
mod runs;
mod standing;
mod webhooks;
