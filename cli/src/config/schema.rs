//! The JSON Schema of the configuration, made from the structs that read it.

use serde_json::Value;

use super::file::ConfigFile;

/// The schema as a value.
pub(crate) fn root() -> Value {
    schemars::schema_for!(ConfigFile).to_value()
}

/// The schema as it is shipped.
pub(crate) fn text() -> String {
    let schema = serde_json::to_string_pretty(&root()).expect("a schema is plain JSON");
    format!("{schema}\n")
}
