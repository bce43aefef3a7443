//! Promise: under any storm of faults, no call runs without its yes, none runs twice, none hangs.

mod memory_bus;
mod memory_store;
mod seeds;
