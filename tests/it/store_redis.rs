//! Does the store in Redis keep the promises of every store, and its own?

mod bench;
mod boot;
mod doctor;
mod faults;
mod proxy;
mod replicas;
mod scripts;

use bench::fresh;

portcullis_tests::store_conformance!(fresh);
