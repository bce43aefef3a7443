//! Which texts make up the configuration, and on which line does a setting stand?
//!
//! Authority: the files, read once.
//! Invariant: a file that cannot be read or parsed is named with its line; a broken drop-in file
//! costs the one thing it defines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{KeyPath, Kind, Place, Problem, Scope, Segment};

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How many files a drop-in folder may have.
const DROP_INS_MAX: usize = 1_024;

/// One file.
#[derive(Debug)]
pub(crate) struct Document {
    /// As the user wrote it, for messages.
    path: String,
    text: String,
}

/// Every text, merged into one value.
#[derive(Debug)]
pub(crate) struct Sources {
    main: Document,
    drop_ins: BTreeMap<(Kind, String), Document>,
    /// Settings that came from the environment, and from which variable.
    pub(crate) variables: BTreeMap<KeyPath, String>,
}

impl Document {
    /// Reads and parses a file.
    fn read(path: &Path) -> Result<(Self, Map<String, Value>), Box<Problem>> {
        let shown = path.display().to_string();
        let whole = |line, what: String, mend: &str| {
            Box::new(Problem {
                place: Place::File { path: shown.clone(), line },
                scope: Scope::Everything,
                key: KeyPath::default(),
                what,
                mend: mend.to_owned(),
            })
        };
        let unreadable = |why: std::io::Error| {
            if why.kind() == std::io::ErrorKind::NotFound {
                let mend = "`portcullis init` writes one, `--config` names another";
                return whole(0, "there is no such file".to_owned(), mend);
            }
            whole(0, format!("it cannot be read: {why}"), "make it readable")
        };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if FILE_BYTES_MAX < bytes {
            let what = format!("it has {bytes} bytes, at most {FILE_BYTES_MAX} are read");
            return Err(whole(0, what, "split it into drop-in files"));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let document = Self { path: shown.clone(), text };
        let table = match toml::from_str::<toml::Table>(&document.text) {
            Ok(table) => table,
            Err(why) => {
                let line = why.span().map_or(0, |span| document.line_at(span.start));
                let what = format!("it is not TOML: {}", one_line(why.message()));
                return Err(whole(line, what, "correct the line"));
            }
        };
        match json_table(table, &KeyPath::default()) {
            Ok(map) => Ok((document, map)),
            Err((key, what)) => {
                let line = document.line_of(&key.0);
                Err(Box::new(Problem { key, ..*whole(line, what, "write a finite number") }))
            }
        }
    }

    fn line_at(&self, byte: usize) -> usize {
        let before = self.text.as_bytes().iter().take(byte);
        before.filter(|b| **b == b'\n').count() + 1
    }

    /// The line of the setting, or of the nearest thing around it that is written down.
    fn line_of(&self, path: &[Segment]) -> usize {
        let Ok(root) = DeTable::parse(&self.text) else { return 1 };
        let root_value = Spanned::new(root.span(), DeValue::Table(root.into_inner()));
        let (mut at, mut place) = (&root_value, 0);
        for segment in path {
            let next = match (segment, at.get_ref()) {
                (Segment::Key(key), DeValue::Table(table)) => table
                    .iter()
                    .find(|(name, _)| name.get_ref().as_ref() == key)
                    .map(|(name, value)| (value, name.span().start)),
                (Segment::Index(index), DeValue::Array(array)) => {
                    array.get(*index).map(|value| (value, value.span().start))
                }
                (Segment::Key(_) | Segment::Index(_), _) => None,
            };
            match next {
                Some((value, start)) => (at, place) = (value, start),
                None => break,
            }
        }
        self.line_at(place)
    }
}

impl Sources {
    /// Reads the file and its drop-in folders. What is broken is told and left out; only a broken
    /// main file is an error.
    pub(crate) fn read(
        path: &Path,
        problems: &mut Vec<Problem>,
    ) -> Result<(Self, Map<String, Value>), Box<Problem>> {
        let (main, mut table) = Document::read(path)?;
        let mut sources = Self { main, drop_ins: BTreeMap::new(), variables: BTreeMap::new() };
        let folder = path.parent().unwrap_or(Path::new(""));
        for kind in Kind::ALL {
            for file in drop_in_files(folder, kind, problems) {
                sources.drop_in(kind, &file, &mut table, problems);
            }
        }
        Ok((sources, table))
    }

    fn drop_in(
        &mut self,
        kind: Kind,
        file: &Path,
        table: &mut Map<String, Value>,
        problems: &mut Vec<Problem>,
    ) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (document, value) = match Document::read(file) {
            Ok(read) => read,
            Err(problem) => {
                let scope = Scope::One(kind, name);
                return problems.push(Problem { scope, ..*problem });
            }
        };
        let list = table.entry(kind.list()).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(list) = list else { return };
        if list.contains_key(&name) {
            let noun = kind.noun();
            problems.push(Problem {
                place: Place::File { path: document.path, line: 1 },
                scope: Scope::One(kind, name.clone()),
                key: KeyPath::of(&[kind.list(), &name]),
                what: format!("the {noun} stands in {} as well", self.main.path),
                mend: "keep one of the two".to_owned(),
            });
            // Which of the two was meant is anybody's guess, so neither is.
            list.remove(&name);
            return;
        }
        list.insert(name.clone(), Value::Object(value));
        self.drop_ins.insert((kind, name), document);
    }

    /// Where a setting stands.
    pub(crate) fn place(&self, key: &KeyPath) -> Place {
        if let Some(variable) = self.variables.get(key) {
            return Place::Variable(variable.clone());
        }
        if let [Segment::Key(list), Segment::Key(name), rest @ ..] = key.0.as_slice() {
            let kind = Kind::ALL.into_iter().find(|kind| kind.list() == list);
            let document = kind.and_then(|kind| self.drop_ins.get(&(kind, name.clone())));
            if let Some(document) = document {
                let line = document.line_of(rest);
                return Place::File { path: document.path.clone(), line };
            }
        }
        Place::File { path: self.main.path.clone(), line: self.main.line_of(&key.0) }
    }
}

/// The files of `<list>.d`, by name.
fn drop_in_files(folder: &Path, kind: Kind, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let folder = folder.join(format!("{}.d", kind.list()));
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(why) => {
            problems.push(folder_problem(&folder, format!("it cannot be read: {why}")));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    if DROP_INS_MAX < files.len() {
        let what = format!("it has {} files, at most {DROP_INS_MAX} are read", files.len());
        problems.push(folder_problem(&folder, what));
        return Vec::new();
    }
    files
}

fn folder_problem(folder: &Path, what: String) -> Problem {
    Problem {
        place: Place::File { path: folder.display().to_string(), line: 0 },
        scope: Scope::Everything,
        key: KeyPath::default(),
        what,
        mend: "make it a readable folder of a few files".to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json_table(table: toml::Table, at: &KeyPath) -> Result<Map<String, Value>, (KeyPath, String)> {
    table
        .into_iter()
        .map(|(key, value)| {
            let value = json(value, &at.key(&key))?;
            Ok((key, value))
        })
        .collect()
}

/// TOML as JSON: dates become texts, and numbers that JSON does not have are errors.
fn json(value: toml::Value, at: &KeyPath) -> Result<Value, (KeyPath, String)> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => match serde_json::Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => return Err((at.clone(), format!("`{number}` is no finite number"))),
        },
        toml::Value::Boolean(yes) => Value::Bool(yes),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => {
            let items = items.into_iter().enumerate();
            Value::Array(items.map(|(n, item)| json(item, &at.index(n))).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => Value::Object(json_table(table, at)?),
    })
}
